//! `tracer-user stat`: activity of threads, times of system calls, and the kernel's work meanwhile.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, ensure};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::MonotonicNs;

use super::count_options::{CountArgs, CountConfig};
use super::exit;
use super::output_options::{BudgetArgs, FormatArgs};
use super::source_options::{EventSource, SourceArgs};
use super::stack_options::StackArgs;
use tracer_answers::budget::Budget;
use tracer_answers::flame::{FlameKind, FlameSetup, Form, make};
use tracer_answers::queries::{Scope, SpanSpec};
use tracer_answers::stat::{self, By, SortBy, Statistics, View, json, text};
use tracer_log_view::{Moment, Output, TimePoint, Walk, open};
use tracer_output::terminal::output::{Sink, is_stdout};
use tracer_text::say;

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
    /// Of a log: what happened from this time since its start on: 1.5s
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    from: Option<String>,
    /// Of a log: what happened until this time since its start
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    until: Option<String>,
    /// What has a row: a thread, a process, or, as where there are many threads, all of a name
    /// (comm)
    #[arg(long, value_enum, value_name = "WHAT", hide_possible_values = true)]
    by: Option<By>,
    /// Which rows of threads come first, by their column: running, runnable, blocked, stopped,
    /// unknown, waits, forced, mean, p99, max; or name, or pid
    #[arg(
        long,
        value_enum,
        value_name = "COLUMN",
        default_value = "running",
        hide_possible_values = true
    )]
    sort: SortBy,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    counting: CountArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Instead of tables, where in their code threads spent their time: on a CPU (on-cpu, by
    /// samples), without one (off-cpu), or blocked, with the stacks of the wakers that ended that
    /// (wakeup). A log must have been recorded with stacks for it (--sample 99; --off-cpu 1ms;
    /// --off-cpu 1ms --stack user,kernel --stack-for wakeup); of processes they are recorded unless
    /// --sample, --off-cpu or --stack say otherwise
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        conflicts_with_all = ["format", "json", "span"],
        help_heading = FLAMES
    )]
    flame: Option<FlameKind>,
    /// The file to write: a picture that a browser shows (x.svg), or, by any other name, text with
    /// a line a path (x.folded); `-` is the standard output
    #[arg(short, long, value_name = "OUT", requires = "flame", help_heading = FLAMES)]
    output: Option<PathBuf>,
    /// Write text whatever the file is called
    #[arg(long, requires = "flame", help_heading = FLAMES)]
    folded: bool,
    /// Replace what is there already
    #[arg(long, requires = "output", help_heading = FLAMES)]
    force: bool,
    #[command(flatten, next_help_heading = "Instead of a log")]
    stack: StackArgs,
}

/// Heading of these options in the help.
const FLAMES: &str = "Flame graphs";

/// Types that are recorded in addition when all processes are traced: interrupts belong to the
/// machine, and occur whichever thread runs.
const WITH_ALL: [EventTypeId; 4] = [
    EventTypeId::IRQ_ENTER,
    EventTypeId::IRQ_EXIT,
    EventTypeId::SOFTIRQ_ENTER,
    EventTypeId::SOFTIRQ_EXIT,
];

/// Checked configuration of `stat`.
#[derive(Clone, Debug)]
pub struct StatConfig {
    source: EventSource,
    spans: Vec<SpanSpec>,
    from: Option<TimePoint>,
    until: Option<TimePoint>,
    /// Selected processes of a log; empty for all.
    pids: Vec<i32>,
    view: View,
    is_json: bool,
    budget: Budget,
    flame: Option<FlameSetup>,
    counting: Option<CountConfig>,
}

impl TryFrom<StatArgs> for StatConfig {
    type Error = anyhow::Error;

