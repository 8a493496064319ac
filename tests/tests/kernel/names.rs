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

/// Tells whether an event has the name of its thread (`is_exact`), or at least of its process.
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

/// Program that gives itself one name after the other, and before a call says which one the kernel
/// has.
const RENAMES_ITSELF: &str = r#"
import ctypes, os
prctl = ctypes.CDLL(None).prctl
for name in [b"plain", b"caf\xe9", b"caf\xea", b"", b"\xff" * 15, "größe".encode(), b""]:
    prctl(15, name, 0, 0, 0)
    with open("/proc/self/comm", "rb") as comm:
        print(comm.read()[:-1].hex(), flush=True)
    os.getppid()
"#;

/// The name of an event's thread, byte by byte.
fn bytes_of_name(event: &Value) -> String {
    match event.get("comm_bytes") {
        Some(bytes) => bytes.as_str().unwrap().to_owned(),
        None => {
            let bytes = text(event, "comm").bytes();
            bytes.map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

fn calls_of(lines: &[u8]) -> Vec<Value> {
    let lines = std::str::from_utf8(lines).unwrap().lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| event["type"] == "linux_trace_syscall_enter")
        .collect()
}

#[test]
#[ignore = "loads eBPF"]
fn a_name_is_that_of_the_kernel_whatever_its_bytes_are() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (log, shown) = (folder.path().join("log"), folder.path().join("shown"));
    let tracer_user = || Command::new(dist::tracer_user().unwrap());
    let said = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let run = |output: [&std::ffi::OsStr; 2], format: &str| {
        let mut command = tracer_user();
        command.args(["run", "--syscalls", "getppid", "--format", format]);
        command
            .args(output)
            .args(["--", "/usr/bin/python3", "-c", RENAMES_ITSELF]);
        let names = String::from_utf8(said(&mut command)).unwrap();
        names.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let of_kernel = run(["-o".as_ref(), shown.as_os_str()], "json");
    assert_eq!(of_kernel.len(), 7, "{of_kernel:?}");
    let events = calls_of(&std::fs::read(&shown).unwrap());
    let live: Vec<_> = events.iter().map(bytes_of_name).collect();
    assert_eq!(live, of_kernel);

    let mut command = tracer_user();
    command
        .args(["run", "--syscalls", "getppid", "--log"])
        .arg(&log);
    command.args(["--", "/usr/bin/python3", "-c", RENAMES_ITSELF]);
    said(&mut command);
    let read = |format: &str| {
        let mut command = tracer_user();
        command.args(["read", "--format", format, "--events", "syscall-enter"]);
        said(command.arg(&log))
    };
    let events = calls_of(&read("json"));
    let logged: Vec<_> = events.iter().map(bytes_of_name).collect();
    assert_eq!(logged, of_kernel);
    // As people see it, but no other name and none of before.
    let table = String::from_utf8(read("csv")).unwrap();
    let column = table
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(6).unwrap());
    let expected = [
        "plain",
        r"caf\xe9",
        r"caf\xea",
        "",
        &r"\xff".repeat(15),
        "größe",
        "",
    ];
    assert_eq!(column.collect::<Vec<_>>(), expected);
}

/// Runs a command of `tracer-user` and returns what it prints.
fn said(arguments: &[&str]) -> String {
    let mut command = Command::new(dist::tracer_user().unwrap());
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn an_empty_name_is_shown_as_one_and_not_as_an_unknown_one() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("nameless", folder.path()).unwrap();
    let program = program.to_str().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (shown, log, ctf) = (file("shown"), file("log"), file("ctf"));
    let options = ["--events", "fork,rename,exit", "--syscalls", "getppid"];
    let run = |to: [&str; 2]| {
        let run = [&["run"], &options[..], &to, &["--", program]].concat();
        // The kernel has no name for it.
        assert_eq!(said(&run), "[]\n");
    };
    run(["-o", &shown]);
    run(["--log", &log]);
    for lines in [
        std::fs::read_to_string(&shown).unwrap(),
        said(&["read", &log]),
    ] {
        let all = lines.lines().filter(|line| line.contains(" getppid("));
        let calls: Vec<_> = all.collect();
        assert_eq!(calls.len(), 2, "{lines}");
        for call in calls {
            let words: Vec<_> = call.split_whitespace().collect();
            assert_eq!(words[1], "\"\"", "{lines}");
        }
        assert!(lines.contains(" now \"\"\n"), "{lines}");
        assert!(lines.contains(" child \"\" "), "{lines}");
    }
    let json = said(&["read", "--format", "json", "--events", "syscall", &log]);
    let events = json
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named: Vec<_> = events
        .filter_map(|event| event.get("comm").cloned())
        .collect();
    assert!(
        !named.is_empty() && named.iter().all(|name| name == ""),
        "{json}"
    );
    said(&["export", "--to", "ctf", "--output", &ctf, &log]);
    let (lines, _) = tests::tools::babeltrace2(&[], ctf.as_ref()).unwrap();
    let calls = lines
        .lines()
        .filter(|line| line.contains("linux_trace_syscall_enter"));
    let calls: Vec<_> = calls.collect();
    assert_eq!(calls.len(), 2, "{lines}");
    assert!(
        calls.iter().all(|call| call.contains(r#"comm = "\"\"""#)),
        "{lines}"
    );
}
