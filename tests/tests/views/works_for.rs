//! Traces and spans that threads work for, with each event: beside what the program itself says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;

/// First half of every trace of the program.
const TRACE: &str = "4bf92f3577b34da6";

/// Second half of the trace, and the span; zeroes for none.
type Context = (u64, u64);

fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/works_for.c");
    let made = folder.join(name);
    let options = [&["-Wall", "-Wextra", "-Werror"], options].concat();
    dist::compile_file("cc", &source, &made, &options, Linkage::Shared).unwrap();
    made
}

fn tracer(words: &[&str]) -> Vec<u8> {
    let mut command = Command::new("timeout");
    command.arg("100").arg(dist::tracer_user().unwrap());
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    output.stdout
}

fn lines_of(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn context_of(event: &Value) -> Context {
    let Some(trace) = event["trace_id"].as_str() else {
        return (0, 0);
    };
    let half = trace.strip_prefix(TRACE).unwrap();
    let number = |digits| u64::from_str_radix(digits, 16).unwrap();
    (number(half), number(event["span_id"].as_str().unwrap()))
}

/// Changes of a thread, as the program says them: between two moments, to a context.
type Changes = BTreeMap<i64, BTreeSet<(u64, u64, Context)>>;

fn changes(said: &[u8]) -> Changes {
    let mut changes = Changes::new();
    for line in String::from_utf8_lossy(said).lines() {
        let Some(rest) = line.strip_prefix("set ") else {
            continue;
        };
        let words: Vec<&str> = rest.split(' ').collect();
        let hex = |nth: usize| u64::from_str_radix(words[nth], 16).unwrap();
        let change = (
            words[1].parse().unwrap(),
            words[2].parse().unwrap(),
            (hex(3), hex(4)),
        );
        let tid = words[0].parse().unwrap();
        changes.entry(tid).or_default().insert(change);
    }
    changes
}

/// Compares each event with what the program says: how many have a context, and how many have
/// rightly none. After a switch that the kernel has not reported it is unknown until the thread's
/// next call, of a few switches at most.
fn compare(events: &[Value], changes: &Changes) -> [u64; 2] {
    let (mut unknown, mut not_off) = (0, 0);
    let mut of: BTreeMap<&str, u64> = BTreeMap::new();
    let mut begun: BTreeMap<i64, Context> = BTreeMap::new();
    let mut counts = [0, 0];
    for event in events {
        let (Some(kind), Some(tid)) = (event["type"].as_str(), event["tid"].as_i64()) else {
            continue;
        };
        let data = &event["data"];
        let argument = |nth: usize| data["args"][nth].as_u64().unwrap();
        let expected = match (data["name"].as_str(), kind) {
            (Some("kcmp"), "linux_trace_syscall_enter") => {
                begun.insert(tid, (argument(3), argument(4)));
                begun.get(&tid).copied()
            }
            (Some("kcmp"), "linux_trace_syscall_exit") => begun.remove(&tid),
            // As a thread leaves for good, its memory is gone.
            (_, "linux_trace_switch_out") if data["state"] == "X" => None,
            // Threads send themselves signals.
            (
                _,
                "linux_trace_switch_in"
                | "linux_trace_switch_out"
                | "linux_trace_wakeup"
                | "linux_trace_signal_generate"
                | "linux_trace_signal_deliver",
            ) => {
                let at = event["ns"].as_u64().unwrap();
                let last = changes.get(&tid).and_then(|all| {
                    all.range(..(at, u64::MAX, (u64::MAX, u64::MAX)))
                        .next_back()
                });
                // While it is made, either counts.
                last.filter(|(_, until, _)| at > *until)
                    .map(|(_, _, context)| *context)
            }
            _ => None,
        };
        if let Some(expected) = expected {
            let is_unknown = expected != (0, 0) && context_of(event) == (0, 0);
            if is_unknown && kind.starts_with("linux_trace_switch") {
                unknown += 1;
                continue;
            }
            // It may have been woken before it has left its CPU.
            if is_unknown && kind == "linux_trace_wakeup" {
                not_off += 1;
                continue;
            }
            assert_eq!(context_of(event), expected, "{event}");
            if expected != (0, 0) {
                *of.entry(kind).or_default() += 1;
            }
            counts[usize::from(expected == (0, 0))] += 1;
        }
    }
    assert!(unknown * 100 <= counts[0], "{unknown} of {counts:?}");
    let count = |kind: &str| of.get(kind).copied().unwrap_or(0);
    let woken = count("linux_trace_wakeup");
    assert!(
        woken > 100 && not_off * 10 <= woken,
        "{not_off} beside {of:?}"
    );
    for kind in ["linux_trace_signal_generate", "linux_trace_signal_deliver"] {
        assert!(count(kind) > 20, "{of:?}");
    }
    counts
}

const RECORDED: [&str; 4] = ["--trace-context", "--syscalls", "kcmp", "--no-user"];

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn each_event_has_the_trace_and_the_span_that_its_thread_works_for() {
    if missing_right().is_some() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = compile(folder, "own", &["-DOWN", "-rdynamic"]);
    let library = compile(
        folder,
        "descriptors.so",
        &["-DLIBRARY", "-shared", "-fPIC", "-mtls-dialect=gnu2"],
    );
    let opening = compile(folder, "opening", &[]);
    let (own, opening) = (own.to_str().unwrap(), opening.to_str().unwrap());

    // Live, with the variable in the program.
    let shown = folder.join("events.json");
    let shown_to = ["--format", "json", "--output", shown.to_str().unwrap()];
    let said = tracer(&[&["run"], &RECORDED[..], &shown_to, &["--", own, "400"]].concat());
    let events = lines_of(&std::fs::read(&shown).unwrap());
    let [with, without] = compare(&events, &changes(&said));
    assert!(with > 4000 && without > 1000, "{with} {without}");

    // By a log, with the variable in a library that is loaded late.
    let log = folder.join("log");
    let log = log.to_str().unwrap();
    let command = ["--", opening, "400", library.to_str().unwrap()];
    let said = tracer(&[&["run"], &RECORDED[..], &["--log", log], &command].concat());
    let read = |words: &[&str]| tracer(&[&["read", log], words].concat());
    let events = lines_of(&read(&["--format", "json"]));
    let [with, without] = compare(&events, &changes(&said));
    assert!(with > 4000 && without > 1000, "{with} {without}");

    // Of one trace.
    let of_trace = events
        .iter()
        .filter_map(|event| event["trace_id"].as_str())
        .next()
        .unwrap();
    let is_of_it = |event: &&Value| event["trace_id"] == of_trace;
    let chosen = lines_of(&read(&["--format", "json", "--trace-id", of_trace]));
    let chosen = chosen.iter().filter(|event| event["trace_id"].is_string());
    assert_eq!(
        chosen.collect::<Vec<_>>(),
        events.iter().filter(is_of_it).collect::<Vec<_>>()
    );
    let shown = read(&["--trace-id", of_trace, "--limit", "1"]);
    let words = format!(", for trace {of_trace} span ");
    assert!(
        String::from_utf8_lossy(&shown).contains(&words),
        "{shown:?}"
    );

    // Its spans, whose names are those of OpenTelemetry.
    let why = tracer(&["why", log, "--trace-id", of_trace, "--format", "json"]);
    let why: Value = serde_json::from_slice(&why).unwrap();
    let kinds = why["spans"].as_array().unwrap();
    assert!(!kinds.is_empty(), "{why}");
    let spans: BTreeSet<_> = events
        .iter()
        .filter(is_of_it)
        .map(|event| format!("span {}", event["span_id"].as_str().unwrap()))
        .collect();
    for kind in kinds {
        assert!(spans.contains(kind["name"].as_str().unwrap()), "{kind}");
    }
}

/// Span of an event: its trace, and itself.
type Ids = (String, String);

fn ids_of(event: &Value) -> Option<Ids> {
    let text = |name: &str| event[name].as_str().map(str::to_owned);
    text("trace_id").zip(text("span_id"))
}

/// Returns the span that a call says by its path; `Some(None)` where it says that there is none.
fn marked(event: &Value) -> Option<Option<Ids>> {
    let arguments = event["data"]["arguments"].as_object()?;
    let mut texts = arguments.values().filter_map(Value::as_str);
    let said = texts.find_map(|text| text.strip_prefix("/works-for/"))?;
    let ids = said.split_once('/');
    Some(ids.map(|(trace, span)| (trace.to_owned(), span.to_owned())))
}

/// Types of events that have the context of their thread, as far as the server has them.
const WITH_CONTEXT: [&str; 6] = [
    "linux_trace_syscall_enter",
    "linux_trace_syscall_exit",
    "linux_trace_switch_out",
    "linux_trace_switch_in",
    "linux_trace_thread_create",
    "linux_trace_thread_exit",
];

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn each_request_of_a_web_server_under_ddtrace_has_the_ids_that_it_exports() {
    const REQUESTS: usize = 400;
    let python = std::env::var_os("TRACER_DDTRACE");
    let (None, Some(python)) = (
        missing_right(),
        python.filter(|_| cfg!(target_arch = "x86_64")),
    ) else {
        // It is installed for the run of all tests.
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [spans, log] = ["spans", "log"].map(|name| folder.path().join(name));
    let (spans, log) = (spans.to_str().unwrap(), log.to_str().unwrap());
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/python/traced_server.py");
    let requests = REQUESTS.to_string();
    let recorded = ["--trace-context", "--syscalls", "all", "--no-user"];
    let sizes = [
        "--stream-size",
        "256M",
        "--ring-size",
        "32M",
        "--log",
        log,
        "--",
    ];
    let command = [
        python.to_str().unwrap(),
        server.to_str().unwrap(),
        &requests,
        spans,
    ];
    tracer(&[&["run"], &recorded[..], &sizes, &command].concat());
    let events = lines_of(&tracer(&["read", log, "--format", "json"]));
    let exported: BTreeSet<Ids> = lines_of(&std::fs::read(spans).unwrap())
        .iter()
        .filter_map(ids_of)
        .collect();
    assert_eq!(exported.len(), 4 * REQUESTS);

    let mut by_thread: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["type"].is_string()) {
        if let Some(ids) = ids_of(event) {
            assert!(exported.contains(&ids), "not exported: {event}");
        }
        let has_context = WITH_CONTEXT.contains(&event["type"].as_str().unwrap());
        if let Some(tid) = event["tid"].as_i64().filter(|_| has_context) {
            by_thread.entry(tid).or_default().push(event);
        }
    }
    // Where the kernel has not reported something, contexts are unknown until they are read anew.
    let is_whole = !events
        .iter()
        .any(|event| event["type"] == "posix_trace_overflow");
    let (mut within, mut outside, mut unknown, mut seen) = (0, 0, 0, BTreeSet::new());
    for events in by_thread.values() {
        let marks: Vec<_> = events
            .iter()
            .enumerate()
            .filter_map(|(at, event)| Some((at, marked(event)?)))
            .collect();
        for pair in marks.windows(2) {
            let [(from, ids), (to, next)] = pair else {
                continue;
            };
            // Between two calls that say the same, nothing changes; else up to the first one's end.
            let until = if ids == next { *to } else { *from + 1 };
            for event in &events[*from..until] {
                let found = ids_of(event);
                if found.is_none() && ids.is_some() && !is_whole {
                    unknown += 1;
                    continue;
                }
                assert_eq!(found, *ids, "{event}");
                *(if ids.is_some() {
                    &mut within
                } else {
                    &mut outside
                }) += 1;
            }
            seen.extend(ids.clone());
        }
    }
    assert!(unknown * 100 <= within, "{unknown} of {within}");
    assert_eq!(seen, exported, "each span has events of its own");
    assert!(
        within > 20 * REQUESTS && outside > 2 * REQUESTS,
        "{within} {outside}"
    );
}
