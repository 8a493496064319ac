//! Exports of a running trace, read by third-party tools: the same events as those of the log of
//! the same run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use tests::log_reader::{run, text};
use tests::rights::missing_right;
use tests::{dist, tools};

/// One run, with its log, its export, and the export of the log.
struct Run {
    folder: TempDir,
}

impl Run {
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn live(&self) -> PathBuf {
        self.folder.path().join("live")
    }

    fn log_export_path(&self) -> PathBuf {
        self.folder.path().join("of-log")
    }

    /// Runs a program with user events, pairs of them, and system calls.
    fn exported(to: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = dist::compile("spans", folder.path()).unwrap();
        let run = Self { folder };
        let output = Command::new(dist::tracer_user().unwrap())
            .args(["run", "--syscalls", "%file", "--stack", "user", "--log"])
            .arg(run.log())
            .args(["--to", to, "--output"])
            .arg(run.live())
            .arg("--")
            .args([&program, Path::new("20")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let output = Command::new(dist::tracer_user().unwrap())
            .args(["export", "--to", to])
            .arg(run.log())
            .arg("--output")
            .arg(run.log_export_path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        run
    }

    /// Events of the log, by type.
    fn counts(&self) -> BTreeMap<String, u64> {
        let output = run("read", &self.log(), &["--format", "json"]).unwrap();
        let mut counts = BTreeMap::new();
        for line in output.stdout.split(|byte| *byte == b'\n') {
            let Ok(event) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            if event.get("type").is_some() {
                *counts.entry(text(&event, "type").to_owned()).or_default() += 1;
            }
        }
        assert_eq!(counts.get("request begin"), Some(&20), "{counts:?}");
        counts
    }
}

#[test]
#[ignore = "needs root"]
fn duckdb_and_polars_count_what_the_log_has() {
    if missing_right().is_some() {
        return;
    }
    let run = Run::exported("parquet");
    for seen in tools::python(&["parquet_file.py", "counts"], &run.live()).unwrap() {
        assert_eq!(seen["counts"], json!(run.counts()), "{seen}");
    }
}

/// Returns the nanoseconds of a date as babeltrace2 writes it: `[SECONDS.NANOSECONDS`.
fn ns(date: &str) -> u64 {
    let digits = date.trim_start_matches('[').replace('.', "");
    digits.parse().unwrap()
}

#[test]
#[ignore = "needs root"]
fn babeltrace2_reads_the_events_of_the_log() {
    if missing_right().is_some() {
        return;
    }
    let run = Run::exported("ctf");
    let [live, of_log] = [run.live(), run.log_export_path()].map(|folder| {
        let (printed, warnings) =
            tools::babeltrace2(&["--clock-seconds", "--no-delta"], &folder).unwrap();
        assert_eq!(warnings, "");
        printed
    });
    let count: u64 = run.counts().values().sum();
    assert_eq!(u64::try_from(live.lines().count()).unwrap(), count);
    assert_eq!(live.lines().count(), of_log.lines().count());
    // Log and export have read the two clocks at different moments, and each reading has its error.
    for (live, of_log) in live.lines().zip(of_log.lines()) {
        let [live, of_log] = [live, of_log].map(|line| line.split_once("] ").unwrap());
        assert_eq!(live.1, of_log.1);
        assert!(
            ns(live.0).abs_diff(ns(of_log.0)) < 100_000,
            "{live:?} {of_log:?}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn perfettos_engine_finds_no_fault_and_the_events_of_the_log() {
    if missing_right().is_some() {
        return;
    }
    let run = Run::exported("perfetto");
    let faults = "SELECT name, value FROM stats WHERE value > 0
        AND severity IN ('error', 'data_loss')";
    let slices = "SELECT name, ts, dur FROM slice ORDER BY ts, name, dur";
    let requests = "SELECT count(*) AS count FROM slice WHERE name = 'request' AND dur > 0";
    let queries = [faults, slices, requests];
    let live = tools::trace_processor(&run.live(), &queries).unwrap();
    let of_log = tools::trace_processor(&run.log_export_path(), &queries).unwrap();
    assert_eq!(live[0], Vec::<Value>::new());
    assert_eq!(live[2], [json!({"count": 20})]);
    assert_eq!(live, of_log);
    // Log and export begin at different moments.
    let decoded = |file: &Path| -> Vec<Value> {
        let decoded = tools::python(&["perfetto_trace.py", "events"], file).unwrap();
        let is_event = |line: &Value| line.get("clocks").is_none();
        decoded.into_iter().filter(is_event).collect()
    };
    assert_eq!(decoded(&run.live()), decoded(&run.log_export_path()));
}

#[test]
#[ignore = "needs root"]
fn a_chrome_trace_has_the_events_of_the_log() {
    if missing_right().is_some() {
        return;
    }
    let run = Run::exported("chrome");
    let [live, of_log] = [run.live(), run.log_export_path()].map(|file| {
        let whole: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        whole["traceEvents"].as_array().unwrap().clone()
    });
    assert!(live.len() > 100, "{}", live.len());
    assert_eq!(live, of_log);
}

#[test]
#[ignore = "needs root"]
fn nothing_is_replaced_unasked_and_nothing_is_left_of_a_trace_that_failed() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tracer = |words: &[&str]| -> Output {
        Command::new(dist::tracer_user().unwrap())
            .args(words)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let names = || -> Vec<String> {
        let names = std::fs::read_dir(folder.path()).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let run = |force: &[&str], command: &str| {
        let words = [
            &["run", "--to", "perfetto", "-o", "out"],
            force,
            &["--", command],
        ]
        .concat();
        tracer(&words)
    };
    // A command that cannot be started leaves no file.
    assert!(!run(&[], "./there-is-none").status.success());
    assert_eq!(names(), Vec::<String>::new());
    std::fs::write(folder.path().join("out"), "precious").unwrap();
    let refused = run(&[], "true");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("--force"), "{said}");
    assert_eq!(
        std::fs::read(folder.path().join("out")).unwrap(),
        b"precious"
    );
    assert!(run(&["--force"], "true").status.success());
    assert_eq!(names(), ["out"]);
    assert_ne!(
        std::fs::read(folder.path().join("out")).unwrap(),
        b"precious"
    );
}

#[test]
#[ignore = "needs root"]
fn a_file_that_may_not_grow_is_an_error_and_leaves_nothing() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut target = Command::new("sh")
        .args(["-c", "while :; do cd /; done"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // All are run before any result is checked, so that the program ends in any case.
    let outputs = ["perfetto", "chrome", "parquet", "ctf"].map(|to| {
        let script = "ulimit -f 16; exec \"$0\" attach $1 --syscalls all --events syscall \
                      --limit 100000 --to $2 -o out";
        let output = Command::new("sh")
            .args(["-c", script])
            .arg(dist::tracer_user().unwrap())
            .args([&target.id().to_string(), to])
            .current_dir(folder.path())
            .output();
        (to, output)
    });
    target.kill().unwrap();
    target.wait().unwrap();
    for (to, output) in outputs {
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains("File too large"), "{to}: {said}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
