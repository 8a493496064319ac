//! Bytes on disk.

use std::process::Command;

use anyhow::Context as _;

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::Unit;
use super::super::programs::{Printed, command};
use super::super::tools::lttng::{Keeping, Session};
use super::super::tools::{OursIntoLog, Pinned, What, as_float, count_before, run_traced, size};
use super::super::workbench::{Workbench, has};
use super::switches::pipe;
use super::{LIBRARY, NO_LOGS};
use crate::folder;

/// Our name for the command line that writes a log.
const ATTACH_LOG: &str = "tracer-user attach --log";

/// Compares the bytes of one context switch.
pub fn switches(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "How many bytes on disk does one event of a context switch take? (tracer-user \
                    reports a switch between two traced processes in two events.)";
    let mut contest = Contest::new(question, Unit::Bytes);
    if !has("perf") {
        contest.missing("everyone: perf, whose `bench sched pipe` is the work, is not installed");
        return Ok(contest);
    }
    let loops = bench.work(100_000);
    let ours = OursIntoLog::Whole(What::Switches);
    contest.ours(ATTACH_LOG, move || {
        let traced = run_traced(Some(&ours), &pipe(loops), Pinned::ToOneCpu)?;
        let seen = traced.seen.unwrap_or_default();
        Ok(traced.run(seen.bytes / seen.events))
    });
    contest.goal(ATTACH_LOG, Goal::Below(20.0));
    contest.peer("perf record", move || perf_record(loops));
    Ok(contest)
}

fn perf_record(loops: u64) -> anyhow::Result<Run> {
    let output = folder().join("switches.data");
    let mut record = Command::new("perf");
    record
        .args(["record", "--event=sched:sched_switch", "--all-cpus", "-o"])
        .arg(&output);
    let pipe = pipe(loops);
    record
        .arg("--")
        .arg(pipe.get_program())
        .args(pipe.get_args());
    let said = record.output().context("cannot run perf record")?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let samples = count_before(&said, " samples")
        .with_context(|| format!("perf record gave no count of samples: {said}"))?;
    Ok(Run::new(size(&output) / samples).with("events", samples))
}

/// Compares the bytes of one user event.
pub fn user_events(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "How many bytes on disk does one user event with 32 bytes of data take? LTTng \
                    is asked to write down thread and process; the library also \
                    records the trace point's address.";
    let mut contest = Contest::new(question, Unit::Bytes);
    let events = bench.work(1_000_000);
    if bench.has_logs {
        let log = folder().join("log.posixtrace");
        contest.ours(LIBRARY, move || {
            let write = [log.display().to_string(), events.to_string()];
            Printed::by(command("log_write", &[]).args(&write))?.get("events")?;
            Ok(Run::new(size(&log) / as_float(events)))
        });
        contest.goal(LIBRARY, Goal::Below(44.0));
    } else {
        contest.missing(NO_LOGS);
    }
    if bench.has_lttng {
        contest.peer("LTTng-UST, CTF", move || {
            let session = Session::start(Keeping::Disk, &["vtid", "vpid"])?;
            let emitted = Printed::by(&mut command("emit_lttng", &[1, events, 1]));
            let (_, bytes) = session.finish()?;
            Ok(Run::new(bytes / emitted?.get("events")?))
        });
    } else {
        contest.missing("LTTng-UST: lttng-tools or liblttng-ust-dev is not installed");
    }
    Ok(contest)
}
