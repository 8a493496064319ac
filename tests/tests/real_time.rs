//! Effects of the library on real-time threads: a prepared one emits without a page fault and
//! without a system call, and none waits for a thread whose priority is between its own and that of
//! an ordinary thread.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

use tests::command;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;

/// Time limit of a call; the thread in the middle has the CPU for three times as long.
const FAR_LESS_THAN_THE_HOG_NS: i64 = 10_000_000;

/// `SCHED_FIFO` at the reader's priority, as the program says it.
const FIFO_50: i64 = 150;

/// A recorder that waits for an emission looks again every 20 µs, and sleeps in between: more than
/// a thousand times in the 200 ms that it does so at most.
const FAR_LESS_THAN_A_WAIT_SLEEPS: i64 = 100;

/// Calls that come after all that was emitted before.
const AMID_CALLS: [&str; 4] = ["flush", "set_filter", "stop", "start"];

/// Runs the program with these arguments and returns what it prints.
fn said(linkage: Linkage, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/real_time.c");
    let program = folder.path().join("real_time");
    let options = ["-Wall", "-Wextra", "-Werror"];
    dist::compile_file("cc", &source, &program, &options, linkage).unwrap();
    command::text(Command::new(program).args(arguments)).unwrap()
}

/// Has a thread make calls while another one is stopped amid an emission, which begins anew when
/// its thread goes on, or does not. Checks that none of the calls waits for it, and that all is
/// there in the end, in order.
fn expect_no_wait_amid(case: &str, begins_anew: bool, calls: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("amid", folder.path()).unwrap();
    let sequences = format!("glibc.pthread.rseq={}", i32::from(begins_anew));
    let mut command = Command::new(program);
    command.arg(case).env("GLIBC_TUNABLES", sequences);
    let said = command::text(&mut command).unwrap();
    for call in calls {
        let slept = value(&said, call);
        assert!(slept < FAR_LESS_THAN_A_WAIT_SLEEPS, "{call}: {said}");
    }
    assert_eq!(value(&said, "overrun"), 0, "{said}");
    assert!(said.ends_with("events 0 1 2 1000\n"), "{said}");
    said
}

/// The value behind a word.
fn value(said: &str, word: &str) -> i64 {
    let mut words = said.split_whitespace();
    words.find(|found| *found == word);
    words.next().and_then(|value| value.parse().ok()).unwrap()
}

/// Checks that none of these calls takes as long as the thread in the middle runs; `with`: a
/// further argument.
fn expect_no_wait(calls: &[&str], with: Option<&str>) {
    for call in calls {
        let arguments: Vec<&str> = ["call", *call, "150"].into_iter().chain(with).collect();
        let longest: i64 = said(Linkage::Shared, &arguments).trim().parse().unwrap();
        assert!(longest < FAR_LESS_THAN_THE_HOG_NS, "{call}: {longest}");
    }
}

// clause: np.prefault
#[test]
#[ignore = "real-time priorities"]
fn a_prepared_thread_emits_without_page_faults_and_system_calls() {
    if missing_right().is_some() {
        return;
    }
    for linkage in [Linkage::Shared, Linkage::Static] {
        // At a system call the program ends, and says which.
        let said = said(linkage, &["emit", "10000000"]);
        assert!(value(&said, "traced") >= 10_000_000, "{said}");
        // A tracer was attached all the time.
        assert!(value(&said, "self") > 10_000, "{said}");
        assert!(value(&said, "other") > 10_000, "{said}");
        assert_eq!(value(&said, "faults"), 0, "{said}");
    }
}

#[test]
#[ignore = "locks memory"]
fn the_first_event_does_not_fill_a_window_that_is_not_prepared() {
    if missing_right().is_some() {
        return;
    }
    let said = said(Linkage::Shared, &["first"]);
    // A window has 1,024 pages.
    assert!(value(&said, "faults") < 50, "{said}");
}

// clause: np.priority
#[test]
#[ignore = "real-time priorities"]
fn no_control_call_waits_for_who_runs_in_between() {
    if missing_right().is_some() {
        return;
    }
    let calls = [
        "event",
        "status",
        "attr",
        "trygetnext",
        "get_filter",
        "set_filter",
        "get_name",
        "list",
        "open",
        "start_stop",
        "clear",
        "create",
        "create_used",
    ];
    expect_no_wait(&calls, None);
}

// clause: np.priority
#[test]
#[ignore = "real-time priorities"]
fn the_recorder_answers_with_the_priority_of_the_thread_that_waits() {
    if missing_right().is_some() {
        return;
    }
    let calls = [
        "status",
        "attr",
        "trygetnext",
        "get_filter",
        "set_filter",
        "get_name",
        "list",
        "open",
        "start_stop",
        "clear",
        "flush",
        "create",
    ];
    expect_no_wait(&calls, Some("log"));
}

// clause: np.priority
#[test]
#[ignore = "real-time priorities"]
fn no_control_call_waits_for_an_emission_that_begins_anew() {
    if missing_right().is_some() {
        return;
    }
    for case in ["of_an_ordinary_thread", "of_a_real_time_thread"] {
        let said = expect_no_wait_amid(case, true, &AMID_CALLS);
        assert_eq!(value(&said, "youngest"), 1, "{said}");
        assert_eq!(value(&said, "goes_on"), 0, "{said}");
    }
}

// clause: np.priority
#[test]
#[ignore = "real-time priorities"]
fn a_real_time_thread_waits_for_no_emission_and_its_flush_goes_on() {
    if missing_right().is_some() {
        return;
    }
    expect_no_wait_amid("without_a_log", false, &AMID_CALLS[1..]);
    let said = expect_no_wait_amid("of_a_real_time_thread", false, &AMID_CALLS);
    assert_eq!(value(&said, "eldest"), 1, "{said}");
    assert_eq!(value(&said, "youngest"), 0, "{said}");
    assert_eq!(value(&said, "goes_on"), 1, "{said}");
    assert_eq!(value(&said, "then"), 1, "{said}");
}

// clause: np.waking
#[test]
#[ignore = "real-time priorities"]
fn a_real_time_reader_is_woken_in_time_and_leaves_an_ordinary_thread_behind() {
    if missing_right().is_some() {
        return;
    }
    let said = said(Linkage::Shared, &["wake"]);
    assert!(value(&said, "longest") < FAR_LESS_THAN_THE_HOG_NS, "{said}");
    assert_eq!(value(&said, "real-time"), FIFO_50, "{said}");
    assert_eq!(value(&said, "after"), 0, "{said}");
    assert_eq!(value(&said, "ordinary"), 0, "{said}");
}

// clause: np.prefault.memory
#[test]
fn what_a_process_has_prepared_stays_as_long_as_the_process() {
    let said = said(Linkage::Shared, &["memory"]);
    let prepared = value(&said, "prepared");
    // Two windows, and what comes before them.
    assert!(prepared > 8 << 10, "{said}");
    assert_eq!(value(&said, "used"), prepared, "{said}");
    assert!(value(&said, "ended") <= prepared - (8 << 10), "{said}");
}
