//! `tracer-user stat`: what threads did, what system calls took, and what the kernel did meanwhile.

use std::process::ExitCode;

use tracer_common::event_type::EventTypeId;

use super::exit;
use super::source_options::{Source, SourceArgs};
use crate::answers::{AnswerSetup, Asked, SpanSpec, pretty};
use crate::log_view::{Output, Walk, open};
use crate::stat::{Statistics, json, text};
use crate::terminal::output::Sink;

/// Sum up what threads did and what system calls took, in a log or live
///
/// For each thread: how long it ran, waited for a CPU (runnable), waited for something else
/// (blocked), was stopped; how often it waited for a CPU, how often since it was forced to give
/// way, and how long: mean, 99th percentile, the longest and when that ended. The times of a thread
/// add up to the time that it was there. Where events were lost or not recorded the time is
/// unknown. For each system call: how often it returned, how often with an error, how long it took.
/// Signals by process, page faults by thread, interrupts by CPU with how long they took.
///
/// Threads need switches and wake-ups, and the table of signals needs signals: all of these are
/// recorded by default. System calls need --syscalls; page faults and interrupts need --add-events
/// fault,irq,softirq (or --events, of `run` and `attach`). With --all, interrupts are recorded.
#[derive(Debug, clap::Args)]
pub struct StatArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Which spans, as `tracer-user why` takes them; without it, all pairs of user events whose
    /// names say so
    #[arg(long, value_name = "SPAN")]
    span: Vec<String>,
    /// How it is shown: text, or json for one object with all threads and calls
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    format: StatFormat,
}

/// What is recorded too where all processes are traced: interrupts are the machine's, and come
/// whoever runs.
const WITH_ALL: [EventTypeId; 4] = [
    EventTypeId::IRQ_ENTER,
    EventTypeId::IRQ_EXIT,
    EventTypeId::SOFTIRQ_ENTER,
    EventTypeId::SOFTIRQ_EXIT,
];

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
    source: Source,
    spans: Vec<SpanSpec>,
    format: StatFormat,
}

impl TryFrom<StatArgs> for StatConfig {
    type Error = anyhow::Error;

    fn try_from(args: StatArgs) -> anyhow::Result<Self> {
        let spans = args.span.iter().map(|typed| SpanSpec::parse(typed));
        let spans: Vec<SpanSpec> = spans.collect::<anyhow::Result<_>>()?;
        Ok(Self {
            source: args.source.source(&spans, &WITH_ALL)?,
            spans,
            format: args.format,
        })
    }
}

/// Shows it.
///
/// # Errors
///
/// The log cannot be read, the processes cannot be traced, or the lines cannot be written.
pub fn run(config: &StatConfig) -> anyhow::Result<ExitCode> {
    let is_json = config.format == StatFormat::Json;
    let (file, wanted) = match &config.source {
        Source::Log(file, wanted) => (file, wanted),
        Source::Live(live) => {
            let asked = Asked::Stat(config.spans.clone());
            return live.trace(AnswerSetup { asked, is_json });
        }
    };
    let walk = Walk::new(open(file)?, wanted.settled_in(file)?);
    let statistics = Statistics::take(walk, config.spans.clone())?;
    let shown = if is_json {
        pretty(&json(&statistics))
    } else {
        text(&statistics)
    };
    let mut output = Output::open(&Sink::Stdout, file)?;
    output.lines().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::of_outcome(statistics.outcome()))
}
