//! Events as text, a line for each, for people.

use std::fs::File;

use tracer_common::event_type::{EventTypeId, SystemEventType};
use tracer_engine::event::{Event, MonotonicNs, Truncation};

use super::calls::{BegunCalls, CallPart, stack_lines};
use super::columns::{ThreadColumns, TypeColumns, Who, Widths, shorten};
use crate::report::LineFormat;
use crate::terminal::output::{ColorChoice, Width};
use tracer_event::event_view::EventView;
use tracer_event::probe::ArgumentValues;
use tracer_event::self_describing::push_typed_event;
use tracer_event::summary::Summary;
use tracer_event::words::{push_system, push_user};
use tracer_text::WallClock;
use tracer_text::digits::{push_filled, push_nine_digits, push_three_digits};
use tracer_text::escape::push_for_people;
use tracer_text::self_describing::Typed;

const DIM: &[u8] = b"\x1b[2m";
const RED: &[u8] = b"\x1b[31m";
const GREEN: &[u8] = b"\x1b[32m";
const YELLOW: &[u8] = b"\x1b[33m";
const BLUE: &[u8] = b"\x1b[34m";
const MAGENTA: &[u8] = b"\x1b[35m";
const CYAN: &[u8] = b"\x1b[36m";
const PLAIN: &[u8] = b"\x1b[0m";

/// Number of bytes of a user event's data that are shown in a terminal when they are not text.
const HEX_BYTES: usize = 64;

/// Name of the lines of system calls.
const CALL: &str = "syscall";

/// Content of the column of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeColumn {
    /// Seconds since the trace began.
    #[default]
    Relative,
    /// Seconds since the line before.
    Delta,
    /// The date, in UTC.
    Wall,
    /// Seconds of the kernel's monotonic clock, which is the clock of the kernel's own messages.
    Monotonic,
}

/// Look of the text that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextLook {
    /// Content of the column of times.
    pub time: TimeColumn,
    /// Choice of when it is coloured.
    pub color: ColorChoice,
}

impl TextLook {
    /// Returns the style of text that goes to `file`.
    #[must_use]
    pub fn style(self, file: &File) -> TextStyle {
        TextStyle {
            time: self.time,
            is_coloured: self.color.is_coloured(file),
            width: Width::for_file(file),
        }
    }
}

/// Style of the text.
#[derive(Debug)]
pub struct TextStyle {
    /// Content of the column of times.
    pub time: TimeColumn,
    /// Whether kinds of events differ in colour.
    pub is_coloured: bool,
    /// Limit of the width of lines. A longer line ends in an ellipsis.
    pub width: Width,
}

/// Format that shows events as aligned columns: time, thread name, pid/tid, CPU, event type, and
/// data.
#[derive(Debug)]
pub struct TextLines {
    start: MonotonicNs,
    clock: WallClock,
    style: TextStyle,
    widths: Widths,
    /// Time of the last line.
    last: MonotonicNs,
    /// Whole seconds of the last line, and their text.
    second: (u64, Vec<u8>),
    threads: ThreadColumns,
    /// Whether all events are of one thread, which no line names.
    is_of_one_thread: bool,
    names: TypeColumns,
    calls: BegunCalls,
    /// Whether events are missing before the next one.
    is_gap: bool,
}

impl TextLines {
    /// Creates the format for a trace that began at `start`, with the dates of `clock`.
    #[must_use]
    pub fn new(start: MonotonicNs, clock: WallClock, style: TextStyle) -> Self {
        // As wide as the terminal is now: columns that move would be worse.
        let widths = Widths::fitting(style.width.characters());
        Self {
            start,
            clock,
            style,
            widths,
            last: start,
            second: (0, Vec::new()),
            threads: ThreadColumns::new(widths),
            is_of_one_thread: false,
            names: TypeColumns::new(widths),
            calls: BegunCalls::default(),
            is_gap: false,
        }
    }

    /// Changes it to the format for the events of one thread, which no line names.
    #[must_use]
    pub fn for_one_thread(self) -> Self {
        Self {
            is_of_one_thread: true,
            ..self
        }
    }

    /// Shortens the line that begins at `begin` to the terminal's width.
    fn fit(&self, out: &mut Vec<u8>, begin: usize) {
        if let Some(most) = self.style.width.characters() {
            shorten(out, begin, most, self.style.is_coloured);
        }
    }

    fn colour(&self, out: &mut Vec<u8>, colour: &[u8]) {
        if self.style.is_coloured {
            out.extend_from_slice(colour);
        }
    }
}

