//! Flame graphs: where in their code threads spent their time.
//!
//! [`Flames`] takes events in order, each after its stack, and folds them into a [`Folded`]: paths
//! of frames, the outermost first, with nanoseconds for each path. The first frame is the name of
//! the thread. The content of a `Folded` is
//!
//! - written as text, a line a path, as other tools take it ([`Folded::text`]);
//! - drawn as a picture that is one file ([`svg`]);
//! - given out path by path, in order, for other views ([`Folded::paths`]).
//!
//! The summed times depend on the [`FlameKind`]. The times without a CPU come from the intervals
//! that `stat` and `why` use, too: nothing here finds out a state.

mod fold;
mod folded;
mod svg;

use std::path::{Path, PathBuf};

use tracer_event::consumer::{Consumer, Lines};
use tracer_log_view::{Walk, WantedEvents, open, outcome, report_missing};
use tracer_output::destination::Destination;
use tracer_output::interruption::Interruption;
use tracer_output::progress::Progress;
use tracer_output::terminal::Outcome;

use crate::queries::{Answering, follow_while};

pub use fold::Flames;
pub use folded::{Folded, FrameKind, ShownFrame};
pub use svg::svg;

/// Kind of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlameKind {
    /// Stacks of threads that have a CPU, by samples.
    OnCpu,
    /// Stacks of threads that have none: from when they leave a CPU until they get one again.
    OffCpu,
    /// Stacks of threads as they are blocked, and of the wakers that end that.
    Wakeup,
}

impl FlameKind {
    /// Returns the title of the graph.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::OnCpu => "On-CPU time, by samples",
            Self::OffCpu => "Off-CPU time",
            Self::Wakeup => "Blocked time, and who ended it",
        }
    }
}

/// Form of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Picture.
    Svg,
    /// Text, with a line for each path.
    Folded,
}

/// Setup of a flame graph.
#[derive(Clone, Debug)]
pub struct FlameSetup {
    /// Kind of the graph.
    pub kind: FlameKind,
    /// Form of the output.
    pub form: Form,
    /// File to be made; `-` is the standard output.
    pub output: PathBuf,
    /// Whether an existing file is replaced.
    pub force: bool,
}

impl FlameSetup {
    /// Returns the consumer that makes the graph of a running trace; it is appended to `lines`.
    #[must_use]
    pub fn consumer(&self, lines: Lines) -> Box<dyn Consumer> {
        let setup = self.clone();
        let flames = Flames::new(self.kind).with_samples();
        Box::new(Answering::new(flames, move |flames, _| {
            let shown = setup.shown(&flames.finish()?)?;
            lines.bytes().extend_from_slice(&shown);
            Ok(())
        }))
    }

    /// Returns the graph in its form.
    ///
    /// # Errors
    ///
    /// It cannot be drawn.
    pub fn shown(&self, folded: &Folded) -> anyhow::Result<Vec<u8>> {
        match self.form {
            Form::Folded => Ok(folded.text().into_bytes()),
            Form::Svg => {
                let mut picture = Vec::new();
                svg(self.kind, folded, &mut picture)?;
                Ok(picture)
            }
        }
    }
}

/// Makes the flame graph of the log `file`, and reports the losses.
///
/// # Errors
///
/// The log cannot be read, has no events that the graph needs, or the output is there already or
/// cannot be written.
pub fn make(setup: &FlameSetup, file: &Path, wanted: WantedEvents) -> anyhow::Result<Outcome> {
    let log = open(file)?;
    let interruption = Interruption::watch()?;
    let destination = Destination::file(&setup.output, Some(file), setup.force)?;
    let mut walk = Walk::new(log, wanted).naming_by(file);
    let progress = Progress::start();
    let mut flames = Flames::new(setup.kind);
    follow_while(&mut walk, &mut flames, |walk| {
        progress.show(walk.log().progress());
        interruption.check(destination.early_end())
    })?;
    let summary = walk.summary();
    let shown = setup.shown(&flames.finish()?)?;
    let mut writer = destination.writer()?;
    writer.write_all(&shown)?;
    writer.flush()?;
    drop(writer);
    interruption.check(destination.early_end())?;
    destination.complete()?;
    progress.end();
    report_missing(&walk, &summary);
    Ok(outcome(&summary, false))
}
