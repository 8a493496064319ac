//! Memory of the tracer itself.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::Unit;
use super::super::programs::command;
use super::super::tools::lttng::{self, Keeping, Session};
use super::super::tools::{
    Background, Paused, Pinned, as_float, attach_with, count_before, ended, program_time,
    resident_kilobytes,
};
use super::super::workbench::{Workbench, has};
use super::ATTACH;
use crate::folder;
use xtask::{process, workspace};

/// Processes of a long trace.
const PROCESSES: u64 = 1_000_000;

/// Megabytes in which a long trace is to be looked through.
const MOST_MEGABYTES: f64 = 500.0;

/// Forks in each second of a long run.
const FORKS_PER_SECOND: u64 = 1000;

/// Memory that the last quarter of a long run may take beyond the second one, in per cent.
const MOST_GROWTH: f64 = 5.0;

/// Commands that run long, as they are called in the report.
const RUN_LONG: [&str; 3] = [
    "tracer-user top --all",
    "tracer-user attach --all --full-policy loop",
    "tracer-user attach --all --when",
];

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

/// Measures what commands take that look through a log of many short processes.
pub fn of_long_traces(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "How much memory does it take at most to look through the log of a program that makes a million \
                    children, one after the other, which end at once? (A tenth of them in a quick run.)";
    let mut contest = Contest::new(question, Unit::Megabytes).once();
    let processes = bench.work(PROCESSES);
    let log = folder().join("tracer-user.log");
    let recorded = Rc::new(OnceCell::new());
    let page = folder().join("report.html");
    let commands: [(&'static str, &[&str], &[&Path]); 3] = [
        ("tracer-user stat", &["stat"], &[]),
        ("tracer-user why --whole", &["why", "--whole"], &[]),
        ("tracer-user report", &["report", "--force", "-o"], &[&page]),
    ];
    for (name, words, path) in commands {
        let mut looking = Command::new(workspace::target("dist/bin/tracer-user"));
        looking.args(words).args(path).arg(&log);
        let recorded = Rc::clone(&recorded);
        contest.ours(name, move || {
            let made =
                recorded.get_or_init(|| record(processes).map_err(|error| format!("{error:#}")));
            let events = made.as_ref().map_err(|error| anyhow!(error.clone()))?;
            let start = Instant::now();
            let taken = peak_megabytes(&mut looking)?;
            Ok(Run::new(taken)
                .with("events", *events)
                .with("seconds", start.elapsed().as_secs_f64()))
        });
        contest.goal(name, Goal::Below(MOST_MEGABYTES));
    }
    Ok(contest)
}

/// Records so many processes, and returns the number of events.
fn record(processes: u64) -> anyhow::Result<f64> {
    let mut program = Paused::start(&command("forks", &[processes, 0]), Pinned::No)?;
    let tracer = attach_with(program.pid(), &["--ring-size", "16M"])?;
    program_time::all_attached(tracer.pid())?;
    program.go()?;
    let said = tracer.stop()?.err;
    let count = |sign| count_before(&said, sign).with_context(|| format!("no {sign:?} in: {said}"));
    ensure!(count(" lost")? == 0.0, "events were lost: {said}");
    count(" events in")
}

/// Returns how much resident memory a command takes at most.
fn peak_megabytes(command: &mut Command) -> anyhow::Result<f64> {
    let shown = process::shown(command);
    let child = command.stdout(Stdio::null()).spawn()?;
    let ended = ended(libc::pid_t::try_from(child.id())?, 0)?;
    let ended = ended.filter(|ended| ended.is_success);
    Ok(ended
        .with_context(|| format!("failed: {shown}"))?
        .peak_bytes
        / 1e6)
}

/// Compares the memory of what runs long early and late in a run.
pub fn over_time(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let question = "How much more memory does a tracer of all processes take in the last quarter of a long run, at a \
                    thousand forks a second, than in its second quarter? (Means of the resident memory.)";
    let mut contest = Contest::new(question, Unit::Percent).once();
    let seconds = bench.long_seconds;
    if !has("script") {
        contest.missing("everyone: script, which gives `top` a terminal, is not installed");
        return Ok(contest);
    }
    let watched = Rc::new(OnceCell::new());
    for (index, name) in RUN_LONG.into_iter().enumerate() {
        let watched = Rc::clone(&watched);
        contest.ours(name, move || {
            let runs = watched.get_or_init(|| watch(seconds).map_err(|error| format!("{error:#}")));
            let runs = runs.as_ref().map_err(|error| anyhow!(error.clone()))?;
            runs.get(index).cloned().context("not measured")
        });
        contest.goal(name, Goal::Below(MOST_GROWTH));
    }
    Ok(contest)
}

/// Runs the three beside each other for so many seconds, with so many forks, and returns how their
/// memory grew.
fn watch(seconds: u64) -> anyhow::Result<Vec<Run>> {
    let tool = workspace::target("dist/bin/tracer-user");
    let mut top = Command::new("script");
    top.args(["--quiet", "--flush", "--command"])
        .arg(format!(
            "stty cols 160 rows 50; exec {} top --all",
            tool.display()
        ))
        .arg("/dev/null")
        .env("TERM", "xterm");
    let tracing = |options: &[&str], log: &str| {
        let mut command = Command::new(&tool);
        command.args(["attach", "--all"]).args(options);
        command.args(["--force", "--log"]).arg(folder().join(log));
        command
    };
    let mut ring = tracing(&["--full-policy", "loop"], "ring.log");
    // Nothing has this name.
    let mut when = tracing(&["--when", "exit != 0 && comm == \"no-such-name\""], "when");
    let tracers = [
        Background::start(&mut top, "top")?,
        Background::start(&mut ring, "ring")?,
        Background::start(&mut when, "when")?,
    ];
    // The first has a shell that becomes `top`.
    sleep(Duration::from_secs(1));
    let mut pids = tracers.iter().map(Background::pid).collect::<Vec<_>>();
    if let Some(first) = pids.first_mut() {
        *first = child_of(*first)?;
    }
    for pid in &pids {
        program_time::all_attached(*pid)?;
    }
    let mut forks = command("forks", &[seconds * FORKS_PER_SECOND, FORKS_PER_SECOND]);
    let forks = Background::start(&mut forks, "forks")?;
    let start = Instant::now();
    let (second, last) = (seconds / 4..seconds / 2, seconds * 3 / 4..seconds);
    let mut taken = vec![(Vec::new(), Vec::new()); pids.len()];
    while start.elapsed() < Duration::from_secs(seconds) {
        sleep(Duration::from_millis((seconds * 3).clamp(100, 10_000)));
        let now = start.elapsed().as_secs();
        for (pid, (early, late)) in pids.iter().zip(&mut taken) {
            let status =
                fs::read_to_string(format!("/proc/{pid}/status")).context("a tracer has ended")?;
            let megabytes = as_float(resident_kilobytes(&status) * 1024) / 1e6;
            if second.contains(&now) {
                early.push(megabytes);
            } else if last.contains(&now) {
                late.push(megabytes);
            }
        }
    }
    drop(forks);
    drop(tracers);
    let mean = |values: &[f64]| {
        let count = as_float(u64::try_from(values.len())?);
        ensure!(count > 0.0, "{seconds} seconds are too few");
        Ok(values.iter().sum::<f64>() / count)
    };
    let grown = |(early, late): &(Vec<f64>, Vec<f64>)| {
        let (early, late) = (mean(early)?, mean(late)?);
        Ok(Run::new((late / early - 1.0) * 100.0)
            .with("second quarter, MB", early)
            .with("last quarter, MB", late)
            .with("seconds", as_float(seconds)))
    };
    taken.iter().map(grown).collect()
}

/// Returns the only child of a process.
fn child_of(pid: u32) -> anyhow::Result<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(&path).context(path)?;
    children.trim().parse().context("not one child")
}
