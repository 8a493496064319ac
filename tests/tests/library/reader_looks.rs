//! Readers that look for events while these come, as strace sees what emitting costs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

use tests::dist;
use tests::rights::missing_right;

/// Returns how often the emitting thread wakes another one.
fn wakings(policy: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("reader_looks", folder.path()).unwrap();
    let calls = folder.path().join("calls");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=futex", "-o"]).arg(&calls);
    let output = strace.arg(&program).arg(policy).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let emitter = said.trim().strip_prefix("emitter ").unwrap();
    let calls = fs::read_to_string(&calls).unwrap();
    let own = calls.lines().filter(|line| line.starts_with(emitter));
    own.filter(|line| line.contains("FUTEX_WAKE")).count()
}

#[test]
fn no_event_wakes_an_ordinary_reader_while_events_come() {
    // The first one; and each after a time in which the machine did not let the emitter go on.
    let wakings = wakings("other");
    assert!(wakings < 30, "{wakings}");
}

#[test]
#[ignore = "real-time priorities"]
fn each_event_wakes_a_real_time_reader() {
    if missing_right().is_some() {
        return;
    }
    // The first ones may come before the thread is a real-time one.
    let wakings = wakings("fifo");
    assert!(wakings > 290, "{wakings}");
}
