//! The system calls of a class, against those that strace shows for it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use tests::log_reader::{Log, text};
use tests::rights::missing_right;
use tests::tracer::Tracer;
use tests::{dist, made_calls};

/// Number of calls, more than there are.
const MOST: i32 = 500;

const CLASSES: [&str; 18] = [
    "%file", "%network", "%net", "%process", "%desc", "%memory", "%signal", "%ipc", "%creds",
    "%clock", "%stat", "%lstat", "%fstat", "%%stat", "%statfs", "%fstatfs", "%%statfs", "%pure",
];

/// Table of a call, and its system call number there.
type Call = (i64, i64);

/// The tables that this machine's programs can use, by the word that `every_call` has for them.
fn tables() -> impl Iterator<Item = (i64, &'static str)> {
    let has_compat = cfg!(target_arch = "x86_64");
    let tables = [(0, "native"), (1, "compat")];
    tables
        .into_iter()
        .filter(move |(compat, _)| *compat == 0 || has_compat)
}

/// Runs a program under strace, which shows the calls of `list`, and returns its lines.
fn strace(options: &[&str], list: &str, command: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-e", "signal=none"])
        .args(["-e", &format!("trace={list}")])
        .args(options)
        .arg("-o")
        .arg(&said)
        .args(command)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{list}: {status}");
    let said = fs::read_to_string(said).unwrap();
    said.lines().map(str::to_owned).collect()
}

/// The calls of `every_call` that strace shows for a list, with their names.
fn shown_by_strace(program: &str, list: &str) -> BTreeMap<Call, String> {
    let mut calls = BTreeMap::new();
    for (compat, table) in tables() {
        let command = [program.to_owned(), table.to_owned(), MOST.to_string()];
        for line in strace(&["-n"], list, &command) {
            // "123 [  59] execve(…) = -1 EPERM (…)". What else the program calls is not refused.
            if !line.contains(" = -1 EPERM") {
                continue;
            }
            let (_, line) = line.split_once('[').unwrap();
            let (nr, call) = line.split_once(']').unwrap();
            let (name, _) = call.split_once('(').unwrap();
            let name = name.trim().to_owned();
            // A call that strace does not know is shown for every list.
            if !name.starts_with("syscall_0x") {
                calls.insert((compat, nr.trim().parse().unwrap()), name);
            }
        }
    }
    calls
}

/// The calls of the log that are shown for a list.
fn shown(log: &Log, list: &str) -> BTreeMap<Call, String> {
    let events = log.events(&["--syscalls", list]).unwrap();
    let call = |event: &serde_json::Value| {
        let data = &event["data"];
        let compat = data["compat"].as_bool().unwrap();
        let nr = data["number"].as_i64().unwrap();
        ((compat.into(), nr), text(data, "name").to_owned())
    };
    events.iter().map(call).collect()
}

#[test]
fn a_class_has_the_calls_that_strace_shows_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("every_call", folder.path()).unwrap();
    let program = program.display().to_string();
    let log = Log::written_by(|path| made_calls::write(path, MOST)).unwrap();

    let known = shown_by_strace(&program, "all");
    assert!(known.len() > 300, "{known:?}");
    for class in CLASSES {
        let mut expected = shown_by_strace(&program, class);
        assert!(class == "%lstat" || !expected.is_empty(), "{class}");
        if class == "%network" || class == "%net" {
            // strace classifies such a call by what it does, and those in this log do nothing.
            let socketcall = known.iter().filter(|(_, name)| *name == "socketcall");
            expected.extend(socketcall.map(|(call, name)| (*call, name.clone())));
        }
        let mut shown = shown(&log, class);
        // Calls that are younger than this strace, and the table that has no programs here.
        shown.retain(|call, _| known.contains_key(call));
        assert_eq!(shown, expected, "{class}");
    }
}

#[test]
fn what_is_taken_out_is_what_strace_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("every_call", folder.path()).unwrap();
    let program = program.display().to_string();
    let log = Log::written_by(|path| made_calls::write(path, MOST)).unwrap();

    let known = shown_by_strace(&program, "all");
    // How strace says it, and how we do.
    for (strace, ours) in [
        ("!%file", "!%file"),
        ("!%desc,%file,read", "!%desc,%file,read"),
        ("!%desc,%file,read", "!%desc,!%file,!read"),
        ("/at$", "*at"),
        ("/^(open|close)", "/^(open|close)/"),
        // In expressions of tracer-user a comma belongs to the expression.
        ("!/^epoll_(ctl|wait)$", "!/^epoll_.{3,4}$/"),
        ("%signal,/^[gs]etp", "%signal,/^[gs]etp/"),
    ] {
        let mut shown = shown(&log, ours);
        shown.retain(|call, _| known.contains_key(call));
        assert_eq!(shown, shown_by_strace(&program, strace), "{ours}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_class_without_a_call_is_recorded_as_often_as_strace_shows_it() {
    if missing_right().is_some() {
        return;
    }
    let script = "for file in /etc/passwd /nowhere /etc/hosts; do test -e $file; cat $file; done; \
                  ls -l /etc/passwd | wc -l; cd /tmp; true";
    let script = format!("({script}) >/dev/null 2>&1; exit 0");
    let command = ["/bin/sh", "-c", &script].map(str::to_owned);

    let mut expected = BTreeMap::<String, u64>::new();
    for line in strace(&[], "%file", &command) {
        // "123 open(…) = 3", or its halves "… <unfinished ...>" and "<... open resumed>…".
        let (_, call) = line.split_once(' ').unwrap();
        if let Some((name, _)) = call.trim().split_once('(')
            && !name.starts_with('<')
            && name != "openat"
        {
            *expected.entry(name.to_owned()).or_default() += 1;
        }
    }
    // The trace begins with the end of the exec that starts the program.
    *expected.get_mut("execve").unwrap() -= 1;
    assert!(expected.len() > 2, "{expected:?}");

    let words = ["--events", "exit", "--syscalls", "%file,!openat", "--"];
    let words = words.into_iter().chain(command.iter().map(String::as_str));
    let trace = Tracer::start("run", words).unwrap().finish().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let mut counts = BTreeMap::<String, u64>::new();
    for event in trace.events().unwrap() {
        if event.is_system("syscall_enter") {
            *counts
                .entry(event.word("name").unwrap().to_owned())
                .or_default() += 1;
        }
    }
    assert_eq!(counts, expected);
}
