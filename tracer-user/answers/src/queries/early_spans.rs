//! Spans that have ended before the first switch: what their threads did is not known until these
//! leave their CPUs, where the kernel says for how long they had them.

use tracer_analysis::{Span, Thread};
use tracer_engine::event::MonotonicNs;
use tracer_event::thread_contexts::ThreadContext;

/// Spans that wait: where there are more, all are explained by what is known.
const MOST: usize = 256;

/// Time that a span waits at most, in nanoseconds: few threads have a CPU for longer without a
/// switch, and switches may not be recorded at all.
const WAITS_NS: u64 = 1_000_000_000;

/// Span that waits to be explained.
#[derive(Debug)]
pub struct EarlySpan {
    /// Its kind, by index.
    pub kind: usize,
    /// The span.
    pub span: Span,
    /// Context of its thread.
    pub context: Option<ThreadContext>,
}

/// Spans that wait, in the order in which they ended.
#[derive(Debug, Default)]
pub struct EarlySpans {
    spans: Vec<EarlySpan>,
    /// Time at which the first of them began.
    oldest: Option<MonotonicNs>,
}

impl EarlySpans {
    /// Tells whether none waits.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns when the first of them began.
    pub fn oldest(&self) -> Option<MonotonicNs> {
        self.oldest
    }

    /// Has a span wait. Returns those that do so no longer: all, where they are too many.
    pub fn add(&mut self, early: EarlySpan) -> Vec<EarlySpan> {
        let from = early.span.from;
        self.oldest = Some(self.oldest.map_or(from, |oldest| oldest.min(from)));
        self.spans.push(early);
        if self.spans.len() >= MOST {
            self.take_all()
        } else {
            Vec::new()
        }
    }

    /// Returns those that wait no longer at `now`: of the thread that leaves its CPU, and all once
    /// the first has waited for long.
    pub fn take_ready(&mut self, leaves: Option<Thread>, now: MonotonicNs) -> Vec<EarlySpan> {
        let first = self.spans.first();
        if first.is_some_and(|early| now.0.saturating_sub(early.span.to.0) >= WAITS_NS) {
            return self.take_all();
        }
        let is_of_thread = |early: &EarlySpan| Some(early.span.thread) == leaves;
        if leaves.is_none() || !self.spans.iter().any(is_of_thread) {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.spans).into_iter();
        let (ready, others) = all.partition(is_of_thread);
        self.spans = others;
        self.oldest = self.spans.iter().map(|early| early.span.from).min();
        ready
    }

    /// Returns all.
    pub fn take_all(&mut self) -> Vec<EarlySpan> {
        self.oldest = None;
        std::mem::take(&mut self.spans)
    }
}

#[cfg(test)]
mod tests {
    use tracer_analysis::{PathPart, Step, UnknownReason};
    use tracer_common::event_type::EventTypeId;
    use tracer_common::kernel::SwitchOutData;
    use tracer_engine::event::{Event, EventHeader, Truncation};
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;
    use crate::queries::{Paths, Question, SpanChoice};

    fn early(tid: i32, from: u64, to: u64) -> EarlySpan {
        let thread = Thread { pid: 1, tid };
        EarlySpan {
            kind: 0,
            span: Span {
                rule: 0,
                begun_by: thread,
                thread,
                from: MonotonicNs(from),
                to: MonotonicNs(to),
                polls: Vec::new(),
                has_older_polls: false,
            },
            context: None,
        }
    }

    #[test]
    fn spans_wait_for_a_switch_of_their_thread_or_until_one_has_waited_for_long() {
        let mut all = EarlySpans::default();
        for (tid, from) in [(1, 10), (2, 5), (1, 20)] {
            assert!(all.add(early(tid, from, 30)).is_empty());
        }
        assert_eq!(all.oldest(), Some(MonotonicNs(5)));
        let leaves = |tid| Some(Thread { pid: 1, tid });
        let now = MonotonicNs(40);
        assert!(all.take_ready(None, now).is_empty());
        assert!(all.take_ready(leaves(3), now).is_empty());
        assert_eq!(all.take_ready(leaves(2), now).len(), 1);
        assert_eq!(all.oldest(), Some(MonotonicNs(10)));
        assert_eq!(all.take_ready(None, MonotonicNs(30 + WAITS_NS)).len(), 2);
        assert!(all.is_empty() && all.oldest().is_none());
        let ready = (0..MOST).map(|_| all.add(early(1, 1, 2)).len());
        assert_eq!(ready.sum::<usize>(), MOST);
    }

    /// Steps of the path of a program that runs from 1000 to 5000, where `switch` is its first
    /// switch, or there is none.
    fn path(switch: Option<EventTypeId>) -> Vec<(PathPart, u64)> {
        let choice = SpanChoice {
            slowest: 1,
            ..SpanChoice::default()
        };
        let question = Question::Thread {
            tid: None,
            from: None,
            until: None,
        };
        let mut paths = Paths::new(question, choice);
        let mut data = SwitchOutData::new_zeroed();
        data.ran_ns = 9000;
        let ends = [(1000, EventTypeId::EXEC), (5000, EventTypeId::EXIT)];
        let switch = switch.map(|event_type| (5100, event_type));
        for (at, event_type) in ends.into_iter().chain(switch) {
            let header = EventHeader {
                time: MonotonicNs(at),
                event_type,
                pid: 7,
                tid: 7,
                thread_id: 0,
                program_address: 0,
                cpu: Some(0),
                truncation: Truncation::None,
            };
            let data = match event_type {
                EventTypeId::SWITCH_OUT => data.as_bytes(),
                _ => &[],
            };
            paths.go_on(&Event { header, data }, b"true", |_| {});
        }
        paths.finish(|_| {});
        let segments = paths.shown()[0].segments.iter();
        segments.map(|step: &Step| (step.part, step.ns())).collect()
    }

    #[test]
    fn a_program_that_leaves_its_cpu_once_as_it_ends_ran() {
        let ran = [(PathPart::Running, 4100)];
        assert_eq!(path(Some(EventTypeId::SWITCH_OUT)), ran);
        let unknown = PathPart::Unknown(UnknownReason::NotSeen);
        assert_eq!(path(None), [(unknown, 4000)]);
    }
}
