//! `tracer-user read`: shows the events of a log.

use std::path::PathBuf;
use std::process::ExitCode;

use super::exit;
use super::log_filter::{FILTER_HEADING, LogFilterArgs};
use super::output_options::{BudgetArgs, OutputArgs};
use tracer_log_view::{ReadFormat, ReadLimit, ReadSetup, read};
use tracer_output::terminal::output::Sink;

/// Show the events of a trace log, also of one that is still being written
///
/// As text the columns are those of a live trace: time since the log was made, thread name, process
/// and thread, CPU, event type, and what the event carries. With --format json there is one object
/// a line, and a last line with a summary. With --format csv the first line names the columns:
/// ns,time,type,class,pid,tid,comm,cpu,data,truncated,ns_pid,ns_tid,thread_id,prog_address; fields
/// are quoted as RFC 4180 says, lines end with a line feed, and data is a JSON object.
///
/// The closing line on the standard error counts the events by type, those lost by cause, and what
/// of the log is damaged. What is damaged is skipped; everything else is shown.
#[derive(Debug, clap::Args)]
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
        alias = "to",
        allow_negative_numbers = true,
        help_heading = FILTER_HEADING
    )]
    until: Option<String>,
    /// How events are shown: text, json for one object a line, or csv
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    format: ReadFormat,
    /// Go on as the log grows, until it is completed, or Ctrl-C
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    budget: BudgetArgs,
}

/// Exit codes of every command that reads a log.
pub const EXIT_CODES: &str = "\
0 the log is complete; 1 events were lost, or the log is damaged or was not completed; \
2 failed.";

/// Checked configuration of `read`.
#[derive(Clone, Debug)]
pub struct ReadConfig {
    setup: ReadSetup,
}

impl TryFrom<ReadArgs> for ReadConfig {
    type Error = anyhow::Error;

    fn try_from(args: ReadArgs) -> anyhow::Result<Self> {
        let output = args.output.sink(Sink::Stdout);
        let is_for_programs = args.format != ReadFormat::Text;
        let budget = args.budget.budget(is_for_programs, &output)?;
        let bytes = budget.bytes.map(ReadLimit::Bytes);
        // What is followed has no end.
        let screen = budget.screen.filter(|_| !args.follow);
        let limit = bytes.or(screen.map(ReadLimit::Screen));
        Ok(Self {
            setup: ReadSetup {
                file: args.file,
                wanted: args.filter.wanted(args.until.as_deref())?,
                format: args.format,
                follow: args.follow,
                look: args.output.look(),
                output,
                limit: limit.map(|limit| (limit, budget.rest.unwrap_or_default())),
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
    read(&config.setup).map(exit::from_outcome)
}
