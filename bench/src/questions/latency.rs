//! How long single events hold a real-time thread up.

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::{Measure, Unit};
use super::super::programs::{Printed, command};
use super::super::tools::lttng::{Keeping, Session};
use super::super::workbench::Workbench;

const NONE: &str = "no trace point";
const RUNNING: &str = "libposixtrace";
const FULL: &str = "libposixtrace, full stream";
const READ: &str = "libposixtrace, read as they come";

/// Nanoseconds that an event in 10,000 may take longer than the loop without one.
const MOST_NS: f64 = 500.0;

/// Compares events in bursts, as fast as they go.
pub fn bursts(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = Contest::new(
        "How long does the slowest of 10,000 user events hold up a thread of SCHED_FIFO with locked memory, which \
         emits as fast as it can? The first line is the loop without a point: the machine, and reading the clock. \
         The medians, the longest and a thread's first event are beside it.",
        Unit::Ns,
    )
    .showing(Measure::Added);
    let events = bench.work(20_000_000);
    contest.peer(NONE, move || one("latency_none", &[1, events, 0]));
    contest.ours(RUNNING, move || {
        one("latency_posix", &[1, events, 1, 0, 0, 0])
    });
    contest.ours(FULL, move || one("latency_posix", &[1, events, 1, 1, 0, 0]));
    contest.ours(READ, move || one("latency_posix", &[1, events, 1, 0, 1, 0]));
    add_lttng(&mut contest, bench, events, 0);
    for name in [RUNNING, FULL, READ] {
        contest.goal(name, Goal::Below(MOST_NS));
    }
    Ok(contest)
}

/// Compares events that come one by one, a thousand a second, to a reader that waits for each.
pub fn read_as_they_come(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = Contest::new(
        "The same for a thousand events a second, while another thread takes each from the stream as it comes.",
        Unit::Ns,
    )
    .showing(Measure::Added);
    let events = bench.work(20_000);
    contest.peer(NONE, move || one("latency_none", &[1, events, 1000]));
    contest.ours(READ, move || {
        one("latency_posix", &[1, events, 1, 0, 1, 1000])
    });
    contest.ours(RUNNING, move || {
        one("latency_posix", &[1, events, 1, 0, 0, 1000])
    });
    add_lttng(&mut contest, bench, events, 1000);
    Ok(contest)
}

fn add_lttng(contest: &mut Contest<'_>, bench: &Workbench, events: u64, pause_us: u64) {
    if !bench.has_lttng {
        contest.missing("LTTng-UST: lttng-tools or liblttng-ust-dev is not installed");
        return;
    }
    contest.peer("LTTng-UST, to disk", move || {
        let _session = Session::start(Keeping::Disk, &[])?;
        one("latency_lttng", &[1, events, 1, pause_us])
    });
}

/// Runs a program once.
fn one(program: &str, arguments: &[u64]) -> anyhow::Result<Run> {
    let printed = Printed::by(&mut command(program, arguments))?;
    let get = |name| printed.get(name);
    Ok(Run::new(get("p9999")?)
        .with("median_ns", get("p50")?)
        .with("longest_ns", get("longest")?)
        .with("first_ns", get("first")?))
}
