//! A line an event, for people.

use tracer_common::event_type::EventTypeId;
use tracer_posix::event::{MonotonicNs, Truncation};

use super::columns::{Names, Threads, Who, column, width};
use super::escape::push_for_people;
use super::numbers::{push_filled, push_nine_digits, push_three_digits};
use super::probe::Arguments;
use super::words::{push_system, push_user};
use super::{Line, Report, Summary};

const DIM: &[u8] = b"\x1b[2m";
const CYAN: &[u8] = b"\x1b[36m";
const RED: &[u8] = b"\x1b[31m";
const PLAIN: &[u8] = b"\x1b[0m";

/// Shows events as aligned columns: time since the start, thread name, pid/tid, CPU, event type,
/// and what it carries.
#[derive(Debug)]
pub struct Text {
    start: MonotonicNs,
    is_coloured: bool,
    /// The whole seconds of the last line, and how they are shown.
    second: (u64, Vec<u8>),
    threads: Threads,
    names: Names,
}

impl Text {
    /// Text that counts time from `start`.
    #[must_use]
    pub fn new(start: MonotonicNs, is_coloured: bool) -> Self {
        Self {
            start,
            is_coloured,
            second: (0, Vec::new()),
            threads: Threads::default(),
            names: Names::default(),
        }
    }

    fn colour(&self, out: &mut Vec<u8>, colour: &[u8]) {
        if self.is_coloured {
            out.extend_from_slice(colour);
        }
    }
}

impl Report for Text {
    fn event(&mut self, out: &mut Vec<u8>, line: &Line<'_>) {
        let header = &line.event.header;
        self.colour(out, DIM);
        self.push_time(out, header.time.0.saturating_sub(self.start.0));
        self.colour(out, PLAIN);
        out.extend_from_slice(b"  ");
        let who = Who {
            pid: header.pid,
            tid: header.tid,
            comm: line.comm,
        };
        self.threads.push(out, who);
        match header.cpu {
            Some(cpu) => {
                out.push(b'[');
                push_three_digits(out, cpu);
                out.extend_from_slice(b"]  ");
            }
            None => out.extend_from_slice(b"[  -]  "),
        }
        self.push_name_and_data(out, line);
        if header.truncation != Truncation::None {
            out.extend_from_slice(b" (cut)");
        }
        while out.last() == Some(&b' ') {
            out.pop();
        }
        out.push(b'\n');
    }

    fn end(&mut self, _: &mut Vec<u8>, _: &Summary) {
        // People are told on standard error, so that they see it when the events go elsewhere.
    }
}

impl Text {
    /// Appends seconds, with all digits of the nanoseconds.
    fn push_time(&mut self, out: &mut Vec<u8>, ns: u64) {
        const NS_PER_SECOND: u64 = 1_000_000_000;
        let (second, shown) = &mut self.second;
        if shown.is_empty() || *second != ns / NS_PER_SECOND {
            *second = ns / NS_PER_SECOND;
            shown.clear();
            push_filled(shown, *second, 5, b' ');
            shown.push(b'.');
        }
        out.extend_from_slice(shown);
        push_nine_digits(out, ns % NS_PER_SECOND);
    }

    fn push_name_and_data(&mut self, out: &mut Vec<u8>, line: &Line<'_>) {
        let Some(entry) = line.entry else {
            self.colour(out, CYAN);
            column(out, width::NAME, |out| push_for_people(out, line.name));
            self.colour(out, PLAIN);
            match Arguments::of(line.name, line.event.data) {
                Some(arguments) => arguments.push(out),
                None => push_user(out, line.event.data),
            }
            return;
        };
        let is_loss = matches!(entry.id, EventTypeId::OVERFLOW | EventTypeId::ERROR);
        if is_loss {
            self.colour(out, RED);
        }
        self.names.push(out, entry);
        push_system(out, entry, line.event.data);
        if is_loss {
            out.extend_from_slice(entry.about.as_bytes());
            self.colour(out, PLAIN);
        }
    }
}

/// Appends the name of a system event type without what all have in common.
pub fn push_short_name(out: &mut Vec<u8>, name: &str) {
    let short = name.strip_prefix("linux_trace_");
    let short = short.or_else(|| name.strip_prefix("posix_trace_"));
    let bytes = short.unwrap_or(name).bytes();
    out.extend(bytes.map(|byte| if byte == b'_' { b'-' } else { byte }));
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::system_event_type;
    use tracer_common::kernel::ForkData;
    use tracer_posix::event::{Event, EventHeader};
    use zerocopy::IntoBytes;

    use super::*;

    fn header(event_type: EventTypeId) -> EventHeader {
        EventHeader {
            time: MonotonicNs(5_002_345_678),
            event_type,
            pid: 1234,
            tid: 1234,
            cpu: Some(1),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    fn shown(header: EventHeader, name: &[u8], comm: Option<&[u8]>, data: &[u8]) -> String {
        let line = Line {
            event: Event { header, data },
            entry: system_event_type(header.event_type),
            name,
            comm,
            realtime: None,
            inside: None,
        };
        let mut out = Vec::new();
        Text::new(MonotonicNs(4_000_000_000), false).event(&mut out, &line);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_columns_stand_below_each_other() {
        let fork = ForkData {
            child_pid: 1300,
            child_tid: 1300,
            child_comm: *b"worker\0\0\0\0\0\0\0\0\0\0",
            child_ns_pid: 1300,
            child_ns_tid: 1300,
        };
        let user = EventHeader {
            tid: 1235,
            cpu: None,
            ..header(EventTypeId(257))
        };
        let lines = [
            shown(
                header(EventTypeId::FORK),
                b"linux_trace_fork",
                Some(b"worker"),
                fork.as_bytes(),
            ),
            shown(user, b"lock held", Some("größe".as_bytes()), b"worker=1\0"),
            shown(user, b"x", None, b""),
        ];

        assert_eq!(
            lines.concat(),
            "    1.002345678  worker           1234         [001]  fork             child worker 1300\n    \
             1.002345678  größe            1234/1235    [  -]  lock held        \"worker=1\"\n    \
             1.002345678  ?                1234/1235    [  -]  x\n"
        );
    }

    #[test]
    fn a_hostile_program_cannot_break_the_line() {
        let line = shown(
            header(EventTypeId(300)),
            b"a\nb\x1b[2J",
            Some(b"\r\x07"),
            b"\x1b\n",
        );

        assert_eq!(line.bytes().filter(u8::is_ascii_control).count(), 1);
        assert!(line.contains("a\\nb\\u{1b}[2J"), "{line}");
    }

    #[test]
    fn data_that_was_cut_says_so() {
        let cut = EventHeader {
            truncation: Truncation::Record,
            ..header(EventTypeId(257))
        };
        assert!(shown(cut, b"long", None, b"abc").ends_with("\"abc\" (cut)\n"));
    }

    #[test]
    fn colours_are_only_there_when_wanted() {
        let line = Line {
            event: Event {
                header: header(EventTypeId(257)),
                data: b"",
            },
            entry: None,
            name: b"x",
            comm: None,
            realtime: None,
            inside: None,
        };
        let mut out = Vec::new();
        Text::new(MonotonicNs(0), true).event(&mut out, &line);

        assert!(out.starts_with(DIM));
    }
}
