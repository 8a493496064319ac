//! `--report` of `attach` and `run`: the page of a trace is the one of its log, and nothing else is
//! left.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tests::log_reader::{run, text};
use tests::rights::missing_right;
use tests::{dist, processes, tools};

const SPANS: usize = 50;

/// `tracer-user SUBCOMMAND`, as one calls it in this folder.
fn tracer(folder: &TempDir, subcommand: &str, options: &[&str]) -> Command {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.arg(subcommand).args(options);
    command.current_dir(folder.path()).stdin(Stdio::null());
    command
}

fn traced(folder: &TempDir, options: &[&str]) -> Output {
    let program = dist::compile("spans", folder.path()).unwrap();
    let mut command = tracer(folder, "run", options);
    command.arg("--").arg(program).arg(SPANS.to_string());
    command.output().unwrap()
}

/// Returns the names of the files in the folder, but for the program.
fn left(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("spans")).collect();
    names.sort();
    names
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).unwrap()
}

/// Returns a page without the title of its log, which has a file's name and the time of its making.
fn without_names(mut page: Value) -> Value {
    let header = page.get_mut("header").and_then(Value::as_object_mut);
    header.unwrap().remove("log");
    page
}

#[test]
fn a_trace_and_its_page_come_in_one_go_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let output = traced(&folder, &["--no-system", "--report", "page.html"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(left(&folder), ["page.html"]);
    let page = tools::report(&folder.path().join("page.html")).unwrap();
    let spans = list(&page, "spans").iter();
    let requests = spans.filter(|span| text(span, "kind") == "request");
    assert_eq!(requests.count(), SPANS);
    let title = page.pointer("/header/log").and_then(Value::as_str);
    assert!(title.unwrap().ends_with(&format!("spans {SPANS}")));
}

#[test]
fn with_a_log_the_page_is_the_one_of_that_log() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--no-system", "--report", "page.html", "--log", "log"];
    let output = traced(&folder, &options);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(left(&folder), ["log", "page.html"]);
    let log = folder.path().join("log");
    let other = folder.path().join("other.html");
    let output = run("report", &log, &["-o", other.to_str().unwrap()]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = |name: &Path| without_names(tools::report(name).unwrap());
    assert_eq!(page(&folder.path().join("page.html")), page(&other));
}

#[test]
fn its_spans_are_those_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let spans = ["--span", "whole=request begin..request end"];
    let options = [&["--no-system", "--report", "page.html"], &spans[..]].concat();
    let output = traced(&folder, &options);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = tools::report(&folder.path().join("page.html")).unwrap();
    let kinds = list(&page, "spans").iter().map(|span| text(span, "kind"));
    assert_eq!(kinds.collect::<Vec<_>>(), ["whole"; SPANS]);
}

#[test]
fn what_cannot_be_written_is_known_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("there.html"), "mine").unwrap();
    for (options, expected) in [
        (&["--report", "there.html"][..], "--force"),
        (&["--report", "no-such-folder/page.html"], "no-such-folder"),
        (&["--report", "-"], "--report -"),
        (&["--report", "a.html", "--output", "b"], "--output"),
        (&["--span", "syscall:read"], "--report"),
        (&["--report", "a.html", "--span", "syscall:nope"], "nope"),
    ] {
        let options = [&["--no-system"], options, &["--", "touch", "started"]].concat();
        let output = tracer(&folder, "run", &options).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(expected), "{options:?}: {said}");
        assert_eq!(left(&folder), ["there.html"], "{options:?}");
    }
    let there = ["--no-system", "--report", "there.html", "--force"];
    let output = traced(&folder, &there);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(left(&folder), ["there.html"]);
    assert!(tools::report(&folder.path().join("there.html")).is_ok());
}

#[test]
fn a_command_that_cannot_be_started_leaves_nothing_and_one_that_fails_leaves_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--no-system", "--report", "page.html", "--"];
    let missing = [&options[..], &["no-such-command"]].concat();
    let output = tracer(&folder, "run", &missing).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(left(&folder), [""; 0]);
    let failing = [&options[..], &["sh", "-c", "exit 7"]].concat();
    let output = tracer(&folder, "run", &failing).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(left(&folder), ["page.html"]);
}

#[test]
#[ignore = "loads eBPF"]
fn ctrl_c_ends_the_trace_and_the_page_is_made() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("spans", folder.path()).unwrap();
    let mut spans = Command::new(program).arg("1000000").spawn().unwrap();
    let pid = spans.id().to_string();
    let mut command = tracer(&folder, "attach", &[&pid, "--report", "page.html"]);
    let tracer = command.stderr(Stdio::piped()).spawn().unwrap();
    // Its log has events in it as soon as it has grown.
    let has_events = || {
        let folders = fs::read_dir(folder.path()).unwrap().flatten();
        let logs = folders.filter_map(|entry| fs::metadata(entry.path().join("log")).ok());
        logs.map(|log| log.len()).max() > Some(100_000)
    };
    let start = Instant::now();
    while !has_events() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    processes::signal(tracer.id().cast_signed(), libc::SIGINT).unwrap();
    let output = tracer.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    spans.kill().unwrap();
    spans.wait().unwrap();
    assert_eq!(left(&folder), ["page.html"]);
    let page = tools::report(&folder.path().join("page.html")).unwrap();
    let threads = list(&page, "threads").iter();
    let mut threads = threads.filter(|thread| thread["pid"].as_u64() == Some(spans.id().into()));
    let totals = threads.next().unwrap().get("totals").unwrap();
    assert!(totals["blocked"].as_f64().unwrap() > totals["running"].as_f64().unwrap());
    assert!(list(&page, "spans").len() > 100);
    let slowest = page.pointer("/header/slowest").unwrap();
    let slowest = slowest.as_array().unwrap().iter();
    let (unknown, known): (Vec<_>, Vec<_>) =
        slowest.partition(|span| text(span, "words").contains("100 %  unknown"));
    // Of a span in which the kernel reported no switch nothing is known.
    assert!(
        unknown.is_empty() || said.contains("the kernel did not report"),
        "{unknown:#?}, {said}"
    );
    // The machine may have held one up so that it computed for longer than others wait.
    let waits = |span: &&&Value| text(span, "words").contains("clock_nanosleep");
    let waiting = known.iter().filter(waits).count();
    assert!(2 * waiting > known.len(), "{known:#?}");
}
