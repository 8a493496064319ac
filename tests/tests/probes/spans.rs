//! Spans: those of `posix_trace_begin_np()` and `posix_trace_end_np()`, system calls and functions,
//! in a log and live.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

fn tracer_user(words: &[&str]) -> Output {
    let mut tracer = Command::new(dist::tracer_user().unwrap());
    tracer.args(words).output().unwrap()
}

fn json(output: &[u8]) -> Value {
    serde_json::from_slice(output).unwrap()
}

/// The spans of this name.
fn find_named<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let kinds = answer["spans"].as_array().unwrap();
    let of_name = kinds.iter().find(|kind| kind["name"] == name);
    of_name.unwrap_or_else(|| panic!("{name}: {answer}"))
}

#[test]
#[ignore = "needs root"]
fn spans_that_a_program_marks_are_found_with_what_they_waited_for() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("spans", folder.path()).unwrap();
    let (program, log) = (program.to_str().unwrap(), folder.path().join("log"));
    let log = log.to_str().unwrap();
    let run = tracer_user(&["run", "--log", log, "--", program, "100"]);
    assert!(run.status.success(), "{run:?}");

    let why = json(&tracer_user(&["why", "--format", "json", log]).stdout);
    let request = find_named(&why, "request");
    assert_eq!(request["took"]["count"], 100, "{why}");
    // Each sleeps a millisecond, in the span within it.
    assert!(request["took"]["p50_ns"].as_u64().unwrap() >= 1_000_000);
    let asleep = request["blocked_ns"].as_u64().unwrap();
    assert!(asleep >= 90 * 1_000_000, "{request}");
    let parts = request["parts"].as_array().unwrap();
    assert_eq!(parts[0]["in"], "clock_nanosleep", "{request}");
    assert_eq!(parts[0]["waker"]["kind"], "timer", "{request}");
    let kinds = why["spans"].as_array().unwrap();
    let long = kinds.iter().filter(|kind| {
        let name = kind["name"].as_str().unwrap();
        name.starts_with("nnnn") && kind["took"]["count"] == 100
    });
    assert_eq!(long.count(), 1, "{why}");
    assert_eq!(kinds.len(), 2, "{why}");

    // The slowest alone, and what was open at its beginning.
    let slowest = &why["slowest"][0];
    // To the nanosecond: another one may have taken the same microseconds.
    let ns = slowest["ns"].as_u64().unwrap();
    let limit = format!("{}.{:03}us", ns / 1000, ns % 1000);
    let longer = ["why", "--format", "json", "--longer-than", &limit, log];
    let longer = json(&tracer_user(&longer).stdout);
    assert_eq!(
        find_named(&longer, "request")["took"]["count"],
        1,
        "{longer}"
    );
    let text = tracer_user(&["why", "--brief", log]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!((5..=40).contains(&text.lines().count()), "{text}");
    assert!(text.starts_with("request: 100 spans, "), "{text}");
    let none = tracer_user(&["why", "--longer-than", "1h", log]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");

    // A part of what its thread did adds up to the part.
    let tid = slowest["tid"].to_string();
    let read = tracer_user(&["read", "--limit", "1", log]).stdout;
    let read = String::from_utf8(read).unwrap();
    let first = read.lines().find(|line| !line.starts_with('#')).unwrap();
    let first: f64 = first.split_whitespace().next().unwrap().parse().unwrap();
    let [from, until] = [0.06, 0.09].map(|after| format!("{:.6}s", first + after));
    let part = ["why", "--format", "json", "--segments", "--thread", &tid];
    let part = [&part[..], &["--from", &from, "--until", &until]].concat();
    let part = json(&tracer_user(&[&part[..], &[log]].concat()).stdout);
    let segments = part["slowest"][0]["segments"].as_array().unwrap();
    let sum: u64 = segments.iter().map(|one| one["ns"].as_u64().unwrap()).sum();
    assert_eq!(sum, 30_000_000, "{part}");
    let asleep = segments.iter().filter(|one| one["in"] == "clock_nanosleep");
    let asleep: u64 = asleep.map(|one| one["ns"].as_u64().unwrap()).sum();
    assert!(asleep >= 25_000_000, "{part}");
}

#[test]
#[ignore = "needs root"]
fn answers_are_found_live_too() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("spans", folder.path()).unwrap();
    let program = program.to_str().unwrap();

    // The command has the standard output for itself.
    let why = [
        "why", "--format", "json", "--span", "request", "--", program, "50",
    ];
    let why = tracer_user(&why);
    assert!(why.status.success(), "{why:?}");
    assert_eq!(why.stdout, b"2\n");
    let why = json(&why.stderr);
    let count = find_named(&why, "request")["took"]["count"]
        .as_u64()
        .unwrap();
    // The first may begin before its type is known.
    assert!((49..=50).contains(&count), "{why}");

    let calls = ["--syscalls", "clock_nanosleep", "--", program, "50"];
    let stat = tracer_user(&[&["stat", "--format", "json"][..], &calls].concat());
    assert!(stat.status.success(), "{stat:?}");
    let stat = json(&stat.stderr);
    let of_call = stat["syscalls"].as_array().unwrap().iter();
    let mut of_call = of_call.filter(|call| call["name"] == "clock_nanosleep");
    assert_eq!(of_call.next().unwrap()["count"], 50, "{stat}");
    let threads = stat["threads"].as_array().unwrap();
    let mostly = &threads[0]["blocked_in"][0];
    assert_eq!(mostly["in"], "clock_nanosleep", "{stat}");
}

