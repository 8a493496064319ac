//! Cost of tracing whole programs.

use std::path::Path;
use std::process::Command;

use super::super::contest::{Contest, Goal, Run};
use super::super::meanwhile::{self, Whom};
use super::super::outcome::{Measure, Unit};
use super::super::programs;
use super::super::tools::{
    Bpftrace, Ftrace, Ours, OursWhy, PerfSched, PerfTrace, Pinned, Strace, Tool, What, run_traced,
};
use super::super::workbench::{Workbench, has};
use super::{ATTACH, add_tools};
use crate::folder;

/// Compares tracers of many forks, execs and exits.
pub fn storm(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    const STRACE: &str = "strace -f -e trace=%process";
    let question = "How much more CPU time do fork, exec and exit take while they are traced, children \
                    included, in a program that does nothing else, one child after the other?";
    let mut contest = Contest::new(question, Unit::Percent);
    let tools: Vec<Box<dyn Tool>> = vec![
        Box::new(Ours(What::Processes)),
        Box::new(Ftrace(What::Processes)),
        Box::new(PerfTrace::Of(What::Processes)),
        Box::new(Bpftrace::Printing(What::Processes)),
        Box::new(Strace::Processes),
    ];
    add_tools(&mut contest, tools, move |tool| {
        let mut storm = programs::command("storm", &[]);
        meanwhile::attach(tool, &mut storm, Whom::It, bench.phase())
            .map(meanwhile::Costs::added_percent)
    });
    contest.goal(ATTACH, Goal::Below(3.0));
    for peer in [STRACE, "perf trace", "bpftrace printing"] {
        contest.goal(ATTACH, Goal::PartOf(peer, 1.0));
    }
    Ok(contest)
}

/// Compares tracers of a real program: a database that commits one row after the other.
pub fn sqlite(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let rows = bench.work(4000);
    let question = "What does tracing add to sqlite3, which inserts rows into a file in memory, \
                    each in a transaction of its own? tracer-user and the scheduler's tools \
                    trace context switches, strace and perf trace the system calls. `why` explains all \
                    that it does.";
    let mut contest = Contest::new(question, Unit::Seconds).showing(Measure::AddedPercent);
    if !has("sqlite3") {
        contest.missing("everyone: sqlite3, which is the work, is not installed");
        return Ok(contest);
    }
    let script = folder().join("rows.sql");
    std::fs::write(&script, rows_to_insert(rows))?;
    contest.peer("untraced", {
        let script = script.clone();
        move || inserting(None, &script)
    });
    let tools: Vec<Box<dyn Tool>> = vec![
        Box::new(Ours(What::Switches)),
        Box::new(OursWhy),
        Box::new(Ftrace(What::Switches)),
        Box::new(PerfSched),
        Box::new(Bpftrace::Printing(What::Switches)),
        Box::new(PerfTrace::Syscalls),
        Box::new(Strace::Everything),
    ];
    add_tools(&mut contest, tools, move |tool| {
        inserting(Some(tool), &script)
    });
    Ok(contest)
}

pub(super) fn rows_to_insert(rows: u64) -> String {
    let mut script =
        "PRAGMA synchronous=OFF;\nCREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT);\n".to_owned();
    for row in 0..rows {
        script += &format!("INSERT INTO t VALUES({row}, 'row {row} of a small table');\n");
    }
    script + "SELECT count(*) FROM t;\n"
}

pub(super) fn inserting(tool: Option<&dyn Tool>, script: &Path) -> anyhow::Result<Run> {
    let database = Path::new("/dev/shm").join(format!("bench-{}.db", std::process::id()));
    let mut command = Command::new("sqlite3");
    command
        .arg(&database)
        .arg(format!(".read {}", script.display()));
    let traced = run_traced(tool, &command, Pinned::No);
    std::fs::remove_file(&database)?;
    let traced = traced?;
    Ok(traced.run(traced.seconds))
}
