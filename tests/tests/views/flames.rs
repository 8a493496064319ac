//! Samples, stacks of blocked threads, and flame graphs of them: beside what a program that spends
//! its time in known functions has measured itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::command;
use tests::dist;
use tests::rights::missing_right;
use tests::tools;

/// Results of a run of the program.
struct Run {
    _folder: tempfile::TempDir,
    log: PathBuf,
    /// Nanoseconds that each function has measured.
    measured: HashMap<String, u64>,
    /// Switches that the kernel has not reported.
    not_reported: u64,
}

/// Records the program with these options, until a run has all switches: the kernel does not report
/// some, and a wait that begins with such a switch is unknown.
fn recorded(options: &[&str]) -> Run {
    const TRIES: usize = 5;
    let is_whole = |run: &Run| run.not_reported == 0;
    let mut tries = (1..TRIES).map(|_| recorded_once(options));
    tries
        .find(is_whole)
        .unwrap_or_else(|| recorded_once(options))
}

fn recorded_once(options: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("flames", folder.path()).unwrap();
    let [notes, log] = ["notes", "log"].map(|name| folder.path().join(name));
    let mut ours = Command::new(dist::tracer_user().unwrap());
    ours.args(["run", "--ring-size", "16M"])
        .args(options)
        .arg("--log")
        .arg(&log)
        .arg("--")
        .arg(&program)
        .arg(&notes);
    command::output(&mut ours).unwrap();
    let notes = fs::read_to_string(&notes).unwrap();
    let measured = notes.lines().map(|line| {
        let (name, ns) = line.split_once(' ').unwrap();
        (name.to_owned(), ns.parse().unwrap())
    });
    let mut stat = Command::new(dist::tracer_user().unwrap());
    let stat = command::output(stat.args(["stat", "--format", "json"]).arg(&log)).unwrap();
    let stat: Value = serde_json::from_slice(&stat).unwrap();
    Run {
        measured: measured.collect(),
        not_reported: stat["not_reported"].as_u64().unwrap(),
        _folder: folder,
        log,
    }
}

/// The paths of a flame graph with their nanoseconds.
fn folded(log: &Path, kind: &str) -> Vec<(Vec<String>, u64)> {
    let mut ours = Command::new(dist::tracer_user().unwrap());
    let text = command::output(ours.args(["stat", "--flame", kind]).arg(log)).unwrap();
    paths(&String::from_utf8(text).unwrap())
}

fn paths(text: &str) -> Vec<(Vec<String>, u64)> {
    let lines = text.lines().map(|line| {
        let (path, ns) = line.rsplit_once(' ').unwrap();
        let frames = path.split(';').map(str::to_owned).collect();
        (frames, ns.parse().unwrap())
    });
    lines.collect()
}

/// The time of all paths that have a frame.
fn within(paths: &[(Vec<String>, u64)], frame: &str) -> u64 {
    let has_it = |frames: &[String]| frames.iter().any(|one| one == frame);
    let with_it = paths.iter().filter(|(frames, _)| has_it(frames));
    with_it.map(|(_, ns)| ns).sum()
}

/// Tells whether times differ by less than one in `one_in`, and some milliseconds.
fn is_near(one: u64, other: u64, one_in: u64) -> bool {
    one.abs_diff(other) < other / one_in + 5_000_000
}

#[test]
#[ignore = "loads eBPF"]
fn samples_are_where_the_program_spent_its_time() {
    if missing_right().is_some() {
        return;
    }
    let run = recorded(&["--sample", "997", "--stack", "user", "--stack-for", "none"]);
    let paths = folded(&run.log, "on-cpu");
    for name in ["burns_much", "burns_little"] {
        let (sampled, measured) = (within(&paths, name), run.measured[name]);
        // Some two hundred samples for the smaller one: five times what chance makes of them.
        assert!(
            is_near(sampled, measured, 6),
            "{name}: {sampled} {measured}"
        );
    }
    // From the outermost to the innermost.
    let of_much = paths
        .iter()
        .find(|(frames, _)| {
            ["burns_much", "spin"]
                .iter()
                .all(|name| frames.contains(&(*name).to_owned()))
        })
        .unwrap();
    let at = |name: &str| of_much.0.iter().position(|frame| frame == name);
    assert_eq!(of_much.0[0], "flames");
    assert!(
        at("main") < at("burns_much") && at("main").is_some(),
        "{of_much:?}"
    );
    assert!(at("burns_much") < at("spin"), "{of_much:?}");
    // Who sleeps is not sampled. The way there and back takes some microseconds: one sample may be
    // of that, of hundreds that a sleep would have.
    let asleep = within(&paths, "naps_long");
    assert!(asleep < 2_000_000, "{asleep}");
}