impl LineFormat for TextLines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let first = out.len();
        self.colour(out, DIM);
        out.extend_from_slice(b"# time: ");
        match self.style.time {
            TimeColumn::Relative => out.extend_from_slice(b"seconds since "),
            TimeColumn::Delta => {
                out.extend_from_slice(b"seconds since the line before, and first since ");
            }
            TimeColumn::Wall => out.extend_from_slice(b"UTC; the trace began at "),
            TimeColumn::Monotonic => {
                out.extend_from_slice(b"seconds of the kernel's monotonic clock; 0 is ");
            }
        }
        let zero = match self.style.time {
            TimeColumn::Monotonic => MonotonicNs(0),
            TimeColumn::Relative | TimeColumn::Delta | TimeColumn::Wall => self.start,
        };
        self.clock.push(out, zero);
        self.colour(out, PLAIN);
        self.fit(out, first);
        out.push(b'\n');
        let second = out.len();
        self.colour(out, DIM);
        out.push(b'#');
        // As wide as the times below it, less what comes before and behind it.
        let widths = self.widths;
        let filled = match self.style.time {
            TimeColumn::Wall => 25,
            TimeColumn::Relative | TimeColumn::Delta | TimeColumn::Monotonic => widths.seconds + 5,
        };
        out.resize(out.len() + filled, b' ');
        widths.column(out, 4, |out| out.extend_from_slice(b"TIME"));
        widths.column(out, widths.comm, |out| out.extend_from_slice(b"THREAD"));
        widths.column(out, widths.ids, |out| out.extend_from_slice(b"PID/TID"));
        widths.column(out, 5, |out| out.extend_from_slice(b"CPU"));
        widths.column(out, widths.name, |out| out.extend_from_slice(b"EVENT"));
        out.extend_from_slice(b"WHAT IT CARRIES");
        self.colour(out, PLAIN);
        self.fit(out, second);
        out.push(b'\n');
    }

    fn gap(&mut self) {
        self.is_gap = true;
    }

    fn idle(&mut self, out: &mut Vec<u8>, now: MonotonicNs) {
        if let Some(part) = self.calls.interrupt_old(now) {
            self.push_part(out, &part);
        }
    }

    fn event(&mut self, out: &mut Vec<u8>, line: &EventView<'_>) {
        if std::mem::take(&mut self.is_gap) {
            self.interrupt_call(out);
            self.calls.forget();
        }
        let header = &line.event.header;
        match header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                self.interrupt_call(out);
                match self.calls.enter(line) {
                    Ok(Some(part)) => return self.push_part(out, &part),
                    Ok(None) => return,
                    Err(_malformed) => {}
                }
            }
            EventTypeId::SYSCALL_EXIT => {
                if let Some(part) = self.calls.end(line) {
                    return self.push_part(out, &part);
                }
                self.interrupt_call(out);
                if let Some(words) = self.calls.resume(line) {
                    self.push_call(out, line, &words);
                    return self.push_stack(out, &stack_lines(line));
                }
            }
            _ => {
                self.interrupt_call(out);
                if let Some(words) = self.calls.follow(&line.event) {
                    self.push_call(out, line, &words);
                }
            }
        }
        self.push_line(out, line, |text, out, most| {
            text.push_name_and_data(out, line, most.map(|_| HEX_BYTES));
        });
        self.push_stack(out, &stack_lines(line));
    }

    fn end(&mut self, out: &mut Vec<u8>, _: &Summary) {
        self.interrupt_call(out);
        // People read the rest on standard error, so that they see it when the events go elsewhere.
    }
}

impl TextLines {
    /// Appends the beginning of the call whose line is open.
    fn interrupt_call(&mut self, out: &mut Vec<u8>) {
        if let Some(part) = self.calls.interrupt() {
            self.push_part(out, &part);
        }
    }

