//! Causes of the durations of spans.

mod json;
mod text;

use anyhow::anyhow;
use tracer_engine::event::MonotonicNs;

use crate::budget::Budget;
use crate::queries::{Answering, Paths, Question, SpanChoice, follow};
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::summary::Summary;
use tracer_log_view::{Log, Walk, outcome};
use tracer_output::terminal::Outcome;
use tracer_text::say;

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

/// Returns the consumer that answers a question at the end of a trace; the answer, or JSON, is
/// appended to `lines`.
#[must_use]
pub fn consumer(
    question: Question,
    choice: SpanChoice,
    (is_brief, is_json, budget): (bool, bool, Budget),
    lines: Lines,
) -> Box<dyn Consumer> {
    let paths = Paths::new(question, choice);
    Box::new(Answering::new(paths, move |paths, summary| {
        let why = Why::finish(paths, summary);
        let unanswered = why.unanswered();
        if unanswered.is_none() {
            why.paths.unmet().iter().for_each(|unmet| say(unmet));
        }
        let shown = if is_json {
            budget.document(&json(&why))
        } else {
            budget.text(text(&why, is_brief))
        };
        lines.bytes().extend_from_slice(shown.as_bytes());
        match unanswered {
            Some(why) => Err(anyhow!(why)),
            None => Ok(()),
        }
    }))
}