#[test]
#[ignore = "needs root"]
fn system_calls_are_spans_that_are_asked_for_by_name() {
    if missing_right().is_some() {
        return;
    }
    let why = [
        "why",
        "--format",
        "json",
        "--span",
        "syscall:clock_nanosleep",
    ];
    let why = tracer_user(&[&why[..], &["--", "sleep", "0.05"]].concat());
    assert!(why.status.success(), "{why:?}");
    let why = json(&why.stderr);
    let call = find_named(&why, "clock_nanosleep");
    assert_eq!(call["took"]["count"], 1, "{why}");
    assert!(call["took"]["total_ns"].as_u64().unwrap() >= 50_000_000);
    let slowest = &why["slowest"][0];
    assert_eq!(slowest["comm"], "sleep");
    assert_eq!(slowest["parts"][0]["in"], "clock_nanosleep", "{why}");
}

#[test]
#[ignore = "needs root"]
fn a_function_is_a_span_from_its_entry_to_its_return() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("spans", folder.path()).unwrap();
    let why = [
        "why",
        "--format",
        "json",
        "--span",
        "libc.so.6:usleep",
        "--",
    ];
    let why = tracer_user(&[&why[..], &[program.to_str().unwrap(), "20"]].concat());
    assert!(why.status.success(), "{why:?}");
    let why = json(&why.stderr);
    let function = find_named(&why, "usleep");
    let count = function["took"]["count"].as_u64().unwrap();
    // The first may begin before the type of its end is known.
    assert!((19..=20).contains(&count), "{why}");
    assert_eq!(function["parts"][0]["in"], "clock_nanosleep", "{why}");
}

