//! Files and sockets that descriptors refer to, beside strace in the same run and `/proc`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use tests::call_lines::{self, CallLines};
use tests::dist;
use tests::rights::missing_right;
use tests::tracer::Tracer;

/// Calls that both show in the same words.
const COMPARED: &[&str] = &[
    "accept4",
    "bind",
    "close",
    "connect",
    "dup",
    "dup2",
    "dup3",
    "epoll_create1",
    "epoll_ctl",
    "eventfd2",
    "fchdir",
    "fcntl",
    "inotify_init1",
    "listen",
    "lseek",
    "memfd_create",
    "mmap",
    "newfstatat",
    "open",
    "openat",
    "pidfd_open",
    "pipe2",
    "poll",
    "read",
    "renameat",
    "sendto",
    "signalfd4",
    "socket",
    "socketpair",
    "symlinkat",
    "timerfd_create",
    "unlinkat",
];

/// A line as both have it; `None` for a call that is not compared.
fn normal(line: &str) -> Option<String> {
    let (name, _) = line.split_once('(')?;
    if !COMPARED.contains(&name) {
        return None;
    }
    let mut normal = call_lines::normal(line)?;
    // strace shows the number of a device too, and bytes that are not set.
    for (before, behind) in [("<char ", ">"), (" nl_pad=", ",")] {
        while let Some(start) = normal.find(before) {
            let length = normal[start..].find(behind).unwrap() + behind.len();
            normal.replace_range(start..start + length, "");
        }
    }
    Some(normal)
}

/// Runs the program under strace, and that under the tracer with this option. Returns the lines of
/// both, the tracer's from a log.
fn run(option: &str, of_strace: &str, beside: &Path, folder: &Path) -> (CallLines, CallLines) {
    let program = dist::compile("described", beside).unwrap();
    let (log, theirs) = (beside.join("log"), beside.join("strace"));
    let tool = dist::tracer_user().unwrap();
    let mut run = Command::new(&tool);
    run.args(["run", option, "--events", "syscall"]);
    run.args(["--ring-size", "32M", "--stream-size", "256M", "--log"]);
    run.arg(&log)
        .args(["--", "strace", "-f", "-s64", of_strace, "-o"]);
    let output = run.arg(&theirs).arg(program).arg(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains(" 0 lost"),
        "{said}"
    );
    let ours = call_lines::read_log(&tool, &log).unwrap();
    (call_lines::read_strace(&theirs).unwrap(), ours)
}

#[test]
#[ignore = "needs root"]
fn descriptors_are_what_strace_says() {
    if missing_right().is_some() {
        return;
    }
    for (option, of_strace) in [("--descriptors", "-yy"), ("--descriptors=paths", "-y")] {
        let (folder, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (theirs, ours) = run(option, of_strace, beside.path(), folder.path());
        let compared = call_lines::compare(&theirs, &ours, normal);
        assert!(compared.all > 200, "{}", compared.all);
        assert!(
            compared.differ.is_empty(),
            "{} of {}: {:#?}",
            compared.same,
            compared.all,
            compared.differ
        );
        let whole = format!("{ours:?}");
        assert!(whole.contains("in the jail>") && whole.contains(">(deleted)"));
    }
}

#[test]
#[ignore = "needs root"]
fn what_was_open_before_is_known_by_the_name_that_it_has_now() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("a"), folder.path().join("b < \u{1b}[2J"));
    let opened = File::create(&before).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "while :; do echo x; sleep 0.02; done"])
        .stdout(opened)
        .spawn()
        .unwrap();
    fs::rename(&before, &after).unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let options = [
        "--descriptors",
        "--syscalls",
        "write",
        "--events",
        "exec",
        "--no-inherit",
    ];
    let mut tracer = Tracer::attach(pid, &options).unwrap();
    let event = tracer.wait_for(|event| event.data["arguments"]["fd"] == 1);
    let path = fs::read_link(format!("/proc/{pid}/fd/1")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let event = event.unwrap();
    tracer.stop().unwrap();
    assert_eq!(event.data["descriptors"]["fd"], path.to_str().unwrap());
    assert!(path.ends_with("b < \u{1b}[2J"));
}