#[test]
#[ignore = "loads eBPF"]
fn time_without_a_cpu_is_where_the_program_slept() {
    if missing_right().is_some() {
        return;
    }
    let run = recorded(&[
        "--off-cpu",
        "1ms",
        "--stack-for",
        "wakeup",
        "--stack",
        "user,kernel",
    ]);
    let paths = folded(&run.log, "off-cpu");
    for name in [
        "naps_long",
        "naps_short",
        "naps_too_short",
        "waits_for_word",
    ] {
        let (folded, measured) = (within(&paths, name), run.measured[name]);
        // Time in which it was ready to run and others had the CPU counts on one side alone.
        assert!(is_near(folded, measured, 8), "{name}: {folded} {measured}");
    }
    let of_nap = paths
        .iter()
        .find(|(frames, _)| frames.contains(&"naps_long".to_owned()))
        .unwrap();
    assert_eq!(of_nap.0[0], "flames");
    let is_there = |name: &str| of_nap.0.iter().any(|frame| frame == name);
    assert!(is_there("main") && is_there("schedule_[k]"), "{of_nap:?}");

    // Who waits is below, and who ends that above it, the innermost first.
    let paths = folded(&run.log, "wakeup");
    let listener: Vec<_> = paths
        .iter()
        .filter(|(frames, _)| frames[0] == "listener" && frames.contains(&"says_word".to_owned()))
        .collect();
    let ns: u64 = listener.iter().map(|(_, ns)| ns).sum();
    assert!(
        is_near(ns, run.measured["waits_for_word"], 4),
        "{ns} {listener:?}"
    );
    for (frames, _) in listener {
        let at = |name: &str| frames.iter().position(|frame| frame == name).unwrap();
        assert!(at("waits_for_word") < at("[woken by]"), "{frames:?}");
        assert!(at("[woken by]") < at("says_word"), "{frames:?}");
        assert!(at("says_word") < at("main"), "{frames:?}");
        assert_eq!(frames.last().map(String::as_str), Some("flames"));
    }
    let naps: Vec<_> = paths
        .iter()
        .filter(|(frames, _)| frames.contains(&"naps_long".to_owned()))
        .collect();
    assert!(
        naps.iter()
            .all(|(frames, _)| frames.last().unwrap() == "[timer]"),
        "{naps:?}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn only_who_was_blocked_for_longer_than_the_limit_has_a_stack() {
    if missing_right().is_some() {
        return;
    }
    let run = recorded(&[
        "--off-cpu",
        "15ms",
        "--stack",
        "user",
        "--stack-for",
        "none",
    ]);
    let paths = folded(&run.log, "off-cpu");
    let (folded, measured) = (within(&paths, "naps_long"), run.measured["naps_long"]);
    assert!(
        is_near(folded, measured, 8),
        "{measured}, {} not reported: {paths:?}",
        run.not_reported
    );
    // Each of them takes some 2 ms, unless the machine is very busy.
    let shorter = within(&paths, "naps_too_short");
    assert!(shorter < run.measured["naps_too_short"], "{paths:?}");
    assert!(within(&paths, "[no stack]") > 0, "{paths:?}");
    // No stack but those, and none of the kernel.
    assert!(
        paths
            .iter()
            .all(|(frames, _)| !frames.iter().any(|one| one.ends_with("_[k]")))
    );
    let read = |options: &[&str]| {
        let mut ours = Command::new(dist::tracer_user().unwrap());
        let out = run_read(ours.arg("read").args(options).arg(&run.log));
        out.lines().count()
    };
    let all = read(&["--events", "stack", "--format", "json"]);
    let long = read(&["--events", "switch-in", "--format", "json"]);
    assert!(all > 0 && long > 0);
}

fn run_read(command: &mut Command) -> String {
    command::text(command).unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn a_flame_graph_of_processes_is_a_picture_that_loads_nothing() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("flames", folder.path()).unwrap();
    let picture = folder.path().join("x.svg");
    let draw = || {
        let mut ours = Command::new(dist::tracer_user().unwrap());
        ours.args(["stat", "--flame", "off-cpu", "-o"])
            .arg(&picture)
            .arg("--")
            .arg(&program)
            .arg(folder.path().join("notes"));
        ours.output().unwrap()
    };
    let drawn = draw();
    assert!(drawn.status.success(), "{drawn:?}");
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(
        svg.contains("Off-CPU time") && svg.contains("naps_long"),
        "{svg:.2000}"
    );
    let kernel = svg.contains("schedule (");
    assert!(kernel, "a function of the kernel, without its mark");
    for loads in ["src=", "href=\"http", "@import", "url(http"] {
        assert!(!svg.contains(loads), "{loads}");
    }
    // What is there is not replaced unasked.
    let again = draw();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        !again.status.success() && said.contains("--force"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&picture).unwrap(), svg);
}

#[test]
#[ignore = "loads eBPF"]
fn a_log_without_what_a_graph_is_made_of_says_what_to_record() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    command::output(
        Command::new(dist::tracer_user().unwrap())
            .args(["run", "--events", "exec", "--log"])
            .arg(&log)
            .args(["--", "true"]),
    )
    .unwrap();
    for (kind, option) in [
        ("on-cpu", "--sample 99"),
        ("off-cpu", "--off-cpu 1ms"),
        ("wakeup", "--stack-for wakeup"),
    ] {
        let mut ours = Command::new(dist::tracer_user().unwrap());
        let made = ours
            .args(["stat", "--flame", kind])
            .arg(&log)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(!made.status.success() && said.contains(option), "{said}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn the_graphs_of_a_report_are_those_of_stat() {
    if missing_right().is_some() {
        return;
    }
    let run = recorded(&[
        "--sample",
        "997",
        "--off-cpu",
        "1ms",
        "--stack-for",
        "wakeup",
        "--stack",
        "user,kernel",
    ]);
    let page = run.log.with_file_name("report.html");
    let mut ours = Command::new(dist::tracer_user().unwrap());
    command::output(ours.arg("report").arg(&run.log).arg("-o").arg(&page)).unwrap();
    let page = tools::report(&page).unwrap();
    let graphs = page.pointer("/header/flames").unwrap().as_array().unwrap();
    assert_eq!(graphs.len(), 3);
    for (graph, kind) in graphs.iter().zip(["on-cpu", "off-cpu", "wakeup"]) {
        let shown = tools::folded(graph).unwrap();
        let mut expected = folded(&run.log, kind);
        assert!(expected.len() > 1, "{kind}: {expected:?}");
        let mut shown = paths(&shown);
        expected.sort();
        shown.sort();
        assert_eq!(shown, expected, "{kind}");
    }
}
