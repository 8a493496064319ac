//! Memory of the tracer itself.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::Unit;
use super::super::programs::command;
use super::super::tools::lttng::{self, Keeping, Session};
use super::super::tools::{Background, as_float, resident_kilobytes};
use super::super::workbench::Workbench;
use super::ATTACH;
use xtask::workspace;

/// Compares the resident memory while one process is traced.
pub fn resident(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    const LTTNG: &str = "lttng-sessiond and lttng-consumerd";
    let question = "How much resident memory does the tracer take while it traces one process, \
                    which emits user events? (LTTng: its two daemons, without the helpers that \
                    they fork.)";
    let mut contest = Contest::new(question, Unit::Megabytes);
    contest.ours(ATTACH, ours);
    if bench.has_lttng {
        contest.peer(LTTNG, move || {
            let session = Session::start(Keeping::Disk, &[])?;
            let program = Background::start(&mut command("emit_lttng", &[1, 0, 1]), "app")?;
            sleep(Duration::from_millis(1000));
            let megabytes = lttng::resident_megabytes();
            drop(program);
            session.finish()?;
            megabytes.map(Run::new)
        });
        contest.goal(ATTACH, Goal::PartOf(LTTNG, 1.0));
        contest.goal(ATTACH, Goal::Below(11.3));
    } else {
        contest.missing("LTTng: lttng-tools or liblttng-ust-dev is not installed");
    }
    Ok(contest)
}

fn ours() -> anyhow::Result<Run> {
    let program = Background::start(&mut command("emit_posix", &[1, 0, 0]), "app")?;
    let mut attach = Command::new(workspace::target("dist/bin/tracer-user"));
    attach.args(["attach", &program.pid().to_string()]);
    let mut tracer = Background::start(&mut attach, "memory")?;
    tracer.wait_a_moment()?;
    let status = fs::read_to_string(format!("/proc/{}/status", tracer.pid()))
        .context("the tracer is gone")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    let megabytes = |kilobytes: u64| as_float(kilobytes * 1024) / 1e6;
    tracer.stop()?;
    drop(program);
    Ok(Run::new(megabytes(resident_kilobytes(&status)))
        .with("peak, MB", megabytes(peak.unwrap_or(0))))
}
