//! Events that are chosen by their data, beside what strace shows of the same run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use tests::event::{Event, Line};
use tests::rights::missing_right;
use tests::{dist, tools};

/// Calls that fail, and calls that do not, in several processes.
const SCRIPT: &str = "cat /nowhere/one /etc/passwd >/dev/null; ls /nowhere/two /etc >/dev/null; \
                      stat /proc/self/nothing; mkdir /etc; rmdir /etc; kill -0 1; \
                      test -r /etc/hostname; /bin/true; sleep 0.05";

fn tracer_user(arguments: &[&str]) -> Output {
    let mut command = Command::new(dist::tracer_user().unwrap());
    // Nothing is looked for in the folders of our own build.
    command.env_remove("LD_LIBRARY_PATH");
    command.args(arguments).output().unwrap()
}

/// The events that `tracer-user read` shows of a log.
fn read(log: &Path, options: &[&str]) -> Vec<Event> {
    let arguments = ["read", log.to_str().unwrap(), "--format", "json"];
    let output = tracer_user(&[&arguments, options].concat());
    events(&String::from_utf8(output.stdout).unwrap())
}

fn events(lines: &str) -> Vec<Event> {
    let lines = lines.lines().map(|line| Line::parse(line).unwrap());
    let events = lines.filter_map(|line| match line {
        Line::Event(event) => Some(event),
        Line::Summary(_) => None,
    });
    events.collect()
}

/// Runs the script under strace, and that under `tracer-user run`.
fn run(options: &[&str], strace: &[&str], theirs: &Path) -> Output {
    let sizes = [
        "--events",
        "syscall,exec",
        "--ring-size",
        "32M",
        "--stream-size",
        "256M",
    ];
    let (start, theirs) = (["run"], theirs.to_str().unwrap());
    let command = ["--", "strace", "-f", "-qq", "-e", "signal=none"];
    let script = ["-o", theirs, "sh", "-c", SCRIPT];
    let output = tracer_user(&[&start, &sizes[..], options, &command, strace, &script].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains(" lost:"), "{said}");
    output
}

/// Reads the lines that strace wrote, by thread: one for each call that has ended.
fn read_strace(file: &Path) -> BTreeMap<i32, Vec<String>> {
    let mut calls: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    let mut begun = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let (tid, words) = line.split_once(char::is_whitespace).unwrap();
        let (tid, words): (i32, _) = (tid.parse().unwrap(), words.trim_start());
        let whole = if let Some(start) = words.strip_suffix(" <unfinished ...>") {
            begun.insert(tid, start.to_owned());
            continue;
        } else if let Some((_, rest)) = words.split_once(" resumed>") {
            begun.remove(&tid).unwrap() + rest
        } else {
            words.to_owned()
        };
        if whole.contains('(') {
            calls.entry(tid).or_default().push(whole);
        }
    }
    calls
}

/// Name and error of a line of strace.
fn failure(line: &str) -> Option<(String, String)> {
    let (name, _) = line.split_once('(')?;
    let (_, result) = line.rsplit_once(" = ")?;
    let result = result
        .strip_prefix("-1 ")
        .or_else(|| result.strip_prefix("? "))?;
    let error = result.split_whitespace().next()?;
    Some((name.to_owned(), error.to_owned()))
}

