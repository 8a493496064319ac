//! Content of the report, gathered event by event: each interval, span, call and mark is a row in
//! columns.

use std::collections::BTreeSet;
use std::io;

use tracer_analysis::{
    CallKey, CallRun, Finding, Interrupt, InterruptRun, Interval, Span, State, Task, Thread,
};
use tracer_common::event_type::{EventTypeId, SystemEventType, system_event_type};
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, MonotonicNs, Truncation};

use super::code::Code;
use super::columns::{Deflated, Dictionary, IntegerColumn, TextColumn};
use super::flames::StacksSeen;
use super::intervals::Intervals;
use crate::queries::SpanSpec;
use crate::stat::{Statistics, Sums, Watcher};
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::probe::ArgumentValues;
use tracer_event::robots::{NodeEvent, Nodes, data_as_emitted};
use tracer_event::self_describing::push_typed_event;
use tracer_event::summary::Summary;
use tracer_event::words::{push_system, push_user};
use tracer_text::self_describing::Typed;

/// Limit of the bytes of all events' data, in words: of events beyond it only the times are stored.
const MOST_TEXT_BYTES: u64 = 64 << 20;

/// Number of bytes that are shown of an event's data that is no text.
const MOST_SHOWN: usize = 64;

/// Limit of the bytes of the words of one event.
const MOST_WORDS: usize = 256;

/// Limit of gaps that are shown; those beyond it are joined with the last one.
const MOST_GAPS: usize = 65_536;

/// Families whose events are shown otherwise than as marks: states, system calls, interrupts.
const NO_MARKS: [&str; 6] = ["switch", "wakeup", "syscall", "irq", "softirq", "idle"];

/// Content of the report.
pub struct ReportContent {
    sums: Sums,
    rows: ReportRows,
    types: EventTypes,
    words: Vec<u8>,
    stacks: StacksSeen,
    nodes: Nodes,
}

/// Rows of the report.
pub struct ReportRows {
    first: Option<MonotonicNs>,
    last: MonotonicNs,
    /// Threads of intervals, calls, spans and marks.
    pub threads: Dictionary<Thread>,
    /// Tasks that events name: wakers, and those that had a CPU before.
    pub tasks: Dictionary<Task>,
    /// Common properties of intervals.
    pub codes: Dictionary<Code>,
    /// System calls.
    pub calls: Dictionary<CallKey>,
    /// Interrupts.
    pub interrupts: Dictionary<Interrupt>,
    /// Types of marks.
    pub types: Dictionary<EventTypeId>,
    /// Nodes of robots, with their processes.
    pub nodes: Dictionary<(i32, String)>,
    /// Callbacks that nodes have: the names of their spans.
    pub callbacks: BTreeSet<(u32, Vec<u8>)>,
    /// Number of rows for which a dictionary had no space.
    pub left_out: u64,
    /// Number of marks whose words are not stored.
    pub without_words: u64,
    /// Beginnings and ends of the times in which events may be missing, each with whether only
    /// those of the kernel are.
    pub gaps: Vec<(u64, Option<u64>, bool)>,
    /// Intervals of the threads.
    pub intervals: Intervals,
    call_rows: CallRows,
    spans: Spans,
    marks: Marks,
    messages: Messages,
    handled: Handled,
}

struct CallRows {
    thread: IntegerColumn,
    key: IntegerColumn,
    to: IntegerColumn,
    ns: IntegerColumn,
    returned: IntegerColumn,
    last: u64,
}

struct Spans {
    kind: IntegerColumn,
    thread: IntegerColumn,
    begun_by: IntegerColumn,
    to: IntegerColumn,
    ns: IntegerColumn,
    last: u64,
}

struct Marks {
    event_type: IntegerColumn,
    thread: IntegerColumn,
    at: IntegerColumn,
    words: TextColumn,
    last: u64,
}

/// Messages that nodes publish and take: each is a mark of a thread as well.
struct Messages {
    node: IntegerColumn,
    event_type: IntegerColumn,
    thread: IntegerColumn,
    at: IntegerColumn,
    last: u64,
}

struct Handled {
    cpu: IntegerColumn,
    key: IntegerColumn,
    to: IntegerColumn,
    ns: IntegerColumn,
    last: u64,
}

impl Default for ReportRows {
    fn default() -> Self {
        let new = IntegerColumn::new;
        Self {
            first: None,
            last: MonotonicNs(0),
            threads: Dictionary::default(),
            tasks: Dictionary::default(),
            codes: Dictionary::default(),
            calls: Dictionary::default(),
            interrupts: Dictionary::default(),
            types: Dictionary::default(),
            nodes: Dictionary::default(),
            callbacks: BTreeSet::new(),
            left_out: 0,
            without_words: 0,
            gaps: Vec::new(),
            intervals: Intervals::default(),
            call_rows: CallRows {
                thread: new("call.thread"),
                key: new("call.key"),
                to: new("call.to"),
                ns: new("call.ns"),
                returned: new("call.returned"),
                last: 0,
            },
            spans: Spans {
                kind: new("span.kind"),
                thread: new("span.thread"),
                begun_by: new("span.begun_by"),
                to: new("span.to"),
                ns: new("span.ns"),
                last: 0,
            },
            marks: Marks {
                event_type: new("mark.type"),
                thread: new("mark.thread"),
                at: new("mark.at"),
                words: TextColumn::new("mark.words"),
                last: 0,
            },
            messages: Messages {
                node: new("message.node"),
                event_type: new("message.type"),
                thread: new("message.thread"),
                at: new("message.at"),
                last: 0,
            },
            handled: Handled {
                cpu: new("irq.cpu"),
                key: new("irq.key"),
                to: new("irq.to"),
                ns: new("irq.ns"),
                last: 0,
            },
        }
    }
}

