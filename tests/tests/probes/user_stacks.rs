//! Stacks of user events: what a program says of where it emits them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::bpftrace::Counted;
use tests::command;
use tests::dist::{self, Linkage};
use tests::namespace::shell;
use tests::rights::missing_right;
use tests::tracer::Tracer;

use crate::stacks::noted_chains;

/// Events of the program whose stacks are compared.
const EVENTS: usize = 5000;

fn tool() -> Command {
    Command::new(dist::tracer_user().unwrap())
}

/// The program that says where it is, with these options.
fn program(folder: &Path, options: &[&str], linkage: Linkage) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/stacks.c");
    let program = folder.join("stacks");
    let options = [&["-DUSER_EVENTS"], options].concat();
    dist::compile_file("cc", &source, &program, &options, linkage).unwrap();
    program
}

/// Records the program's events with these options, and reads the log.
fn recorded(folder: &Path, program: &Path, options: &[&str]) -> (Vec<Value>, Vec<Vec<String>>) {
    let [notes, log] = ["notes", "log"].map(|name| folder.join(name));
    let mut run = tool();
    run.args(["run", "--ring-size", "64M", "--stack", "user"])
        .args(["--stack-for", "user", "--force"])
        .args(options)
        .arg("--log")
        .arg(&log)
        .arg("--")
        .arg(program)
        .arg(EVENTS.to_string())
        .arg(&notes);
    command::text(&mut run).unwrap();
    let lines = command::text(tool().args(["read", "--format", "json"]).arg(&log)).unwrap();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (events.collect(), noted_chains(&notes).unwrap())
}

/// The functions of each event of this type, from where it was emitted to `main`.
fn functions(events: &[Value], event_type: &str) -> Vec<Vec<String>> {
    let of_type = events.iter().filter(|event| event["type"] == event_type);
    let stacks = of_type.map(|event| {
        let frames = event["stack"].as_array();
        let frames = frames.unwrap_or_else(|| panic!("no stack: {event}"));
        let mut names = Vec::new();
        for frame in frames {
            let name = frame["symbol"].as_str().unwrap_or("?");
            names.push(name.to_owned());
            if name == "main" {
                break;
            }
        }
        names
    });
    stacks.collect()
}

/// The stacks of all events are those that the program writes down, and those of the handler begin
/// in it.
fn check(events: &[Value], said: &[Vec<String>]) {
    assert_eq!(said.len(), EVENTS);
    let marks = functions(events, "mark");
    assert_eq!(marks.len(), EVENTS);
    let different = marks.iter().zip(said).find(|(one, other)| one != other);
    assert_eq!(different, None);
    let alarms = functions(events, "alarm");
    assert!(!alarms.is_empty());
    let others: Vec<_> = alarms
        .iter()
        .filter(|names| names.first().is_none_or(|name| name != "on_alarm"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    // Where an event was emitted is the first address of its stack.
    for event in events.iter().filter(|event| event["type"] == "mark") {
        assert_eq!(event["stack"][0]["ip"], event["prog_address"], "{event}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn user_events_have_stacks_where_the_program_says_it_was() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &[], Linkage::Shared);
    let (events, said) = recorded(folder.path(), &program, &["--events", "user"]);
    check(&events, &said);
}

#[test]
#[ignore = "loads eBPF"]
fn without_frame_pointers_tables_say_the_same_and_a_static_library_too() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = ["-DWITHOUT_FRAME_POINTERS"];
    let program = program(folder.path(), &options, Linkage::Static);
    let options = ["--events", "user", "--unwind", "dwarf,2K"];
    let (events, said) = recorded(folder.path(), &program, &options);
    check(&events, &said);
}

#[test]
#[ignore = "loads eBPF"]
fn other_probes_have_no_stacks_then() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &[], Linkage::Shared);
    let probe = format!("{}:point", program.display());
    let options = [
        "--events",
        "user",
        "--probe",
        &probe,
        "--usdt",
        "posixtrace:event",
    ];
    let (events, said) = recorded(folder.path(), &program, &options);
    check(&events, &said);
    let of_probes = ["probe:point", "usdt:posixtrace:event"].map(|name| {
        let of_type = events.iter().filter(|event| event["type"] == name);
        let events: Vec<_> = of_type.collect();
        assert!(events.iter().all(|event| event.get("stack").is_none()));
        events.len()
    });
    let emitted = events
        .iter()
        .filter(|event| event["type"] == "mark" || event["type"] == "alarm");
    assert_eq!(of_probes, [EVENTS, emitted.count()]);
}

#[test]
#[ignore = "loads eBPF"]
fn bpftrace_sees_each_event_with_where_it_was_emitted() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &[], Linkage::Static);
    let path = program.display();
    let mut list = Command::new("bpftrace");
    let list = command::text(list.args(["-l", &format!("usdt:{path}:*")])).unwrap();
    assert!(
        list.lines().any(|line| line.ends_with(":posixtrace:event")),
        "{list}"
    );
    // Its static probes are those of what it starts itself. Here the return address is on top of
    // the stack.
    let script =
        format!("uprobe:{path}:posix_trace_event {{ @[*(uint64 *)reg(\"sp\")] = count(); }}");
    let counted = Counted::others(&script).unwrap();
    let (events, said) = recorded(folder.path(), &program, &["--events", "user"]);
    let counts = counted.end().unwrap();
    check(&events, &said);
    let mut emitted = BTreeMap::new();
    for event in events.iter().filter(|event| event["class"] == "user") {
        let address = &event["stack"][0]["ip"];
        *emitted.entry(format!("[{address}]")).or_insert(0) += 1;
    }
    assert_eq!(counts, emitted);
}

