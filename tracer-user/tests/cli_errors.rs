//! Impossible requests are refused in one line that says what to do, with exit code 2.

use std::process::{Command, Output, Stdio};

fn tracer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracer-user"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it can be run")
}

/// Returns the line that goes with a refusal.
fn refused(arguments: &[&str]) -> String {
    let output = tracer(arguments);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
    assert!(line.starts_with("tracer-user: "), "{arguments:?}: {line}");
    line
}

#[test]
fn what_is_no_pid_is_refused() {
    for pid in ["0", "-1", "me", "", "99999999999"] {
        let line = refused(&["attach", "--", pid]);
        assert!(line.contains("is no pid"), "{line}");
    }
}

#[test]
fn a_pid_of_no_process_is_refused() {
    // Above the most that a kernel gives out.
    let line = refused(&["attach", "--no-system", "4194305"]);
    assert!(line.contains("no process has pid 4194305"), "{line}");
}

#[test]
fn a_pid_is_taken_where_a_log_is_and_by_the_same_option_everywhere() {
    for typed in [
        &["attach", "--no-system", "-p", "4194305"][..],
        &["top", "--once", "--no-system", "-p", "4194305"],
        &["stat", "4194305"],
        &["why", "4194305", "--duration", "1s"],
    ] {
        let line = refused(typed);
        // Who has no right to trace the kernel hears that first.
        let is_taken = line.contains("no process has pid 4194305") || line.contains("CAP_");
        assert!(is_taken, "{typed:?}: {line}");
    }
}

#[test]
fn a_process_that_has_ended_is_refused() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let pid = child.id().to_string();
    let line = refused(&["attach", "--no-system", &pid]);
    assert!(
        line.contains(&format!("no process has pid {pid}")),
        "{line}"
    );
}

#[test]
fn a_thread_is_refused_and_its_process_is_named() {
    let (name, named) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        name.send(link.file_name().unwrap().to_str().unwrap().to_owned())
            .unwrap();
        // Until the sender is dropped.
        let _ = released.recv();
    });
    let line = refused(&["attach", "--no-system", &named.recv().unwrap()]);
    assert!(
        line.contains(&format!("attach to {}", std::process::id())),
        "{line}"
    );
    drop(release);
    thread.join().unwrap();
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let pid = std::process::id().to_string();
    for options in [
        ["--duration", "soon"],
        ["--duration", "-1"],
        ["--events", "no-such-event"],
        ["--events", ""],
        ["--events", "0"],
        ["--format", "no-such-format"],
        ["--ring-size", "1"],
        ["--ring-size", "8X"],
        ["--thread-ring-size", "2G"],
        ["--stream-size", "-8"],
        ["--no-user", "--no-system"],
        ["--output", "/no/such/folder/file"],
        ["--no-such-option", "x"],
    ] {
        let mut arguments = vec!["attach", "--no-system", &pid];
        arguments.extend(options.iter().filter(|word| **word != "--no-system"));
        let line = refused(&arguments);
        let names_it = options
            .iter()
            .any(|word| !word.is_empty() && line.contains(word));
        let is_about_output = options[0] == "--output" && line.contains("/no/such/folder");
        assert!(names_it || is_about_output, "{line}");
    }
}

#[test]
fn an_unknown_event_type_is_answered_with_what_may_be_meant_or_the_known_ones() {
    let line = refused(&["attach", "1", "--events", "fork,frok"]);
    assert!(line.contains("\"frok\"; is fork meant?"), "{line}");
    let line = refused(&["attach", "1", "--events", "everything"]);
    for word in [
        "\"everything\"",
        "fork",
        "exec",
        "exit",
        "switch",
        "wakeup",
        "rename",
        "user",
    ] {
        assert!(line.contains(word), "{line}");
    }
}

#[test]
fn what_is_mistyped_is_named_and_so_is_what_may_be_meant() {
    for (arguments, named) in [
        (&["atach", "1"][..], "no command atach; is attach meant?"),
        (
            &["attach", "--event", "fork", "1"],
            "no option --event; is --events meant?",
        ),
        (
            &["run", "--event", "fork", "--", "ls"],
            "no option --event; is --events meant?",
        ),
        (
            &["attach", "--events", "forkk", "1"],
            "\"forkk\"; is fork meant?",
        ),
        (
            &["run", "--syscalls", "file", "ls"],
            "no system call is called \"file\"",
        ),
        (&["run", "--syscalls", "opneat", "ls"], "is openat meant?"),
    ] {
        let line = refused(arguments);
        assert!(line.contains(named), "{line}");
    }
}

#[test]
fn a_log_is_not_made_over_a_file_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("thesis.tex");
    let name = file.to_str().unwrap();
    std::fs::write(&file, "precious").unwrap();
    let line = refused(&["run", "--no-system", "--log", name, "--", "true"]);
    assert!(
        line.contains("--force") && line.contains("--append"),
        "{line}"
    );
    let line = refused(&[
        "run",
        "--no-system",
        "--log",
        name,
        "--append",
        "--",
        "true",
    ]);
    assert!(line.contains("not a trace log"), "{line}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");

    let forced = ["run", "--no-system", "--log", name, "--force", "--", "true"];
    assert_eq!(tracer(&forced).status.code(), Some(0));
    assert_eq!(tracer(&["info", name]).status.code(), Some(0));
}

