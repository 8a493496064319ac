//! Causes of the durations of spans.

mod consumer;
mod json;
mod text;

use tracer_engine::event::MonotonicNs;

use crate::queries::{Paths, follow};
use tracer_event::summary::Summary;
use tracer_log_view::{Log, Walk, outcome};
use tracer_output::terminal::Outcome;

pub use consumer::consumer;
pub use json::{json, render_shown};
pub use text::text;

/// An answer.
#[derive(Debug)]
pub struct Why {
    /// The spans and their critical paths.
    pub paths: Paths,
    /// Time from which times are shown: as those of `read`, from the start of the log, or, live,
    /// from the first event.
    pub start: MonotonicNs,
    /// Events that the trace lost.
    pub lost: u64,
    /// Events by type, and counts of missing ones.
    pub summary: Summary,
}

impl Why {
    /// Looks for the answer in the events of `walk`.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn find<L: Log>(mut walk: Walk<L>, mut paths: Paths) -> anyhow::Result<Self> {
        follow(&mut walk, &mut paths)?;
        let start = walk.anchor().monotonic;
        Ok(Self {
            start,
            ..Self::finish(paths, &walk.summary())
        })
    }

    /// Returns the findings.
    #[must_use]
    pub fn finish(mut paths: Paths, summary: &Summary) -> Self {
        paths.finish(|_| {});
        Self {
            start: paths.first(),
            paths,
            lost: summary.lost_in_trace(),
            summary: summary.clone(),
        }
    }

    /// Explains why there is no span at all; `None` where there is one, or where none was asked for
    /// by name and the answer is that nothing moved.
    #[must_use]
    pub fn unanswered(&self) -> Option<String> {
        let has_spans = self.paths.kinds().iter().any(|kind| kind.took.count() > 0);
        let is_still = !self.paths.has_named_spans() && self.paths.stillness().is_some();
        (!has_spans && !is_still).then(|| self.paths.unmet().join("; "))
    }

    /// Tells whether anything is missing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.summary, false)
    }
}
