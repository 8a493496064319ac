//! How long single events hold a real-time thread up.

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::{Measure, Unit};
use super::super::programs::{Printed, command};
use super::super::tools::lttng::{Keeping, Session};
use super::super::workbench::Workbench;

const NONE: &str = "no trace point";
const COUNTER: &str = "fence, counter and a store";
const RUNNING: &str = "libposixtrace";
const FULL: &str = "libposixtrace, full stream";
const READ: &str = "libposixtrace, read as they come";
const PREPARED: &str = "libposixtrace, prepared";
const PREPARED_AND_READ: &str = "libposixtrace, prepared, read as they come";

const LTTNG_IN_MEMORY: (&str, Keeping) = ("LTTng-UST, snapshot", Keeping::Snapshot);
const LTTNG_TO_DISK: (&str, Keeping) = ("LTTng-UST, to disk", Keeping::Disk);

/// Nanoseconds that the slowest events may take longer than the loop without one.
const MOST_NS: f64 = 500.0;

/// Compares events in bursts, as fast as they go.
pub fn bursts(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = Contest::new(
        "How long does the slowest of 10,000 user events hold up a thread of SCHED_FIFO with locked memory, which \
         emits a hundred million as fast as it can? The first line is the loop without a point: the machine, and \
         reading the clock. The second one is the least that an event takes, for about as long as one: of longer \
         turns, more are interrupted. The medians, the longest and a thread's first event are beside it; who is prepared has \
         called posix_trace_prefault_np().",
        Unit::Ns,
    )
    .showing(Measure::Added);
    let events = bench.work(100_000_000);
    let posix = move |full, reader, prepared| {
        let arguments = [1, events, 1, full, reader, 0, prepared];
        one("latency_posix", &arguments, "p9999")
    };
    contest.peer(NONE, move || one("latency_none", &[1, events, 0], "p9999"));
    contest.peer(COUNTER, move || {
        one("latency_counter", &[1, events, 0], "p9999")
    });
    contest.ours(RUNNING, move || posix(0, 0, 0));
    contest.ours(FULL, move || posix(1, 0, 0));
    contest.ours(READ, move || posix(0, 1, 0));
    contest.ours(PREPARED_AND_READ, move || posix(0, 1, 1));
    add_lttng(&mut contest, bench, LTTNG_IN_MEMORY, [events, 0]);
    for name in [RUNNING, FULL, READ, PREPARED_AND_READ] {
        contest.goal(name, Goal::Below(MOST_NS));
    }
    Ok(contest)
}

/// Compares events that come one by one, a thousand a second, to a reader that waits for each.
pub fn read_as_they_come(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = Contest::new(
        "How long does the slowest of a hundred user events hold up such a thread, of a thousand a second, while \
         another thread takes each from the stream as it comes, and while none does? The second line is the least \
         that an event takes.",
        Unit::Ns,
    )
    .showing(Measure::Added);
    let events = bench.work(5000);
    let posix = move |reader, prepared| {
        let arguments = [1, events, 1, 0, reader, 1000, prepared];
        one("latency_posix", &arguments, "p99")
    };
    contest.peer(NONE, move || one("latency_none", &[1, events, 1000], "p99"));
    contest.peer(COUNTER, move || {
        one("latency_counter", &[1, events, 1000], "p99")
    });
    contest.ours(PREPARED_AND_READ, move || posix(1, 1));
    contest.ours(PREPARED, move || posix(0, 1));
    contest.ours(READ, move || posix(1, 0));
    add_lttng(&mut contest, bench, LTTNG_TO_DISK, [events, 1000]);
    contest.goal(PREPARED_AND_READ, Goal::Below(MOST_NS));
    Ok(contest)
}

fn add_lttng(
    contest: &mut Contest<'_>,
    bench: &Workbench,
    (name, keeping): (&str, Keeping),
    [events, pause_us]: [u64; 2],
) {
    if !bench.has_lttng {
        contest.missing("LTTng-UST: lttng-tools or liblttng-ust-dev is not installed");
        return;
    }
    let part = if pause_us == 0 { "p9999" } else { "p99" };
    contest.peer(name, move || {
        let _session = Session::start(keeping, &[])?;
        one("latency_lttng", &[1, events, 1, pause_us], part)
    });
}

/// Runs a program once, whose figure is that part of the distribution.
fn one(program: &str, arguments: &[u64], part: &str) -> anyhow::Result<Run> {
    let printed = Printed::by(&mut command(program, arguments))?;
    let get = |name| printed.get(name);
    Ok(Run::new(get(part)?)
        .with("median_ns", get("p50")?)
        .with("longest_ns", get("longest")?)
        .with("first_ns", get("first")?))
}
