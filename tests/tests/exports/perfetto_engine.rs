//! Exports as Perfetto's own engine reads them: the engine of its user interface.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use tests::log_reader::{Log, integer, text};
use tests::made::START_NS;
use tests::made_ends::{self, LAST_OF_CC1_NS, LAST_OF_SERVER_NS};
use tests::made_slices::{self, Expected, INTERRUPTS, SLICES};
use tests::made_stacks;
use tests::rights::missing_right;
use tests::{dist, tools};

/// Queries about the log of slices, asked all at once: the engine takes a second to start.
const QUERIES: [&str; 7] = [
    "SELECT name, ts, dur, depth FROM slice WHERE dur != 0 AND category IN ('user', 'syscall')
        ORDER BY ts, depth, name",
    "SELECT name, ts, dur, depth FROM slice WHERE dur != 0
        AND category IN ('irq', 'softirq', 'idle') ORDER BY ts, depth, name",
    "SELECT key, string_value, int_value FROM args JOIN slice USING (arg_set_id)
        WHERE name = 'openat'",
    "SELECT a.ts AS woke, b.ts AS ran, c.name AS waker, d.name AS woken
        FROM flow JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in
        JOIN thread_track e ON e.id = a.track_id JOIN thread c ON c.utid = e.utid
        JOIN thread_track f ON f.id = b.track_id JOIN thread d ON d.utid = f.utid",
    "SELECT a.name AS waker, b.name AS woken FROM flow
        JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in",
    "SELECT w.name AS waker FROM thread_state s JOIN thread w ON w.utid = s.waker_utid",
    "SELECT thread.name, end_state FROM sched JOIN thread USING (utid)
        WHERE end_state IS NOT NULL AND tid > 0 ORDER BY ts",
];

/// The answers to the queries.
struct Answers {
    slices: Vec<Value>,
    interrupts: Vec<Value>,
    openat: Vec<Value>,
    flows: Vec<Value>,
    flow_names: Vec<Value>,
    wakers: Vec<Value>,
    states: Vec<Value>,
}

fn ask(format: &str) -> Answers {
    let log = Log::written_by(made_slices::write).unwrap();
    let trace = log.export(format, &[]).unwrap();
    let answers: [_; 7] = tools::trace_processor(&trace, &QUERIES)
        .unwrap()
        .try_into()
        .unwrap();
    let [
        slices,
        interrupts,
        openat,
        flows,
        flow_names,
        wakers,
        states,
    ] = answers;
    Answers {
        slices,
        interrupts,
        openat,
        flows,
        flow_names,
        wakers,
        states,
    }
}

static PERFETTO: LazyLock<Answers> = LazyLock::new(|| ask("perfetto"));
static CHROME: LazyLock<Answers> = LazyLock::new(|| ask("chrome"));

/// Name, begin, duration and depth of each slice.
fn slices(rows: &[Value]) -> Vec<(String, u64, u64, u64)> {
    let found = rows.iter().map(|row| {
        let ns = |name| u64::try_from(integer(row, name)).unwrap();
        let name = text(row, "name").to_owned();
        (name, ns("ts") - START_NS, ns("dur"), ns("depth"))
    });
    found.collect()
}

fn expected(slices: &[Expected]) -> Vec<(String, u64, u64, u64)> {
    let mut slices = slices.to_vec();
    slices.sort_by_key(|(name, at, _, depth)| (*at, *depth, *name));
    slices
        .into_iter()
        .map(|(name, at, length, depth)| (name.to_owned(), at, length, depth))
        .collect()
}

/// Returns the arguments of a slice, by name.
fn carried(rows: &[Value]) -> BTreeMap<String, Value> {
    let values = rows.iter().map(|row| {
        let key = text(row, "key").rsplit('.').next().unwrap().to_owned();
        let value = match &row["string_value"] {
            Value::Null => row["int_value"].clone(),
            text => text.clone(),
        };
        (key, value)
    });
    values.collect()
}

