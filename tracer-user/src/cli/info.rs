//! `tracer-user info`: shows the contents of a log.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use super::exit;
use super::output_options::{BudgetArgs, FormatArgs};
use tracer_answers::budget::Budget;
use tracer_log_view::{Inventory, Output, Walk, WantedEvents, json, open, text};
use tracer_output::terminal::output::Sink;

/// Show what a trace log holds: attributes, counts by event type and thread, what is missing
///
/// Reads the log once from end to end. The lines say how the stream was made, when, and by which
/// clock; whether the log was completed and the status at its end; how many events there are, of
/// which types and threads, and from when to when; how many bytes an event takes; how many events
/// were lost and why, and what of the log is damaged.
#[derive(Debug, clap::Args)]
pub struct InfoArgs {
    /// The log
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    budget: BudgetArgs,
}

/// Checked configuration of `info`.
#[derive(Clone, Debug)]
pub struct InfoConfig {
    file: PathBuf,
    is_json: bool,
    budget: Budget,
}

impl TryFrom<InfoArgs> for InfoConfig {
    type Error = anyhow::Error;

    fn try_from(args: InfoArgs) -> anyhow::Result<Self> {
        Ok(Self {
            file: args.file,
            is_json: args.format.is_json(),
            budget: args.budget.budget(args.format.is_json(), &Sink::Stdout)?,
        })
    }
}

/// Shows the contents of the log.
///
/// # Errors
///
/// The log cannot be read, or the lines cannot be written.
pub fn run(config: &InfoConfig) -> anyhow::Result<ExitCode> {
    let walk = Walk::new(open(&config.file)?, WantedEvents::default());
    let bytes = fs::metadata(&config.file).map_or(0, |file| file.len());
    let inventory = Inventory::take(walk, bytes)?;
    let mut output = Output::open(&Sink::Stdout, &config.file)?;
    let shown = if config.is_json {
        config.budget.document(&json(&inventory))
    } else {
        config.budget.text(text(&inventory))
    };
    output.lines().bytes().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::from_outcome(inventory.outcome()))
}
