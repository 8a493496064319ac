//! `tracer-user why`: the reasons for the length of spans.

use std::process::ExitCode;

use anyhow::{bail, ensure};
use tracer_engine::event::MonotonicNs;

use super::exit;
use super::log_filter::trace_id;
use super::output_options::{BudgetArgs, FormatArgs};
use super::source_options::{EventSource, SourceArgs};
use tracer_answers::budget::Budget;
use tracer_answers::queries::{self, Paths, Scope, SpanChoice, SpanSpec};
use tracer_answers::why::{self, Why, json, text};
use tracer_log_view::{Moment, Output, TimePoint, Walk, open};
use tracer_output::terminal::output::Sink;
use tracer_text::quantity::time;
use tracer_text::say;

/// Word of `--trace-id` for all traces.
const ALL_TRACES: &str = "all";

/// System calls that have descriptors, in the words of `--syscalls`.
const WITH_DESCRIPTORS: &str = "%desc,%network";

/// Say why spans took as long as they did, and who was to blame, in a log or live
///
/// A span is what lies between two events of a program. Its critical path goes backwards from its
/// end: while its thread ran or waited for a CPU, that is the reason; while it was blocked, the
/// reason is what the thread did that woke it, or the device or the timer. The parts add up to the
/// length of the span. Where events were lost, or nothing was recorded of the waker, the answer
/// says so.
///
/// This needs switches and wake-ups (--events switch,wakeup, or what is recorded by default).
/// Without --span, the spans are the pairs of user events whose names say so: x begin and x end,
/// x-start and x-done, enter x and exit x, probe:x and retprobe:x.
///
/// With --now, it says instead what threads wait for at this moment: the lock and the thread that
/// holds it, the pipe and who has its other end, the child, the lock of a file; and which of them
/// wait for each other. Nothing is traced for that, and a program that hangs is answered for too.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// Instead of spans: what the threads of these processes (-p, --comm, --cgroup, --all) wait for
    /// at this moment, who has it, and circles of such waits (deadlocks)
    #[arg(
        long,
        conflicts_with_all = [
            "span", "thread", "whole", "at", "longer_than", "slowest", "segments", "duration",
            "follow_wakers", "syscalls", "add_events", "filter", "usdt", "probe", "retprobe",
            "tracepoint", "btf", "command", "budget",
        ]
    )]
    pub(super) now: bool,
    /// With --now, show what called what in each thread: found by what files say of how functions
    /// call (.eh_frame)
    #[arg(long = "stack", requires = "now")]
    pub(super) stacks: bool,
    /// Only for this trace of OpenTelemetry (32 hexadecimal digits), or for all traces (all), as
    /// programs say in their thread contexts (OTEP 4947): the times for which threads work for each
    /// of its spans, as spans (of a log, those that --trace-context has recorded), and those spans
    /// of user events that end as their thread works for it; with --now, the threads that work for
    /// it, and what they wait for
    #[arg(long, value_name = "ID", conflicts_with_all = ["span", "thread", "whole"])]
    pub(super) trace_id: Option<String>,
    /// Which spans: NAME of a pair of event types, syscall:NAME, FILE:FUNCTION, or NAME=BEGIN..END
    /// with two event types, which are on one thread or have a key in their data:
    /// NAME=BEGIN[0:8]..END[0:8]. May be given again
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
    /// Of processes, or of a command: record what the descriptors of system calls are, to say on
    /// which connection or terminal a thread waited, and from where a packet came that has ended
    /// that. Without --syscalls, the calls that have descriptors are recorded. This takes the
    /// program about a microsecond for each of them. Of a log, that is said where `run` or `attach`
    /// had this option
    #[arg(
        short = 'y',
        long,
        conflicts_with_all = ["file", "now"],
        help_heading = "Instead of a log"
    )]
    descriptors: bool,
    /// Instead of spans: what this thread did
    #[arg(long, value_name = "TID", allow_negative_numbers = true)]
    thread: Option<i32>,
    /// Instead of spans: all that the command did, or the first program of the log, until it ended
    #[arg(long, conflicts_with_all = ["span", "thread", "at"])]
    whole: bool,
    /// From this time since the start of the log on
    #[arg(long, value_name = "TIME", requires = "thread")]
    from: Option<String>,
    /// Until this time since the start of the log
    #[arg(long, value_name = "TIME", requires = "thread")]
    until: Option<String>,
    /// In JSON, of a thread (--thread, --whole) too each part of its time, in order: megabytes of a
    /// busy one. Of spans they are there without this
    #[arg(long)]
    segments: bool,
    /// At most 40 lines
    #[arg(long)]
    pub(super) brief: bool,
    #[command(flatten)]
    pub(super) format: FormatArgs,
    #[command(flatten)]
    pub(super) budget: BudgetArgs,
}

/// Question with its times as they were typed.
#[derive(Clone, Debug)]
enum Question {
    Spans(Vec<SpanSpec>),
    Trace(Option<[u8; 16]>),
    Thread(Option<i32>, Option<TimePoint>, Option<TimePoint>),
}

/// Checked configuration of `why`.
#[derive(Clone, Debug)]
pub struct WhyConfig {
    source: EventSource,
    /// Selected processes of a log; empty for all.
    pids: Vec<i32>,
    asked: Question,
    slowest: usize,
    longer_than: u64,
    at: Option<TimePoint>,
    has_segments: bool,
    is_brief: bool,
    is_json: bool,
    budget: Budget,
}

