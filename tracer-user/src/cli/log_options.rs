//! Options of a trace that goes to a log.

use std::path::PathBuf;

use anyhow::ensure;
use tracer_engine::{LogFullPolicy, StreamFullPolicy};

use tracer_answers::html_report::PageSetup;
use tracer_answers::queries::SpanSpec;
use tracer_event::predicate::{LogChoices, Predicate};
use tracer_log_view::log_output::{Existing, LogSetup};
use tracer_output::terminal::output::is_stdout;
use tracer_text::quantity::size;

/// Least and most bytes for events in a log. The largest possible event has to fit.
const LOG_BYTES: (u64, u64) = (128 << 10, 1 << 50);

/// Size of a log without `--log-size` where its policy limits it.
const DEFAULT_LOG_BYTES: u64 = 64 << 20;

/// Policy of a full log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogPolicy {
    /// It grows
    Append,
    /// The oldest events give way
    Loop,
    /// It takes no more, and the trace ends
    UntilFull,
}

/// Policy of a full stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FullPolicy {
    /// Events go to the log as they come
    Flush,
    /// Events stay in the stream, and the oldest give way: a flight recorder
    Loop,
    /// Events stay in the stream until it is full
    UntilFull,
}

/// Options of a log, as typed.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Log",
    group = clap::ArgGroup::new("files").args(["log", "report", "to"]).multiple(true)
)]
pub struct LogArgs {
    /// Put events into a log, instead of showing them; `tracer-user read` shows it. A file that is
    /// there already, be it empty, is left alone without --append or --force
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Make a page of the trace when it ends, as `tracer-user report` does of a log, instead of
    /// showing events. Without --log the events are in a temporary file beside it until then
    #[arg(long, value_name = "OUT", conflicts_with_all = ["output", "when"])]
    report: Option<PathBuf>,
    /// The spans of that page, as `tracer-user why` takes them; without it, all pairs of user
    /// events whose names say so
    #[arg(long, value_name = "SPAN", requires = "report")]
    span: Vec<String>,
    /// Most bytes for events in the log (64M where the policy limits it)
    #[arg(
        long,
        value_name = "SIZE",
        requires = "log",
        allow_negative_numbers = true
    )]
    log_size: Option<String>,
    /// What a full log does (loop with --log-size, else append)
    #[arg(long, value_enum, value_name = "POLICY", requires = "log")]
    log_policy: Option<LogPolicy>,
    /// Go on with a log that is there already, and has the same --filter and --syscalls; where
    /// there is none, or an empty file, make one
    #[arg(long, requires = "log", conflicts_with_all = ["log_size", "log_policy"])]
    append: bool,
    /// Replace the file that is there already, be it a log, a page or an export
    #[arg(long, requires = "files", conflicts_with = "append")]
    pub(super) force: bool,
    /// What a full stream does. With loop and until-full events stay in the stream (see
    /// --stream-size) until the end, or until SIGUSR1 asks for a flush
    #[arg(
        long,
        value_enum,
        value_name = "POLICY",
        requires = "log",
        default_value = "flush"
    )]
    full_policy: FullPolicy,
    /// With --full-policy loop or until-full: each flush, and the end, makes a log that is complete
    /// of what the stream holds, called FILE.1; the one before it becomes FILE.2, and so on, up to
    /// so many. `tracer-user snapshot` asks for one and waits for it
    #[arg(
        long,
        value_name = "COUNT",
        requires = "log",
        conflicts_with_all = ["append", "when"],
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    snapshots: Option<u32>,
}

impl LogArgs {
    /// Returns the setup of the requested page, with its title.
    ///
    /// # Errors
    ///
    /// The page cannot be written to that output.
    pub fn page(&self, title: String) -> anyhow::Result<Option<PageSetup>> {
        let Some(output) = &self.report else {
            return Ok(None);
        };
        ensure!(
            !is_stdout(output),
            "--report -: a page cannot go to the standard output, where the trace may write; give a name"
        );
        let spans = self.span.iter().map(|typed| SpanSpec::parse(typed));
        Ok(Some(PageSetup {
            spans: spans.collect::<anyhow::Result<_>>()?,
            output: output.clone(),
            force: self.force,
            title,
            inlined: false,
        }))
    }

    /// Returns the requested log of the events that pass `predicate`, and of the system calls that
    /// `calls` chooses, checked; `stream_bytes` is the size of the stream.
    ///
    /// # Errors
    ///
    /// An option makes no sense.
    pub fn setup(
        self,
        stream_bytes: usize,
        inherit: bool,
        (predicate, calls): (&Predicate, Option<&str>),
    ) -> anyhow::Result<Option<LogSetup>> {
        let Some(path) = self.log else {
            return Ok(None);
        };
        let policy = match self.log_policy {
            Some(LogPolicy::Append) => LogFullPolicy::Append,
            Some(LogPolicy::UntilFull) => LogFullPolicy::UntilFull,
            Some(LogPolicy::Loop) => LogFullPolicy::Loop,
            None if self.log_size.is_some() => LogFullPolicy::Loop,
            None => LogFullPolicy::Append,
        };
        ensure!(
            policy != LogFullPolicy::Append || self.log_size.is_none(),
            "--log-policy append has no limit; leave --log-size out, or take loop or until-full"
        );
        let max_size = match &self.log_size {
            Some(typed) => size("--log-size", typed, LOG_BYTES.0, LOG_BYTES.1)?,
            None => DEFAULT_LOG_BYTES,
        };
        ensure!(
            path.as_os_str() != "-",
            "--log -: a log cannot go to the standard output; events can: --format json -o - (./- is a file of that name)"
        );
        let is_file = path.metadata().map_or(true, |found| found.is_file());
        ensure!(
            is_file,
            "--log {}: a log is an ordinary file, not a folder, pipe or device",
            path.display()
        );
        ensure!(
            self.snapshots.is_none() || self.full_policy != FullPolicy::Flush,
            "--snapshots are made of what the stream holds; give --full-policy loop, and \
             --stream-size for how much that is"
        );
        Ok(Some(LogSetup {
            path,
            existing: match (self.append, self.force) {
                (true, _) => Existing::Continued,
                (false, true) => Existing::Replaced,
                (false, false) => Existing::Stays,
            },
            max_size,
            policy,
            stream_policy: match self.full_policy {
                FullPolicy::Flush => StreamFullPolicy::Flush,
                FullPolicy::Loop => StreamFullPolicy::Loop,
                FullPolicy::UntilFull => StreamFullPolicy::UntilFull,
            },
            stream_bytes,
            inherit,
            snapshots: self.snapshots,
            stream_name: LogChoices::stream_name(predicate, calls),
        }))
    }
}
