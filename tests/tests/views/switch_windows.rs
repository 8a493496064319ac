//! Switches that are recorded in windows, so that they cost little.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// Runs the tool with a program that switches some hundred thousand times in some seconds. Returns
/// what the tool says, how often the program's first process left its CPU by itself, and for how
/// much of the time its processes had a CPU, in percent, as the kernel has counted.
fn trace(words: &[&str], folder: &Path) -> (Output, u64, i64) {
    let program = dist::compile("passes", folder).unwrap();
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args(words)
        .arg("--")
        .arg(program)
        .args(["150000", "10000"]);
    let output = tool.output().unwrap();
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let [_, switches, _, ran] = said.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{output:?}");
    };
    let (switches, ran) = (switches.parse().unwrap(), ran.parse().unwrap());
    (output, switches, ran)
}

#[test]
#[ignore = "loads eBPF"]
fn what_threads_that_switch_very_often_do_is_explained_by_windows() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["explain", "--format", "json"];
    let (output, ..) = trace(&words, folder.path());
    // What the tracer says comes behind it.
    let mut values = serde_json::Deserializer::from_slice(&output.stderr).into_iter::<Value>();
    let explained = values.next().unwrap().unwrap();
    let share = explained["unrecorded"]["switches_recorded"].as_u64();
    assert!(share.is_some_and(|share| share < 800), "{explained:#}");
    let time = explained["time"].as_object().unwrap();
    let ns = |key: &str| time[key].as_u64().unwrap();
    let known = time.keys().map(|key| ns(key)).sum::<u64>() - ns("unknown_ns");
    // Nothing is known between windows: of the path of the first thread, or of both.
    let threads = if explained["path_of"].is_null() { 2 } else { 1 };
    let wall = explained["wall_ns"].as_u64().unwrap() * threads;
    let recorded = wall / 1000 * (share.unwrap() + 100);
    assert!(known <= recorded, "{recorded} {explained:#}");
    // What was not recorded is no time of which something should be known.
    assert!(ns("unknown_ns") < known / 5, "{explained:#}");
    // One of both has the CPU, or they wait for it.
    let (ran, waited) = (
        ns("running_ns") + ns("others_running_ns"),
        ns("runnable_ns"),
    );
    assert!(ran > known / 20, "{explained:#}");
    assert!(ran + waited > known * 3 / 4, "{explained:#}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_log_has_all_switches_of_its_windows_and_none_between_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let log_words = log.to_str().unwrap();
    let options = [
        "run",
        "--switch-cost",
        "2",
        "--events",
        "switch,wakeup,exit,thread-state",
    ];
    let words = [&options[..], &["--log", log_words]].concat();
    let (_, switches, ran) = trace(&words, folder.path());

    let read = |words: &[&str]| {
        let mut tool = Command::new(dist::tracer_user().unwrap());
        let output = tool.arg(words[0]).arg(&log).args(&words[1..]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let (mut is_open, mut opened, mut looked, mut left) = (true, 0, 0, 0_u64);
    let mut parent = None;
    for line in read(&["read", "--format", "json"]).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let (name, pid) = (event["type"].as_str(), event["pid"].as_i64());
        // The sums at the end have none.
        let Some(name) = name else { continue };
        match name {
            "posix_trace_filter" => {
                // The identifier of a switch to a thread.
                const SWITCH_IN: u64 = 37;
                let filter = event["data"]["new_filter"].as_array().unwrap();
                let is_filtered = filter.contains(&SWITCH_IN.into());
                assert_eq!(is_filtered, is_open, "{event}");
                is_open = !is_filtered;
                opened += u32::from(is_open);
            }
            "linux_trace_switch_in" | "linux_trace_switch_out" | "linux_trace_wakeup" => {
                assert!(is_open, "{event}");
                parent = parent.or(pid);
                let is_own = pid == parent && event["data"]["preempted"] == false;
                left += u64::from(name.ends_with("switch_out") && is_own);
            }
            "linux_trace_thread_state" if is_open => looked += u32::from(opened > 0),
            _ => {}
        }
    }
    // Both threads are looked at as a window opens, unless one has ended.
    assert!(opened >= 1 && looked >= opened, "{opened} {looked}");
    let stat: Value = serde_json::from_str(&read(&["stat", "--format", "json"])).unwrap();
    let share = stat["unrecorded"]["switches_recorded"].as_u64().unwrap();
    assert!(share < 700, "{}", stat["unrecorded"]);
    // The kernel's own count: in windows each takes longer.
    let all = left * 1000 / share;
    assert!(
        (switches / 2..=switches * 2).contains(&all),
        "{all} {switches}"
    );
    // And of the time in which both had a CPU: by what is known of each.
    let threads = stat["threads"].as_array().unwrap();
    let own = threads.iter().filter(|thread| thread["comm"] == "passes");
    let span = stat["span_ns"].as_i64().unwrap();
    let found: i64 = own
        .map(|thread| {
            let ns = |key: &str| thread[key].as_i64().unwrap();
            ns("running_ns") * 100 / (span - ns("unknown_ns"))
        })
        .sum();
    // The tracer itself takes a part of the CPU in windows.
    assert!((found - ran).abs() <= 35, "{found} {ran}");
    let text = read(&["stat"]);
    assert!(
        text.contains("switches, wake-ups and page faults were recorded in "),
        "{text}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_burst_of_system_calls_does_not_keep_later_windows_from_having_some() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, log) = (
        dist::compile("sudden", folder.path()).unwrap(),
        folder.path().join("log"),
    );
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args(["run", "--switch-cost", "1", "--call-cost", "1"]);
    tool.args(["--events", "switch,wakeup,exit,syscall"]);
    tool.arg("--log").arg(&log).arg("--").arg(program).arg("8");
    let output = tool.output().unwrap();
    // On a busy machine some may be lost, which it says.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");

    let mut tool = Command::new(dist::tracer_user().unwrap());
    let read = tool.arg("read").arg(&log).args(["--format", "json"]);
    let read = read.output().unwrap();
    let (mut are_recorded, mut calls) = (true, vec![0]);
    for line in String::from_utf8(read.stdout).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["type"].as_str() {
            Some("posix_trace_filter") => {
                // The identifier of the beginning of a system call.
                const SYSCALL_ENTER: u64 = 43;
                let filter = event["data"]["new_filter"].as_array().unwrap();
                let before = are_recorded;
                are_recorded = !filter.contains(&SYSCALL_ENTER.into());
                if are_recorded && !before {
                    calls.push(0);
                }
            }
            Some("linux_trace_syscall_enter") => {
                assert!(are_recorded, "{event}");
                *calls.last_mut().unwrap() += 1;
            }
            _ => {}
        }
    }
    let later: u64 = calls.iter().skip(1).sum();
    assert!(calls[0] > 0 && later > 100, "{calls:?}");
}
