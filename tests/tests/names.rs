//! Each event is shown with its thread's name, or its process's: of threads that live shortly too,
//! and in logs that a program makes of itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use tests::dist;
use tests::log_reader::{run, text};
use tests::rights::missing_right;

const THREADS: usize = 500;
const EVENTS: usize = 8 * THREADS;

struct Scene {
    folder: TempDir,
    program: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = dist::compile("short_threads", folder.path()).unwrap();
        Self { folder, program }
    }

    /// The user events that `tracer-user run` shows of the program.
    fn run(&self, options: &[&str]) -> Vec<Value> {
        let shown = self.folder.path().join("shown");
        let output = Command::new(dist::tracer_user().unwrap())
            .args(["run", "--format", "json", "-o"])
            .arg(&shown)
            .args(options)
            .arg("--")
            .arg(&self.program)
            .arg(THREADS.to_string())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        user_events(&std::fs::read_to_string(shown).unwrap())
    }
}

fn user_events(lines: &str) -> Vec<Value> {
    let events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["class"] == "user").collect()
}

/// Whether an event has the name of its thread (`is_exact`), or at least of its process.
fn is_named(event: &Value, is_exact: bool) -> bool {
    let own = text(&event["data"], "text");
    let index: usize = own.trim_start_matches('w').parse().unwrap();
    let comm = text(event, "comm");
    if index % 2 == 1 && is_exact {
        comm == own
    } else {
        comm == "short_threads" || comm == own
    }
}

fn assert_named(events: &[Value], is_exact: bool) {
    assert_eq!(events.len(), EVENTS);
    let strange = events.iter().find(|event| !is_named(event, is_exact));
    assert_eq!(strange, None);
}

#[test]
#[ignore = "loads eBPF"]
fn threads_that_live_shortly_have_their_names() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    assert_named(&scene.run(&["--events", "user"]), true);
    let log = scene.folder.path().join("log");
    let path = log.to_str().unwrap();
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["run", "--events", "user", "--log", path, "--"])
        .arg(&scene.program)
        .arg(THREADS.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = run("read", &log, &["--format", "json"]).unwrap();
    assert_named(&user_events(&String::from_utf8(read.stdout).unwrap()), true);
}

#[test]
fn without_the_kernel_they_have_their_programs() {
    assert_named(&Scene::new().run(&["--no-system"]), false);
}

#[test]
fn a_log_that_a_program_makes_of_itself_has_names() {
    let scene = Scene::new();
    let log = scene.folder.path().join("log");
    let status = Command::new(&scene.program)
        .arg(THREADS.to_string())
        .arg(&log)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let read = run("read", &log, &["--format", "json"]).unwrap();
    let events = user_events(&String::from_utf8(read.stdout).unwrap());
    assert_named(&events, false);
}
