//! What tracing adds to a context switch: `perf bench sched pipe`, two processes on one CPU that
//! pass a byte to and fro.

use std::process::Command;

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::{Measure, Unit};
use super::super::tools::{
    Bpftrace, Ftrace, Gate, Ours, PerfSched, Pinned, Tool, Traced, What, as_number, run_traced,
};
use super::super::workbench::{Workbench, has};
use super::{ATTACH, add_tools};

/// The processes that switch are traced.
pub fn traced(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = contest(
        bench,
        "What CPU time does tracing add to each context switch of two traced processes on one CPU?",
        vec![
            Box::new(Ours(What::Switches)),
            Box::new(Ftrace(What::Switches)),
            Box::new(Bpftrace::Counting(What::Switches)),
            Box::new(Bpftrace::Printing(What::Switches)),
            Box::new(PerfSched),
        ],
        Whom::Those,
    );
    contest.goal(ATTACH, Goal::Below(250.0));
    contest.goal(ATTACH, Goal::PartOf("ftrace", 0.5));
    Ok(contest)
}

/// Another process is traced.
pub fn untraced(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = contest(
        bench,
        "What CPU time does tracing another process add to each context switch of two processes that are \
         not traced?",
        vec![
            Box::new(Ours(What::Switches)),
            Box::new(Ftrace(What::Switches)),
            Box::new(Bpftrace::CountingAnother),
        ],
        Whom::Another,
    );
    contest.goal(ATTACH, Goal::Below(60.0));
    Ok(contest)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Those,
    Another,
}

fn contest<'a>(
    bench: &'a Workbench,
    question: &'static str,
    tools: Vec<Box<dyn Tool>>,
    whom: Whom,
) -> Contest<'a> {
    let mut contest = Contest::new(question, Unit::Ns).telling(Measure::Added);
    if !has("perf") {
        contest.missing("everyone: perf, whose `bench sched pipe` is the work, is not installed");
        return contest;
    }
    let loops = bench.work(200_000);
    contest.peer("untraced", move || switches(None, loops, whom));
    add_tools(&mut contest, tools, move |tool| {
        switches(Some(tool), loops, whom)
    });
    contest
}

fn switches(tool: Option<&dyn Tool>, loops: u64, whom: Whom) -> anyhow::Result<Run> {
    let command = pipe(loops);
    if whom == Whom::Those {
        let traced = run_traced(tool, &command, Pinned::ToOneCpu)?;
        return Ok(traced.run(ns_per_switch(&traced, loops)));
    }
    // One that sleeps is traced meanwhile.
    let sleeper = Gate::start(&Command::new("true"), Pinned::No)?;
    let attached = tool.map(|tool| tool.attach(sleeper.pid())).transpose()?;
    let traced = run_traced(None, &command, Pinned::ToOneCpu)?;
    drop(attached);
    Ok(traced.run(ns_per_switch(&traced, loops)))
}

/// Two processes that pass a byte to and fro so often.
pub fn pipe(loops: u64) -> Command {
    let mut command = Command::new("perf");
    command.args([
        "bench",
        "--format=simple",
        "sched",
        "pipe",
        "--loop",
        &loops.to_string(),
    ]);
    command
}

/// Each loop is two switches. CPU time, so that what else runs on the CPU is left out.
fn ns_per_switch(traced: &Traced, loops: u64) -> f64 {
    traced.cpu_seconds * 1e9 / 2.0 / as_number(loops)
}
