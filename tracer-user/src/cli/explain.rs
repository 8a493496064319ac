//! `tracer-user explain`: why a program is slow, on one screen.

use std::fs;
use std::process::ExitCode;

use anyhow::ensure;
use tracer_common::event_type::EventTypeId;

use super::cost_options::CostArgs;
use super::exit;
use super::output_options::{BudgetArgs, FormatArgs};
use super::source_options::{EventSource, LiveSource, SourceArgs};
use super::stack_options::StackArgs;
use tracer_answers::budget::Budget;
use tracer_answers::explain::{
    self, ExplainSubject, Explanation, MachineCounters, TraceUse, json, text,
};
use tracer_answers::queries::words::{duration, share};
use tracer_event::summary::Summary;
use tracer_log_view::{Output, Walk, open};
use tracer_output::terminal::output::Sink;

/// Say on one screen why a program is slow, in a log or live
///
/// Says what the program did with its time (ran, waited for a CPU, for a disk, for others); the
/// three things that explain most of it, each with who, where, how long, how often, and how that is
/// known; what is not the reason; live, how far the machine's CPUs were idle and whether it
/// swapped; what could not be seen; and two commands to type next. At most 40 lines.
///
/// Live, it records what it needs: switches and wake-ups, all system calls with their times and the
/// first bytes of names and addresses, page faults, stacks of waits of a millisecond and more, and
/// 99 samples a second of each CPU, in rings of 8M where --ring-size says nothing else. A program
/// that makes very many system calls has them recorded in short windows, between which they cost it
/// nothing (--call-cost), and one whose threads switch very often has all of that recorded in
/// windows (--switch-cost). The tracer reads in time that no other thread wants, while it keeps up.
/// The line "Cost" says what that was, of the program's CPU time and of the tracer's own. Of a
/// log it says what it can, and what was not recorded.
///
/// A finding explains a tenth of the time at least. Its share is that of the critical path of the
/// command, or of the first thread of a process or of a log: what that did, and what the threads
/// did that it waited for. Where that is not known, it is the share of the time of the threads
/// concerned. The same log gives the same bytes. docs/explain.md has the rules.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    cost: CostArgs,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    budget: BudgetArgs,
}

/// Most that system calls may cost where nothing else is asked for, and that switches may, in
/// thousandths.
const MOST_COST: u32 = 10;

/// Checked configuration of `explain`.
#[derive(Clone, Debug)]
pub struct ExplainConfig {
    source: EventSource,
    subject: ExplainSubject,
    /// The thread whose path is followed; `None`: the first one.
    tid: Option<i32>,
    is_json: bool,
    budget: Budget,
}

/// System calls that are recorded: all but those that neither wait nor say what is waited for, of
/// which some programs make millions.
const SYSCALLS: &str = "all,!clock_gettime,!gettimeofday,!time,!getpid,!gettid,!getppid,!getuid,\
                        !geteuid,!getgid,!getegid,!getrusage,!times,!rt_sigprocmask,!rt_sigaction,\
                        !rt_sigreturn,!brk,!getcpu,!umask,!sigaltstack";

/// Bytes that are read of names and addresses that system calls are given.
const STRING_BYTES: u32 = 64;

/// Bytes of each ring where none are given: stacks of waits are large.
const RING_BYTES: u32 = 8 << 20;

/// Types that are recorded in addition when all processes are traced.
const WITH_ALL: [EventTypeId; 4] = [
    EventTypeId::IRQ_ENTER,
    EventTypeId::IRQ_EXIT,
    EventTypeId::SOFTIRQ_ENTER,
    EventTypeId::SOFTIRQ_EXIT,
];

impl TryFrom<ExplainArgs> for ExplainConfig {
    type Error = anyhow::Error;

    fn try_from(args: ExplainArgs) -> anyhow::Result<Self> {
        let mut source = args.source.checked()?;
        let (of_calls, of_switches) = (args.cost.of_calls()?, args.cost.of_switches()?);
        ensure!(
            source.file.is_none() || of_calls.or(of_switches).is_none(),
            "--call-cost and --switch-cost go with processes; a log has what was recorded"
        );
        let of_calls = of_calls.unwrap_or(MOST_COST);
        let of_switches = of_switches.unwrap_or(MOST_COST);
        let subject = subject(&source);
        if source.file.is_some() {
            ensure!(
                source.pid.len() <= 1,
                "--pid names the process of the log whose first thread is followed; give one"
            );
        } else {
            source.syscalls.get_or_insert_with(|| SYSCALLS.to_owned());
            source.add_events.push("fault".to_owned());
            source.stack = StackArgs::for_explanations();
        }
        let tid = match (&source.pid[..], &source.command[..]) {
            ([pid], []) => Some(super::pid(pid)?),
            _ => None,
        };
        if source.file.is_some() {
            source.pid.clear();
        }
        let is_default = source.ring_size == super::source_options::RING_SIZE;
        let ring_bytes = is_default.then_some(RING_BYTES);
        let source = match source.source(&[], &WITH_ALL)? {
            EventSource::Live(live) => {
                // No rule goes by what programs emit, which would cost them something.
                let live = live.reading_names(STRING_BYTES, ring_bytes).without_user();
                EventSource::Live(Box::new(live.bounding_cost(of_calls, of_switches)))
            }
            log @ EventSource::Log(..) => log,
        };
        let is_json = args.format.is_json();
        let budget = args.budget.of_source(is_json, &source)?;
        Ok(Self {
            source,
            subject,
            tid,
            is_json,
            budget,
        })
    }
}

