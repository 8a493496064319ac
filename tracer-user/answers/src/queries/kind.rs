//! Spans of one kind, and those that are explained by themselves.

use tracer_analysis::{Blame, Durations, PathPart, Span, Step, Thread, leaves};
use tracer_engine::event::MonotonicNs;
use tracer_event::thread_contexts::ThreadContext;

/// Steps of one path that are given out one by one.
const MOST_SEGMENTS: usize = 10_000;

/// Spans of one kind.
#[derive(Debug)]
pub struct SpanKind {
    /// Name of these spans.
    pub name: Vec<u8>,
    /// Durations of these spans.
    pub took: Durations,
    /// Causes of their time.
    pub blame: Blame,
    /// Activity of their own threads meanwhile.
    pub split: Split,
}

/// Time of spans by the activity of their own threads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split {
    /// Time on a CPU.
    pub running: u64,
    /// Waiting for a CPU.
    pub runnable: u64,
    /// Waiting for something else.
    pub blocked: u64,
    /// Stopped.
    pub stopped: u64,
    /// Time without a thread: none worked on them.
    pub unpolled: u64,
    /// Time without a known cause.
    pub unknown: u64,
}

impl Split {
    /// Returns the parts with their names, as `stat` has them.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("running", self.running),
            ("runnable", self.runnable),
            ("blocked", self.blocked),
            ("stopped", self.stopped),
            ("unpolled", self.unpolled),
            ("unknown", self.unknown),
        ]
    }

    /// Adds those of another one.
    pub fn add_all(&mut self, other: &Self) {
        self.running = self.running.saturating_add(other.running);
        self.runnable = self.runnable.saturating_add(other.runnable);
        self.blocked = self.blocked.saturating_add(other.blocked);
        self.stopped = self.stopped.saturating_add(other.stopped);
        self.unpolled = self.unpolled.saturating_add(other.unpolled);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// Adds the activity of the spans' own threads.
    pub fn add(&mut self, steps: &[Step]) {
        let mut is_busy = false;
        for step in steps {
            // What it did while it had other work is its own as well.
            match step.depth {
                0 => is_busy = matches!(step.part, PathPart::Busy(_)),
                1 if is_busy => {}
                _ => continue,
            }
            let total = match step.part {
                PathPart::Running
                | PathPart::Faulting
                | PathPart::Gap
                | PathPart::Interrupted(_) => &mut self.running,
                PathPart::Busy(_) => continue,
                PathPart::Runnable(..) => &mut self.runnable,
                PathPart::Blocked(..) | PathPart::StillBlocked(..) => &mut self.blocked,
                PathPart::Stopped(_) | PathPart::StillStopped(_) => &mut self.stopped,
                PathPart::Unpolled(_) => &mut self.unpolled,
                PathPart::Underway | PathPart::Unmade(_) | PathPart::Unknown(_) => {
                    &mut self.unknown
                }
            };
            *total = total.saturating_add(step.ns());
        }
    }
}

/// Part of one span in the sums of its kind.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Its kind, by index.
    pub kind: usize,
    /// Thread that ended the span.
    pub thread: Thread,
    /// Thread that began it.
    pub begun_by: Thread,
    /// The span of OpenTelemetry that it is, or for which its thread worked as it ended.
    pub context: Option<ThreadContext>,
    /// Beginning of the span.
    pub from: MonotonicNs,
    /// End of the span.
    pub to: MonotonicNs,
    /// Duration, in nanoseconds.
    pub ns: u64,
    /// Activity of its own threads meanwhile.
    pub split: Split,
    /// The steps of its critical path that are asked for, in order of time.
    pub segments: Vec<Step>,
}

/// Steps of its critical path with which a span is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenSteps {
    /// None.
    None,
    /// Those that no others lie within: at most 10,000.
    Innermost,
    /// Those that lie within no others: they part the time of the span by its causes.
    Outermost,
}

impl GivenSteps {
    /// Returns the steps that are asked for, of all.
    #[must_use]
    pub fn choose(self, steps: &[Step]) -> Vec<Step> {
        match self {
            Self::None => Vec::new(),
            Self::Innermost => segments(steps),
            Self::Outermost => {
                let mut outermost: Vec<Step> = steps
                    .iter()
                    .filter(|step| step.depth == 0)
                    .copied()
                    .collect();
                outermost.sort_by_key(|step| step.from);
                outermost
            }
        }
    }
}

/// A span that is explained by itself.
#[derive(Debug)]
pub struct ShownSpan {
    /// Its kind, by index.
    pub kind: usize,
    /// The span.
    pub span: Span,
    /// The name of the thread that ended it.
    pub comm: Vec<u8>,
    /// The span of OpenTelemetry that it is, or for which its thread worked as it ended.
    pub context: Option<ThreadContext>,
    /// The steps of its critical path that no others lie within, in order of time: at most
    /// 10,000.
    pub segments: Vec<Step>,
    /// Tree of all of it.
    pub blame: Blame,
}

/// Returns the steps that no others lie within, in order of time.
pub fn segments(steps: &[Step]) -> Vec<Step> {
    let mut segments: Vec<Step> = leaves(steps).copied().collect();
    segments.sort_by_key(|step| step.from);
    segments.truncate(MOST_SEGMENTS);
    segments.shrink_to_fit();
    segments
}
