//! Cost of reading events.

use std::process::Command;
use std::time::Instant;

use anyhow::ensure;

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::Unit;
use super::super::programs::{Printed, command};
use super::super::tools::as_float;
use super::super::tools::lttng::{Keeping, Session};
use super::super::workbench::{Workbench, has};
use super::{LIBRARY, NO_LOGS};
use crate::folder;
use xtask::process;

/// Compares the cost of one call when an event is available.
pub fn getnext(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "What does posix_trace_getnext_event() cost from C when an event is there? (No \
                    peer has such a call.)";
    let mut contest = Contest::new(question, Unit::Ns);
    let events = bench.work(2_000_000);
    contest.ours(LIBRARY, move || {
        Printed::by(&mut command("getnext", &[events]))?
            .get("get_ns")
            .map(Run::new)
    });
    contest.goal(LIBRARY, Goal::Below(60.0));
    Ok(contest)
}

/// Compares the whole way from the ring to the reader.
pub fn collect_and_read(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "How many events a second does one core take out of the rings, merge, put \
                    through the policy and hand over to posix_trace_getnext_event()?";
    let mut contest = Contest::new(question, Unit::PerSecond).more_is_better();
    let events = bench.work(2_000_000);
    contest.ours(LIBRARY, move || {
        let printed = Printed::by(&mut command("getnext", &[events]))?;
        let run = Run::new(printed.get("events_per_second")?);
        Ok(run.with("ns to collect, merge and store", printed.get("collect_ns")?))
    });
    contest.goal(LIBRARY, Goal::Above(10e6));
    Ok(contest)
}

/// Compares the reading of a log on disk.
pub fn log(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    const BABELTRACE: &str = "babeltrace2, CTF";
    let question = "How many user events a second does one core read from a log on disk?";
    let mut contest = Contest::new(question, Unit::PerSecond).more_is_better();
    let events = bench.work(1_000_000);
    if bench.has_logs {
        let log = folder().join("log.posixtrace");
        let write = [log.display().to_string(), events.to_string()];
        process::output(command("log_write", &[]).args(&write))?;
        contest.ours(LIBRARY, move || {
            Printed::by(command("log_read", &[]).arg(&log))?
                .get("events_per_second")
                .map(Run::new)
        });
        contest.goal(LIBRARY, Goal::TimesOf(BABELTRACE, 10.0));
    } else {
        contest.missing(NO_LOGS);
    }
    if bench.has_lttng && has("babeltrace2") {
        let session = Session::start(Keeping::Disk, &["vtid", "vpid"])?;
        let emitted = Printed::by(&mut command("emit_lttng", &[1, events, 1]));
        let (trace, bytes) = session.finish()?;
        emitted?;
        ensure!(
            bytes > as_float(events),
            "LTTng wrote next to nothing: {bytes} bytes"
        );
        contest.peer(BABELTRACE, move || babeltrace(&trace));
    } else {
        contest.missing("babeltrace2: it or LTTng is not installed");
    }
    Ok(contest)
}

/// Reads a trace without printing it, and counts its events in another pass that is not timed.
fn babeltrace(trace: &std::path::Path) -> anyhow::Result<Run> {
    let start = Instant::now();
    process::output(
        Command::new("babeltrace2")
            .arg(trace)
            .arg("--component=sink.utils.dummy"),
    )?;
    let seconds = start.elapsed().as_secs_f64();
    let counted = process::output(
        Command::new("babeltrace2")
            .arg(trace)
            .arg("--component=sink.utils.counter"),
    )?;
    let events = super::super::tools::count_before(&counted, " Event messages")
        .ok_or_else(|| anyhow::anyhow!("babeltrace2 counted nothing: {counted}"))?;
    Ok(Run::new(events / seconds).with("events", events))
}