/// Threads that emit, and how often each does.
const THREADS: usize = 16;
const ROUNDS: usize = 2000;

/// Attaches with this script, of which `$pid` is the program, at this depth of pid namespaces. Each
/// event of the program says where it was emitted: that is its stack.
fn check_threads(depth: usize, start: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("event_stacks", folder.path()).unwrap();
    let script = format!(
        "{start}; while ! grep -q posixtrace /proc/$pid/maps; do sleep 0.02; done
        exec \"$0\" attach $pid --format json --ring-size 64M --stream-size 16M \
            --stack user --stack-for user --events user"
    )
    .replace("PROGRAM", &format!("\"$1\" {THREADS} {ROUNDS} \"$2\""));
    let go = folder.path().join("go");
    let tracer = dist::tracer_user().unwrap();
    let mut command = shell(depth, &script, &[&tracer, &program, &go]);
    let mut tracer = Tracer::start_command(&mut command).unwrap();
    tracer.wait_for(|event| event.is_user("waiting")).unwrap();
    fs::write(&go, "").unwrap();
    let trace = tracer.finish().unwrap();

    let mut emitted = [0; 2];
    for event in trace.events().unwrap() {
        let of_type = ["mark", "alarm"]
            .iter()
            .position(|name| event.is_user(name));
        let Some(of_type) = of_type else {
            continue;
        };
        let line: Value = serde_json::from_str(&event.line).unwrap();
        let frames = line["stack"].as_array();
        let frames = frames.unwrap_or_else(|| panic!("no stack: {line}; {}", trace.stderr));
        let names = frames.iter().filter_map(|frame| frame["symbol"].as_str());
        let names = names.collect::<Vec<_>>().join(" ");
        assert!(names.starts_with(event.text().unwrap()), "{line}");
        emitted[of_type] += 1;
    }
    // An event that a handler jumps out of, when its thread gets its ring, is lost and counted.
    let lost = trace.summary().unwrap().all_lost();
    assert!(usize::try_from(lost).unwrap() < THREADS, "{}", trace.stderr);
    assert!(emitted[0] + THREADS > THREADS * ROUNDS, "{emitted:?}");
    assert!(emitted[1] > THREADS, "{emitted:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn threads_whose_handlers_jump_out_have_each_its_own_stacks() {
    if missing_right().is_some() {
        return;
    }
    check_threads(0, "PROGRAM & pid=$!");
}

#[test]
#[ignore = "loads eBPF"]
fn in_pid_namespaces_stacks_are_those_of_their_threads() {
    if missing_right().is_some() {
        return;
    }
    for depth in 1..=2 {
        check_threads(depth, "PROGRAM & pid=$!");
    }
    let from_outside = "unshare --pid --fork PROGRAM & outer=$!; \
                        while ! pid=$(pgrep -P $outer); do sleep 0.02; done";
    check_threads(0, from_outside);
}
