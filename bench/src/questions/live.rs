//! Live text output.

use anyhow::ensure;

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::Unit;
use super::super::tools::{Bpftrace, Ours, PerfTrace, Pinned, Tool, What, run_traced};
use super::super::workbench::{Workbench, has};
use super::switches::pipe;
use super::{ATTACH, add_tools};

/// Compares the tracers' CPU time for context switches shown as text.
pub fn text(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "How many context switches a second can a tracer show as text, by the CPU time \
                    that it takes for itself? What it says it has lost is beside. (tracer-user \
                    reports a switch between two traced processes in two lines, the others in one; a \
                    switch is counted once.)";
    let mut contest = Contest::new(question, Unit::PerSecond).more_is_better();
    if !has("perf") {
        contest.missing("everyone: perf, whose `bench sched pipe` is the work, is not installed");
        return Ok(contest);
    }
    let loops = bench.work(300_000);
    let tools: Vec<Box<dyn Tool>> = vec![
        Box::new(Ours(What::Switches)),
        Box::new(PerfTrace::Of(What::Switches)),
        Box::new(Bpftrace::Printing(What::Switches)),
    ];
    add_tools(&mut contest, tools, move |tool| shown(tool, loops));
    contest.goal(ATTACH, Goal::TimesOf("perf trace", 5.0));
    contest.goal(ATTACH, Goal::TimesOf("bpftrace printing", 5.0));
    Ok(contest)
}

fn shown(tool: &dyn Tool, loops: u64) -> anyhow::Result<Run> {
    let traced = run_traced(Some(tool), &pipe(loops), Pinned::ToOneCpu)?;
    let seen = traced.seen.unwrap_or_default();
    ensure!(seen.cpu_seconds > 0.0, "the tracer took no CPU time");
    let lines_of_a_switch = if tool.name() == ATTACH { 2.0 } else { 1.0 };
    let switches = seen.events / lines_of_a_switch;
    let run = traced.run(switches / seen.cpu_seconds);
    Ok(run
        .with(
            "shown a second of wall-clock time",
            switches / traced.seconds,
        )
        .with(
            "lost, per cent",
            seen.lost / (seen.lost + seen.events) * 100.0,
        ))
}
