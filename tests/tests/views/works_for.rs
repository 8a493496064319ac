//! Traces and spans that threads work for, with each event: beside what the program itself says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::dist::{self, Linkage};
use tests::event::two_integers;
use tests::rights::missing_right;
use tests::works_for::{Context, changes, compare, compile, context_of, lines_of};

fn tracer(words: &[&str]) -> Vec<u8> {
    let mut command = Command::new("timeout");
    command.arg("100").arg(dist::tracer_user().unwrap());
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    output.stdout
}

const RECORDED: [&str; 4] = ["--trace-context", "--syscalls", "kcmp", "--no-user"];

/// Option by which the compiler uses descriptors of thread-local variables.
const DESCRIPTORS: &str = if cfg!(target_arch = "x86_64") {
    "-mtls-dialect=gnu2"
} else {
    "-mtls-dialect=desc"
};

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn each_event_has_the_trace_and_the_span_that_its_thread_works_for() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = compile(folder, "own", &["-DOWN", "-rdynamic"]).unwrap();
    let library = compile(
        folder,
        "descriptors.so",
        &["-DLIBRARY", "-shared", "-fPIC", DESCRIPTORS],
    )
    .unwrap();
    let opening = compile(folder, "opening", &[]).unwrap();
    let (own, opening) = (own.to_str().unwrap(), opening.to_str().unwrap());

    // Live, with the variable in the program.
    let shown = folder.join("events.json");
    let shown_to = ["--format", "json", "--output", shown.to_str().unwrap()];
    let said = tracer(&[&["run"], &RECORDED[..], &shown_to, &["--", own, "400"]].concat());
    let events = lines_of(&std::fs::read(&shown).unwrap()).unwrap();
    let [with, without] = compare(&events, &changes(&said).unwrap(), false).unwrap();
    assert!(with > 4000 && without > 1000, "{with} {without}");

    // By a log, with the variable in a library that is loaded late.
    let log = folder.join("log");
    let log = log.to_str().unwrap();
    let command = ["--", opening, "400", library.to_str().unwrap()];
    let said = tracer(&[&["run"], &RECORDED[..], &["--log", log], &command].concat());
    let read = |words: &[&str]| tracer(&[&["read", log], words].concat());
    let events = lines_of(&read(&["--format", "json"])).unwrap();
    let [with, without] = compare(&events, &changes(&said).unwrap(), false).unwrap();
    assert!(with > 4000 && without > 1000, "{with} {without}");

    // Of one trace.
    let of_trace = events
        .iter()
        .filter_map(|event| event["trace_id"].as_str())
        .next()
        .unwrap();
    let is_of_it = |event: &&Value| event["trace_id"] == of_trace;
    let chosen = lines_of(&read(&["--format", "json", "--trace-id", of_trace])).unwrap();
    let chosen = chosen.iter().filter(|event| event["trace_id"].is_string());
    assert_eq!(
        chosen.collect::<Vec<_>>(),
        events.iter().filter(is_of_it).collect::<Vec<_>>()
    );
    // Losses are shown too.
    let shown = read(&["--trace-id", of_trace, "--limit", "9"]);
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

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_switch_that_the_kernel_does_not_report_takes_no_context_away() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = compile(folder, "own", &["-DOWN", "-rdynamic"]).unwrap();
    // Of some million switches the kernel does not report a few.
    let switching = dist::compile("pingpong", folder).unwrap();
    let log = folder.join("log");
    let log = log.to_str().unwrap();
    let sizes = ["--ring-size", "32M", "--stream-size", "128M"];
    let both = format!("{} 16000 | {}", own.display(), switching.display());
    let command = ["--log", log, "--", "sh", "-c", &both];
    tracer(&[&["run"], &RECORDED[..], &sizes, &command].concat());
    let shown = ["--events", "syscall_enter", "--format", "json"];
    let events = lines_of(&tracer(&[&["read", log], &shown[..]].concat())).unwrap();
    let calls = events.iter().filter(|event| {
        event["type"] == "linux_trace_syscall_enter" && event["data"]["name"] == "kcmp"
    });
    let mut count = 0;
    for call in calls {
        let argument = |nth: usize| call["data"]["args"][nth].as_u64().unwrap();
        let said: Context = (argument(3), argument(4));
        assert_eq!(context_of(call).unwrap(), said, "{call}");
        count += 1;
    }
    assert!(count > 120_000, "{count}");
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn requests_are_summed_up_by_the_routes_that_the_program_says() {
    const ROUNDS: usize = 90;
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/routes.c");
    let program = folder.path().join("routes");
    let options = ["-Wall", "-Wextra", "-Werror", "-rdynamic"];
    dist::compile_file("cc", &source, &program, &options, Linkage::Shared).unwrap();
    let log = folder.path().join("log");
    let log = log.to_str().unwrap();
    let recorded = ["--trace-context", "--syscalls", "getppid,clock_nanosleep"];
    let command = ["--no-user", "--log", log, "--", program.to_str().unwrap()];
    let rounds = ROUNDS.to_string();
    let said = tracer(&[&["run"], &recorded[..], &command, &[&rounds]].concat());
    let mut told: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for line in String::from_utf8(said).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        let of = told.entry(format!("route {}", words[1])).or_default();
        for (sum, value) in of.iter_mut().zip([1, number(2), number(3)]) {
            *sum += value;
        }
    }
    assert_eq!(told.remove("route -").unwrap()[0], 20);

    let stat: Value = serde_json::from_slice(&tracer(&["stat", log, "--format", "json"])).unwrap();
    let kinds = stat["spans"].as_array().unwrap();
    let names: BTreeSet<&str> = kinds
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert!(
        names.into_iter().eq(told.keys().map(String::as_str)),
        "{stat}"
    );
    for kind in kinds {
        let [count, ns, slept] = told[kind["name"].as_str().unwrap()];
        assert_eq!(kind["took"]["count"], count, "{kind}");
        // From its first call to its last one; it takes the time itself before and after.
        let found = kind["took"]["total_ns"].as_u64().unwrap();
        assert!(
            found <= ns && ns - found <= ns / 4 + count * 20_000,
            "{ns}: {kind}"
        );
        let blocked = kind["blocked_ns"].as_u64().unwrap();
        assert!(
            blocked <= slept + slept / 50 && blocked * 2 >= slept,
            "{slept}: {kind}"
        );
    }
    let shown = String::from_utf8(tracer(&["stat", log])).unwrap();
    assert!(shown.contains("route /slow/{id}"), "{shown}");
}