    /// Appends the lines of a stack, each no wider than the terminal.
    fn push_stack(&self, out: &mut Vec<u8>, lines: &[u8]) {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let begin = out.len();
            out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            self.fit(out, begin);
            out.push(b'\n');
        }
    }

    /// Appends the line of a call, whose time is that of the call's beginning.
    fn push_part(&mut self, out: &mut Vec<u8>, part: &CallPart) {
        let of = &part.of;
        let line = EventView {
            event: Event {
                header: of.header,
                data: &of.data,
            },
            entry: None,
            name: CALL.as_bytes(),
            comm: of.comm.as_deref(),
            date: of.date,
            inside: of.inside,
            stack: None,
            context: of.context,
        };
        self.push_call(out, &line, &part.words);
        self.push_stack(out, &of.stack);
    }

    fn push_call(&mut self, out: &mut Vec<u8>, line: &EventView<'_>, words: &[u8]) {
        self.push_line(out, line, |text, out, _| {
            text.colour(out, YELLOW);
            let widths = text.widths;
            widths.column(out, widths.name, |out| {
                out.extend_from_slice(CALL.as_bytes());
            });
            text.colour(out, PLAIN);
            out.extend_from_slice(words);
        });
    }

    /// Appends a line: the columns that all lines have, and the rest as `push` writes it, which
    /// gets the largest number of characters that the line may have.
    fn push_line(
        &mut self,
        out: &mut Vec<u8>,
        line: &EventView<'_>,
        push: impl FnOnce(&mut Self, &mut Vec<u8>, Option<usize>),
    ) {
        let begin = out.len();
        let header = &line.event.header;
        self.colour(out, DIM);
        self.push_time(out, line);
        self.colour(out, PLAIN);
        self.widths.gap(out);
        let who = Who {
            pid: header.pid,
            tid: header.tid,
            comm: line.comm,
        };
        if !self.is_of_one_thread {
            self.threads.push(out, who);
        }
        match header.cpu {
            Some(cpu) => {
                out.push(b'[');
                push_three_digits(out, cpu);
                out.push(b']');
            }
            None => out.extend_from_slice(b"[  -]"),
        }
        self.widths.gap(out);
        let most = self.style.width.characters();
        push(self, out, most);
        if header.truncation != Truncation::None {
            out.extend_from_slice(b" (truncated)");
        }
        if let Some(context) = line.context {
            out.extend_from_slice(b", for ");
            context.push(out);
        }
        while out.last() == Some(&b' ') {
            out.pop();
        }
        if let Some(most) = most {
            shorten(out, begin, most, self.style.is_coloured);
        }
        out.push(b'\n');
    }

    fn push_time(&mut self, out: &mut Vec<u8>, line: &EventView<'_>) {
        let time = line.event.header.time;
        let shown = match self.style.time {
            TimeColumn::Relative => time.0.saturating_sub(self.start.0),
            TimeColumn::Delta => time.0.saturating_sub(self.last.0),
            TimeColumn::Monotonic => time.0,
            TimeColumn::Wall => {
                self.clock.push_date(out, line.date);
                return;
            }
        };
        self.last = time;
        self.push_seconds(out, shown);
    }

    /// Appends seconds, with all digits of the nanoseconds.
    fn push_seconds(&mut self, out: &mut Vec<u8>, ns: u64) {
        const NS_PER_SECOND: u64 = 1_000_000_000;
        let (second, shown) = &mut self.second;
        if shown.is_empty() || *second != ns / NS_PER_SECOND {
            *second = ns / NS_PER_SECOND;
            shown.clear();
            push_filled(shown, *second, self.widths.seconds, b' ');
            shown.push(b'.');
        }
        out.extend_from_slice(shown);
        push_nine_digits(out, ns % NS_PER_SECOND);
    }

    /// Appends the name and the data of an event; of bytes that are no text, at most `most`.
    fn push_name_and_data(&mut self, out: &mut Vec<u8>, line: &EventView<'_>, most: Option<usize>) {
        let Some(entry) = line.entry else {
            self.colour(out, CYAN);
            let widths = self.widths;
            widths.column(out, widths.name, |out| push_for_people(out, line.name));
            self.colour(out, PLAIN);
            let data = line.event.data;
            if let Some(arguments) = ArgumentValues::parse(line.name, data) {
                arguments.push(out);
            } else if let Some(typed) = Typed::parse_event(line.name, data) {
                push_typed_event(out, line.name, typed, most);
            } else {
                push_user(out, data, most);
            }
            return;
        };
        self.colour(out, colour_of(entry));
        self.names.push(out, entry);
        let is_loss = is_loss(entry);
        if !is_loss {
            self.colour(out, PLAIN);
        }
        push_system(out, entry, line.event.data);
        if is_loss {
            out.extend_from_slice(entry.about.as_bytes());
            self.colour(out, PLAIN);
        }
    }
}

fn is_loss(entry: &SystemEventType) -> bool {
    matches!(entry.id, EventTypeId::OVERFLOW | EventTypeId::ERROR)
}

