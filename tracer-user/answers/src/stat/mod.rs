//! Activity of threads, durations of system calls and the kernel's interruptions, summed up over a
//! log.

mod json;
mod kernel;
mod locks;
mod sums;
pub(crate) mod table;
mod text;
mod view;

use anyhow::ensure;
use tracer_analysis::{
    CallKey, CallTotal, Durations, Faults, Interrupts, LockTotals, Requests, SignalKey,
    SignalTotal, Signals, Thread, ThreadTotal,
};
use tracer_engine::event::MonotonicNs;

use crate::budget::Budget;
use crate::queries::words::{seconds, thread};
use crate::queries::{Answering, Paths, Scope, SpanSpec, follow};
pub use sums::{Sums, Watcher};
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::fields::until_null;
use tracer_event::summary::Summary;
use tracer_log_view::{Log, Walk, outcome};
use tracer_output::terminal::Outcome;
use tracer_text::say;

pub use json::{json, render_kind, render_unended};
pub use text::text;
pub use view::{By, Group, SortBy, View};

/// Sums over a log.
#[derive(Debug)]
pub struct Statistics {
    /// Part of the trace that is summed up.
    pub scope: Scope,
    /// Time from the first event to the end of the trace, of the time that is asked about, in
    /// nanoseconds. Where a log does not say when the trace ended, it is the last event's time.
    pub span_ns: u64,
    /// Time from which times are shown, and --from and --until count: the start of the log, or,
    /// live, the first event.
    pub start: MonotonicNs,
    /// Time of the first event.
    pub first: MonotonicNs,
    /// Whether there are switches: without them it is not known what threads do.
    pub has_switches: bool,
    /// Whether there are wake-ups: without them it is not known since when threads could run.
    pub has_wakeups: bool,
    /// The threads with their last names, those that ran longest first.
    pub threads: Vec<(Thread, Vec<u8>, ThreadTotal)>,
    /// Threads beyond those, together.
    pub others: ThreadTotal,
    /// Time that each CPU was used by them, in nanoseconds.
    pub cpus: Vec<(u32, u64)>,
    /// Waits of threads for a CPU after they were made or woken.
    pub wakeups: Durations,
    /// The spans.
    pub paths: Paths,
    /// The system calls, those that took most time first.
    pub calls: Vec<(CallKey, CallTotal)>,
    /// The page faults.
    pub faults: Faults,
    /// The signals.
    pub signals: Signals,
    /// The interrupts.
    pub interrupts: Interrupts,
    /// The requests to block devices.
    pub requests: Requests,
    /// The waits for locks.
    pub locks: LockTotals,
    /// Events that the trace lost.
    pub lost: u64,
    /// Events by type, and counts of missing ones.
    pub summary: Summary,
}

impl Statistics {
    /// Sums up the events of `walk` within `scope`; of these spans, or of all whose names say so.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn take<L: Log>(
        mut walk: Walk<L>,
        spans: Vec<SpanSpec>,
        scope: Scope,
    ) -> anyhow::Result<Self> {
        let mut sums = Sums::new(spans).by_route().within(scope);
        follow(&mut walk, &mut sums)?;
        Ok(Self {
            start: walk.anchor().monotonic,
            ..Self::finish(sums, &walk.summary())
        })
    }

    /// Finishes the sums.
    #[must_use]
    pub fn finish(sums: Sums, summary: &Summary) -> Self {
        sums.finish(summary.clone(), &mut ())
    }

    /// Returns the sum over all threads.
    fn all(&self) -> ThreadTotal {
        let mut sum = ThreadTotal::default();
        for (.., total) in &self.threads {
            sum.add_all(total);
        }
        sum.add_all(&self.others);
        sum
    }

    /// Returns the name of the process that a signal is one of; empty where it is not known.
    fn name_of<'a>(&'a self, key: SignalKey, total: &'a SignalTotal) -> &'a [u8] {
        let leader = Thread {
            pid: key.pid,
            tid: key.pid,
        };
        match self.paths.names().get(leader) {
            [] => until_null(&total.comm),
            name => name,
        }
    }

    /// Tells whether waits for locks were recorded.
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.locks.others().is_some() || !self.locks.sorted().is_empty()
    }

    /// Returns a process and its command line, where that is known.
    fn command_of(&self, pid: i32) -> Option<(String, String)> {
        let command = self.paths.commands().get(pid);
        let leader = Thread { pid, tid: pid };
        let label = thread(leader, self.paths.names().get(leader));
        (!command.is_empty()).then_some((label, command))
    }

    /// Checks that there are events of the time and of the processes that are asked about.
    ///
    /// # Errors
    ///
    /// The log has nothing then, or of none of these processes.
    pub fn check_scope(&self) -> anyhow::Result<()> {
        let (first, last) = (self.first, self.paths.last());
        let is_beside = self.scope.from > last || self.scope.until < first;
        let since = |at: MonotonicNs| seconds(at.0.saturating_sub(self.start.0));
        ensure!(
            !self.scope.has_times() || !is_beside,
            "nothing was recorded from --from to --until: the log has events from {} to {} after \
             its start",
            since(first),
            since(last)
        );
        let is_empty = self.threads.is_empty() && self.summary.events.is_empty();
        ensure!(
            self.scope.pids.is_empty() || !is_empty,
            "the log has nothing of --pid {} in that time; `tracer-user info` lists its processes",
            self.scope
                .pids
                .iter()
                .map(i32::to_string)
                .collect::<Vec<_>>()
                .join(",")
        );
        Ok(())
    }

    /// Tells whether anything is missing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.summary, false)
    }
}

