//! `tracer-user read`: shows the events of a log.

use std::path::PathBuf;
use std::process::ExitCode;

use super::log_filter::{FILTER_HEADING, LogFilterArgs};
use super::{exit, observe};
use crate::log_view::{Format, ReadSetup, read};

/// Show the events of a trace log, also of one that is still being written
///
/// As text the columns are those of a live trace: time since the log was made, thread name, process and
/// thread, CPU, event type, and what the event carries. With --format json there is one object a line,
/// and a last line with a summary. With --format csv the first line names the columns:
/// ns,time,type,class,pid,tid,comm,cpu,data,truncated; fields are quoted as RFC 4180 says, lines end
/// with a line feed, and data is a JSON object.
///
/// The closing line on the standard error tells the events by type, those lost by cause, and what of the
/// log is damaged. What is damaged is skipped; everything else is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES, after_long_help = LONG_HELP)]
pub struct ReadArgs {
    /// The log
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    filter: LogFilterArgs,
    /// Only events up to this moment, given as for --from
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        help_heading = FILTER_HEADING
    )]
    to: Option<String>,
    /// How events are shown: text, json for one object a line, or csv
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    format: Format,
    /// Go on as the log grows, until it is completed, or Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Write events to this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Tell on the standard error what is being done
    #[arg(short, long)]
    verbose: bool,
}

/// Of every command that reads a log.
pub const EXIT_CODES: &str = "\
Exit codes: 0 the log is complete; 1 events were lost, or the log is damaged or was not completed; \
2 failed.";

const LONG_HELP: &str = "\
Exit codes: 0 the log is complete; 1 events were lost, or the log is damaged or was not completed; \
2 failed. Following a log that is ended by Ctrl-C needs no completed log for 0.

Examples:
  tracer-user read trace.log --events fork,exec,exit
  tracer-user read trace.log --event request --from 1.5s --to 2s --format json
  tracer-user read trace.log --pid 4711 --format csv --output events.csv
  tracer-user read trace.log --follow";

/// What `read` does, checked.
#[derive(Clone, Debug)]
pub struct ReadConfig {
    setup: ReadSetup,
    is_verbose: bool,
}

impl TryFrom<ReadArgs> for ReadConfig {
    type Error = anyhow::Error;

    fn try_from(args: ReadArgs) -> anyhow::Result<Self> {
        Ok(Self {
            is_verbose: args.verbose,
            setup: ReadSetup {
                file: args.file,
                wanted: args.filter.wanted(args.to.as_deref())?,
                format: args.format,
                follow: args.follow,
                output: args.output,
            },
        })
    }
}

/// Shows the events.
///
/// # Errors
///
/// The log cannot be read, or the lines cannot be written.
pub fn run(config: &ReadConfig) -> anyhow::Result<ExitCode> {
    observe(config.is_verbose);
    read(&config.setup).map(exit::of_outcome)
}
