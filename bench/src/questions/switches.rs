//! Cost that tracing adds to a context switch: two processes on one CPU pass a byte to and fro.

use std::process::Command;

use super::super::contest::{Contest, Goal};
use super::super::meanwhile::{self, Whom};
use super::super::outcome::{Measure, Unit};
use super::super::programs;
use super::super::tools::{
    Bpftrace, EMPTY, Floor, Ftrace, Ours, OursByService, PerfSched, Pinned, Tool, What, as_user,
    run_traced,
};
use super::super::workbench::{Workbench, has};
use super::{ATTACH, add_tools, compare_builds, with_other_build};

/// Compares tracers of the processes that switch.
pub fn traced(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = contest(
        bench,
        "What CPU time does tracing add to each context switch of two traced processes on one CPU?",
        [vec![floor(false), floor(true)], switch_tools()]
            .into_iter()
            .flatten()
            .collect(),
        Whom::ItAndChildren,
    );
    contest.goal(ATTACH, Goal::Below(250.0));
    contest.goal(ATTACH, Goal::PartOf("ftrace", 0.3));
    compare_builds(&mut contest, bench, ATTACH);
    Ok(contest)
}

/// Compares the cost to processes that switch while another process is traced.
pub fn untraced(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = contest(
        bench,
        "What CPU time does tracing another process add to each context switch of two processes that are \
         not traced?",
        vec![
            Box::new(Ours(What::Switches)),
            floor(false),
            Box::new(Ftrace(What::Switches)),
            Box::new(Bpftrace::CountingAnother),
        ],
        Whom::Another,
    );
    contest.goal(ATTACH, Goal::Below(60.0));
    contest.goal(ATTACH, Goal::PartOf(EMPTY, 1.2));
    compare_builds(&mut contest, bench, ATTACH);
    Ok(contest)
}

fn floor(reads_clock: bool) -> Box<dyn Tool> {
    Box::new(Floor {
        of: What::Switches,
        reads_clock,
    })
}

fn switch_tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(Ours(What::Switches)),
        Box::new(Ftrace(What::Switches)),
        Box::new(Bpftrace::Counting(What::Switches)),
        Box::new(Bpftrace::Printing(What::Switches)),
        Box::new(PerfSched),
    ]
}

fn contest<'a>(
    bench: &'a Workbench,
    question: &'static str,
    tools: Vec<Box<dyn Tool>>,
    whom: Whom,
) -> Contest<'a> {
    let mut contest = Contest::new(question, Unit::Ns);
    let tools = with_other_build(bench, What::Switches, tools);
    add_tools(&mut contest, tools, move |tool| {
        let mut program = programs::command("pingpong", &[]);
        meanwhile::attach(tool, &mut program, whom, bench.phase()).map(meanwhile::Costs::added)
    });
    contest
}

/// Compares the service with the tracer of root's, on processes of an ordinary user's.
pub fn traced_by_service(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    Ok(by_service(
        bench,
        "What CPU time does tracing add to each context switch of two processes of an ordinary user: by \
         root's tracer, and by the service for that user?",
        Whom::ItAndChildren,
    ))
}

/// Compares the cost of both to processes that switch while another one is traced.
pub fn untraced_by_service(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    Ok(by_service(
        bench,
        "What CPU time does tracing another process of an ordinary user add to each context switch of two \
         processes that are not traced: by root's tracer, and by the service for that user?",
        Whom::Another,
    ))
}

fn by_service<'a>(bench: &'a Workbench, question: &'static str, whom: Whom) -> Contest<'a> {
    let mut contest = Contest::new(question, Unit::Ns);
    let tools: Vec<Box<dyn Tool>> = vec![Box::new(Ours(What::Switches)), Box::new(OursByService)];
    add_tools(&mut contest, tools, move |tool| {
        let mut program = as_user(&programs::command("pingpong", &[]));
        meanwhile::attach(tool, &mut program, whom, bench.phase()).map(meanwhile::Costs::added)
    });
    contest
}

/// Compares the cost of traced switches to a whole program.
pub fn pipe_slowdown(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question =
        "How much longer does `perf bench sched pipe` take on one CPU while it is traced?";
    let mut contest = Contest::new(question, Unit::Seconds).showing(Measure::AddedPercent);
    if !has("perf") {
        contest.missing("everyone: perf, whose `bench sched pipe` is the work, is not installed");
        return Ok(contest);
    }
    let loops = bench.work(200_000);
    contest.peer("untraced", move || {
        let traced = run_traced(None, &pipe(loops), Pinned::ToOneCpu)?;
        Ok(traced.run(traced.seconds))
    });
    add_tools(&mut contest, switch_tools(), move |tool| {
        let traced = run_traced(Some(tool), &pipe(loops), Pinned::ToOneCpu)?;
        Ok(traced.run(traced.seconds))
    });
    Ok(contest)
}

/// Returns a command of two processes that pass a byte to and fro `loops` times.
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
