//! One screen: of a log, at its end or at a moment before, or of a trace.

use std::path::Path;

use super::json::json;
use super::model::{Model, Shot, ShownLosses, Window};
use super::view::text;
use tracer_answers::queries::{SpanSpec, follow};
use tracer_event::document::document;
use tracer_log_view::{Output, Walk, WantedEvents, open, outcome};
use tracer_output::terminal::Outcome;
use tracer_output::terminal::output::Sink;

/// Form in which one screen is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnceForm {
    /// Text.
    Text,
    /// One JSON object.
    Json,
}

impl OnceForm {
    /// Returns a screen in this form.
    #[must_use]
    pub fn shown(self, shot: &Shot) -> String {
        match self {
            Self::Text => text(shot),
            Self::Json => document(&json(shot)),
        }
    }
}

/// Prints the screen of a log.
///
/// # Errors
///
/// The log cannot be read, or the lines cannot be written.
pub fn show_once(
    file: &Path,
    wanted: &WantedEvents,
    spans: Vec<SpanSpec>,
    (window, form): (Window, OnceForm),
) -> anyhow::Result<Outcome> {
    let mut walk = Walk::new(open(file)?, wanted.settled_in(file)?);
    let mut model = Model::new(spans).starting_at(walk.anchor().monotonic);
    follow(&mut walk, &mut model)?;
    let summary = walk.summary();
    model.count_losses(ShownLosses {
        lost: summary.lost_in_trace(),
        not_reported: summary.not_reported(),
    });
    let shot = model.shot(window);
    let mut output = Output::open(&Sink::Stdout, file)?;
    output
        .lines()
        .bytes()
        .extend_from_slice(form.shown(&shot).as_bytes());
    output.flush()?;
    Ok(outcome(&summary, false))
}