/// Returns the consumer that sums up a trace; the tables, or JSON, are appended to `lines` at its
/// end.
#[must_use]
pub fn consumer(
    spans: Vec<SpanSpec>,
    view: View,
    (is_json, budget): (bool, Budget),
    lines: Lines,
) -> Box<dyn Consumer> {
    Box::new(Answering::new(
        Sums::new(spans).by_route(),
        move |sums, summary| {
            let statistics = Statistics::finish(sums, summary);
            if statistics.paths.has_named_spans() {
                statistics.paths.unmet().iter().for_each(|unmet| say(unmet));
            }
            let shown = if is_json {
                budget.document(&json(&statistics, view))
            } else {
                budget.text_before_closing(text(&statistics, view), summary)
            };
            lines.bytes().extend_from_slice(shown.as_bytes());
            Ok(())
        },
    ))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use tracer_common::event_type::EventTypeId;

    use tracer_common::kernel::{ExecData, IrqEnterData, SignalGenerateData, SwitchOutData};
    use tracer_engine::event::{Event, EventHeader, Truncation};
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;
    use tracer_event::document::document;
    use tracer_event::event_view::EventView;

    const HOSTILE: &[u8] = b"\x1b[2J\xffname";

    fn header(event_type: EventTypeId) -> EventHeader {
        EventHeader {
            time: MonotonicNs(1),
            event_type,
            pid: 0,
            tid: 0,
            thread_id: 0,
            program_address: 0,
            cpu: Some(3),
            truncation: Truncation::None,
        }
    }

    #[test]
    fn names_of_interrupts_and_of_processes_are_harmless_and_what_is_not_known_is_no_time() {
        let mut sums = Sums::new(Vec::new());
        let mut irq = IrqEnterData::new_zeroed();
        irq.irq = 25;
        irq.name[..HOSTILE.len()].copy_from_slice(HOSTILE);
        let begun = Event {
            header: header(EventTypeId::IRQ_ENTER),
            data: irq.as_bytes(),
        };
        sums.event(&EventView::bare(begun, b"")).unwrap();
        let mut signal = SignalGenerateData::new_zeroed();
        (signal.signal, signal.target_pid) = (15, 77);
        signal.target_comm[..HOSTILE.len()].copy_from_slice(HOSTILE);
        let sent = Event {
            header: header(EventTypeId::SIGNAL_GENERATE),
            data: signal.as_bytes(),
        };
        sums.event(&EventView::bare(sent, b"")).unwrap();
        let statistics = Statistics::finish(sums, &Summary::default());

        let text = text(&statistics, View::default());
        let row = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            let words = line.unwrap().split_whitespace();
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            row("25 "),
            ["25", "\\u{1b}[2J\\xffname", "3", "1", "-", "-", "-"]
        );
        let expected = [
            "\\u{1b}[2J\\xffname",
            "77",
            "SIGTERM",
            "1",
            "0",
            "0",
            "0",
            "0",
            "0",
            "0",
        ];
        assert_eq!(row("\\u{1b}"), expected);
        let json = document(&json(&statistics, View::default()));
        assert!(!json.contains('\x1b') && json.contains("SIGTERM"), "{json}");
    }

    #[test]
    fn a_process_has_the_words_that_exec_gave_it() {
        let mut sums = Sums::new(Vec::new());
        let of = |event_type, time| EventHeader {
            time: MonotonicNs(time),
            pid: 77,
            tid: 77,
            ..header(event_type)
        };
        let mut data = ExecData::new_zeroed().as_bytes().to_vec();
        data.truncate(offset_of!(ExecData, file));
        data.extend_from_slice(b"/bin/sed\0\0sed\0-n\x001p\x1b[2J\0");
        let exec = Event {
            header: of(EventTypeId::EXEC, 1),
            data: &data,
        };
        sums.event(&EventView::bare(exec, b"sed")).unwrap();
        let mut left = SwitchOutData::new_zeroed();
        left.state = 1;
        let left = Event {
            header: of(EventTypeId::SWITCH_OUT, 9),
            data: left.as_bytes(),
        };
        sums.event(&EventView::bare(left, b"sed")).unwrap();
        let statistics = Statistics::finish(sums, &Summary::default());
        let text = text(&statistics, View::default());
        let line = text.lines().find(|line| line.ends_with("\\u{1b}[2J"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(words, ["sed", "77", "sed", "-n", "1p\\u{1b}[2J"], "{text}");
        let json = document(&json(&statistics, View::default()));
        assert!(
            json.contains("\"command\": \"sed -n 1p\\\\u{1b}[2J\""),
            "{json}"
        );
    }
}