impl ReportContent {
    /// Creates an empty recording of these spans, or of all whose names tell that they are spans,
    /// with `slowest` critical paths.
    pub fn new(spans: Vec<SpanSpec>, slowest: usize) -> Self {
        Self {
            sums: Sums::explaining(spans, slowest),
            rows: ReportRows::default(),
            types: EventTypes::default(),
            words: Vec::new(),
            stacks: StacksSeen::default(),
            nodes: Nodes::default(),
        }
    }

    /// Returns the kinds of stacks seen so far.
    pub fn stacks(&self) -> &StacksSeen {
        &self.stacks
    }

    /// Ends the recording, as there are no more events: returns the rows, the statistics and the
    /// event types.
    pub fn finish(mut self, summary: Summary) -> (ReportRows, Statistics, EventTypes) {
        let statistics = self.sums.finish(summary, &mut self.rows);
        (self.rows, statistics, self.types)
    }

    /// Describes the data of an event in words, as `read` shows it.
    fn say(&mut self, entry: Option<&SystemEventType>, event: &Event<'_>) {
        self.words.clear();
        match entry {
            Some(entry) => push_system(&mut self.words, entry, event.data),
            None => {
                let name = self.types.name(event.header.event_type).unwrap_or_default();
                if let Some(arguments) = ArgumentValues::parse(name, event.data) {
                    arguments.push(&mut self.words);
                } else if let Some(typed) = Typed::parse_event(name, event.data)
                    .or_else(|| data_as_emitted(name, event.data))
                {
                    push_typed_event(&mut self.words, name, typed, Some(MOST_SHOWN));
                } else {
                    push_user(&mut self.words, event.data, Some(MOST_SHOWN));
                }
            }
        }
        if event.header.truncation != Truncation::None {
            self.words.extend_from_slice(b" (truncated)");
        }
        if self.words.len() > MOST_WORDS {
            let shorter = String::from_utf8_lossy(self.words.get(..MOST_WORDS).unwrap_or_default());
            let shorter = format!("{}…", shorter.trim_end_matches('\u{fffd}'));
            self.words = shorter.into_bytes();
        }
    }
}

impl Consumer for ReportContent {
    fn idle(&mut self, now: MonotonicNs) {
        self.sums.idle(now);
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.types = types.clone();
        self.sums.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.rows.lose(*gap);
        self.sums.lose_and(*gap, &mut self.rows);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let (event, comm) = (&view.event, view.comm.unwrap_or_default());
        let header = event.header;
        if let Some(stack) = &view.stack {
            self.sums.take_stack(stack);
            self.stacks.stack();
        }
        self.stacks.event(header.event_type);
        self.rows.begin(header.time);
        let entry = system_event_type(header.event_type);
        if entry.is_none_or(|entry| !NO_MARKS.contains(&entry.family)) {
            if self.rows.has_space_for_words() {
                self.say(entry, event);
            } else {
                self.words.clear();
                self.rows.without_words += 1;
            }
            self.rows.mark(event, &self.words);
        }
        if let Some((node, what)) = self.nodes.look(view) {
            self.rows.of_node(event, node, what);
        }
        self.sums.go_on(event, comm, &mut self.rows);
        Ok(())
    }
}

/// Returns the difference between two moments; also for a log that goes backwards.
fn since(at: u64, last: &mut u64) -> i64 {
    let difference = at.wrapping_sub(*last).cast_signed();
    *last = at;
    difference
}

impl ReportRows {
    fn begin(&mut self, at: MonotonicNs) {
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
    }

    /// Returns the time since the first event.
    fn at(&self, at: MonotonicNs) -> u64 {
        at.0.saturating_sub(self.first.unwrap_or_default().0)
    }

