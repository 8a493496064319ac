//! Cost of a trace point to the program.

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::Unit;
use super::super::programs::{Printed, command, executable};
use super::super::tools::lttng::{Keeping, Session};
use super::super::workbench::Workbench;
use super::LIBRARY;
use crate::folder;

const LTTNG: &str = "LTTng-UST, snapshot";

/// Part of what LTTng-UST costs that an event of one of several threads may cost.
const MOST_BESIDE_OTHERS: f64 = 0.2;

/// Compares one thread and a running stream.
pub fn one_thread(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "What does a user event with 32 bytes of data cost its thread, from C through \
                    the shared library, while a stream that overwrites its oldest events runs?";
    let mut contest = enabled(bench, question, 1);
    contest.goal(LIBRARY, Goal::PartOf(LTTNG, 0.15));
    Ok(contest)
}

/// Compares two threads, on two CPUs where there are two.
pub fn two_threads(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "The same for each of two threads that emit at once, each on a CPU of its own. The first line is \
                    the least: what keeps order among threads (a fence and the cycle counter), and a store.";
    let mut contest = enabled(bench, question, 2);
    contest.goal(LIBRARY, Goal::PartOf(LTTNG, MOST_BESIDE_OTHERS));
    Ok(contest)
}

/// Compares four threads, on two CPUs where there are two.
pub fn four_threads(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "The same for each of four threads: two on each CPU, where there are two.";
    let mut contest = enabled(bench, question, 4);
    contest.goal(LIBRARY, Goal::PartOf(LTTNG, MOST_BESIDE_OTHERS));
    Ok(contest)
}

fn enabled<'a>(bench: &'a Workbench, question: &'static str, threads: u64) -> Contest<'a> {
    let mut contest = Contest::new(question, Unit::Ns);
    let events = bench.work(8_000_000);
    let (floor, program) = match threads {
        1 => ("counter and a store", "emit_counter"),
        _ => ("fence, counter and a store", "emit_fenced_counter"),
    };
    contest.peer(floor, move || ns(&mut command(program, &[threads, events])));
    contest.ours(LIBRARY, move || {
        ns(&mut command("emit_posix", &[threads, events, 1]))
    });
    if bench.has_lttng {
        let events = bench.work(4_000_000);
        let lttng = move |keeping| {
            let _session = Session::start(keeping, &[])?;
            ns(&mut command("emit_lttng", &[threads, events, 1]))
        };
        contest.peer(LTTNG, move || lttng(Keeping::Snapshot));
        contest.peer("LTTng-UST, to disk", move || lttng(Keeping::Disk));
    } else {
        contest.missing("LTTng-UST: lttng-tools or liblttng-ust-dev is not installed");
    }
    if bench.has_uftrace {
        let events = bench.work(1_000_000);
        contest.peer("uftrace, a function", move || {
            let mut record = std::process::Command::new("uftrace");
            record
                .args(["record", "--no-libcall", "-d"])
                .arg(folder().join("uftrace.data"));
            record.arg(executable("emit_uftrace"));
            ns(record.args([threads, events].map(|count| count.to_string())))
        });
    } else {
        contest.missing("uftrace: not installed");
    }
    contest
}

/// Compares the cost of a trace point while no tracer runs.
pub fn disabled(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    const INLINE: &str = "libposixtrace, inline check";
    const CALL: &str = "libposixtrace, by a call";
    let question = "What does a trace point add to a loop while it is not traced? The first line \
                    is the loop without one.";
    let mut contest =
        Contest::new(question, Unit::Ns).showing(super::super::outcome::Measure::Added);
    let events = bench.work(200_000_000);
    contest.peer("no trace point", move || {
        ns(&mut command("emit_none", &[1, events]))
    });
    contest.ours(INLINE, move || {
        ns(&mut command("emit_posix", &[1, events, 0]))
    });
    contest.ours(CALL, move || {
        ns(&mut command("emit_posix_function", &[1, events, 0]))
    });
    contest.peer("a call of an empty library function", move || {
        ns(&mut command("emit_empty_call", &[1, events]))
    });
    contest.goal(INLINE, Goal::Below(0.4));
    contest.goal(CALL, Goal::Below(1.2));
    if bench.has_lttng {
        contest.peer("LTTng-UST", move || {
            ns(&mut command("emit_lttng", &[1, events, 0]))
        });
    } else {
        contest.missing("LTTng-UST: lttng-tools or liblttng-ust-dev is not installed");
    }
    Ok(contest)
}

fn ns(command: &mut std::process::Command) -> anyhow::Result<Run> {
    Printed::by(command)?.get("ns_per_event").map(Run::new)
}
