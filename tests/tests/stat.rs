//! `tracer-user stat` beside what the kernel counts of each thread.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// What the kernel counts of a thread (`/proc/thread-self/schedstat`): times in nanoseconds.
struct Counted {
    ran: u64,
    waited: u64,
    slices: u64,
}

/// Runs the program under the tracer: what its threads say, and the statistics of the log.
fn traced(threads: &str) -> (HashMap<u64, Counted>, Value) {
    traced_with(threads, &["--syscalls", "fchdir"])
}

/// The same, with these options.
fn traced_with(threads: &str, options: &[&str]) -> (HashMap<u64, Counted>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("schedstat", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.arg("run").args(options).arg("--log").arg(&log);
    let output = run.arg("--").arg(program).arg(threads).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");

    let said = String::from_utf8(output.stdout).unwrap();
    let counted = said.lines().map(|line| {
        let values: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [tid, ran, waited, slices] = values[..] else {
            panic!("{line}");
        };
        let counted = Counted {
            ran,
            waited,
            slices,
        };
        (tid, counted)
    });
    let mut stat = Command::new(dist::tracer_user().unwrap());
    let stat = stat.args(["stat", "--format", "json"]).arg(&log).output();
    let stat = stat.unwrap();
    (
        counted.collect(),
        serde_json::from_slice(&stat.stdout).unwrap(),
    )
}

#[test]
#[ignore = "needs root"]
fn times_of_threads_are_those_that_the_kernel_counts() {
    if missing_right().is_some() {
        return;
    }
    let (counted, stat) = traced("4");

    assert_eq!(counted.len(), 4);
    assert_eq!(stat["lost"], 0, "{stat}");
    assert_eq!(
        (&stat["has_switches"], &stat["has_wakeups"]),
        (&true.into(), &true.into())
    );
    for (tid, counted) in counted {
        let threads = stat["threads"].as_array().unwrap();
        let thread = threads.iter().find(|thread| thread["tid"] == tid).unwrap();
        let ns = |name: &str| thread[name].as_u64().unwrap();
        // Beside the time since it was asked, to its end, the kernel takes off interrupts and what
        // the host took.
        let is_near = |ours: u64, theirs: u64| ours.abs_diff(theirs) < theirs / 10 + 20_000_000;
        assert!(is_near(ns("running_ns"), counted.ran), "{thread}");
        assert!(is_near(ns("runnable_ns"), counted.waited), "{thread}");
        // Each wait ends with a CPU; between the question and its end it may have waited again.
        let waits = thread["waits"]["count"].as_u64().unwrap();
        // In a virtual machine the kernel does not report each switch.
        let not_reported = stat["not_reported"].as_u64().unwrap();
        assert!(not_reported < 20, "{stat}");
        let more = (waits + not_reported).checked_sub(counted.slices).unwrap();
        assert!(more <= 20 + not_reported, "{waits} of {}", counted.slices);
        assert_eq!(ns("stopped_ns"), 0, "{thread}");
        assert!(ns("unknown_ns") == 0 || not_reported > 0, "{thread}");
        // It slept 30 times a millisecond at least.
        assert!(ns("blocked_ns") >= 30_000_000, "{thread}");
        let parts = ["running_ns", "runnable_ns", "blocked_ns"].map(ns);
        assert!(parts.iter().sum::<u64>() <= stat["span_ns"].as_u64().unwrap());
    }
}

#[test]
#[ignore = "needs root"]
fn system_calls_are_as_many_as_were_made_with_their_errors() {
    if missing_right().is_some() {
        return;
    }
    let (_, stat) = traced("3");

    let calls = stat["syscalls"].as_array().unwrap();
    let [call] = &calls[..] else {
        panic!("{stat}");
    };
    assert_eq!(call["name"], "fchdir");
    assert_eq!(
        (&call["count"], &call["errors"]),
        (&300.into(), &300.into())
    );
    assert_eq!(call["took"]["count"], 300);
}

#[test]
#[ignore = "needs root"]
fn what_was_not_recorded_is_said_to_be_unknown() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "exec,exit", "--log"]);
    let output = run.arg(&log).args(["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let mut stat = Command::new(dist::tracer_user().unwrap());
    let output = stat.arg("stat").arg(&log).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no switches were recorded"), "{text}");
}

#[test]
#[ignore = "needs root"]
fn where_events_were_lost_nothing_is_claimed_that_the_kernel_did_not_count() {
    if missing_right().is_some() {
        return;
    }
    let (counted, stat) = traced_with("4", &["--syscalls", "all", "--ring-size", "4K"]);

    assert!(stat["lost"].as_u64().unwrap() > 0, "{stat}");
    let threads = stat["threads"].as_array().unwrap();
    for thread in threads {
        let Some(counted) = thread["tid"].as_u64().and_then(|tid| counted.get(&tid)) else {
            continue;
        };
        let ns = |name: &str| thread[name].as_u64().unwrap();
        assert!(
            ns("running_ns") <= counted.ran + counted.ran / 10 + 20_000_000,
            "{thread}"
        );
        assert!(ns("runnable_ns") <= counted.waited + 20_000_000, "{thread}");
        assert!(ns("unknown_ns") > 0, "{thread}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_gave_way_at_the_beginning_of_a_log_leaves_no_gap_in_the_rest() {
    if missing_right().is_some() {
        return;
    }
    let options = ["--syscalls", "all", "--log-size", "128K"];
    let (counted, stat) = traced_with("64", &options);

    assert_eq!(stat["lost"], 0, "{stat}");
    let threads = stat["threads"].as_array().unwrap();
    let waited = |thread: &Value| thread["runnable_ns"].as_u64().unwrap();
    assert!(threads.iter().any(|thread| waited(thread) > 0), "{stat}");
    // It is the end of the trace alone.
    let longest = counted.values().map(|one| one.ran + one.waited).max();
    assert!(stat["span_ns"].as_u64() < longest, "{stat}");
}

#[test]
#[ignore = "needs root"]
fn calls_and_errors_are_those_that_strace_counts_in_the_same_run() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("schedstat", folder.path()).unwrap();
    let counts = folder.path().join("counts");
    // Its pid stays, and by then it is traced.
    let waits = format!("sleep 2; exec {} 3", program.display());
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-c", "-w", "-S", "name", "-o"])
        .arg(&counts);
    let mut strace = strace
        .args(["--", "sh", "-c", &waits])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let traced = tests::wait_until("a child", Duration::from_secs(10), || {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        // It has tried what it can do on children of its own before.
        let is_shell = |pid: &&str| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm == "sh\n")
        };
        Ok(children
            .split_whitespace()
            .find(is_shell)
            .map(str::to_owned))
    });
    let traced = traced.unwrap();
    let mut stat = Command::new(dist::tracer_user().unwrap());
    let stat = stat.args([
        "stat",
        "--format",
        "json",
        "--syscalls",
        "all",
        "-p",
        &traced,
    ]);
    let stat: Value = serde_json::from_slice(&stat.output().unwrap().stdout).unwrap();
    assert!(strace.wait().unwrap().success());

    assert_eq!(stat["lost"], 0, "{stat}");
    let counts = std::fs::read_to_string(counts).unwrap();
    // Calls that only the program makes, and not the shell before it was traced.
    for name in ["fchdir", "clock_nanosleep", "clone3", "sched_setaffinity"] {
        let line = counts
            .lines()
            .find(|line| line.split_whitespace().last() == Some(name));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        // Share, seconds, microseconds a call, calls, and errors if there are any.
        let theirs: u64 = words[3].parse().unwrap();
        let errors: u64 = words[4].parse().unwrap_or(0);
        let calls = stat["syscalls"].as_array().unwrap();
        let ours = calls.iter().find(|call| call["name"] == name).unwrap();
        // The shell's own `sleep` began before.
        let began_before = u64::from(name == "clock_nanosleep");
        let count = ours["count"].as_u64().unwrap();
        assert!(
            count <= theirs && theirs <= count + began_before,
            "{name}: {ours}, {line:?}"
        );
        assert_eq!(ours["errors"], errors, "{name}: {ours}, {line:?}");
    }
}
