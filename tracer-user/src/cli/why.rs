//! `tracer-user why`: why spans took as long as they did.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;

use super::exit;
use super::quantity::time;
use crate::answers::{Choice, Paths, Question, SpanSpec};
use crate::log_view::{Moment, Output, TimePoint, Walk, Wanted, open};
use crate::report::escape::harmless_json;
use crate::terminal::output::Sink;
use crate::why::{Why, json, text};

/// Say why spans of a trace log took as long as they did, and who was to blame
///
/// A span is what lies between two events of a program. Its critical path goes backwards from its
/// end: while its thread ran or waited for a CPU, that is the reason; while it was blocked, the
/// reason is what the thread did that woke it, or the device or the timer. The parts add up to the
/// length of the span. Where events were lost, or of whoever woke it nothing was recorded, the
/// answer says so.
///
/// This needs switches and wake-ups (--events switch,wakeup, or what is recorded by default).
/// Without --span, the spans are the pairs of user events whose names say so: x begin and x end,
/// x-start and x-done, enter x and exit x, probe:x and retprobe:x.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// The log
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which spans: NAME of a pair of event types, syscall:NAME, or NAME=BEGIN..END with two event
    /// types, which are on one thread or have a key in their data: NAME=BEGIN[0:8]..END[0:8]. May
    /// be given again
    #[arg(long, value_name = "SPAN", conflicts_with = "thread")]
    span: Vec<String>,
    /// Explain so many spans one by one, the slowest
    #[arg(long, value_name = "COUNT", default_value = "10")]
    slowest: usize,
    /// Only spans that took longer: 5ms
    #[arg(long, value_name = "TIME")]
    longer_than: Option<String>,
    /// Only spans that were open at this time since the start of the log: 1.5s
    #[arg(long, value_name = "TIME", conflicts_with = "thread")]
    at: Option<String>,
    /// Instead of spans: what this thread did
    #[arg(long, value_name = "TID", allow_negative_numbers = true)]
    thread: Option<i32>,
    /// From this time since the start of the log on
    #[arg(long, value_name = "TIME", requires = "thread")]
    from: Option<String>,
    /// Until this time since the start of the log
    #[arg(long, value_name = "TIME", requires = "thread")]
    until: Option<String>,
    /// At most 40 lines
    #[arg(long)]
    brief: bool,
    /// How it is shown: text, or json for one object
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    format: WhyFormat,
}

/// How the answer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WhyFormat {
    /// Trees.
    Text,
    /// One object.
    Json,
}

/// What is asked of a log: times as they were typed.
#[derive(Clone, Debug)]
enum Asked {
    Spans(Vec<SpanSpec>),
    Thread(i32, Option<TimePoint>, Option<TimePoint>),
}

/// What `why` does, checked.
#[derive(Clone, Debug)]
pub struct WhyConfig {
    file: PathBuf,
    asked: Asked,
    slowest: usize,
    longer_than: u64,
    at: Option<TimePoint>,
    is_brief: bool,
    format: WhyFormat,
}

impl TryFrom<WhyArgs> for WhyConfig {
    type Error = anyhow::Error;

    fn try_from(args: WhyArgs) -> anyhow::Result<Self> {
        let point = |option, typed: Option<String>| {
            let point = typed.map(|typed| TimePoint::parse(option, &typed));
            point.transpose()
        };
        let asked = match args.thread {
            Some(tid) => Asked::Thread(
                tid,
                point("--from", args.from)?,
                point("--until", args.until)?,
            ),
            None => {
                let specs = args.span.iter().map(|typed| SpanSpec::parse(typed));
                Asked::Spans(specs.collect::<anyhow::Result<_>>()?)
            }
        };
        let longer_than = args.longer_than.map(|typed| time("--longer-than", &typed));
        let longer_than = longer_than.transpose()?.unwrap_or_default();
        Ok(Self {
            file: args.file,
            asked,
            slowest: args.slowest,
            longer_than: u64::try_from(longer_than.as_nanos())?,
            at: point("--at", args.at)?,
            is_brief: args.brief,
            format: args.format,
        })
    }
}

/// Shows it.
///
/// # Errors
///
/// The log cannot be read, there is no such span in it, or the lines cannot be written.
pub fn run(config: &WhyConfig) -> anyhow::Result<ExitCode> {
    let log = open(&config.file)?;
    let start = log.header().anchor.monotonic;
    let moment = |point: TimePoint| match point.moment(start) {
        Moment::Time(time) => Ok(time),
        Moment::Date(_) => anyhow::bail!("give times since the start of the log: 1.5s"),
    };
    let time_of = |point: Option<TimePoint>| point.map(moment).transpose();
    let question = match &config.asked {
        Asked::Spans(specs) => Question::Spans(specs.clone()),
        Asked::Thread(tid, from, until) => Question::Thread {
            tid: *tid,
            from: time_of(*from)?,
            until: time_of(*until)?,
        },
    };
    let choice = Choice {
        slowest: config.slowest,
        longer_than: config.longer_than,
        at: time_of(config.at)?,
    };
    let why = Why::find(
        Walk::new(log, Wanted::default()),
        Paths::new(question, choice),
    )?;
    let has_spans = why.paths.kinds().iter().any(|kind| kind.took.count() > 0);
    ensure!(
        has_spans,
        "{}: no such span has ended in it; `tracer-user info` lists its event types",
        config.file.display()
    );
    let mut output = Output::open(&Sink::Stdout, &config.file)?;
    let shown = match config.format {
        WhyFormat::Json => format!("{}\n", harmless_json(&format!("{:#}", json(&why)))),
        WhyFormat::Text => text(&why, config.is_brief),
    };
    output.lines().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::of_outcome(why.outcome()))
}