#[test]
#[ignore = "needs root"]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    for (words, says) in [
        (&["why"][..], "--all"),
        (&["why", "a", "--all"], "cannot be used with"),
        (&["why", "--all", "-p", "1"], "cannot be used with"),
        (&["why", "--at", "1s", "--", "true"], "go with a log"),
        (
            &["why", "--span", "x=a..a", "--", "true"],
            "begins with what it ends with",
        ),
        (&["stat", "--duration", "1", "log"], "goes with processes"),
        (&["why", "/dev/null"], "/dev/null"),
    ] {
        let output = tracer_user(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains(says) && said.lines().count() == 1,
            "{words:?}: {said}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn who_wakes_is_traced_too_where_that_is_asked_for() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fifo = |name: &str| {
        let path = folder.path().join(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        path.to_str().unwrap().to_owned()
    };
    let (asks, answers) = (fifo("asks"), fifo("answers"));
    let client =
        format!("exec 3>{asks} 4<{answers}; for i in 1 2 3 4 5; do echo x >&3; read y <&4; done");
    let mut found = Vec::new();
    for options in [&["--follow-wakers"][..], &[]] {
        let server = format!("while read x; do sleep 0.05; echo y; done <{asks} >{answers}");
        let mut server = Command::new("sh").args(["-c", &server]).spawn().unwrap();
        let why = ["why", "--format", "json", "--span", "syscall:read"];
        let why = tracer_user(&[&why[..], options, &["--", "sh", "-c", &client]].concat());
        assert!(server.wait().unwrap().success());
        let why = json(&why.stderr);
        let parts = find_named(&why, "read")["parts"].as_array().unwrap();
        let is_answer =
            |part: &&Value| part["in"] == "read" && part["waker"]["thread"]["comm"] == "sh";
        found.push(parts.iter().find(is_answer).unwrap().clone());
    }
    // Once it is traced, it is seen to wait for another one, which is not followed so far.
    let within = found[0]["within"].as_array().unwrap();
    let waits = within.iter().find(|part| part["in"] == "wait4").unwrap();
    assert!(waits["ns"].as_u64().unwrap() >= 3 * 50_000_000, "{found:?}");
    assert!(found[1]["within"].is_null(), "{found:?}");
}

#[test]
#[ignore = "needs root"]
fn all_of_a_command_is_explained_up_to_its_end() {
    if missing_right().is_some() {
        return;
    }
    let short = ["why", "--format", "json", "--whole", "--", "true"];
    let short = json(&tracer_user(&short).stderr);
    assert!(short["slowest"][0]["segments"].is_null(), "{short}");
    // It may leave its CPU as it ends, and never before.
    let ns = |part: &str| short["spans"][0][part].as_u64().unwrap();
    assert!(ns("running_ns") > ns("unknown_ns"), "{short}");
    let whole = [
        "why",
        "--format",
        "json",
        "--segments",
        "--whole",
        "--",
        "sh",
        "-c",
    ];
    let why = tracer_user(&[&whole[..], &["sleep 0.05; sleep 0.1; true"]].concat());
    assert!(why.status.success(), "{why:?}");
    let why = json(&why.stderr);
    let slowest = &why["slowest"][0];
    assert_eq!(slowest["name"], "sh", "{why}");
    let asleep = slowest["segments"].as_array().unwrap().iter();
    let asleep = asleep.filter(|one| one["in"] == "clock_nanosleep" && one["depth"] == 1);
    let asleep: u64 = asleep.map(|one| one["ns"].as_u64().unwrap()).sum();
    // The shell may run for a moment yet while the first one sleeps already.
    assert!((140_000_000..250_000_000).contains(&asleep), "{why}");
}

#[test]
#[ignore = "needs root"]
fn a_span_that_is_not_there_is_an_error_with_its_reason_in_logs_and_live() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let log = log.to_str().unwrap();
    let run = ["run", "--syscalls", "openat,read", "--log", log];
    let run = tracer_user(&[&run[..], &["--", "cat", "/dev/null"]].concat());
    assert!(run.status.success(), "{run:?}");
    for (span, says) in [
        ("opennat", "no pair of events is called opennat"),
        ("openat", "--span syscall:openat"),
        ("syscall:open", "openat"),
        ("x=a..b", "no event type is called a"),
        ("libc.so.6:usleep", "no probe of usleep was recorded"),
    ] {
        for source in [&[log][..], &["--", "true"]] {
            if source.len() == 2 && span.starts_with("libc") {
                continue;
            }
            let why = tracer_user(&[&["why", "--span", span], source].concat());
            assert_eq!(why.status.code(), Some(2), "{why:?}");
            let said = String::from_utf8(why.stderr).unwrap();
            // Live nothing else of the kernel's calls is recorded.
            if source.len() == 1 || !span.contains("open") {
                assert!(said.contains(says), "{span}: {said}");
            }
        }
    }
    let stat = tracer_user(&["stat", "--span", "opennat", log]);
    assert!(stat.status.success(), "{stat:?}");
    assert!(String::from_utf8(stat.stderr).unwrap().contains("opennat"));
}

#[test]
#[ignore = "needs root"]
fn spans_that_a_jump_leaves_are_counted() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("jumps", folder.path()).unwrap();
    let program = program.to_str().unwrap();
    let span = format!("{program}:leave");
    let why = [
        "why", "--format", "json", "--span", &span, "--", program, "20",
    ];
    let why = tracer_user(&why);
    assert!(why.status.success(), "{why:?}");
    // The program's own words: how often it has jumped.
    let jumps: u64 = String::from_utf8(why.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let why = json(&why.stderr);
    assert_eq!(why["unended"]["thread_ended"], jumps, "{why}");
    assert_eq!(
        find_named(&why, "leave")["took"]["count"],
        20 - jumps,
        "{why}"
    );
}