#[test]
fn what_begins_and_ends_is_a_slice_with_its_own_name_and_nesting() {
    for answers in [&PERFETTO, &CHROME] {
        assert_eq!(slices(&answers.slices), expected(&SLICES));
        assert_eq!(slices(&answers.interrupts), expected(&INTERRUPTS));
    }
}

#[test]
fn a_system_call_carries_its_arguments_and_its_result_as_people_know_them() {
    for (answers, filename) in [
        (&PERFETTO, json!(0x7ffd_0010)),
        (&CHROME, json!("0x7ffd0010")),
    ] {
        let expected = json!({"dfd": "AT_FDCWD", "filename": filename,
            "flags": "O_WRONLY|O_CREAT", "mode": "0644", "ret": -2, "error": "ENOENT"});
        assert_eq!(json!(carried(&answers.openat)), expected);
    }
}

#[test]
fn a_wakeup_is_a_flow_from_who_wakes_to_who_gets_the_cpu() {
    let (woke, ran) = (START_NS + 51_000, START_NS + 52_001);
    assert_eq!(
        PERFETTO.flows,
        [json!({"woke": woke, "ran": ran, "waker": "worker", "woken": "woken"})]
    );
    assert_eq!(PERFETTO.wakers, [json!({"waker": "worker"})]);
    // In Chrome's format, the flow joins slices of CPUs, which have the names of threads.
    assert_eq!(
        CHROME.flow_names,
        [json!({"waker": "worker", "woken": "woken"})]
    );
}

#[test]
fn a_preempted_thread_is_distinguished_from_one_that_sleeps() {
    assert_eq!(
        PERFETTO.states,
        [
            json!({"name": "worker", "end_state": "R+"}),
            json!({"name": "woken", "end_state": "S"})
        ]
    );
}

/// The engine's counters of errors and lost data that are above 0.
const FAULTS: &str = "SELECT name, value FROM stats WHERE value > 0
    AND severity IN ('error', 'data_loss')";