/// Returns what is explained, as it was typed.
fn subject(source: &SourceArgs) -> ExplainSubject {
    if let Some(log) = &source.file {
        return ExplainSubject::Log(log.to_string_lossy().into_owned());
    }
    if !source.command.is_empty() {
        let words = source.command.iter();
        return ExplainSubject::Command(
            words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
        );
    }
    let mut choice = Vec::new();
    if !source.pid.is_empty() {
        choice.extend(["-p".to_owned(), source.pid.join(",")]);
    }
    let named = [("--comm", &source.comm), ("--cgroup", &source.cgroup)];
    for (option, value) in named {
        choice.extend(
            value
                .iter()
                .flat_map(|value| [option.to_owned(), value.clone()]),
        );
    }
    if source.all {
        choice.push("--all".to_owned());
    }
    ExplainSubject::Processes(choice)
}

/// Shows the explanation.
///
/// # Errors
///
/// The log cannot be read, the processes cannot be traced, or the lines cannot be written.
pub fn run(config: &ExplainConfig) -> anyhow::Result<ExitCode> {
    let (file, wanted) = match &config.source {
        EventSource::Log(file, wanted) => (file, wanted),
        EventSource::Live(live) => return explain_live(config, live),
    };
    let walk = Walk::new(open(file)?, wanted.settled_in(file)?);
    let explanation = Explanation::of_log(walk, config.tid, &config.subject)?;
    let shown = if config.is_json {
        config.budget.document(&json(&explanation))
    } else {
        config.budget.text(text(&explanation))
    };
    let mut output = Output::open(&Sink::Stdout, file)?;
    output.lines().bytes().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::from_outcome(explanation.outcome()))
}

fn explain_live(config: &ExplainConfig, live: &LiveSource) -> anyhow::Result<ExitCode> {
    let (tid, subject, is_json) = (config.tid, config.subject.clone(), config.is_json);
    let budget = config.budget.clone();
    live.trace(is_json, move |lines| {
        let (before, counters) = (own_time(), machine_counters());
        let of_trace = move |summary: &Summary| TraceUse {
            cost: before.and_then(|before| cost(summary, before)),
            machine: machine_counters().and_then(|now| now.since(counters?)),
        };
        let form = (is_json, budget.clone());
        explain::consumer(tid, subject.clone(), form, of_trace, lines)
    })
}

/// Returns the kernel's counters of the machine, where it gives them.
fn machine_counters() -> Option<MachineCounters> {
    let read = |path| fs::read_to_string(path).ok();
    MachineCounters::parse(&read("/proc/stat")?, &read("/proc/vmstat")?)
}

/// Says what a trace has cost, where this process had had a CPU for `before` when it began.
fn cost(summary: &Summary, before: u64) -> Option<String> {
    let of_calls = ["linux_trace_syscall_enter", "linux_trace_syscall_exit"];
    let is_of_calls = |name: &[u8]| of_calls.iter().any(|of| of.as_bytes() == name);
    let events: u64 = summary.events.iter().map(|(_, count)| *count).sum();
    let others = summary.events.iter().filter(|(name, _)| !is_of_calls(name));
    let others: u64 = others.map(|(_, count)| *count).sum();
    let own = duration(own_time()?.saturating_sub(before));
    let Some(held_up) = summary.held_up else {
        let ms = u64::try_from(summary.elapsed.as_millis()).ok()?.max(1);
        let rate = events.saturating_mul(1000) / ms;
        return Some(format!(
            "{events} events, {rate} a second, of which each held the program up for a fraction of \
             a microsecond; the tracer itself had a CPU for {own}"
        ));
    };
    let ns = held_up.calls.saturating_mul(held_up.call_ns);
    let ns = ns.saturating_add(others.saturating_mul(held_up.event_ns));
    let ran_ns = match summary.unrecorded.switches {
        None => held_up.ran_ns,
        // Outside of windows it is not counted.
        Some((recorded, all)) => {
            let ran = u128::from(held_up.ran_ns) * u128::from(all) / u128::from(recorded.max(1));
            u64::try_from(ran).unwrap_or(u64::MAX)
        }
    };
    Some(format!(
        "about {} of the program's CPU time ({} of {}), for {events} events; the tracer itself had \
         a CPU for {own}",
        share(ns, ran_ns),
        duration(ns),
        duration(ran_ns)
    ))
}

/// Returns how long this process has had a CPU, in nanoseconds.
fn own_time() -> Option<u64> {
    /// Ticks of `/proc/PID/stat` a second: a part of the kernel's interface.
    const TICK_NS: u64 = 10_000_000;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?).saturating_mul(TICK_NS))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        args: ExplainArgs,
    }

    #[test]
    fn what_programs_emit_is_not_recorded() {
        let typed = Typed::try_parse_from(["explain", "--", "true"]).unwrap();
        let config = ExplainConfig::try_from(typed.args).unwrap();
        let EventSource::Live(live) = &config.source else {
            panic!("{config:?}");
        };
        assert!(!live.has_user());
    }
}
