//! Questions of the benchmark: one file per subject.

mod calls;
mod disk;
mod explain;
mod inside;
mod latency;
mod live;
mod memory;
mod programs;
mod reading;
mod switches;
mod user_events;

use super::contest::{Contest, Goal, Run};
use super::tools::{BESIDE, Beside, COUNT, COUNT_WITHOUT_TIMES, EXPLAIN, Tool, What};
use super::workbench::{Workbench, has};

/// Question that contestants answer in turn.
pub struct Question {
    /// Name on the command line and in the report.
    pub name: &'static str,
    /// Function that prepares the contest.
    pub ask: fn(&Workbench) -> anyhow::Result<Contest<'_>>,
}

/// Name of the question that is asked only where its time is given.
pub const LONG: &str = "memory-over-time";

/// All questions, in the report's order.
pub const ALL: &[Question] = &[
    Question {
        name: "user-event",
        ask: user_events::one_thread,
    },
    Question {
        name: "user-event-2-threads",
        ask: user_events::two_threads,
    },
    Question {
        name: "user-event-4-threads",
        ask: user_events::four_threads,
    },
    Question {
        name: "user-event-latency",
        ask: latency::bursts,
    },
    Question {
        name: "user-event-latency-read",
        ask: latency::read_as_they_come,
    },
    Question {
        name: "disabled-point",
        ask: user_events::disabled,
    },
    Question {
        name: "switch-traced",
        ask: switches::traced,
    },
    Question {
        name: "switch-untraced",
        ask: switches::untraced,
    },
    Question {
        name: "switch-service",
        ask: switches::traced_by_service,
    },
    Question {
        name: "switch-service-untraced",
        ask: switches::untraced_by_service,
    },
    Question {
        name: "pipe",
        ask: switches::pipe_slowdown,
    },
    Question {
        name: "fork-storm",
        ask: programs::storm,
    },
    Question {
        name: "sqlite",
        ask: programs::sqlite,
    },
    Question {
        name: "call-traced",
        ask: calls::traced,
    },
    Question {
        name: "call-results",
        ask: calls::results,
    },
    Question {
        name: "call-untraced",
        ask: calls::untraced,
    },
    Question {
        name: "call-counted",
        ask: calls::counted,
    },
    Question {
        name: "calls-sqlite",
        ask: calls::sqlite,
    },
    Question {
        name: "calls-sqlite-results",
        ask: calls::sqlite_results,
    },
    Question {
        name: "calls-sqlite-counted",
        ask: calls::sqlite_counted,
    },
    Question {
        name: "calls-redis",
        ask: calls::redis,
    },
    Question {
        name: "explain-sqlite",
        ask: explain::sqlite,
    },
    Question {
        name: "explain-redis",
        ask: explain::redis,
    },
    Question {
        name: "explain-pgbench",
        ask: explain::pgbench,
    },
    Question {
        name: "call-stacks",
        ask: inside::stacks,
    },
    Question {
        name: "call-python-stacks",
        ask: inside::python_stacks,
    },
    Question {
        name: "call-texts",
        ask: inside::texts,
    },
    Question {
        name: "getnext",
        ask: reading::getnext,
    },
    Question {
        name: "collect-and-read",
        ask: reading::collect_and_read,
    },
    Question {
        name: "live-text",
        ask: live::text,
    },
    Question {
        name: "disk-switch",
        ask: disk::switches,
    },
    Question {
        name: "disk-user-event",
        ask: disk::user_events,
    },
    Question {
        name: "log-reading",
        ask: reading::log,
    },
    Question {
        name: "memory",
        ask: memory::resident,
    },
    Question {
        name: "memory-of-long-traces",
        ask: memory::of_long_traces,
    },
    Question {
        name: LONG,
        ask: memory::over_time,
    },
];

/// Our name for the C library in the report.
const LIBRARY: &str = "libposixtrace";
/// Our name for the command line in the report.
const ATTACH: &str = "tracer-user attach";

/// Greatest cost beside that of another build.
const MOST_BESIDE: f64 = 1.02;

/// Returns the tools, and another build of the command line where one takes part.
fn with_other_build(bench: &Workbench, of: What, tools: Vec<Box<dyn Tool>>) -> Vec<Box<dyn Tool>> {
    let other = bench
        .beside
        .clone()
        .map(|program| -> Box<dyn Tool> { Box::new(Beside { program, of }) });
    tools.into_iter().chain(other).collect()
}

/// Sets the goal beside the other build, where one takes part.
fn compare_builds(contest: &mut Contest<'_>, bench: &Workbench, name: &'static str) {
    if bench.beside.is_some() {
        contest.goal(name, Goal::PartOf(BESIDE, MOST_BESIDE));
    }
}

/// Reason why the log questions have no answer for this project.
const NO_LOGS: &str = "libposixtrace: this build has no trace logs";

/// Adds tracers that attach to the program that `run` runs; names those that are not installed.
fn add_tools<'a>(
    contest: &mut Contest<'a>,
    tools: Vec<Box<dyn Tool>>,
    run: impl Fn(&dyn Tool) -> anyhow::Result<Run> + Clone + 'a,
) {
    for tool in tools {
        let (name, run) = (tool.name(), run.clone());
        let is_ours = name.starts_with(ATTACH)
            || [COUNT, COUNT_WITHOUT_TIMES, EXPLAIN].contains(&name.as_str());
        if !has(tool.program()) {
            contest.missing(format!("{name}: {} is not installed", tool.program()));
        } else if is_ours {
            contest.ours(&name, move || run(tool.as_ref()));
        } else {
            contest.peer(&name, move || run(tool.as_ref()));
        }
    }
}
