//! `tracer-user stat`: what threads did, and what system calls took.

use std::path::PathBuf;
use std::process::ExitCode;

use super::exit;
use crate::answers::SpanSpec;
use crate::log_view::{Output, Walk, Wanted, open};
use crate::report::escape::harmless_json;
use crate::stat::{Statistics, json, text};
use crate::terminal::output::Sink;

/// Sum up what threads did and what system calls took in a trace log
///
/// For each thread: how long it ran, waited for a CPU (runnable), waited for something else
/// (blocked), was stopped; how often it waited for a CPU, how often since it was forced to give
/// way, and how long: mean, 99th percentile, the longest and when that ended. The times of a thread
/// add up to the time that it was there. Where events were lost or not recorded the time is
/// unknown. For each system call: how often it returned, how often with an error, how long it took.
///
/// Threads need switches and wake-ups (--events switch,wakeup, or what is recorded by default),
/// system calls need --syscalls.
#[derive(Debug, clap::Args)]
pub struct StatArgs {
    /// The log
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which spans, as `tracer-user why` takes them; without it, all pairs of user events whose
    /// names say so
    #[arg(long, value_name = "SPAN")]
    span: Vec<String>,
    /// How it is shown: text, or json for one object with all threads and calls
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    format: StatFormat,
}

/// How statistics are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StatFormat {
    /// Tables.
    Text,
    /// One object.
    Json,
}

/// What `stat` does, checked.
#[derive(Clone, Debug)]
pub struct StatConfig {
    file: PathBuf,
    spans: Vec<SpanSpec>,
    format: StatFormat,
}

impl TryFrom<StatArgs> for StatConfig {
    type Error = anyhow::Error;

    fn try_from(args: StatArgs) -> anyhow::Result<Self> {
        let spans = args.span.iter().map(|typed| SpanSpec::parse(typed));
        Ok(Self {
            file: args.file,
            spans: spans.collect::<anyhow::Result<_>>()?,
            format: args.format,
        })
    }
}

/// Shows it.
///
/// # Errors
///
/// The log cannot be read, or the lines cannot be written.
pub fn run(config: &StatConfig) -> anyhow::Result<ExitCode> {
    let statistics = Statistics::take(
        Walk::new(open(&config.file)?, Wanted::default()),
        config.spans.clone(),
    )?;
    let mut output = Output::open(&Sink::Stdout, &config.file)?;
    let shown = match config.format {
        StatFormat::Json => format!("{}\n", harmless_json(&format!("{:#}", json(&statistics)))),
        StatFormat::Text => text(&statistics),
    };
    output.lines().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::of_outcome(statistics.outcome()))
}