/// Returns the colour of a type's name, which shows the kind of the event.
fn colour_of(entry: &SystemEventType) -> &'static [u8] {
    if is_loss(entry) {
        return RED;
    }
    match entry.family {
        "fork" | "exec" | "exit" | "rename" => GREEN,
        "switch" | "wakeup" | "migrate" | "idle" => BLUE,
        "signal" => MAGENTA,
        "syscall" => YELLOW,
        "oom" => RED,
        "stream" => DIM,
        // Faults, interrupts, disks.
        _ => PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::system_event_type;
    use tracer_common::kernel::ForkData;
    use tracer_engine::ClockPair;
    use tracer_engine::event::{EventHeader, RealtimeNs};
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
        let line = EventView {
            event: Event { header, data },
            entry: system_event_type(header.event_type),
            name,
            comm,
            date: CLOCKS.date_of(header.time),
            inside: None,
            stack: None,
            context: None,
        };
        let mut out = Vec::new();
        text(TimeColumn::Relative, Width::Whole, false).event(&mut out, &line);
        String::from_utf8(out).unwrap()
    }

    /// Clock pair of the start of a trace: 4 s, one minute after 1970 began.
    const CLOCKS: ClockPair = ClockPair {
        monotonic: MonotonicNs(4_000_000_000),
        realtime: RealtimeNs(60_000_000_000),
    };

    /// Returns the format for a trace that began then.
    fn text(time: TimeColumn, width: Width, is_coloured: bool) -> TextLines {
        let start = MonotonicNs(4_000_000_000);
        let style = TextStyle {
            time,
            is_coloured,
            width,
        };
        TextLines::new(start, WallClock::new(CLOCKS), style)
    }

    /// Returns the column of times for an event 1.002 s after the start, and for one a second
    /// later.
    fn times(time: TimeColumn) -> (String, Vec<String>) {
        let mut text = text(time, Width::Whole, false);
        let mut out = Vec::new();
        text.begin(&mut out);
        for second in [0, 1_000_000_000] {
            let mut header = header(EventTypeId(257));
            header.time.0 += second;
            let line = EventView {
                event: Event { header, data: b"" },
                entry: None,
                name: b"x",
                comm: None,
                date: CLOCKS.date_of(header.time),
                inside: None,
                stack: None,
                context: None,
            };
            text.event(&mut out, &line);
        }
        let out = String::from_utf8(out).unwrap();
        let mut lines = out.lines();
        let first = lines.next().unwrap().to_owned();
        let heads = lines.next().unwrap();
        let ends = heads.find("TIME").unwrap() + 4;
        let times = lines.map(|line| line.get(..ends).unwrap().trim().to_owned());
        (first, times.collect())
    }

    #[test]
    fn the_header_says_what_the_times_below_it_count_from() {
        let (header, shown) = times(TimeColumn::Relative);
        assert_eq!(
            header,
            "# time: seconds since 1970-01-01T00:01:00.000000000Z"
        );
        assert_eq!(shown, ["1.002345678", "2.002345678"]);
        let (header, shown) = times(TimeColumn::Delta);
        assert!(header.contains("since the line before"), "{header}");
        assert_eq!(shown, ["1.002345678", "1.000000000"]);
        let (header, shown) = times(TimeColumn::Wall);
        assert!(header.contains("UTC"), "{header}");
        assert_eq!(shown[0], "1970-01-01T00:01:01.002345678Z");
        let (header, shown) = times(TimeColumn::Monotonic);
        assert!(
            header.ends_with("0 is 1970-01-01T00:00:56.000000000Z"),
            "{header}"
        );
        assert_eq!(shown[0], "5.002345678");
    }

    #[test]
    fn in_a_terminal_a_line_that_is_too_long_ends_in_an_ellipsis() {
        let line = EventView {
            event: Event {
                header: header(EventTypeId(257)),
                data: "größer als das Fenster breit ist".as_bytes(),
            },
            entry: None,
            name: b"x",
            comm: Some("größe".as_bytes()),
            date: RealtimeNs(0),
            inside: None,
            stack: None,
            context: None,
        };
        let shown = |width, is_coloured| {
            let mut out = Vec::new();
            text(TimeColumn::Relative, width, is_coloured).event(&mut out, &line);
            String::from_utf8(out).unwrap()
        };
        // What the columns are is a line as well.
        let mut header = Vec::new();
        text(TimeColumn::Wall, Width::Characters(60), false).begin(&mut header);
        let header = String::from_utf8(header).unwrap();
        assert!(header.lines().all(|line| line.chars().count() <= 60));
        let whole = shown(Width::Whole, false);
        let characters = whole.trim_end().chars().count();
        assert_eq!(shown(Width::Characters(characters), false), whole);
        for most in [20, 30, 71, 75, characters - 1] {
            let short = shown(Width::Characters(most), false);
            assert_eq!(short.trim_end().chars().count(), most, "{short}");
            assert!(short.ends_with("…\n"), "{short}");
            // Colours take no space.
            let coloured = shown(Width::Characters(most), true);
            let without = coloured.split('\x1b').map(|part| {
                let end = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
                end.map_or(part, |(_, rest)| rest)
            });
            assert_eq!(without.collect::<String>(), short);
        }
    }

    #[test]
    fn in_a_narrow_terminal_there_is_space_for_what_events_carry() {
        let exec = header(EventTypeId(257));
        let line = EventView {
            event: Event {
                header: exec,
                data: b"twenty characters...",
            },
            entry: None,
            name: b"x",
            comm: Some(b"sh"),
            date: RealtimeNs(0),
            inside: None,
            stack: None,
            context: None,
        };
        for (time, characters) in [(TimeColumn::Relative, 80), (TimeColumn::Wall, 99)] {
            let mut text = text(time, Width::Characters(characters), false);
            let mut out = Vec::new();
            text.begin(&mut out);
            text.event(&mut out, &line);
            let out = String::from_utf8(out).unwrap();
            assert!(out.ends_with("\"twenty characters...\"\n"), "{out}");
            // The name of a column is above it.
            let lines: Vec<_> = out.lines().skip(1).collect();
            for (name, value) in [
                ("THREAD", "sh"),
                ("PID", "1234"),
                ("CPU", "["),
                ("WHAT", "\""),
            ] {
                assert_eq!(lines[0].find(name), lines[1].find(value), "{out}");
            }
        }
    }

    #[test]
    fn the_columns_are_below_each_other() {
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
    fn data_that_was_truncated_says_so() {
        let truncated = EventHeader {
            truncation: Truncation::Record,
            ..header(EventTypeId(257))
        };
        assert!(shown(truncated, b"long", None, b"abc").ends_with("\"abc\" (truncated)\n"));
    }

    #[test]
    fn colours_are_only_there_when_wanted() {
        let line = EventView {
            event: Event {
                header: header(EventTypeId(257)),
                data: b"",
            },
            entry: None,
            name: b"x",
            comm: None,
            date: RealtimeNs(0),
            inside: None,
            stack: None,
            context: None,
        };
        let mut out = Vec::new();
        text(TimeColumn::Relative, Width::Whole, true).event(&mut out, &line);

        assert!(out.starts_with(DIM));
    }

    fn nr(call: libc::c_long) -> i32 {
        i32::try_from(call).unwrap()
    }

    /// Event of a thread: time, tid, type and data.
    struct Doing(u64, i32, EventTypeId, Vec<u8>);

    fn enters(ns: u64, tid: i32, call: libc::c_long, args: [u64; 6]) -> Doing {
        let data = tracer_common::kernel::SyscallEnterData {
            number: nr(call),
            compat: 0,
            args,
        };
        let data = data.as_bytes().to_vec();
        Doing(ns, tid, EventTypeId::SYSCALL_ENTER, data)
    }

    fn leaves(ns: u64, tid: i32, call: libc::c_long, ret: i64, filled: &[(u8, &[u8])]) -> Doing {
        let data = tracer_common::kernel::SyscallExitData {
            number: nr(call),
            compat: 0,
            ret,
        };
        let mut data = data.as_bytes().to_vec();
        for (argument, bytes) in filled {
            let bits = tracer_common::kernel::text_item::BYTES;
            tracer_syscalls::pointer_data::push_item(&mut data, *argument, bits, bytes);
        }
        Doing(ns, tid, EventTypeId::SYSCALL_EXIT, data)
    }

    fn exits(ns: u64, tid: i32) -> Doing {
        Doing(ns, tid, EventTypeId::THREAD_EXIT, vec![0; 8])
    }

    /// Returns the times and words of the lines for these events; `None` is where events are
    /// missing.
    fn lines(doings: &[Option<Doing>]) -> Vec<String> {
        let mut text = text(TimeColumn::Relative, Width::Whole, false);
        let mut out = Vec::new();
        for doing in doings {
            let Some(Doing(ns, tid, id, data)) = doing else {
                text.gap();
                continue;
            };
            let header = EventHeader {
                time: MonotonicNs(4_000_000_000 + ns),
                tid: *tid,
                ..header(*id)
            };
            let entry = system_event_type(*id);
            let line = EventView {
                event: Event { header, data },
                entry,
                name: b"",
                comm: None,
                date: CLOCKS.date_of(header.time),
                inside: None,
                stack: None,
                context: None,
            };
            text.event(&mut out, &line);
        }
        text.end(&mut out, &Summary::default());
        let out = String::from_utf8(out).unwrap();
        let words = |line: &str| {
            let nanos = line.split_once('.').unwrap().1[..9].parse::<u64>().unwrap();
            let words = line
                .split_once("syscall  ")
                .or(line.split_once("thread-exit  "));
            format!("{nanos} {}", words.unwrap().1.trim_start())
        };
        out.lines().map(words).collect()
    }

    #[test]
    fn a_call_is_one_line_when_it_is_done() {
        let doings = [
            Some(enters(5, 7, libc::SYS_read, [3, 0x1000, 832, 0, 0, 0])),
            Some(leaves(12, 7, libc::SYS_read, 2, &[(1, b"hi")])),
            Some(enters(20, 7, libc::SYS_close, [9, 0, 0, 0, 0, 0])),
            Some(leaves(21, 7, libc::SYS_close, -9, &[])),
            Some(enters(30, 7, libc::SYS_exit_group, [3, 0, 0, 0, 0, 0])),
        ];
        assert_eq!(
            lines(&doings),
            [
                "5 read(3, \"hi\", 832) = 2 <0.000000007>",
                "20 close(9) = -1 EBADF (Bad file descriptor) <0.000000001>",
                "30 exit_group(3) = ?",
            ]
        );
    }

    #[test]
    fn a_call_during_which_something_is_shown_has_two_lines() {
        let doings = [
            Some(enters(5, 7, libc::SYS_read, [3, 0x1000, 832, 0, 0, 0])),
            Some(enters(6, 8, libc::SYS_close, [9, 0, 0, 0, 0, 0])),
            Some(leaves(12, 7, libc::SYS_read, 2, &[(1, b"hi")])),
            Some(leaves(14, 8, libc::SYS_close, 0, &[])),
            Some(enters(20, 8, libc::SYS_sched_yield, [0; 6])),
            Some(exits(30, 8)),
        ];
        assert_eq!(
            lines(&doings),
            [
                "5 read(3, <unfinished ...>",
                "6 close(9 <unfinished ...>",
                "12 <... read resumed>\"hi\", 832) = 2 <0.000000007>",
                "14 <... close resumed>) = 0 <0.000000008>",
                "20 sched_yield( <unfinished ...>",
                "30 <... sched_yield resumed>) = ?",
                "30 status 0",
            ]
        );
    }

    #[test]
    fn of_a_call_whose_beginning_may_be_another_ones_nothing_is_said() {
        let doings = [
            Some(enters(5, 7, libc::SYS_close, [9, 0, 0, 0, 0, 0])),
            None,
            Some(leaves(12, 7, libc::SYS_close, 0, &[])),
            // Another call's end is none of this one.
            Some(enters(20, 7, libc::SYS_close, [9, 0, 0, 0, 0, 0])),
            Some(leaves(21, 7, libc::SYS_getpid, 7, &[])),
        ];
        assert_eq!(
            lines(&doings),
            [
                "5 close(9 <unfinished ...>",
                "12 <... close resumed>) = 0",
                "20 close(9 <unfinished ...>",
                "21 <... getpid resumed>) = 7",
            ]
        );
    }

    #[test]
    fn a_call_that_lasts_is_shown_before_it_is_done() {
        let Doing(_, tid, id, data) = enters(0, 7, libc::SYS_read, [3, 0x1000, 8, 0, 0, 0]);
        let mut text = text(TimeColumn::Relative, Width::Whole, false);
        let line = EventView {
            event: Event {
                header: EventHeader { tid, ..header(id) },
                data: &data,
            },
            entry: system_event_type(id),
            name: b"",
            comm: None,
            date: RealtimeNs(0),
            inside: None,
            stack: None,
            context: None,
        };
        let mut out = Vec::new();
        text.event(&mut out, &line);
        let begun = line.event.header.time.0;
        text.idle(&mut out, MonotonicNs(begun + 90_000_000));
        assert_eq!(out, b"");
        text.idle(&mut out, MonotonicNs(begun + 100_000_000));
        assert!(out.ends_with(b"read(3, <unfinished ...>\n"));
    }
}