    fn lose(&mut self, gap: Gap) {
        self.begin(gap.next);
        // As it is for the states of threads: from the last event on.
        let from = self.at(self.last.min(gap.next));
        let until = gap.until.map(|until| self.at(until));
        let is_open = matches!(self.gaps.last(), Some((_, None, _)));
        if gap.tid.is_some() || (is_open && until.is_none()) {
            return;
        }
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push((from, until, gap.is_kernels));
        } else if let Some((_, last, is_kernels)) = self.gaps.last_mut() {
            (*last, *is_kernels) = (until, *is_kernels && gap.is_kernels);
        }
    }

    fn thread(&mut self, thread: Thread) -> Option<u32> {
        let index = self.threads.index(&thread);
        self.left_out += u64::from(index.is_none());
        index
    }

    fn has_space_for_words(&self) -> bool {
        self.marks.words.bytes() < MOST_TEXT_BYTES
    }

    fn mark(&mut self, event: &Event<'_>, words: &[u8]) {
        let header = event.header;
        let of = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let Some(event_type) = self.types.index(&header.event_type) else {
            self.left_out += 1;
            return;
        };
        let Some(thread) = self.thread(of) else {
            return;
        };
        let at = self.at(header.time);
        let marks = &mut self.marks;
        marks.event_type.push(event_type);
        marks.thread.push(thread);
        marks.at.push_signed(since(at, &mut marks.last));
        marks.words.push(words);
    }

    /// Adds something that a node does.
    fn of_node(&mut self, event: &Event<'_>, node: &str, what: NodeEvent<'_>) {
        let header = event.header;
        let Some(node) = self.nodes.index(&(header.pid, node.to_owned())) else {
            self.left_out += 1;
            return;
        };
        match what {
            NodeEvent::Begin => {}
            NodeEvent::Callback(span) => {
                self.callbacks.insert((node, span.to_vec()));
            }
            NodeEvent::Message => {
                let of = Thread {
                    pid: header.pid,
                    tid: header.tid,
                };
                // Those for which there was no space are counted as marks.
                let (Some(event_type), Some(thread)) = (
                    self.types.index(&header.event_type),
                    self.threads.index(&of),
                ) else {
                    return;
                };
                let at = self.at(header.time);
                let messages = &mut self.messages;
                messages.node.push(node);
                messages.event_type.push(event_type);
                messages.thread.push(thread);
                messages.at.push_signed(since(at, &mut messages.last));
            }
        }
    }

    fn interval(&mut self, interval: &Interval) {
        if interval.state == State::Dead || interval.thread.tid == 0 {
            return;
        }
        let Some(thread) = self.thread(interval.thread) else {
            return;
        };
        let moments = (self.at(interval.from), self.at(interval.to));
        let (codes, tasks) = (&mut self.codes, &mut self.tasks);
        let is_in = self.intervals.push(interval, thread, moments, codes, tasks);
        self.left_out += u64::from(!is_in);
    }

    /// Returns the columns, complete.
    ///
    /// # Errors
    ///
    /// They cannot be deflated.
    pub fn into_columns(self) -> io::Result<Vec<Deflated>> {
        let (calls, spans) = (self.call_rows, self.spans);
        let (marks, messages, handled) = (self.marks, self.messages, self.handled);
        let columns = self.intervals.into_columns().chain([
            calls.thread,
            calls.key,
            calls.to,
            calls.ns,
            calls.returned,
            spans.kind,
            spans.thread,
            spans.begun_by,
            spans.to,
            spans.ns,
            marks.event_type,
            marks.thread,
            marks.at,
            messages.node,
            messages.event_type,
            messages.thread,
            messages.at,
            handled.cpu,
            handled.key,
            handled.to,
            handled.ns,
        ]);
        let columns = columns.map(IntegerColumn::finish);
        columns.chain([marks.words.finish()]).collect()
    }
}

impl Watcher for ReportRows {
    fn found(&mut self, found: &Finding) {
        match found {
            Finding::Interval(interval) => self.interval(interval),
            Finding::Birth(_) | Finding::Death(_) | Finding::Taken(_) => {}
        }
    }

    fn span(&mut self, span: &Span) {
        let (Some(thread), Some(begun_by)) = (self.thread(span.thread), self.thread(span.begun_by))
        else {
            return;
        };
        let to = self.at(span.to);
        let spans = &mut self.spans;
        spans.kind.push(span.rule as u64);
        spans.thread.push(thread);
        spans.begun_by.push(begun_by);
        spans.to.push_signed(since(to, &mut spans.last));
        spans.ns.push(span.ns());
    }

    fn call(&mut self, call: &CallRun) {
        let Some(key) = self.calls.index(&call.key) else {
            self.left_out += 1;
            return;
        };
        let Some(thread) = self.thread(call.thread) else {
            return;
        };
        let to = self.at(call.to);
        let calls = &mut self.call_rows;
        calls.thread.push(thread);
        calls.key.push(key);
        calls.to.push_signed(since(to, &mut calls.last));
        calls.ns.push(call.ns());
        calls.returned.push_signed(call.returned);
    }

    fn interrupt(&mut self, run: &InterruptRun) {
        let (Some(cpu), Some(key)) = (run.key.cpu, self.interrupts.index(&run.key.interrupt))
        else {
            self.left_out += 1;
            return;
        };
        let to = self.at(run.to);
        let handled = &mut self.handled;
        handled.cpu.push(cpu);
        handled.key.push(key);
        handled.to.push_signed(since(to, &mut handled.last));
        handled.ns.push(run.ns());
    }
}