impl TryFrom<WhyArgs> for WhyConfig {
    type Error = anyhow::Error;

    fn try_from(args: WhyArgs) -> anyhow::Result<Self> {
        let point = |option, typed: Option<String>| {
            let point = typed.map(|typed| TimePoint::parse(option, &typed));
            point.transpose()
        };
        let asked = match args.thread {
            tid if tid.is_some() || args.whole => Question::Thread(
                tid,
                point("--from", args.from)?,
                point("--until", args.until)?,
            ),
            _ if args.trace_id.is_some() => {
                let typed = args.trace_id.as_deref().unwrap_or_default();
                Question::Trace(match typed {
                    ALL_TRACES => None,
                    one => Some(trace_id(one)?),
                })
            }
            _ => {
                let specs = args.span.iter().map(|typed| SpanSpec::parse(typed));
                Question::Spans(specs.collect::<anyhow::Result<_>>()?)
            }
        };
        let longer_than = args.longer_than.map(|typed| time("--longer-than", &typed));
        let longer_than = longer_than.transpose()?.unwrap_or_default();
        let spans: &[SpanSpec] = match &asked {
            Question::Spans(specs) => specs,
            Question::Trace(_) | Question::Thread(..) => &[],
        };
        let mut source = args.source.checked()?;
        source.trace_context |= matches!(asked, Question::Trace(_)) && source.file.is_none();
        if args.descriptors && source.syscalls.is_none() {
            source.syscalls = Some(WITH_DESCRIPTORS.to_owned());
        }
        let pids = source.pids_of_log()?;
        ensure!(
            pids.is_empty() || !matches!(asked, Question::Thread(..)),
            "--pid is of spans here; --thread has its own"
        );
        let source = match source.source(spans, &[])? {
            EventSource::Live(live) if args.descriptors => {
                EventSource::Live(Box::new(live.describing()))
            }
            source => source,
        };
        let at = point("--at", args.at)?;
        let has_times = at.is_some()
            || matches!(asked, Question::Thread(_, from, until) if from.is_some() || until.is_some());
        ensure!(
            !has_times || matches!(source, EventSource::Log(..)),
            "--at, --from and --until go with a log: they count from its start"
        );
        let is_json = args.format.is_json();
        let budget = args.budget.of_source(is_json, &source)?;
        Ok(Self {
            source,
            pids,
            asked,
            slowest: args.slowest,
            longer_than: u64::try_from(longer_than.as_nanos())?,
            at,
            has_segments: args.segments,
            is_brief: args.brief,
            is_json,
            budget,
        })
    }
}

/// Shows the answer.
///
/// # Errors
///
/// The log cannot be read, there is no such span in it, the processes cannot be traced, or the
/// lines cannot be written.
pub fn run(config: &WhyConfig) -> anyhow::Result<ExitCode> {
    let is_json = config.is_json;
    let (file, wanted) = match &config.source {
        EventSource::Log(file, wanted) => (file, wanted),
        EventSource::Live(live) => {
            let (question, choice) = config.asked_since(MonotonicNs(0))?;
            let form = (config.is_brief, is_json, config.budget.clone());
            return live.trace(is_json, move |lines| {
                why::consumer(question.clone(), choice, form.clone(), lines)
            });
        }
    };
    let log = open(file)?;
    let start = log.header().anchor.monotonic;
    let (question, choice) = config.asked_since(start)?;
    let walk = Walk::new(log, wanted.settled_in(file)?);
    let scope = Scope {
        pids: config.pids.clone(),
        ..Scope::default()
    };
    let why = Why::find(walk, Paths::new(question, choice).within(scope))?;
    if let Some(unmet) = why.unanswered() {
        bail!("{}: {unmet}", file.display());
    }
    why.paths.unmet().iter().for_each(|unmet| say(unmet));
    let shown = if is_json {
        config.budget.document(&json(&why))
    } else {
        config.budget.text(text(&why, config.is_brief))
    };
    let mut output = Output::open(&Sink::Stdout, file)?;
    output.lines().bytes().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::from_outcome(why.outcome()))
}

impl WhyConfig {
    /// Returns the question and the selected spans, for events that begin at `start`.
    fn asked_since(&self, start: MonotonicNs) -> anyhow::Result<(queries::Question, SpanChoice)> {
        let moment = |point: TimePoint| match point.moment(start) {
            Moment::Time(time) => Ok(time),
            Moment::Date(_) => anyhow::bail!("give times since the start of the log: 1.5s"),
        };
        let time_of = |point: Option<TimePoint>| point.map(moment).transpose();
        let question = match &self.asked {
            Question::Spans(specs) => queries::Question::Spans(specs.clone()),
            Question::Trace(trace) => queries::Question::Trace(*trace),
            Question::Thread(tid, from, until) => queries::Question::Thread {
                tid: *tid,
                from: time_of(*from)?,
                until: time_of(*until)?,
            },
        };
        let choice = SpanChoice {
            slowest: self.slowest,
            is_by_kind: false,
            longer_than: self.longer_than,
            at: time_of(self.at)?,
            is_without_segments: !self.has_segments && matches!(self.asked, Question::Thread(..)),
        };
        Ok((question, choice))
    }
}
