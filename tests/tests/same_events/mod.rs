//! Events that all readers find in one log: `read`, jq, babeltrace2, DuckDB, polars, Perfetto's
//! engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

use serde_json::{Value, json};

use tests::log_reader::{Log, integer, text};
use tests::tools;

pub type Counts = BTreeMap<String, u64>;

/// Event types that are compared: every type that has a form of its own in some format.
pub const EVENTS: &str =
    "fork,exec,exit,switch,wakeup,rename,signal,syscall,migrate,irq,softirq,idle";

/// Checks that all readers find the same events in a log of `run` as `read` does; returns those.
pub fn all_readers_show_the_same(log: &Log) -> Vec<Value> {
    let lines = log.file("lines");
    let path = lines.to_str().unwrap();
    log.run("read", &["--format", "json", "-o", path]).unwrap();
    let read = fs::read_to_string(&lines).unwrap();
    let mut events: Vec<Value> = read
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = events.pop().unwrap();
    // What the kernel did not report is missing everywhere, and babeltrace2 warns of it.
    let lost = summary["summary"]["lost"].as_object().unwrap();
    let is_whole = lost.values().all(|count| count == 0);
    let expected = counts(&summary["summary"]["events"]);
    assert!(events.len() > 2_000, "{expected:?}");
    assert_eq!(counts(&tools::jq_counts(&lines).unwrap()), expected);
    assert_eq!(babeltrace2(log, is_whole), expected);
    let tables = log.export("parquet", &[]).unwrap();
    for counted in tools::python(&["parquet_file.py", "counts"], &tables).unwrap() {
        assert_eq!(counts(&counted["counts"]), expected, "{}", counted["tool"]);
        assert_eq!(counted["parsed"], events.len(), "{}", counted["tool"]);
        if text(&counted, "tool") == "polars" {
            for column in ["type", "class", "comm", "data"] {
                assert_eq!(counted["columns"][column], "String", "{column}");
            }
        }
    }
    let perfetto = ask(log, "perfetto");
    counted(&perfetto, &expected, |name| {
        !name.starts_with("linux_trace_switch") && name != "linux_trace_wakeup"
    });
    scheduling(&perfetto, &events, &expected);
    processes(&perfetto, &events);
    are_named(&perfetto, &events);
    counted(&ask(log, "chrome"), &expected, |name| {
        !name.starts_with("linux_trace_switch")
    });
    events
}

fn counts(object: &Value) -> Counts {
    let counts = object.as_object().unwrap().iter();
    counts
        .map(|(name, count)| (name.clone(), count.as_u64().unwrap()))
        .collect()
}

/// Returns the answers of Perfetto's engine about an export.
fn ask(log: &Log, format: &str) -> Vec<Vec<Value>> {
    let trace = log.export(format, &[]).unwrap();
    let prefix = if format == "perfetto" {
        "debug"
    } else {
        "args"
    };
    // Where a slice ended because the thread did, no event says so.
    let slices = format!(
        "SELECT category, count(*) AS began,
         sum(dur >= 0 AND (category != 'syscall'
             OR extract_arg(arg_set_id, '{prefix}.ret') IS NOT NULL)) AS ended
         FROM slice WHERE category IN ('syscall', 'irq', 'softirq', 'idle') GROUP BY category"
    );
    let queries = [
        "SELECT name, count(*) AS count FROM slice WHERE category = 'system' GROUP BY name",
        &slices,
        "SELECT tid, ts, dur, end_state FROM sched JOIN thread USING (utid)",
        "SELECT count(*) AS count FROM ftrace_event WHERE name = 'sched_waking'",
        "SELECT count(*) AS count FROM flow",
        "SELECT process.pid, parent.pid AS parent FROM process
            LEFT JOIN process parent ON process.parent_upid = parent.upid",
        "SELECT tid, thread.name, process.name AS process FROM thread
            LEFT JOIN process ON process.upid = thread.upid AND pid = tid",
    ];
    tools::trace_processor(&trace, &queries).unwrap()
}

/// Checks that the engine has as many events of the counted types as the log.
fn counted(answers: &[Vec<Value>], expected: &Counts, is_counted: impl Fn(&str) -> bool) {
    let found = engine(answers);
    for (name, count) in expected {
        if is_counted(name) {
            assert_eq!(found.get(name), Some(count), "{name}");
        }
    }
}