/// Compares events of the program, and passes of its probe, with what they say themselves. Returns
/// how many of both have a context and have rightly none, and the events for which it is unknown.
fn compare_told(events: &[Value]) -> ([usize; 2], [usize; 2], usize) {
    let (mut own, mut probed, mut unknown) = ([0; 2], [0; 2], 0);
    for event in events {
        let kind = event["type"].as_str().unwrap_or_default();
        let is_probe = kind.starts_with("probe:");
        let said: Context = if is_probe {
            // What a register holds is shown with a sign.
            let argument = |name: &str| {
                let shown = &event["data"][name];
                let signed = shown.as_i64().map(i64::cast_unsigned);
                shown.as_u64().or(signed).unwrap()
            };
            (argument("arg0"), argument("arg1"))
        } else if kind == "works" {
            two_integers(&event.to_string()).unwrap()
        } else {
            continue;
        };
        let found = context_of(event).unwrap();
        if !is_probe && said != (0, 0) && found == (0, 0) {
            unknown += 1;
            continue;
        }
        assert_eq!(found, said, "{event}");
        let counts = if is_probe { &mut probed } else { &mut own };
        counts[usize::from(said == (0, 0))] += 1;
    }
    (own, probed, unknown)
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn probes_and_own_events_with_stacks_have_the_span_that_counts_there_and_no_other() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = compile(folder, "emits", &["-DOWN", "-DEMITS", "-rdynamic"]).unwrap();
    let program = program.to_str().unwrap();
    let log = folder.join("log");
    let log = log.to_str().unwrap();
    let probe = format!("{program}:probed");
    let recorded = ["--trace-context", "--syscalls", "kcmp", "--probe", &probe];
    let sizes = ["--ring-size", "32M", "--stream-size", "64M"];
    let stacks = ["--stack", "user", "--stack-for", "user"];
    let command = ["--", program, "200"];

    // A log, and the same live.
    let into = ["--log", log];
    tracer(&[&["run"], &recorded[..], &sizes, &stacks, &into, &command].concat());
    let of_log = lines_of(&tracer(&["read", log, "--format", "json"])).unwrap();
    let shown = folder.join("events.json");
    let shown_to = ["--format", "json", "--output", shown.to_str().unwrap()];
    tracer(
        &[
            &["run"],
            &recorded[..],
            &sizes,
            &stacks,
            &shown_to,
            &command,
        ]
        .concat(),
    );
    let live = lines_of(&std::fs::read(&shown).unwrap()).unwrap();
    for events in [of_log, live] {
        let (own, probed, unknown) = compare_told(&events);
        assert!(own[0] > 2500 && own[1] > 150, "{own:?} {probed:?}");
        assert!(probed[0] > 2500 && probed[1] > 150, "{own:?} {probed:?}");
        assert_eq!(unknown, 0, "{own:?}");
    }

    // Spans of the inside are explained, which no event of the kernel was for.
    let own = tracer(&["read", log, "--format", "json", "--event", "works"]);
    let own = lines_of(&own).unwrap();
    let mut traces = own.iter().filter_map(|event| event["trace_id"].as_str());
    let trace = traces.next().unwrap().to_owned();
    let why = tracer(&["why", log, "--trace-id", &trace, "--format", "json"]);
    let why: Value = serde_json::from_slice(&why).unwrap();
    let kinds = why["spans"].as_array().unwrap().iter();
    let names: Vec<&str> = kinds.map(|kind| kind["name"].as_str().unwrap()).collect();
    assert!(
        names.iter().any(|name| name.starts_with("span 8")),
        "{names:?}"
    );

    // Without their stacks nothing is said of a program's own events.
    tracer(
        &[
            &["run"],
            &recorded[..],
            &sizes,
            &["--force"],
            &into,
            &command,
        ]
        .concat(),
    );
    let events = lines_of(&tracer(&["read", log, "--format", "json"])).unwrap();
    let (own, probed, unknown) = compare_told(&events);
    assert!(own[0] == 0 && unknown > 2500, "{own:?} {unknown}");
    assert!(probed[0] > 2500, "{probed:?}");
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn what_the_recorder_has_held_says_for_which_span_each_call_was() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = compile(folder, "own", &["-DOWN", "-rdynamic"]).unwrap();
    let log = folder.join("log");
    let log = log.to_str().unwrap();
    // The child is the first to end, after most of what there is to be held.
    let when = ["--when", "event exit", "--keep", "5s", "--log", log];
    tracer(
        &[
            &["run"],
            &RECORDED[..],
            &when,
            &["--", own.to_str().unwrap(), "400"],
        ]
        .concat(),
    );
    let last = (1..=9).rev().map(|nth| format!("{log}.{nth}"));
    let last = last
        .into_iter()
        .find(|log| Path::new(log).exists())
        .unwrap();
    let events = lines_of(&tracer(&["read", &last, "--format", "json"])).unwrap();
    let (mut with, mut without) = (0, 0);
    for event in &events {
        let data = &event["data"];
        if event["type"] != "linux_trace_syscall_enter" || data["name"] != "kcmp" {
            continue;
        }
        let argument = |nth: usize| data["args"][nth].as_u64().unwrap();
        let said: Context = (argument(3), argument(4));
        assert_eq!(context_of(event).unwrap(), said, "{event}");
        *(if said == (0, 0) {
            &mut without
        } else {
            &mut with
        }) += 1;
    }
    assert!(with > 2000 && without > 300, "{with} {without}");
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
    let events = lines_of(&tracer(&["read", log, "--format", "json"])).unwrap();
    let exported: BTreeSet<Ids> = lines_of(&std::fs::read(spans).unwrap())
        .unwrap()
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
    // Where something was lost, contexts are unknown until they are read anew.
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
