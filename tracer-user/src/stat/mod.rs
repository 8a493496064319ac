//! What threads did and what system calls took, summed up over a log.

mod json;
mod sums;
mod text;

use tracer_analysis::{CallKey, CallTotal, Thread, ThreadTotal};
use tracer_engine::event::MonotonicNs;

use crate::log_view::{Log, Pause, Walk, outcome};
use crate::report::Summary;
use crate::terminal::Outcome;
use sums::{Held, Sums};

pub use json::json;
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
    /// The system calls, those that took most time first.
    pub calls: Vec<(CallKey, CallTotal)>,
    /// Events that the trace lost.
    pub lost: u64,
    /// Events by type, and what is missing.
    pub summary: Summary,
}

impl Statistics {
    /// Sums up what `walk` goes by.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn take<L: Log>(mut walk: Walk<L>) -> anyhow::Result<Self> {
        let (mut sums, mut held) = (Sums::default(), Held::default());
        // What is missing before the first event leaves no gap.
        let mut gaps = None;
        // One by one: what is missing before an event is known once that was read.
        while walk.go_on(1, |entry| {
            held.hold(entry);
            Ok(())
        })? == Pause::Midway
        {
            let gaps_by_now = walk.gaps();
            if gaps
                .replace(gaps_by_now)
                .is_some_and(|gaps| gaps < gaps_by_now)
            {
                sums.lose();
            }
            sums.add(&mut held);
        }
        let span = walk.span();
        let (first, last) = span.map_or_else(Default::default, |span| (span.first.0, span.last.0));
        if gaps.is_some_and(|gaps| gaps < walk.gaps()) {
            sums.lose();
        }
        Ok(sums.finish(first, last, walk.lost_in_trace(), walk.summary()))
    }

    /// Whether anything is missing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.summary, false)
    }
}
