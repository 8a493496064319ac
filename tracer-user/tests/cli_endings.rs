//! Ends of traces without kernel events, and their reports. None of this needs privileges.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

fn tracer(arguments: &[&str]) -> Command {
    // The tests may be run with signals ignored: SIGHUP, as `nohup` does; SIGINT and SIGQUIT, as
    // shells do behind `&`.
    let mut command = Command::new("env");
    command.args([
        "--default-signal=HUP,INT,QUIT,TERM",
        env!("CARGO_BIN_EXE_tracer-user"),
    ]);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    tracer(arguments).output().expect("it can be run")
}

/// A process without a trace area. Killed when dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(process: &Child, signal: i32) {
    let pid = i32::try_from(process.id()).unwrap();
    // SAFETY: the call takes integers only; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Waits for the end, but not for ever.
fn ended(mut process: Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(20) {
            process.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_status_of_the_command_is_that_of_the_tool() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let output = output(&["run", "--no-system", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

#[test]
fn what_the_command_writes_goes_its_own_way() {
    let output = output(&[
        "run",
        "--no-system",
        "-o",
        "/dev/null",
        "--",
        "echo",
        "-n",
        "--hello",
    ]);
    assert_eq!(output.stdout, b"--hello");
}

#[test]
fn the_command_has_the_standard_output_for_itself() {
    let run = ["run", "--no-system", "--format", "json"];
    let command = ["--", "echo", "hello"];
    let apart = output(&[&run[..], &command].concat());
    assert_eq!(apart.stdout, b"hello\n");
    let summary: serde_json::Value = serde_json::from_slice(&apart.stderr).unwrap();
    assert!(summary["summary"].is_object(), "{summary}");

    let mixed = output(&[&run[..], &["-o", "-"], &command].concat());
    let mixed = String::from_utf8_lossy(&mixed.stdout);
    assert!(mixed.starts_with("hello\n{\"summary\""), "{mixed}");
}

#[test]
fn text_begins_with_what_its_times_count_from() {
    let run = ["run", "--no-system", "--time"];
    for (kind, said) in [
        ("relative", "# time: seconds since 2"),
        ("delta", "since the line before"),
        ("wall", "UTC"),
        ("monotonic", "monotonic clock"),
    ] {
        let output = output(&[&run[..], &[kind, "--", "true"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        let first = stderr.lines().next().unwrap();
        assert!(
            first.starts_with("# time: ") && first.contains(said),
            "{first}"
        );
    }
}

#[test]
fn colours_are_there_when_they_are_asked_for() {
    let run = |when| output(&["run", "--no-system", "--color", when, "--", "true"]).stderr;
    for (when, is_coloured) in [("auto", false), ("never", false), ("always", true)] {
        assert_eq!(run(when).contains(&0x1b), is_coloured, "{when}");
    }
}

/// Reads as `| head` does, which ends once it has read enough.
#[test]
fn a_trace_whose_lines_are_not_read_any_more_ends_at_once() {
    let sleeper = Sleeper::start();
    let start = Instant::now();
    let mut process = tracer(&["attach", "--no-system", &sleeper.pid()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap());
    let mut header = String::new();
    lines.read_line(&mut header).unwrap();
    assert!(header.starts_with("# time"), "{header}");
    drop(lines);

    // The sleeper, which does nothing, sleeps for a minute.
    assert_eq!(ended(process).code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_trace_without_events_is_not_silent() {
    let sleeper = Sleeper::start();
    let output = output(&[
        "attach",
        "--no-system",
        "--duration",
        "100ms",
        &sleeper.pid(),
    ]);
    let stderr = String::from_utf8_lossy(&output.stderr);

    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let expected = format!("process {} has no trace area", sleeper.pid());
    assert!(stderr.contains(&expected), "{stderr}");
    assert!(stderr.contains("0 events in "), "{stderr}");
    assert!(stderr.ends_with("0 lost\n"), "{stderr}");
}

#[test]
fn the_last_json_line_is_the_summary() {
    let sleeper = Sleeper::start();
    let arguments = [
        "attach",
        "--no-system",
        "--format",
        "json",
        "--duration",
        "0.1",
        &sleeper.pid(),
    ];
    let output = output(&arguments);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();

    assert_eq!(summary["summary"]["events"], serde_json::json!({}));
    assert_eq!(summary["summary"]["lost"]["kernel_ring_full"], 0);
    assert!(summary["summary"]["seconds"].as_f64().unwrap() >= 0.1);
}

#[test]
fn the_targets_end_ends_the_trace() {
    let sleeper = Sleeper::start();
    let mut process = tracer(&["attach", "--no-system", &sleeper.pid()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_line(&mut process, "no trace area");
    drop(sleeper);

    assert_eq!(ended(process).code(), Some(0));
}

#[test]
fn signals_end_an_attached_trace_with_its_closing_line() {
    for ending in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let sleeper = Sleeper::start();
        let mut process = tracer(&["attach", "--no-system", &sleeper.pid()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = wait_for_line(&mut process, "no trace area");
        signal(&process, ending);

        assert_eq!(ended(process).code(), Some(0));
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("0 lost\n"), "{rest}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let options = [
        "run",
        "--no-system",
        "--format",
        "json",
        "-o",
        "-",
        "--",
        "true",
    ];
    let mut process = tracer(&options).stdout(Stdio::piped()).spawn().unwrap();
    drop::<Option<ChildStdout>>(process.stdout.take());

    assert_eq!(ended(process).code(), Some(0));
}

#[test]
fn a_command_that_is_asked_to_end_decides_itself() {
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut process = tracer(&["run", "--no-system", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    signal(&process, libc::SIGTERM);

    assert_eq!(ended(process).code(), Some(5));
}

/// Reads the standard error up to a line that contains `words`, and returns the rest of it.
fn wait_for_line(process: &mut Child, words: &str) -> BufReader<std::process::ChildStderr> {
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(
            stderr.read_line(&mut line).unwrap(),
            0,
            "it ended without a word"
        );
    }
    stderr
}
