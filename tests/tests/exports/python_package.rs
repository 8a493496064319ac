//! The Python package, in environments with and without the packages that take tables: its rows are
//! those of `read --format json` and of the Parquet exports, as DuckDB and pyarrow see them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES, SystemEventType};
use tracer_common::kernel::SwitchInData;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::FinalStatus;
use zerocopy::IntoBytes as _;

use tests::log_reader::Log;
use tests::{made, made_calls, made_ends, made_hostile, made_log, made_slices, made_stacks};

/// Function that writes a log.
type Write = fn(&Path) -> anyhow::Result<()>;

/// Logs with every family of events.
const LOGS: [(&str, Write); 8] = [
    ("each type", made::write_each_type),
    ("probes", made::write_probes),
    ("names", |path| made_log::write(path, 3).map(drop)),
    ("calls", |path| made_calls::write(path, 400)),
    ("threads that end", made_ends::write),
    ("slices", made_slices::write),
    ("stacks", made_stacks::write),
    ("hostile", made_hostile::write),
];

const TABLES: [&str; 9] = [
    "events", "threads", "states", "calls", "spans", "path", "stacks", "waits", "losses",
];

/// Returns the interpreter of an environment that has the package.
fn interpreter(environment: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let python = target.join(environment).join("bin/python");
    assert!(
        python.exists(),
        "no Python with the package in {}; run: cargo xtask wheel --test",
        python.display()
    );
    python
}

/// Runs a script of `tests/python` in an environment, without a network.
fn run(environment: &str, script: &str, words: &[&Path]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("python")
        .join(script);
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net"])
        .arg(interpreter(environment))
        .arg(script)
        .args(words)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap() + &said
}

/// Writes what the tool makes of a log beside it: its lines of JSON, `stat` and each table.
fn write_truths(log: &Log) {
    for (name, words) in [
        ("read", ["--format", "json"]),
        ("stat", ["--format", "json"]),
    ] {
        let output = log.run(name, &words).unwrap();
        std::fs::write(log.file(&format!("{name}.json")), output.stdout).unwrap();
    }
    for table in TABLES {
        let file = log.file(&format!("{table}.parquet"));
        let words = ["--to", "parquet", "--table", table, "--force", "-o"];
        let output = log
            .run("export", &[&words[..], &[file.to_str().unwrap()]].concat())
            .unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    }
}

#[test]
fn rows_of_the_python_package_are_those_of_json_and_of_parquet() {
    let mut types = BTreeSet::new();
    for (name, write) in LOGS {
        let log = Log::written_by(write).unwrap();
        write_truths(&log);
        let said = run("frames", "package_rows.py", &[&log.path()]);
        assert!(said.contains("events are the same"), "{name}: {said}");
        types.extend(types_in(&log));
    }
    let missing: Vec<_> = families().filter(|family| !has(&types, family)).collect();
    assert!(missing.is_empty(), "no log has {missing:?}: {types:?}");
}

/// Returns the names of the types of which `read` shows events.
fn types_in(log: &Log) -> BTreeSet<String> {
    let lines = std::fs::read_to_string(log.file("read.json")).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let types = lines.map(|line: Value| line["type"].as_str().map(str::to_owned));
    types.flatten().collect()
}

/// Returns the types of the system that are shown, and the beginnings of the names of others.
fn families() -> impl Iterator<Item = &'static str> {
    // What says what others are for is no event to who reads them.
    let is_part = |entry: &&SystemEventType| {
        let parts = [
            EventTypeId::MAPPING,
            EventTypeId::SYMBOL,
            EventTypeId::STACK,
            EventTypeId::THREAD_CONTEXT,
        ];
        parts.contains(&entry.id)
    };
    let system = SYSTEM_EVENT_TYPES
        .iter()
        .filter(move |entry| !is_part(entry));
    let others = ["request"].into_iter().chain(made::PROBES);
    system.map(|entry| entry.name).chain(others)
}

fn has(types: &BTreeSet<String>, family: &str) -> bool {
    let is_beginning = family.ends_with(':') || family == "request";
    let is_it = |name: &String| *name == family || (is_beginning && name.starts_with(family));
    types.iter().any(is_it)
}

/// Writes a log of so many spans of two threads that take turns on a CPU.
fn write_spans(path: &Path, spans: u64) -> anyhow::Result<()> {
    let mut writer = made::log(path, "spans")?;
    let mut types = EventTypes::default();
    let [begin, end] = [&b"x begin"[..], b"x end"].map(|name| types.define_user(name, None));
    for nth in 0..spans {
        let at = made::START_NS + 1_000_000 * nth;
        let (tid, other) = if nth % 2 == 0 { (7, 8) } else { (8, 7) };
        let back = SwitchInData {
            prev_pid: 7,
            prev_tid: other,
            prev_comm: *b"x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            others: 0,
            reserved: 0,
        };
        let data = format!("span {nth}");
        let events = [
            (0, EventTypeId::SWITCH_IN, back.as_bytes()),
            (1_000, begin, data.as_bytes()),
            (500_000, end, data.as_bytes()),
        ];
        for (later, event_type, data) in events {
            let header = EventHeader {
                time: MonotonicNs(at + later),
                event_type,
                pid: 7,
                tid,
                cpu: Some(0),
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            writer.append(&header, data, b"x", &types)?;
        }
    }
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

#[test]
fn of_a_longer_log_the_python_package_has_no_more_in_memory() {
    // Each of several batches.
    let [short, long] = [80_000, 480_000].map(|spans| {
        let log = Log::written_by(|path| write_spans(path, spans)).unwrap();
        let said = run("frames", "package_memory.py", &[&log.path()]);
        let grown: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        assert_eq!(grown["events"]["rows"], 3 * spans);
        assert_eq!(grown["spans"]["rows"], spans);
        grown
    });
    for table in TABLES {
        let of = |log: &Value, what: &str| log[table][what].as_u64().unwrap();
        // One is made while another one is used, and has more than its columns until then.
        for log in [&short, &long] {
            assert!(
                2 * of(log, "grown") <= 5 * of(log, "batch") + 2048,
                "{table}: {} and {}",
                short[table],
                long[table]
            );
        }
    }
}

#[test]
fn the_python_package_needs_no_other_one_and_no_network() {
    let log = Log::make(12).unwrap();
    let mut bytes = std::fs::read(log.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    let damaged = log.file("damaged");
    std::fs::write(&damaged, bytes).unwrap();
    let said = run("wheel-alone", "package_alone.py", &[&log.path(), &damaged]);
    assert!(said.contains("all is as it should be"), "{said}");
}
