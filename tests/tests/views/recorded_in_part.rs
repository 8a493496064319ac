//! Answers from logs in which less was recorded than happened.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::rights::missing_right;
use tests::{dist, log_reader};

/// A program that makes processes and sleeps, for a tenth of a second and more.
const SLEEPY: &str = "for i in 1 2 3 4 5; do cat /dev/null; sleep 0.02; done";

struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("log")
    }

    /// Records a program with these options; whether it is recorded.
    fn record(&self, options: &[&str], program: &str) -> (bool, String) {
        let mut run = Command::new(dist::tracer_user().unwrap());
        run.args(["run", "--log"]).arg(self.log()).args(options);
        let output = run.args(["--", "sh", "-c", program]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    }
}

fn answer(command: &str, log: &Path, options: &[&str]) -> Value {
    let options = [&["--format", "json"], options].concat();
    let output = log_reader::run(command, log, &options).unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The time of the threads that ran longest, by state.
fn time_in(log: &Path, state: &str) -> Vec<u64> {
    let statistics = answer("stat", log, &[]);
    let threads = statistics["threads"].as_array().unwrap();
    threads
        .iter()
        .map(|thread| thread[state].as_u64().unwrap())
        .collect()
}

/// Checks that each answer says this in text, and returns what it says as JSON.
fn each_says(log: &Path, words: &str) -> Value {
    let log_again = log.to_str().unwrap();
    let mut said = Value::Null;
    for command in ["stat", "why", "explain", "compare"] {
        let options: &[&str] = match command {
            "why" => &["--whole"],
            "compare" => &[log_again],
            _ => &[],
        };
        let text = log_reader::run(command, log, options).unwrap();
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(text.contains(words), "{command}: {text}");
        let json = answer(command, log, options);
        said = match command {
            "compare" => json["a"][0]["unrecorded"].clone(),
            _ => json["unrecorded"].clone(),
        };
        assert!(said.is_object(), "{command}: {json}");
    }
    said
}

#[test]
#[ignore = "needs root"]
fn what_a_filter_left_out_is_unknown() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let filter = "type != \"linux_trace_switch_out\"";
    assert!(scene.record(&["--filter", filter], SLEEPY).0);
    let said = each_says(&scene.log(), "the log holds only what --filter");
    assert!(
        said["filter"].as_str().unwrap().starts_with("type != "),
        "{said}"
    );
    let running = time_in(&scene.log(), "running_ns");
    assert_eq!(running.iter().sum::<u64>(), 0, "no event says until when");

    let (is_recorded, said) = scene.record(&["--append"], SLEEPY);
    assert!(!is_recorded && said.contains("without --filter"), "{said}");
}

#[test]
#[ignore = "needs root"]
fn system_calls_that_were_not_chosen_are_unknown() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let not_the_reason = || {
        let explained = answer("explain", &scene.log(), &[]);
        let rules = explained["not_the_reason"].as_array().unwrap().iter();
        let rules: Vec<String> = rules.map(|rule| rule["rule"].to_string()).collect();
        assert!(rules.contains(&"\"stopped\"".to_owned()), "{explained:#}");
        rules.contains(&"\"polling\"".to_owned())
    };
    assert!(scene.record(&["--syscalls", "openat, close"], SLEEPY).0);
    let words = "only the system calls that --syscalls \"openat,close\" chose";
    let said = each_says(&scene.log(), words);
    assert_eq!(said["syscalls"], "openat,close");
    assert!(!not_the_reason());
    let (is_recorded, said) = scene.record(&["--append"], SLEEPY);
    assert!(
        !is_recorded && said.contains("without --syscalls"),
        "{said}"
    );

    assert!(scene.record(&["--force", "--syscalls", "all"], SLEEPY).0);
    assert_eq!(answer("stat", &scene.log(), &[])["unrecorded"], Value::Null);
    assert!(not_the_reason());
}

#[test]
#[ignore = "needs root"]
fn threads_that_are_chosen_by_name_are_known_as_long_as_they_have_it() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    // The shell's children are sh until they are another program.
    let filter = ["--filter", "comm == \"sh\"", "--events", "switch,wakeup"];
    assert!(scene.record(&filter, SLEEPY).0);
    each_says(&scene.log(), "the log holds only what --filter");
    let statistics = answer("stat", &scene.log(), &[]);
    let all = statistics["span_ns"].as_u64().unwrap();
    let running = time_in(&scene.log(), "running_ns");
    let blocked = time_in(&scene.log(), "blocked_ns");
    assert!(running.len() > 5, "{statistics:#}");
    assert!(running.iter().all(|ns| *ns < all / 4), "{statistics:#}");
    assert!(blocked.iter().any(|ns| *ns > all / 2), "{statistics:#}");
}

#[test]
#[ignore = "needs root"]
fn between_recordings_nothing_is_known() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    assert!(scene.record(&[], SLEEPY).0);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(scene.record(&["--append"], SLEEPY).0);
    let said = each_says(&scene.log(), "continued by a later recording");
    assert_eq!(said["breaks"], 1);
    let break_ns = said["break_ns"].as_u64().unwrap();
    assert!(break_ns >= 500_000_000, "{said}");
    for state in ["running_ns", "runnable_ns", "blocked_ns"] {
        let ns = time_in(&scene.log(), state);
        assert!(ns.iter().all(|ns| *ns < break_ns), "{state}: {ns:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_came_to_a_full_stream_is_unknown() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let options = ["--full-policy", "until-full", "--stream-size", "64K"];
    let program = "i=0; while [ $i -lt 150 ]; do cat /dev/null; i=$((i + 1)); done; sleep 1";
    assert!(scene.record(&options, program).0);
    let said = each_says(&scene.log(), "its stream was full");
    let break_ns = said["break_ns"].as_u64().unwrap();
    assert!(break_ns >= 1_000_000_000, "{said}");
    for state in ["running_ns", "runnable_ns", "blocked_ns"] {
        let ns = time_in(&scene.log(), state);
        assert!(ns.iter().all(|ns| *ns < break_ns), "{state}: {ns:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn calls_of_a_part_of_the_time_are_said_to_be_that() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let program = "i=0; while [ $i -lt 300 ]; do cat /dev/null; i=$((i + 1)); done";
    let options = ["--syscalls", "all", "--call-cost", "1"];
    assert!(scene.record(&options, program).0);
    let log = scene.log();
    let text = log_reader::run("stat", &log, &[]).unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("system calls were recorded in "), "{text}");
    let said = answer("stat", &log, &[]);
    let share = said["unrecorded"]["calls_recorded"].as_u64().unwrap();
    assert!(share < 900, "{}", said["unrecorded"]);
}

#[test]
#[ignore = "needs root"]
fn calls_are_not_bounded_where_nothing_tells_how_long_threads_run() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let options = ["--events", "fork", "--syscalls", "all", "--call-cost", "1"];
    let (has_succeeded, said) = scene.record(&options, "echo begun >&2");
    assert!(!has_succeeded, "{said}");
    assert!(said.contains("by --events switch"), "{said}");
    assert!(!said.contains("begun"), "{said}");
    let options = [&options[2..], &["--events", "fork,switch"]].concat();
    let (has_succeeded, said) = scene.record(&options, "echo begun >&2");
    assert!(has_succeeded && said.contains("begun"), "{said}");
}