#[test]
fn the_engine_finds_no_fault_every_instant_and_every_process_once() {
    let log = Log::make(0).unwrap();
    let read = log.events(&[]).unwrap();
    let forks = read
        .iter()
        .filter(|event| text(event, "type") == "linux_trace_fork");
    let children: BTreeSet<i64> = forks
        .map(|event| integer(&event["data"], "child_pid"))
        .collect();
    for format in ["perfetto", "chrome"] {
        let trace = log.export(format, &[]).unwrap();
        let events = "SELECT count(*) AS count FROM slice WHERE dur = 0
            AND category IN ('user', 'system')";
        let forked = "SELECT child.pid AS pid, parent.pid AS parent FROM process child
            JOIN process parent ON child.parent_upid = parent.upid";
        let answers = tools::trace_processor(&trace, &[FAULTS, events, forked]).unwrap();
        assert_eq!(answers[0], Vec::<Value>::new(), "{format}");
        let counted = |event: &Value| match text(event, "type") {
            "linux_trace_switch_in" | "linux_trace_switch_out" => false,
            "linux_trace_wakeup" => format == "chrome",
            _ => true,
        };
        let expected = read.iter().filter(|event| counted(event)).count();
        assert_eq!(answers[1], [json!({ "count": expected })], "{format}");
        if format == "perfetto" {
            let found: Vec<_> = answers[2]
                .iter()
                .map(|row| (integer(row, "pid"), integer(row, "parent")))
                .collect();
            let expected: Vec<_> = children.iter().map(|child| (*child, 7)).collect();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_thread_that_is_heard_of_after_its_end_is_there_once() {
    let log = Log::written_by(made_ends::write).unwrap();
    let trace = log.export("perfetto", &[]).unwrap();
    let threads = "SELECT pid, tid, thread.name, thread.end_ts FROM thread
        LEFT JOIN process USING (upid) WHERE tid > 0 ORDER BY tid, utid";
    // At these times alone: the engine makes wake-ups of forks too.
    let at = [made_ends::LAST_OF_CC1_NS, 15_000].map(|ns| START_NS + ns);
    let wakers = format!(
        "SELECT w.name AS waker, t.name AS woken FROM thread_state s
        JOIN thread w ON w.utid = s.waker_utid JOIN thread t ON t.utid = s.utid
        WHERE ts IN ({}, {}) ORDER BY ts",
        at[0], at[1]
    );
    // Priorities below 100 are those of real-time threads.
    let others = "SELECT (SELECT count(*) FROM sched WHERE priority < 100) AS real_time,
        (SELECT group_concat(name) FROM (SELECT name FROM process WHERE pid > 0 ORDER BY pid, upid))
        AS processes";
    let answers = tools::trace_processor(&trace, &[threads, &wakers, others]).unwrap();
    let found: Vec<_> = answers[0]
        .iter()
        .map(|row| (integer(row, "pid"), integer(row, "tid"), text(row, "name")))
        .collect();
    let expected = made_ends::THREADS.map(|(pid, tid, name)| (pid.into(), tid.into(), name));
    assert_eq!(found, expected);
    let end = |row: usize| answers[0][row]["end_ts"].as_u64().unwrap() - START_NS;
    assert_eq!(end(1), LAST_OF_CC1_NS + 1);
    // A process ends after its last thread.
    assert_eq!([end(4), end(3)], [1, 2].map(|ns| LAST_OF_SERVER_NS + ns));
    assert_eq!(
        answers[1],
        [
            json!({"waker": "cc1", "woken": "make"}),
            json!({"waker": "make", "woken": "worker"})
        ]
    );
    assert_eq!(
        answers[2],
        [json!({"real_time": 0, "processes": "make,cc1,again,server"})]
    );
}

/// Part of a query that selects the frames of the engine's stacks, the innermost first: the name
/// of each, its file, and the build identifier of the file.
const FRAMES: &str =
    "SELECT up.start, up.nth, f.name AS name, m.name AS file, m.build_id AS build_id
    FROM up JOIN stack_profile_callsite c ON c.id = up.site
    JOIN stack_profile_frame f ON f.id = c.frame_id
    JOIN stack_profile_mapping m ON m.id = f.mapping ORDER BY up.start, up.nth";

/// A query for the stacks that begin at the sites which `first` selects as `start` and `site`.
fn stacks_from(first: &str) -> String {
    format!(
        "WITH RECURSIVE up(start, site, nth) AS (SELECT start, site, 0 FROM ({first})
         UNION ALL SELECT up.start, c.parent_id, up.nth + 1 FROM up
            JOIN stack_profile_callsite c ON c.id = up.site WHERE c.parent_id IS NOT NULL)
         {FRAMES}"
    )
}

/// Returns the names of each stack, by its time.
fn stacks(rows: &[Value]) -> BTreeMap<u64, Vec<String>> {
    let mut stacks: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for row in rows {
        let at = u64::try_from(integer(row, "start")).unwrap() - START_NS;
        let name = text(row, "name").to_owned();
        stacks.entry(at).or_default().push(name);
    }
    stacks
}

#[test]
fn samples_and_slices_have_their_stacks_with_names_files_and_build_identifiers() {
    let log = Log::written_by(made_stacks::write).unwrap();
    let trace = log.export("perfetto", &[]).unwrap();
    let samples = stacks_from("SELECT ts AS start, callsite_id AS site FROM perf_sample");
    let of_thread = "SELECT tid, cpu FROM perf_sample JOIN thread USING (utid)";
    let answers = tools::trace_processor(&trace, &[&samples, of_thread, FAULTS]).unwrap();
    let [samples, threads, faults] = answers.try_into().unwrap();
    assert_eq!(faults, Vec::<Value>::new());

    let named = |(at, names): (u64, &[&str])| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        (at, names)
    };
    let expected: BTreeMap<u64, Vec<String>> =
        made_stacks::SAMPLES.into_iter().map(named).collect();
    assert_eq!(stacks(&samples), expected);
    // The stack of a slice is a list of names, which the script reads.
    let (at, functions) = made_stacks::CALL;
    let of_events = tools::python(&["perfetto_trace.py", "stacks"], &trace).unwrap();
    let call = json!({"name": "read", "at": START_NS + at, "functions": functions});
    assert_eq!(of_events, [call]);
    assert_eq!(threads, vec![json!({"tid": 7, "cpu": 1}); 3]);
    let build_id: String = made_stacks::BUILD_ID
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    for row in &samples {
        let (file, id) = match text(row, "name") {
            "do_work" => ("/[kernel]", ""),
            _ => (made_stacks::PROGRAM, build_id.as_str()),
        };
        assert_eq!((text(row, "file"), text(row, "build_id")), (file, id));
    }
}

#[test]
#[ignore = "needs root"]
fn the_engine_finds_no_fault_in_traces_of_real_programs() {
    if missing_right().is_some() {
        return;
    }
    let threads = "import threading, time
def work(): time.sleep(0.01); sum(range(100000))
all = [threading.Thread(target=work) for _ in range(8)]
[one.start() for one in all]; [one.join() for one in all]";
    let programs: [(&[&str], &[&str]); 5] = [
        (
            &["--syscalls", "all", "--sample", "99"],
            &[
                "sh",
                "-c",
                "for i in 1 2 3 4 5 6 7 8; do /bin/true; done; sleep 0.1",
            ],
        ),
        (&["--syscalls", "all"], &["python3", "-c", threads]),
        (
            &["--syscalls", "%file", "-y"],
            &["tar", "cf", "/dev/null", "/etc/ld.so.conf.d"],
        ),
        (
            &["--off-cpu", "0", "--stack", "user,kernel"],
            &["sh", "-c", "ls / | sort | wc -l; sleep 0.05"],
        ),
        (
            &["--probe", "libc.so.6:getenv", "--stack", "user"],
            &["git", "--version"],
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let tracer = |words: &[&str]| {
        let mut tracer = Command::new(dist::tracer_user().unwrap());
        tracer
            .args(words)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    for (nth, (options, program)) in programs.iter().enumerate() {
        let (log, trace) = (format!("{nth}.log"), format!("{nth}.pftrace"));
        let run = [&["run", "--log", &log], *options, &["--"], *program].concat();
        assert_ne!(tracer(&run).status.code(), Some(2), "{program:?}");
        let export = tracer(&["export", &log, "--to", "perfetto", "-o", &trace]);
        assert_ne!(export.status.code(), Some(2), "{export:?}");
        let info: Value =
            serde_json::from_slice(&tracer(&["info", "--format", "json", &log]).stdout).unwrap();
        let states = "SELECT max(dur) AS longest FROM thread_state JOIN thread USING (utid)
            WHERE state = 'R' AND upid IS NULL";
        let trace = folder.path().join(trace);
        let [mut faults, untraced] = tools::trace_processor(&trace, &[FAULTS, states])
            .unwrap()
            .try_into()
            .unwrap();
        // Where events were lost, the trace tells the engine so.
        let lost = info["lost"].as_object().unwrap().values();
        let has_lost = lost.map(|count| count.as_u64().unwrap()).sum::<u64>() > 0;
        faults.retain(|fault| !has_lost || fault["name"] != "ftrace_cpu_has_data_loss");
        assert_eq!(faults, Vec::<Value>::new(), "{program:?}");
        // A thread of which nothing is known is not said to wait for a CPU.
        assert_eq!(untraced, [json!({"longest": null})], "{program:?}");
    }
}
