//! What threads did and what system calls took, summed up over a log.

mod json;
mod sums;
mod text;

use tracer_analysis::{CallKey, CallTotal, Durations, Thread, ThreadTotal};
use tracer_engine::event::MonotonicNs;

use crate::answers::{Paths, SpanSpec, follow};
use crate::log_view::{Log, Walk, outcome};
use crate::report::Summary;
use crate::terminal::Outcome;
pub use sums::Sums;

pub use json::{json, of_kind};
pub use text::text;

/// What a log sums up to.
#[derive(Debug)]
pub struct Statistics {
    /// From the first event to the last, in nanoseconds.
    pub span_ns: u64,
    /// When the first was.
    pub first: MonotonicNs,
    /// Whether there are switches: without them nobody knows what threads do.
    pub has_switches: bool,
    /// Whether there are wake-ups: without them nobody knows since when threads could run.
    pub has_wakeups: bool,
    /// The threads with their last names, those that ran longest first.
    pub threads: Vec<(Thread, Vec<u8>, ThreadTotal)>,
    /// Threads beyond those, together.
    pub others: ThreadTotal,
    /// How long each CPU was used by them, in nanoseconds.
    pub cpus: Vec<(u32, u64)>,
    /// How long threads waited for a CPU after they were made or woken.
    pub wakeups: Durations,
    /// The spans.
    pub paths: Paths,
    /// The system calls, those that took most time first.
    pub calls: Vec<(CallKey, CallTotal)>,
    /// Events that the trace lost.
    pub lost: u64,
    /// Events by type, and what is missing.
    pub summary: Summary,
}

impl Statistics {
    /// Sums up what `walk` goes by; of these spans, or of all whose names say so.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn take<L: Log>(mut walk: Walk<L>, spans: Vec<SpanSpec>) -> anyhow::Result<Self> {
        let mut sums = Sums::new(spans);
        follow(&mut walk, &mut sums)?;
        Ok(Self::of(sums, &walk.summary()))
    }

    /// What was summed up.
    #[must_use]
    pub fn of(sums: Sums, summary: &Summary) -> Self {
        sums.finish(summary.clone())
    }

    /// Whether anything is missing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.summary, false)
    }
}
