//! Functions in which a program waits, as `why` names them, beside what the program says of its
//! own waits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::log_reader::{integer, run, text};
use tests::rights::missing_right;

/// The waits of the program, in milliseconds, and the calls in which they are.
const WAITS: [(&str, &str, u64); 4] = [
    ("wait_for_lock", "epoll_wait", 6),
    ("wait_for_log", "epoll_wait", 3),
    ("wait_for_disk", "poll", 4),
    ("take_a_nap", "clock_nanosleep", 2),
];

const ROUNDS: u64 = 20;

/// Runs the program, with stacks as these options say: the log, and what it says of its waits.
fn traced(folder: &Path, options: &[&str]) -> (PathBuf, String) {
    let program = dist::compile("named_waits", folder).unwrap();
    let log = folder.join("log");
    let mut traced = Command::new(dist::tracer_user().unwrap());
    traced.args(["run", "--stack", "user"]).args(options);
    traced.args(["--stack-for", "switch-out", "--ring-size", "8M", "--log"]);
    let output = traced.arg(&log).arg("--").arg(program);
    let output = output.arg(ROUNDS.to_string()).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");
    (log, String::from_utf8(output.stdout).unwrap())
}

/// Stacks by frame pointers, which the C library may not have: a function is called innermost only
/// where it is.
#[test]
#[ignore = "loads eBPF"]
fn a_caller_is_not_said_to_be_the_innermost() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = traced(folder.path(), &[]);
    let why = run("why", &log, &["--format", "json"]).unwrap();
    let why: Value = serde_json::from_slice(&why.stdout).unwrap();
    let parts = why["spans"][0]["parts"].as_array().unwrap().iter();
    let mut named = 0;
    for part in parts.filter(|part| part["state"] == "blocked") {
        let function = part["function"].as_str();
        let is_waits = WAITS.iter().any(|(name, ..)| function == Some(*name));
        assert!(is_waits || part["innermost"] != true, "{part}");
        named += u64::from(function.is_some());
    }
    assert!(named > 0, "{why}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_wait_is_in_the_function_that_the_program_says() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (log, said) = traced(folder.path(), &["--unwind", "dwarf"]);
    let said = said.lines().map(|line| line.split_once(' ').unwrap());
    let said: BTreeMap<&str, u64> = said.map(|(name, ns)| (name, ns.parse().unwrap())).collect();

    let why = run("why", &log, &["--format", "json", "--slowest", "1"]).unwrap();
    let why: Value = serde_json::from_slice(&why.stdout).unwrap();
    let request = &why["spans"].as_array().unwrap()[0];
    assert_eq!(request["took"]["count"], ROUNDS, "{why}");
    let words = run("why", &log, &[]).unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    for (function, call, ms) in WAITS {
        let parts = request["parts"].as_array().unwrap().iter();
        let of_it: Vec<&Value> = parts.filter(|part| part["function"] == function).collect();
        assert!(
            of_it.iter().all(|part| part["innermost"] == true),
            "{of_it:?}"
        );
        assert!(!of_it.is_empty(), "{function}: {request}");
        assert!(
            of_it.iter().all(|part| text(part, "in") == call),
            "{of_it:?}"
        );
        // It waited as long as it asked for, and no longer than it was in there.
        let ns: i64 = of_it.iter().map(|part| integer(part, "ns")).sum();
        let ns = u64::try_from(ns).unwrap();
        let least = (ms * 1_000_000 - 500_000) * ROUNDS;
        assert!(
            (least..=said[function]).contains(&ns),
            "{function}: {ns} of {said:?}"
        );
        let line = format!("blocked in {call} at {function}, woken by a timer");
        assert!(words.contains(&line), "{line}: {words}");
    }
    stat_says_the_same(&log, &said);
}

/// Of the process, `stat` has each function that waits too, by the call in which it does.
fn stat_says_the_same(log: &Path, said: &BTreeMap<&str, u64>) {
    let stat = run("stat", log, &["--format", "json"]).unwrap();
    let stat: Value = serde_json::from_slice(&stat.stdout).unwrap();
    let thread = &stat["threads"].as_array().unwrap()[0];
    let reasons = thread["blocked_in"].as_array().unwrap();
    for (function, call, ms) in WAITS {
        let of_call = reasons.iter().find(|reason| reason["in"] == call);
        let at = of_call.unwrap()["at"].as_array().unwrap();
        let of_it: Vec<&Value> = at.iter().filter(|at| at["function"] == function).collect();
        let [of_it] = of_it[..] else {
            panic!("{function}: {thread}");
        };
        let ns = u64::try_from(integer(of_it, "ns")).unwrap();
        let least = (ms * 1_000_000 - 500_000) * ROUNDS;
        assert!(
            (least..=said[function]).contains(&ns),
            "{function}: {ns} of {said:?}"
        );
    }
    let text = run("stat", log, &[]).unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    // It waits for the lock longest.
    let line = text.lines().find(|line| line.contains("epoll_wait"));
    assert!(line.unwrap().contains(" %, at wait_for_lock "), "{text}");
}