fn babeltrace2(log: &Log, is_whole: bool) -> Counts {
    let folder = log.export("ctf", &[]).unwrap();
    let (printed, warnings) = tools::babeltrace2(&["--no-delta"], &folder).unwrap();
    let mut others = warnings
        .lines()
        .filter(|line| is_whole || !line.contains("discarded"));
    assert_eq!(others.next(), None);
    let mut counts = Counts::new();
    for line in printed.lines() {
        let name = line.split("] ").nth(1).unwrap().split(':').next().unwrap();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// Counts events in what Perfetto's engine has of a trace: instants by name; of slices both ends.
fn engine(answers: &[Vec<Value>]) -> Counts {
    let mut counts = Counts::new();
    let count = |row: &Value, name| u64::try_from(integer(row, name)).unwrap();
    for row in &answers[0] {
        let name = text(row, "name").replace('-', "_");
        let family = if matches!(name.as_str(), "start" | "stop" | "overflow" | "resume") {
            "posix_trace"
        } else {
            "linux_trace"
        };
        *counts.entry(format!("{family}_{name}")).or_default() += count(row, "count");
    }
    for row in &answers[1] {
        let category = text(row, "category");
        for (side, column) in [("enter", "began"), ("exit", "ended")] {
            let name = format!("linux_trace_{category}_{side}");
            *counts.entry(name).or_default() += count(row, column);
        }
    }
    counts
}

/// Checks each time that a thread was on a CPU, and each wake-up, against the log.
fn scheduling(answers: &[Vec<Value>], events: &[Value], expected: &Counts) {
    let wakeups = expected["linux_trace_wakeup"];
    assert_eq!(answers[3], [json!({ "count": wakeups })]);
    let is_wakeup = |event: &&Value| text(event, "type") == "linux_trace_wakeup";
    let woken: Vec<_> = events.iter().filter(is_wakeup).collect();
    let by_threads = woken
        .iter()
        .filter(|event| integer(&event["data"], "waker_tid") != 0);
    // Some may have had no CPU before the end.
    let flows = integer(&answers[4][0], "count");
    assert!(flows > 0 && usize::try_from(flows).unwrap() <= by_threads.count());

    // By thread and end.
    let found: BTreeMap<(i64, i64), (i64, &str)> = answers[2]
        .iter()
        .map(|row| {
            let start = integer(row, "ts");
            let run = (start, text(row, "end_state"));
            ((integer(row, "tid"), start + integer(row, "dur")), run)
        })
        .collect();
    // By CPU: the thread that has it, since when, and when the thread before left it.
    let mut running: HashMap<i64, (i64, i64, Option<i64>)> = HashMap::new();
    // By CPU: when a thread left it last.
    let mut left: HashMap<i64, i64> = HashMap::new();
    let mut compared = 0;
    for event in events {
        let (cpu, tid, ns) = (
            integer(event, "cpu"),
            integer(event, "tid"),
            integer(event, "ns"),
        );
        match text(event, "type") {
            "linux_trace_switch_in" => {
                running.insert(cpu, (tid, ns, left.get(&cpu).copied()));
            }
            "linux_trace_switch_out" => {
                left.insert(cpu, ns);
                let came = running.remove(&cpu).filter(|(came, ..)| *came == tid);
                let Some((_, since, left_before)) = came else {
                    continue;
                };
                let state = match (&event["data"]["preempted"], text(&event["data"], "state")) {
                    (Value::Bool(true), _) => "R+",
                    (_, state) => state,
                };
                let (start, end_state) = found[&(tid, ns)];
                assert_eq!(end_state, state, "{event}");
                // Both sides of a switch are one: it came when the one before it left, which may be
                // recorded some time before.
                assert!(start == since || Some(start) == left_before, "{event}");
                compared += 1;
            }
            _ => {}
        }
    }
    assert!(
        compared + 10 > expected["linux_trace_switch_out"],
        "{compared}"
    );
}

/// Checks that each thread is there once, and has its last name.
fn are_named(answers: &[Vec<Value>], events: &[Value]) {
    let mut names = BTreeMap::new();
    for event in events.iter().filter(|event| integer(event, "pid") != 0) {
        names.insert(integer(event, "tid"), text(event, "comm"));
    }
    for (tid, name) in names {
        let rows = answers[6].iter().filter(|row| integer(row, "tid") == tid);
        let rows: Vec<_> = rows.collect();
        let found: Vec<_> = rows.iter().map(|row| text(row, "name")).collect();
        assert_eq!(found, [name], "{tid}");
        // That of a process is its main thread's.
        let process = rows[0]["process"].as_str();
        assert!(
            process.is_none_or(|process| process == name),
            "{name}: {process:?}"
        );
    }
}

/// Checks that each process is there once, below the one that made it.
fn processes(answers: &[Vec<Value>], events: &[Value]) {
    let mut parents = HashMap::new();
    let mut seen = BTreeSet::new();
    for event in events {
        let pid = integer(event, "pid");
        if text(event, "type") == "linux_trace_fork" {
            parents.insert(integer(&event["data"], "child_pid"), pid);
        }
        if pid != 0 {
            seen.insert(pid);
        }
    }
    for pid in seen {
        let rows = answers[5].iter().filter(|row| integer(row, "pid") == pid);
        let found: Vec<_> = rows.map(|row| row["parent"].as_i64()).collect();
        assert_eq!(found, [parents.get(&pid).copied()], "{pid}");
    }
}
