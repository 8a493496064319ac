//! Options that write a running trace for other tools.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::builder::PossibleValuesParser;

use tracer_export::{ExportFormat, FORMATS, LiveExport};

/// An export of a running trace, as typed.
#[derive(Debug, clap::Args)]
pub struct LiveExportArgs {
    /// Write events for other tools, to the file that --output names (for ctf and ctf2, the
    /// folder): perfetto, chrome, ctf, ctf2 or parquet, as `tracer-user export` makes them of a
    /// log. It has its name once the trace has ended. With --log, the log is written too
    #[arg(
        long,
        value_parser = PossibleValuesParser::new(FORMATS.iter().map(|format| format.name)),
        value_name = "FORMAT",
        hide_possible_values = true,
        conflicts_with = "format",
        requires = "output"
    )]
    to: Option<String>,
}

impl LiveExportArgs {
    /// Returns the format and the output; `None` when events are shown as lines.
    ///
    /// # Errors
    ///
    /// It is combined with another way of showing events.
    pub fn export(
        &self,
        output: Option<PathBuf>,
        is_replaced: bool,
        (has_log, has_trigger): (bool, bool),
    ) -> anyhow::Result<Option<LiveExport>> {
        let Some(format) = self.to.as_deref().and_then(ExportFormat::named) else {
            ensure!(
                output.is_none() || !has_log,
                "--log puts events into a log, and --output shows them; give one of them, or \
                 --output with --to"
            );
            return Ok(None);
        };
        ensure!(
            !has_trigger,
            "--to writes all events, and --when those around a moment; leave --to out, and convert \
             the logs of --when by `tracer-user export`"
        );
        Ok(Some(LiveExport {
            format,
            output: output.context("--to needs the name of a file; give --output")?,
            force: is_replaced,
        }))
    }
}
