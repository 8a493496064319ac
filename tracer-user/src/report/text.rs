//! A line an event, for people.

use tracer_common::event_type::EventTypeId;
use tracer_posix::event::{MonotonicNs, Truncation};

use super::escape::push_for_people;
use super::numbers::{push_filled, push_number};
use super::probe::Arguments;
use super::words::{push_system, push_user};
use super::{Line, Report, Summary};

/// Widths of the columns. What is longer moves the rest of its line and is never cut.
mod width {
    /// A thread name has at most 15 bytes.
    pub const COMM: usize = 15;
    /// Two numbers of five digits; larger ones are rare.
    pub const IDS: usize = 11;
    /// The longest short name of a system event type is `signal-generate`.
    pub const NAME: usize = 15;
}

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
}

impl Text {
    /// Text that counts time from `start`.
    #[must_use]
    pub fn new(start: MonotonicNs, is_coloured: bool) -> Self {
        Self { start, is_coloured }
    }

    fn colour(&self, out: &mut Vec<u8>, colour: &[u8]) {
        if self.is_coloured {
            out.extend_from_slice(colour);
        }
    }
}

impl Report for Text {
    fn event(&mut self, out: &mut Vec<u8>, line: &Line<'_>) {
        const NS_PER_SECOND: u64 = 1_000_000_000;
        let header = &line.event.header;
        let ns = header.time.0.saturating_sub(self.start.0);
        self.colour(out, DIM);
        push_filled(out, ns / NS_PER_SECOND, 5, b' ');
        out.push(b'.');
        push_filled(out, ns % NS_PER_SECOND, 9, b'0');
        self.colour(out, PLAIN);
        out.extend_from_slice(b"  ");
        column(out, width::COMM, |out| {
            let unknown: &[u8] = if header.pid == 0 { b"-" } else { b"?" };
            push_for_people(out, line.comm.unwrap_or(unknown));
        });
        column(out, width::IDS, |out| {
            if header.pid == 0 {
                out.push(b'-');
                return;
            }
            push_number(out, header.pid);
            if header.tid != header.pid {
                out.push(b'/');
                push_number(out, header.tid);
            }
        });
        match header.cpu {
            Some(cpu) => {
                out.push(b'[');
                push_filled(out, u64::from(cpu), 3, b'0');
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
    fn push_name_and_data(&self, out: &mut Vec<u8>, line: &Line<'_>) {
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
        column(out, width::NAME, |out| push_short_name(out, entry.name));
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

/// Appends what `write` writes, filled up to `width` characters, and a gap of two.
fn column(out: &mut Vec<u8>, width: usize, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    let written = &out[start..];
    // Bytes that go on a character of several have 10 as their upper bits.
    let characters = written.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    out.resize(out.len() + width.saturating_sub(characters) + 2, b' ');
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
