//! Comma-separated values, for spreadsheets and data bases.

use csv_core::{WriteResult, Writer};
use tracer_engine::event::Truncation;

use super::json::push_data;
use crate::report::LineFormat;
use tracer_event::event_view::EventView;
use tracer_event::summary::Summary;
use tracer_text::WallClock;
use tracer_text::digits::push_decimal;
use tracer_text::escape::push_for_people;

/// Format that shows events as comma-separated values: quoted as RFC 4180 says, a line for each
/// event, ended by a line feed.
///
/// A name that a spreadsheet would take for a formula, since it begins with `=`, `+`, `-` or `@`,
/// gets an apostrophe in front, which says that it is text.
///
/// The first line names the columns, which are those of the JSON lines. Bytes of names that are not
/// harmless are written as in a string literal of Rust, so that an event never takes a second line;
/// `data` is the JSON object of the JSON lines; unknown values are empty: a CPU, ids in the
/// process's own pid namespace, the thread's `pthread_t`, the address in the program.
#[derive(Debug, Default)]
pub struct Csv {
    clock: WallClock,
    has_header: bool,
    /// Content of one field, before it is quoted.
    field: Vec<u8>,
}

/// First line.
const HEADER: &str =
    "ns,time,type,class,pid,tid,comm,cpu,data,truncated,ns_pid,ns_tid,thread_id,prog_address\n";

impl Csv {
    fn push_header(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_header, true) {
            out.extend_from_slice(HEADER.as_bytes());
        }
    }

    /// Appends what `write` writes, quoted where that is needed, and a comma.
    #[expect(clippy::indexing_slicing, reason = "the space was just made")]
    fn quoted(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.field.clear();
        write(&mut self.field);
        let start = out.len();
        // Every byte doubled, the quotation marks around them, the comma.
        out.resize(start + 2 * self.field.len() + 3, 0);
        let mut writer = Writer::new();
        let (result, _, in_field) = writer.field(&self.field, &mut out[start..]);
        let (ended, in_end) = writer.delimiter(&mut out[start + in_field..]);
        debug_assert!(
            result == WriteResult::InputEmpty && ended == WriteResult::InputEmpty,
            "the buffer holds the longest"
        );
        out.truncate(start + in_field + in_end);
    }
}

/// Appends a name as a cell that is text.
fn push_cell(out: &mut Vec<u8>, untrusted: &[u8]) {
    if matches!(untrusted.first(), Some(b'=' | b'+' | b'-' | b'@')) {
        out.push(b'\'');
    }
    push_for_people(out, untrusted);
}

impl LineFormat for Csv {
    fn event(&mut self, out: &mut Vec<u8>, line: &EventView<'_>) {
        self.push_header(out);
        let header = &line.event.header;
        push_decimal(out, header.time.0);
        out.push(b',');
        self.clock.push_date(out, line.date);
        out.push(b',');
        self.quoted(out, |field| push_cell(field, line.name));
        let is_user = header.event_type.is_user();
        out.extend_from_slice(if is_user { b"user," } else { b"system," });
        push_decimal(out, header.pid);
        out.push(b',');
        push_decimal(out, header.tid);
        out.push(b',');
        self.quoted(out, |field| {
            push_cell(field, line.comm.unwrap_or_default());
        });
        if let Some(cpu) = header.cpu {
            push_decimal(out, cpu);
        }
        out.push(b',');
        self.quoted(out, |field| push_data(field, line));
        let is_truncated = header.truncation != Truncation::None;
        out.extend_from_slice(if is_truncated { b"true" } else { b"false" });
        let inside = line.inside;
        for id in [inside.map(|ids| ids.pid), inside.map(|ids| ids.tid)] {
            out.push(b',');
            if let Some(id) = id {
                push_decimal(out, id);
            }
        }
        for value in [header.thread_id, header.program_address] {
            out.push(b',');
            if value != 0 {
                push_decimal(out, value);
            }
        }
        out.push(b'\n');
    }

    fn end(&mut self, out: &mut Vec<u8>, _: &Summary) {
        // A table without rows has its header all the same. What was lost is reported on standard
        // error: a line of another kind would spoil the table.
        self.push_header(out);
    }
}

#[cfg(test)]
mod tests {

    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs};

    use super::*;

    fn shown(name: &[u8], comm: &[u8], data: &[u8]) -> String {
        let header = EventHeader {
            time: MonotonicNs(7),
            event_type: EventTypeId(300),
            pid: 10,
            tid: 11,
            cpu: None,
            thread_id: 5,
            program_address: 6,
            truncation: Truncation::Record,
        };
        let line = EventView {
            event: Event { header, data },
            entry: None,
            name,
            comm: Some(comm),
            date: RealtimeNs(1),
            inside: None,
            stack: None,
            context: None,
        };
        let mut out = Vec::new();
        let mut csv = Csv::default();
        csv.event(&mut out, &line);
        csv.event(&mut out, &line);
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap(), HEADER.trim_end());
        let event = lines.next().unwrap().to_owned();
        assert_eq!(lines.next(), Some(event.as_str()));
        assert_eq!(lines.next(), None, "an event is a line");
        event
    }

    #[test]
    fn the_data_is_json_in_a_quoted_column() {
        assert_eq!(
            shown(b"request", b"worker", b"a\"b"),
            "7,1970-01-01T00:00:00.000000001Z,request,user,10,11,worker,,\
             \"{\"\"text\"\":\"\"a\\\"\"b\"\",\"\"hex\"\":\"\"612262\"\"}\",true,,,5,6"
        );
    }

    #[test]
    fn there_is_a_column_for_everything_that_json_lines_have() {
        let known = shown(b"x", b"", b"");
        assert_eq!(known.split(',').count(), HEADER.split(',').count() + 1);
        assert!(known.ends_with(",true,,,5,6"), "{known}");
    }

    #[test]
    fn hostile_names_stay_in_their_field() {
        let line = shown(b"a,\"b\"\r\n\0\xff", b"", b"\xff\n");
        assert!(
            line.contains(",\"a,\"\"b\"\"\\r\\n\\u{0}\\xff\",user,10,11,"),
            "{line}"
        );
    }

    #[test]
    fn a_name_is_no_formula() {
        for name in ["=1+1", "+1", "-1", "@SUM(A1)"] {
            let line = shown(name.as_bytes(), name.as_bytes(), b"");
            let cell = format!(",'{name},");
            assert_eq!(line.matches(&cell).count(), 2, "{line}");
        }
        assert!(shown(b"a=1", b"b-1", b"").contains(",a=1,user,10,11,b-1,"));
    }

    #[test]
    fn a_table_without_events_has_its_header() {
        let mut out = Vec::new();
        Csv::default().end(&mut out, &Summary::default());
        assert_eq!(out, HEADER.as_bytes());
    }
}