#[test]
fn an_error_is_not_reported_twice() {
    for arguments in [&["read", "/etc"][..], &["info", "/etc"]] {
        let line = refused(arguments);
        assert_eq!(line.matches("s a directory").count(), 1, "{line}");
    }
}

#[test]
fn a_command_that_cannot_be_started_is_refused_by_name() {
    for command in ["/no/such/program", "/etc/passwd"] {
        let line = refused(&["run", "--no-system", "--", command]);
        assert!(line.contains(command), "{line}");
    }
}

#[test]
fn missing_arguments_are_refused() {
    assert!(refused(&["attach"]).contains("<PID>"));
    assert!(refused(&["run"]).contains("<COMMAND>"));
    assert_eq!(tracer(&[]).status.code(), Some(2));
}

#[test]
fn help_and_version_are_no_failures() {
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["attach", "--help"],
        &["run", "--help"],
    ] {
        let output = tracer(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn where_json_was_asked_for_a_refusal_is_one_object() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no log").unwrap();
    let text = text.to_str().unwrap();
    for (typed, words) in [
        // What clap refuses,
        (&["info", "--format", "json"][..], "not provided: <FILE>"),
        (
            &["read", text, "--frmt", "--format=json"],
            "no option --frmt",
        ),
        (&["inf", text, "--format", "json"], "is info meant?"),
        (&["events", "--json", "--format", "json"], "cannot be used"),
        (
            &["why", text, "--format", "json", "--slowest", "x"],
            "--slowest",
        ),
        // what makes no sense,
        (&["attach", "me", "--format", "json"], "is no pid"),
        (
            &["read", text, "--format", "json", "--events", "frok"],
            "is fork meant?",
        ),
        (
            &["top", "--once", "--format", "json", "--window", "1y", text],
            "--window",
        ),
        // and what fails.
        (&["info", text, "--format", "json"], "not a trace log"),
        (
            &["stat", "/nowhere/at/all", "--format", "json"],
            "/nowhere/at/all",
        ),
        (&["probes", "4194305", "--json"], "no process has the pid"),
        (&["events", "--btf", text, "--format", "json"], text),
    ] {
        let output = tracer(typed);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{typed:?}: {said}");
        assert_eq!(output.stdout, b"", "{typed:?}");
        let object: serde_json::Value = serde_json::from_str(&said).expect(&said);
        assert!(
            object["error"].as_str().unwrap().contains(words),
            "{typed:?}: {said}"
        );
        assert_eq!(object["exit_code"], 2, "{said}");
        assert_eq!(object["schema"], 1, "{said}");
        assert!(
            object.get("remedy").is_some() && object.get("cause").is_some(),
            "{said}"
        );
        assert!(
            object["remedy"].is_string() || !typed.contains(&"--btf"),
            "{said}"
        );
        assert!(!object["next"].as_str().unwrap().is_empty(), "{said}");
    }
}

#[test]
fn json_of_another_program_is_not_asked_of_this_one() {
    for typed in [
        &["run", "--nonsense", "x", "--", "jq", "--format", "json"][..],
        &["run", "--no-system", "/nowhere/at/all", "--format", "json"],
    ] {
        let line = refused(typed);
        assert!(!line.contains('{'), "{line}");
    }
}

#[test]
fn counting_takes_processes_and_what_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, b"").unwrap();
    let log = log.to_str().unwrap();
    for (typed, says) in [
        (
            &["stat", "--count=calls", "-p", "1"][..],
            "syscalls, switches, faults and points",
        ),
        (
            &["stat", "--count=points", "-p", "1"],
            "add --probe, --usdt or --tracepoint",
        ),
        (
            &["stat", "--tracepoint", "sched:sched_switch", log],
            "a log has what was recorded",
        ),
        (&["stat", "--no-times", "-p", "1"], "--count"),
        (&["stat", "--count", log], "a log has what was recorded"),
        (&["stat", "--interval", "1s", "-p", "1"], "--count"),
        (
            &["stat", "--count", "--interval", "1ms", "-p", "1"],
            "at least 100ms",
        ),
        (
            &["stat", "--count", "--interval", "x", "-p", "1"],
            "--interval",
        ),
        (
            &["stat", "--count", "--sample", "99", "-p", "1"],
            "--sample goes without --count",
        ),
        (&["stat", "--count", "--span", "a", "-p", "1"], "--span"),
        (
            &["stat", "--count", "--flame", "on-cpu", "-p", "1"],
            "--flame",
        ),
    ] {
        let line = refused(typed);
        assert!(line.contains(says), "{typed:?}: {line}");
    }
}