    fn try_from(args: StatArgs) -> anyhow::Result<Self> {
        let spans = args.span.iter().map(|typed| SpanSpec::parse(typed));
        let spans: Vec<SpanSpec> = spans.collect::<anyhow::Result<_>>()?;
        let flame = args.flame.map(|kind| FlameSetup {
            kind,
            form: form(args.output.as_deref(), args.folded),
            output: args.output.unwrap_or_else(|| STDOUT.into()),
            force: args.force,
        });
        let mut source = args.source.checked()?;
        let has_holders = source.locks;
        let pids = source.pids_of_log()?;
        let point = |option, typed: Option<String>| {
            let point = typed.map(|typed| TimePoint::parse(option, &typed));
            point.transpose()
        };
        let (from, until) = (point("--from", args.from)?, point("--until", args.until)?);
        let has_times = from.is_some() || until.is_some();
        ensure!(
            !has_times || source.file.is_some(),
            "--from and --until go with a log: they count from its start"
        );
        ensure!(
            flame.is_none() || (!has_times && pids.is_empty()),
            "--flame is of all of a log; --from, --until and --pid go without it"
        );
        source.stack = match &flame {
            // What was typed counts; what is needed for the graph is there without that.
            Some(flame) if source.file.is_none() => {
                args.stack.or(StackArgs::for_flames(flame.kind))
            }
            _ => args.stack,
        };
        let view = View {
            by: args.by,
            sort: args.sort,
            has_holders,
        };
        let is_json = args.format.is_json();
        if args.counting.is_given()
            && let Some((option, _)) = source.stack.typed()
        {
            bail!("{option} goes without --count, which records no stacks");
        }
        ensure!(
            !args.counting.is_given() || !source.follow_wakers,
            "--follow-wakers goes without --count, which records no wake-ups"
        );
        let source = source.source(&spans, &WITH_ALL)?;
        let budget = args.budget.of_source(is_json, &source)?;
        let counting = args.counting.config(view, is_json, &budget)?;
        let source = match &counting {
            Some(counting) => counting.apply(source)?,
            None => source,
        };
        Ok(Self {
            source,
            spans,
            from,
            until,
            pids,
            view,
            is_json,
            budget,
            flame,
            counting,
        })
    }
}

/// Word for the standard output.
const STDOUT: &str = "-";

/// Returns the form in which a flame graph is written.
fn form(output: Option<&Path>, is_folded: bool) -> Form {
    let is_picture = output
        .and_then(Path::extension)
        .is_some_and(|extension| extension.eq_ignore_ascii_case("svg"));
    if is_picture && !is_folded {
        Form::Svg
    } else {
        Form::Folded
    }
}

/// Makes a flame graph.
fn draw(config: &StatConfig, flame: &FlameSetup) -> anyhow::Result<ExitCode> {
    match &config.source {
        EventSource::Log(file, wanted) => {
            make(flame, file, wanted.settled_in(file)?).map(exit::from_outcome)
        }
        EventSource::Live(live) => {
            let setup = flame.clone();
            let consumer = move |lines| setup.consumer(lines);
            if is_stdout(&flame.output) {
                return live.trace(false, consumer);
            }
            let output = flame.output.clone();
            ensure!(
                flame.force || !output.is_file(),
                "{} is there already; give --force to replace it, or --output another name",
                output.display()
            );
            live.trace_to(Sink::File(output), false, consumer)
        }
    }
}

/// Shows the tables, or makes the flame graph.
///
/// # Errors
///
/// The log cannot be read, the processes cannot be traced, or the lines cannot be written.
pub fn run(config: &StatConfig) -> anyhow::Result<ExitCode> {
    if let Some(flame) = &config.flame {
        return draw(config, flame);
    }
    let is_json = config.is_json;
    let (file, wanted) = match &config.source {
        EventSource::Log(file, wanted) => (file, wanted),
        EventSource::Live(live) => {
            if let Some(counting) = &config.counting {
                return counting.run(live);
            }
            let (spans, view) = (config.spans.clone(), config.view);
            let form = (is_json, config.budget.clone());
            return live.trace(is_json, move |lines| {
                stat::consumer(spans.clone(), view, form.clone(), lines)
            });
        }
    };
    let log = open(file)?;
    let scope = config.scope(log.header().anchor.monotonic)?;
    let walk = Walk::new(log, wanted.settled_in(file)?);
    let statistics = Statistics::take(walk, config.spans.clone(), scope)?;
    statistics.check_scope()?;
    if config.view.has_holders && !statistics.has_locks() {
        say(
            "the log has no waits for locks; to record them, give --locks to `tracer-user run` or \
             `attach`",
        );
    }
    if !config.spans.is_empty() {
        statistics.paths.unmet().iter().for_each(|unmet| say(unmet));
    }
    let shown = if is_json {
        config.budget.document(&json(&statistics, config.view))
    } else {
        config.budget.text(text(&statistics, config.view))
    };
    let mut output = Output::open(&Sink::Stdout, file)?;
    output.lines().bytes().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::from_outcome(statistics.outcome()))
}

impl StatConfig {
    /// Returns the selected part of a log that begins at `start`.
    fn scope(&self, start: MonotonicNs) -> anyhow::Result<Scope> {
        let moment = |point: TimePoint| match point.moment(start) {
            Moment::Time(time) => Ok(time),
            Moment::Date(_) => anyhow::bail!("give times since the start of the log: 1.5s"),
        };
        let all = Scope::default();
        let scope = Scope {
            from: self.from.map_or(Ok(all.from), moment)?,
            until: self.until.map_or(Ok(all.until), moment)?,
            pids: self.pids.clone(),
        };
        ensure!(
            scope.from <= scope.until,
            "--from is later than --until, which leaves nothing"
        );
        Ok(scope)
    }
}
