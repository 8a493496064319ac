//! The recorder that waits for something.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// Runs a command under a recorder that waits: what it says, and the logs that are there then.
fn waiting(folder: &Path, options: &[&str], command: &[&str]) -> (String, Vec<PathBuf>) {
    let output = run(folder, options, command);
    assert_ne!(output.status.code(), Some(2), "{output:?}");
    let mut logs: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("log")
        })
        .collect();
    logs.sort();
    (String::from_utf8(output.stderr).unwrap(), logs)
}

fn run(folder: &Path, options: &[&str], command: &[&str]) -> Output {
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.arg("run").arg("--log").arg(folder.join("log"));
    run.args(options).arg("--").args(command).output().unwrap()
}

/// Asks a command about a log and returns its answer, which is JSON.
fn asked(words: &[&str], log: &Path) -> Value {
    let mut tracer = Command::new(dist::tracer_user().unwrap());
    let output = tracer.args(words).arg(log).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
#[ignore = "needs root"]
fn a_slow_span_is_explained_and_its_log_has_what_led_to_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("spans", folder.path()).unwrap();
    let options = ["--when", "span request > 1ms", "--keep", "20ms"];
    let (said, logs) = waiting(folder.path(), &options, &[program.to_str().unwrap(), "100"]);

    // All of them take longer; one log a second is enough.
    let [log] = &logs[..] else {
        panic!("{logs:?}: {said}");
    };
    assert_eq!(log.file_name().unwrap(), "log.1");
    let mut lines = said.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("span request took 1."), "{said}");
    assert!(
        first.contains("more than 1.000 ms") && first.ends_with("log.1"),
        "{said}"
    );
    let why = lines.next().unwrap();
    assert!(
        why.contains("blocked in clock_nanosleep, woken by a timer"),
        "{said}"
    );
    assert!(
        said.contains("times, 1 logs: others came too soon"),
        "{said}"
    );

    let info = asked(&["info", "--format", "json"], log);
    assert_eq!(info["completed"], true, "{info}");
    let why = asked(&["why", "--format", "json", "--span", "request"], log);
    let count = why["spans"][0]["took"]["count"].as_u64().unwrap();
    assert!((1..=20).contains(&count), "{why}");
    let stat = asked(&["stat", "--format", "json"], log);
    assert!(stat["span_ns"].as_u64().unwrap() <= 20_000_000, "{stat}");
}

#[test]
#[ignore = "needs root"]
fn an_event_of_the_kernel_is_waited_for_by_each_of_its_names() {
    if missing_right().is_some() {
        return;
    }
    // Rare ones, and one that is not recorded unless it is named.
    for name in [
        "thread-exit",
        "linux_trace_exec",
        "LINUX_TRACE_EXIT",
        "fault-user",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let when = format!("event {name}");
        let options = ["--when", &when, "--most-logs", "1"];
        let command = ["python3", "-c", THREAD];
        let (said, logs) = waiting(folder.path(), &options, &command);
        assert_eq!(logs.len(), 1, "{name}: {said}");
        assert!(said.starts_with(&when), "{said}");
    }
}

/// A thread that comes and goes.
const THREAD: &str = "import threading; threading.Thread(target=int).start()";

#[test]
#[ignore = "needs root"]
fn ends_and_signals_and_events_are_waited_for() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (said, logs) = waiting(
        folder.path(),
        &["--when", "exit != 0", "--most-logs", "1"],
        &["sh", "-c", "true; (exit 3); (exit 4); exit 0"],
    );
    assert_eq!(logs.len(), 1, "{said}");
    assert!(said.starts_with("exit with status 3: sh "), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "kill -USR1 $$; sleep 5"];
    let (said, logs) = waiting(folder.path(), &["--when", "signal SIGUSR1"], &command);
    assert_eq!(logs.len(), 1, "{said}");
    assert!(said.starts_with("SIGUSR1: sh "), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "sleep 0.2"];
    let (said, logs) = waiting(folder.path(), &["--when", "blocked > 100ms"], &command);
    assert!(!logs.is_empty(), "{said}");
    assert!(said.starts_with("a thread was blocked for 2"), "{said}");
    assert!(
        said.contains("blocked in clock_nanosleep, woken by a timer"),
        "{said}"
    );

    let folder = tempfile::tempdir().unwrap();
    let (said, logs) = waiting(folder.path(), &["--when", "span x > 1s"], &["true"]);
    assert!(
        logs.is_empty() && said.starts_with("0 times, 0 logs"),
        "{said}"
    );
}

#[test]
#[ignore = "needs root"]
fn logs_that_are_there_are_left_alone() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("log.3");
    std::fs::write(&there, "mine").unwrap();
    let output = run(folder.path(), &["--when", "exit != 0"], &["false"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(std::fs::read(&there).unwrap(), b"mine");

    let output = run(folder.path(), &["--when", "sleepy"], &["false"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("is no condition; give 'span NAME > 5ms'"),
        "{said}"
    );
}

#[test]
#[ignore = "needs root"]
fn a_log_that_cannot_be_written_is_told_by_the_exit_status() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let command = [
        "sh",
        "-c",
        "rmdir \"$0\"; (exit 3); true",
        gone.to_str().unwrap(),
    ];
    let output = run(&gone, &["--when", "exit != 0"], &command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("log.1: No such file or directory"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
#[ignore = "needs root"]
fn a_condition_may_be_held_to_some_threads() {
    if missing_right().is_some() {
        return;
    }
    // Both sleep; the shell waits for each as long as that one does.
    let command = ["sh", "-c", "sleep 0.2; cp /bin/sleep victim; ./victim 0.2"];
    for (whose, expected) in [
        ("comm == \"victim\"", "victim"),
        ("comm == 'sleep'", "sleep"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let when = format!("blocked > 100ms && {whose}");
        let mut run = Command::new(dist::tracer_user().unwrap());
        run.args([
            "run", "--log", "log", "--keep", "10ms", "--when", &when, "--",
        ]);
        let output = run
            .args(command)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let struck: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("a thread was blocked"))
            .collect();
        assert_eq!(struck.len(), 1, "{said}");
        assert!(struck[0].contains(&format!(": {expected} ")), "{said}");
        assert!(said.contains("1 times, 1 logs"), "{said}");
    }
    let refused = run(
        Path::new("/tmp"),
        &["--when", "exit != 0 && cpu == 1"],
        &["true"],
    );
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
