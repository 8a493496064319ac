//! Commands that the tracer starts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

use tests::dist;
use tests::event::Event;
use tests::processes::Killed;
use tests::rights::missing_right;
use tests::tracer::{Trace, Tracer};

#[test]
#[ignore = "loads eBPF"]
fn a_commands_first_event_is_its_exec() {
    if missing_right().is_some() {
        return;
    }
    let trace = Tracer::start("run", ["--", "/bin/true"])
        .and_then(Tracer::finish)
        .unwrap();
    let events = trace.events().unwrap();
    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
    let first = &events[0];
    assert!(first.is_system("exec"), "{}", first.line);
    assert_eq!(first.data["file"], "/bin/true");
    let last = events.iter().rfind(|event| event.is_system("exit"));
    assert_eq!(last.expect("its exit").pid, first.pid);
}

/// Starts a process that wants the first CPU all the time.
fn busy_process() -> Killed {
    let mut other = Command::new("taskset");
    let other = other.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    Killed(other.spawn().expect("taskset runs"))
}

/// Makes sure that the program was traced beyond its exit.
fn check_traced_beyond_exit(trace: &Trace) {
    let events = trace.events().expect("its events");
    let mut exits = events.iter().filter(|event| event.is_system("exit"));
    let exit = exits.next().expect("its exit");
    let switches = events
        .iter()
        .filter(|event| event.is_system("switch_out") && event.pid == exit.pid);
    let last = switches.max_by_key(|event| event.ns);
    let last = last.expect("switches away from it");
    assert!(last.ns > exit.ns, "{}", last.line);
}

#[test]
#[ignore = "loads eBPF"]
fn a_command_whose_memory_is_freed_for_long_is_traced_until_then_and_gives_its_status() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("frees_late", folder.path()).unwrap();
    let _busy = busy_process();
    let arguments = [
        OsStr::new("--events=switch,exec,exit"),
        OsStr::new("--"),
        program.as_os_str(),
        OsStr::new("64"),
        OsStr::new("0"),
    ];
    let trace = Tracer::start("run", arguments)
        .and_then(Tracer::finish)
        .unwrap();
    assert_eq!(trace.status.code(), Some(7), "{}", trace.stderr);
    assert!(!trace.stderr.contains("runs on"), "{}", trace.stderr);
    check_traced_beyond_exit(&trace);
}

#[test]
#[ignore = "loads eBPF"]
fn a_process_whose_memory_is_freed_for_long_is_traced_until_then() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("frees_late", folder.path()).unwrap();
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", "read go; exec \"$0\" 64 0"]).arg(program);
    let mut shell = Killed(shell.stdin(Stdio::piped()).spawn().unwrap());
    let _busy = busy_process();
    let pid = shell.0.id().try_into().unwrap();
    let mut tracer = Tracer::attach(pid, &["--events", "switch,exec,exit"]).unwrap();
    // It looks at what is there once it traces that.
    let is_look = |event: &Event| event.is_system("thread_state");
    tracer.wait_for(is_look).unwrap();
    drop(shell.0.stdin.take());
    let trace = tracer.finish().unwrap();
    assert!(shell.0.try_wait().unwrap().is_some(), "it is still there");
    check_traced_beyond_exit(&trace);
}

#[test]
#[ignore = "loads eBPF"]
fn what_a_command_says_and_what_is_traced_of_it_go_apart() {
    if missing_right().is_some() {
        return;
    }
    let mut run = Command::new(dist::tracer_user().unwrap());
    let run = run.args(["run", "--format", "json", "--", "echo", "hello"]);
    let output = run.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n");
    // Every line of the other is JSON, as `jq` wants it.
    let lines = String::from_utf8(output.stderr).unwrap();
    for line in lines.lines() {
        tests::event::Line::parse(line).unwrap();
    }
    assert!(lines.contains("linux_trace_exec"), "{lines}");
}

#[test]
#[ignore = "loads eBPF"]
fn nothing_happens_under_a_name_that_only_the_tracer_knows() {
    if missing_right().is_some() {
        return;
    }
    let trace = Tracer::start("run", ["--", "/bin/true"])
        .and_then(Tracer::finish)
        .unwrap();
    for event in trace.events().unwrap() {
        assert!(!event.line.contains("\"command\""), "{}", event.line);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_a_command_and_its_children_emit_at_once_is_all_there() {
    if missing_right().is_some() {
        return;
    }
    const EVENTS: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("burst", folder.path()).unwrap();
    let events = EVENTS.to_string();
    // Large enough for all, however late the tracer gets a processor.
    let arguments = [
        OsStr::new("--thread-ring-size"),
        OsStr::new("4M"),
        OsStr::new("--"),
        program.as_os_str(),
        OsStr::new(&events),
        OsStr::new("3"),
    ];
    let trace = Tracer::start("run", arguments)
        .and_then(Tracer::finish)
        .unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let mut seen: BTreeMap<i32, usize> = BTreeMap::new();
    for event in trace.events().unwrap() {
        if event.is_user("burst") {
            let next = seen.entry(event.pid).or_default();
            assert_eq!(event.text(), Some(&*format!("{} {next}", event.pid)));
            *next += 1;
        }
    }
    // Each runs itself twice, three times over: 1 + 2 + 4 + 8.
    assert_eq!(seen.len(), 15);
    assert!(seen.values().all(|count| *count == EVENTS), "{seen:?}");
}
