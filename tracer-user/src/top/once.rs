//! One screen of a log, at its end or at a moment before.

use std::path::Path;

use super::model::{Losses, Model, Window};
use super::view::text;
use crate::answers::{SpanSpec, follow};
use crate::log_view::{Output, Walk, Wanted, open, outcome};
use crate::terminal::Outcome;
use crate::terminal::output::Sink;

/// Prints the screen of a log.
///
/// # Errors
///
/// The log cannot be read, or the lines cannot be written.
pub fn show_once(
    file: &Path,
    wanted: &Wanted,
    spans: Vec<SpanSpec>,
    window: Window,
) -> anyhow::Result<Outcome> {
    let mut walk = Walk::new(open(file)?, wanted.settled_in(file)?);
    let mut model = Model::new(spans).starting_at(walk.anchor().monotonic);
    follow(&mut walk, &mut model)?;
    let summary = walk.summary();
    model.count_losses(Losses {
        lost: summary.lost_in_trace(),
        not_reported: summary.not_reported(),
    });
    let shot = model.shot(window);
    let mut output = Output::open(&Sink::Stdout, file)?;
    output
        .lines()
        .bytes()
        .extend_from_slice(text(&shot).as_bytes());
    output.flush()?;
    Ok(outcome(&summary, false))
}