/// Compares, thread by thread, what `tracer-user` shows of failed calls with what strace does.
fn compare_failures(ours: &[Event], theirs: &Path) {
    let theirs = read_strace(theirs);
    let mut compared = 0;
    for (tid, lines) in &theirs {
        let of_thread = || ours.iter().filter(|event| event.tid == *tid);
        let exits = of_thread().filter(|event| event.is_system("syscall_exit"));
        let exits = exits.map(|event| {
            let word = |name| event.word(name).unwrap_or_default().to_owned();
            (word("name"), word("error"))
        });
        let exits: Vec<_> = exits.collect();
        let expected: Vec<_> = lines.iter().filter_map(|line| failure(line)).collect();
        // The first ones may be strace's own, before its exec.
        let ours = exits
            .get(exits.len().saturating_sub(expected.len())..)
            .unwrap();
        assert_eq!(ours, expected, "thread {tid}");
        compared += expected.len();
        // Each has its entry.
        let entries = of_thread().filter(|event| event.is_system("syscall_enter"));
        assert_eq!(entries.count(), exits.len(), "thread {tid}");
    }
    assert!(theirs.len() > 3 && compared > 10, "{theirs:?}");
    for path in ["/nowhere/one", "/nowhere/two", "/proc/self/nothing"] {
        let has_path = |event: &Event| event.line.contains(path);
        let shown = ours.iter().filter(|event| event.is_system("syscall_enter"));
        assert!(shown.filter(|event| has_path(event)).count() > 0, "{path}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn failed_calls_are_those_of_strace_live_and_in_a_log() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    let (theirs, lines) = (path("strace"), path("lines"));
    let options = [
        "--failed",
        "--format",
        "json",
        "-o",
        lines.to_str().unwrap(),
    ];
    run(&options, &["--failed-only"], &theirs);
    let live = events(&std::fs::read_to_string(&lines).unwrap());
    compare_failures(&live, &theirs);
    // Whatever else is recorded is shown too.
    assert!(live.iter().any(|event| event.is_system("exec")));

    let log = path("log");
    let options = ["--log", log.to_str().unwrap()];
    run(&options, &["--failed-only"], &theirs);
    compare_failures(&read(&log, &["--failed"]), &theirs);
    compare_failures(&read(&log, &["--filter", "has(error)"]), &theirs);
    // In order of time, for the formats that need it.
    let ctf = path("ctf");
    let options = ["--failed", "--events", "syscall", "--to", "ctf"];
    let files = ["export", log.to_str().unwrap(), "-o", ctf.to_str().unwrap()];
    let output = tracer_user(&[&files, &options[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let (printed, warnings) = tools::babeltrace2(&[], &ctf).unwrap();
    assert_eq!(warnings, "");
    let shown = read(&log, &["--failed", "--events", "syscall"]);
    assert_eq!(printed.lines().count(), shown.len());
    // In statistics every call that is left has failed, and the threads are as they were.
    let stat = |options: &[&str]| {
        let start = ["stat", log.to_str().unwrap(), "--format", "json"];
        let output = tracer_user(&[&start, options].concat());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let (all, failed) = (stat(&[]), stat(&["--failed"]));
    let calls = failed["syscalls"].as_array().unwrap();
    let count = |name: &str| {
        calls
            .iter()
            .filter_map(|call| call[name].as_u64())
            .sum::<u64>()
    };
    assert_eq!(count("count"), count("errors"));
    assert_eq!(count("count") * 2, u64::try_from(shown.len()).unwrap());
    assert_eq!(all["threads"], failed["threads"]);
}

#[test]
#[ignore = "loads eBPF"]
fn an_expression_chooses_what_strace_has_lines_of() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    let (theirs, log) = (path("strace"), path("log"));
    let options = ["--log", log.to_str().unwrap()];
    run(&options, &["-T"], &theirs);
    let theirs = read_strace(&theirs);
    let tids: BTreeSet<i32> = theirs.keys().copied().collect();
    let lines: Vec<_> = theirs.into_values().flatten().collect();
    // By how they are in a line of strace, with the time that it took at the end.
    type Matches = fn(&str) -> bool;
    let took = |line: &str| -> f64 {
        let time = line.rsplit_once('<').map_or("", |(_, time)| time);
        // Of what never ends there is none.
        time.trim_end_matches('>').parse().unwrap_or(0.0)
    };
    let long = lines.iter().filter(|line| took(line) > 0.04);
    let long = long
        .filter(|line| line.starts_with("clock_nanosleep"))
        .count();
    for (filter, matches) in [
        (
            "syscall == \"openat\" && filename.startsWith(\"/etc\")",
            (|line| line.starts_with("openat(AT_FDCWD, \"/etc")) as Matches,
        ),
        ("error == \"ENOENT\" && syscall == \"openat\"", |line| {
            line.starts_with("openat") && line.contains(" = -1 ENOENT")
        }),
        ("syscall in [\"mkdir\", \"rmdir\"] && ret < 0", |line| {
            (line.starts_with("mkdir") || line.starts_with("rmdir")) && line.contains(" = -1 ")
        }),
        (
            "syscall.startsWith(\"clock_nano\") && duration > duration(\"40ms\")",
            |line| line.starts_with("clock_nanosleep"),
        ),
        (
            "[\"/nowhere/one\"][0] == filename || pathname == \"/nowhere/one\" || \
              pathname == \"/nowhere/two\" || filename.matches(\"^/nowhere/t.o$\")",
            |line| {
                let is_argument = |path| line.contains(&format!("\"/nowhere/{path}\""));
                !line.starts_with("execve")
                    && !line.starts_with("write")
                    && (is_argument("one") || is_argument("two"))
            },
        ),
    ] {
        let shown = read(&log, &["--filter", filter]);
        let ours = |name: &str| {
            let of_script = shown.iter().filter(|event| tids.contains(&event.tid));
            of_script.filter(|event| event.is_system(name)).count()
        };
        let expected = lines.iter().filter(|line| matches(line)).count();
        assert!(expected > 0, "{filter}: {lines:#?}");
        assert_eq!(ours("syscall_exit"), expected, "{filter}");
        assert_eq!(ours("syscall_enter"), expected, "{filter}");
    }
    assert_eq!(long, 1);
}

#[test]
#[ignore = "loads eBPF"]
fn what_cannot_match_is_not_recorded() {
    if missing_right().is_some() {
        return;
    }
    // A ring that small holds some thousands of events. This makes half a million, and while it
    // does, the tracer takes nothing out.
    let script = "kill -STOP $PPID; dd if=/dev/zero of=/dev/null bs=1 count=250000; \
                  kill -CONT $PPID; cat /nowhere/one";
    let many = ["--", "sh", "-c", script];
    let small = [
        "run",
        "--events",
        "syscall",
        "--ring-size",
        "1M",
        "--format",
        "json",
    ];
    let run = |filter| {
        let output = tracer_user(&[&small[..], &["--filter", filter], &many].concat());
        // The command has the standard output for itself.
        let said = String::from_utf8(output.stderr).unwrap();
        let lines = said.lines().filter(|line| line.starts_with("{\""));
        let lines: Vec<_> = lines.map(|line| Line::parse(line).unwrap()).collect();
        let lost = lines.iter().find_map(|line| match line {
            Line::Summary(summary) => Some(summary.all_lost()),
            Line::Event(_) => None,
        });
        let events = lines.into_iter().filter_map(|line| match line {
            Line::Event(event) => Some(event),
            Line::Summary(_) => None,
        });
        (lost.unwrap(), events.collect::<Vec<_>>())
    };
    // Of a name nothing is known before there is an event.
    let (lost, _) = run("comm == \"no-such-name\"");
    assert!(lost > 400_000, "{lost}");
    for filter in [
        "syscall == \"openat\"",
        "pathname == \"/\" || syscall.matches(\"^openat$\")",
        "filename.startsWith(\"/etc/ld.so\") && ret >= 0 && comm == \"dd\"",
    ] {
        let (lost, events) = run(filter);
        assert_eq!(lost, 0, "{filter}");
        let opens = events
            .iter()
            .filter(|event| event.word("name") == Some("openat"));
        assert!(opens.count() >= 2, "{filter}: {events:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_a_log_cannot_have_in_order_is_refused() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    for option in [&["--failed"][..], &["--filter", "ret < 0"]] {
        let start = ["run", "--log", log.to_str().unwrap()];
        let output = tracer_user(&[&start, option, &["--", "true"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("tracer-user read LOG"), "{said}");
        assert!(!log.exists());
    }
    let start = [
        "run",
        "--syscalls",
        "openat",
        "--log",
        log.to_str().unwrap(),
    ];
    let filter = ["--filter", "syscall == \"openat\" || type == \"exec\""];
    let output = tracer_user(&[&start, &filter[..], &["--", "cat", "/nowhere/one"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = read(&log, &[]);
    let has = |name: &str| shown.iter().any(|event| event.is_system(name));
    assert!(has("exec") && has("syscall_enter") && has("syscall_exit") && !has("switch_in"));
}
