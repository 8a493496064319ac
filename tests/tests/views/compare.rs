//! `tracer-user compare`, of runs into which one thing was put on purpose, and of runs of the same
//! program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tests::cgroup::Cgroup;
use tests::rights::missing_right;
use tests::{dist, is_whole};

/// A fault, the cause that is to be found, and the system call that goes with it.
const FAULTS: [(&str, &str, Option<&str>); 10] = [
    ("reads", "ran", Some("pread64")),
    ("cold", "blocked in pread64 for a device", Some("pread64")),
    (
        "disk",
        "blocked in fdatasync for a device",
        Some("fdatasync"),
    ),
    ("compute", "ran", None),
    (
        "lock",
        "blocked in futex, for another thread",
        Some("futex"),
    ),
    (
        "timer",
        "blocked in clock_nanosleep, for a timer",
        Some("clock_nanosleep"),
    ),
    (
        "command",
        "blocked in wait4, for another thread",
        Some("wait4"),
    ),
    ("pipe", "blocked in read, for another thread", Some("read")),
    ("quota", "throttled by its control group", None),
    ("crowd", "waited for a CPU", None),
];

/// The program, and a folder on a disk for its files and logs.
struct Lab {
    folder: TempDir,
    program: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = dist::compile("regression", folder.path()).unwrap();
        Self { folder, program }
    }

    /// Records a run with a fault.
    fn record(&self, fault: &str, log: &str) -> PathBuf {
        let log = self.folder.path().join(log);
        let group = (fault == "quota").then(|| Cgroup::with("cpu").unwrap());
        let mut run = Command::new(dist::tracer_user().unwrap());
        run.args(["run", "--syscalls", "all", "--ring-size", "32M"]);
        run.args(["--stream-size", "64M", "--log"]);
        run.arg(&log).arg("--").arg(&self.program).arg(fault);
        run.arg(self.folder.path());
        run.args(group.iter().map(Cgroup::path));
        let output = run.output().unwrap();
        assert!(output.status.success(), "{fault}: {output:?}");
        log
    }

    fn record_some(&self, fault: &str, kind: &str) {
        for nth in 0..3 {
            self.record(fault, &format!("{kind}{nth}.log"));
        }
    }

    /// The pattern of the logs of a kind.
    fn pattern(&self, kind: &str) -> String {
        format!("{}/{kind}*.log", self.folder.path().display())
    }
}

fn compare<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Value {
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["compare", "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the subject that differs: spans, or the process as a whole.
fn subject<'a>(answer: &'a Value, kind: &str) -> &'a Value {
    let mut subjects = answer["subjects"].as_array().unwrap().iter();
    subjects.find(|subject| subject["kind"] == kind).unwrap()
}

/// Whether the subject is slower, and that for this cause first, with this call. Who waits more
/// often waits for a CPU more often too, where others want the CPUs.
fn is_found(subject: &Value, cause: &str, call: Option<&str>) -> bool {
    const FOR_CPU: &str = "waited for a CPU";
    let mut causes = subject["causes"].as_array().unwrap().iter();
    let first = causes.find(|of| cause == FOR_CPU || of["cause"] != FOR_CPU);
    let Some(first) = first else {
        return false;
    };
    let mut calls = first["syscalls"].as_array().unwrap().iter();
    subject["verdict"] == "slower"
        && first["cause"] == cause
        && call.is_none_or(|call| calls.any(|of| of["name"] == call))
}

#[test]
#[ignore = "loads eBPF"]
fn the_cause_that_was_put_in_is_first() {
    if missing_right().is_some() {
        return;
    }
    let lab = Lab::new();
    let rounds = if is_whole() { 2 } else { 1 };
    let mut missed = Vec::new();
    for round in 0..rounds {
        let before = lab.record("none", &format!("before{round}.log"));
        for (fault, cause, call) in FAULTS {
            let after = lab.record(fault, &format!("{fault}{round}.log"));
            let answer = compare(&[&before, &after]);
            for kind in ["span", "whole"] {
                let subject = subject(&answer, kind);
                if !is_found(subject, cause, call) {
                    missed.push(format!("{fault} of the {kind}: {subject:#}"));
                }
            }
        }
    }
    // Of each, the spans and the whole.
    assert!(missed.len() <= 2 * rounds, "{}", missed.join("\n"));
}

#[test]
#[ignore = "loads eBPF"]
fn runs_of_the_same_program_raise_no_alarm() {
    if missing_right().is_some() {
        return;
    }
    let lab = Lab::new();
    let pairs = if is_whole() { 20 } else { 4 };
    let mut alarms = Vec::new();
    for pair in 0..pairs {
        let logs = ["a", "b"].map(|side| lab.record("none", &format!("{side}{pair}.log")));
        let answer = compare(&logs);
        let subjects = answer["subjects"].as_array().unwrap();
        let is_alarm = |subject: &&Value| subject["verdict"] == "slower";
        alarms.extend(subjects.iter().find(is_alarm).cloned());
    }
    assert!(alarms.len() <= 1, "{alarms:#?}");
}

#[test]
#[ignore = "loads eBPF"]
fn several_runs_of_each_side_tell_chance_from_change() {
    if missing_right().is_some() {
        return;
    }
    let lab = Lab::new();
    lab.record_some("none", "old");
    lab.record_some("timer", "new");
    let (old, new) = (lab.pattern("old"), lab.pattern("new"));
    let answer = compare(&["--a", &old, "--b", &new]);
    let whole = subject(&answer, "whole");
    assert_eq!(whole["a"]["runs"], 3);
    // Two of the twenty ways to deal six runs out to two sides differ as much.
    assert!(
        (whole["chance"].as_f64().unwrap() - 0.1).abs() < 1e-9,
        "{whole}"
    );
    assert!(
        is_found(whole, "blocked in clock_nanosleep, for a timer", None),
        "{whole:#}"
    );
    // The parts add up to the whole, on both sides.
    for side in ["a", "b"] {
        let causes = whole["causes"].as_array().unwrap().iter();
        let key = format!("{side}_ns");
        let sum: u64 = causes.map(|cause| cause[&key].as_u64().unwrap()).sum();
        let mean = whole[side]["mean_ns"].as_u64().unwrap();
        assert!(sum.abs_diff(mean) < 100, "{sum} {mean}");
    }
    let text = Command::new(dist::tracer_user().unwrap())
        .args(["compare", "--a", &old, "--b", &new])
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("span request: slower"), "{text}");
    assert!(
        text.contains("3 and 3 runs; by chance alone in 100 of 1000 cases"),
        "{text}"
    );
    let missing = Command::new(dist::tracer_user().unwrap())
        .args(["compare", "--a", &lab.pattern("none"), "--b", &new])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("matches no file"));
    let folder: &Path = lab.folder.path();
    assert!(folder.exists());
}
