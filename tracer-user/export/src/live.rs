//! Export of a running trace.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::ensure;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use super::{ExportFormat, TraceOrigin};
use tracer_event::consumer::{Consumer, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;
use tracer_output::destination::Destination;
use tracer_output::terminal::output::is_stdout;

/// Output of a running trace in another tool's format.
#[derive(Clone, Debug)]
pub struct LiveExport {
    /// Format of the output.
    pub format: &'static ExportFormat,
    /// File or folder to be made, or `-` for the standard output.
    pub output: PathBuf,
    /// Whether an existing file or folder is replaced.
    pub force: bool,
}

impl LiveExport {
    /// Makes the consumer that writes it. The output has its name once the trace has ended.
    ///
    /// # Errors
    ///
    /// The output is there already, or cannot be made.
    pub fn start(&self, origin: &TraceOrigin) -> anyhow::Result<Box<dyn Consumer>> {
        refuse_terminal(self.format, &self.output)?;
        let destination = destination(self.format, &self.output, None, self.force)?;
        Ok(Box::new(Exporting {
            format: self.format.start(origin, &destination)?,
            destination,
        }))
    }
}

/// Fails if a binary format would go to a terminal.
///
/// # Errors
///
/// It would.
pub fn refuse_terminal(format: &ExportFormat, output: &Path) -> anyhow::Result<()> {
    ensure!(
        !(!format.is_text && is_stdout(output) && io::stdout().is_terminal()),
        "a terminal cannot show this format; send the standard output to a file or a program, or \
         give --output a name"
    );
    Ok(())
}

/// Returns the file or folder that a format is written to; `input` is a file that it must not
/// replace.
///
/// # Errors
///
/// The output is there already, or cannot be made.
pub fn destination(
    format: &ExportFormat,
    output: &Path,
    input: Option<&Path>,
    force: bool,
) -> anyhow::Result<Destination> {
    if format.files.is_empty() {
        Destination::file(output, input, force)
    } else {
        Destination::folder(output, format.files, force)
    }
}

/// Consumer of a format, and the output that gets its name at the end.
struct Exporting {
    format: Box<dyn Consumer>,
    destination: Destination,
}

impl Consumer for Exporting {
    fn learn_types(&mut self, types: &EventTypes) {
        self.format.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.format.gap(gap);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        self.format.count_losses(losses)
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.format.event(view)
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.format.idle(now);
    }

    fn finish(self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.format.finish(summary)?;
        self.destination.complete()
    }
}
