//! Exports, read by third-party tools: the same events at the same times as `tracer-user read`
//! shows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use serde_json::{Value, json};

use tests::log_reader::{Log, integer, shown, text};
use tests::made_calls;
use tests::made_log::{NAMES, ROUNDS, START_DATE_NS, START_NS};
use tests::tools;

/// Nanoseconds since 1970 of what was recorded at `ns` of the monotonic clock.
fn date_ns(ns: i64) -> i64 {
    ns + i64::try_from(START_DATE_NS - START_NS).unwrap()
}

/// The name that people see of a system event type.
fn short(name: &str) -> String {
    let short = name.strip_prefix("linux_trace_");
    let short = short.or_else(|| name.strip_prefix("posix_trace_"));
    short.unwrap_or(name).replace('_', "-")
}

fn is_scheduling(event: &Value) -> bool {
    matches!(
        text(event, "type"),
        "linux_trace_switch_in" | "linux_trace_switch_out" | "linux_trace_wakeup"
    )
}

/// Date, name, process, thread and CPU of an event in the text of babeltrace2:
/// `[SECONDS.NANOSECONDS] NAME: { pid = 7, tid = 8, cpu = -1, … }, { … }`.
fn parse_babeltrace(line: &str) -> Option<(i64, String, i64, i64, i64)> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (seconds, ns) = time.split_once('.')?;
    let date = seconds.parse::<i64>().ok()? * 1_000_000_000 + ns.parse::<i64>().ok()?;
    let (name, context) = rest.split_once(": { pid = ")?;
    let mut integers = context.split(", ").map(|part| {
        let integer = part.rsplit(' ').next()?;
        integer.parse::<i64>().ok()
    });
    let mut next = || integers.next().flatten();
    Some((date, name.to_owned(), next()?, next()?, next()?))
}

#[test]
fn babeltrace2_reads_the_same_events_at_the_same_times_without_a_warning() {
    let log = Log::make(0).unwrap();
    let folder = log.export("ctf", &[]).unwrap();
    let (printed, warnings) =
        tools::babeltrace2(&["--clock-seconds", "--no-delta"], &folder).unwrap();

    assert_eq!(warnings, "");
    let read: Vec<_> = log
        .events(&[])
        .unwrap()
        .iter()
        .map(|event| {
            (
                date_ns(integer(event, "ns")),
                shown(text(event, "type")),
                integer(event, "pid"),
                integer(event, "tid"),
                integer(event, "cpu"),
            )
        })
        .collect();
    let seen: Vec<_> = printed
        .lines()
        .map(|line| parse_babeltrace(line).unwrap_or_else(|| panic!("{line}")))
        .collect();
    assert_eq!(u64::try_from(seen.len()).unwrap(), log.written);
    assert!(seen == read, "they differ");
}

#[test]
fn babeltrace2_reads_what_events_carry() {
    let log = Log::make(0).unwrap();
    let folder = log.export("ctf", &["--to", "2ms"]).unwrap();
    let (printed, _) = tools::babeltrace2(&[], &folder).unwrap();

    for part in [
        "tid = 8, cpu = -1, truncated = 0, prog_address = 0xFFFFFFFFFFFFFFF1, thread_id = 0x1, comm = \"\\\\xffw\\\\n\" }",
        "{ kind = ( \"text\" : container = 1 ), data = { \"worker=1\" } }",
        "{ kind = ( \"text\" : container = 1 ), data = { \"größe\" } }",
        "{ kind = ( \"bytes\" : container = 0 ), data = { { length = 3, bytes = [ [0] = 255, [1] = 0, [2] = 10 ] } } }",
        "{ next_pid = 900, next_tid = 901, next_comm = \"w\\\"k\\\\n\\\\xff,\", state = \"S\", preempted = 0, waits_in = \"\", io_wait = 0, ran_ns = 0 }",
        "{ target_cpu = 1, new = 0, waker_pid = 900, waker_tid = 901, ",
    ] {
        assert!(printed.contains(part), "{part}\n{printed}");
    }
}

#[test]
fn babeltrace2_reports_what_was_lost() {
    let log = Log::make(12_345).unwrap();
    let folder = log.export("ctf", &[]).unwrap();
    let (_, warnings) = tools::babeltrace2(&[], &folder).unwrap();

    assert!(warnings.contains("discarded 12345 events"), "{warnings}");
}

#[test]
fn perfetto_decodes_by_the_published_schema_and_has_every_event() {
    let log = Log::make(0).unwrap();
    let file = log.export("perfetto", &[]).unwrap();
    let decoded = tools::python(&["perfetto_trace.py", "events"], &file).unwrap();

    let of_kind = |kind: &'static str| decoded.iter().filter(move |line| line.get(kind).is_some());
    assert_eq!(of_kind("unknown").next(), Some(&json!({"unknown": 0})));
    assert_eq!(
        of_kind("clocks").next().unwrap()["clocks"],
        json!({"realtime": START_DATE_NS, "monotonic": START_NS, "boottime": START_NS})
    );
    let names: Vec<_> = of_kind("process").collect();
    assert!(
        names.contains(&&json!({"process": 7, "name": "main \"x\""})),
        "{names:?}"
    );
    let read: Vec<_> = log
        .events(&[])
        .unwrap()
        .iter()
        .filter(|event| !is_scheduling(event))
        .map(|event| {
            let name = match text(event, "class") {
                "user" => shown(text(event, "type")),
                _ => short(text(event, "type")),
            };
            let ids = (integer(event, "pid"), integer(event, "tid"));
            (integer(event, "ns"), name, ids, user_data(&event["data"]))
        })
        .collect();
    let seen: Vec<_> = of_kind("instant")
        .map(|instant| {
            let ids = (integer(instant, "pid"), integer(instant, "tid"));
            let name = text(instant, "instant").to_owned();
            (
                integer(instant, "ns"),
                name,
                ids,
                user_data(&instant["annotations"]),
            )
        })
        .collect();
    assert_eq!(seen.len(), read.len());
    assert!(seen == read, "they differ");
}

/// Returns the data of a user event, as text where it is text, else in hexadecimal; `None` where it
/// is empty, and for other events.
fn user_data(data: &Value) -> Option<String> {
    let form = data.get("text").or_else(|| data.get("hex"));
    form.and_then(Value::as_str)
        .filter(|form| !form.is_empty())
        .map(str::to_owned)
}

#[test]
fn perfetto_has_the_switches_of_the_cpus() {
    let log = Log::make(0).unwrap();
    let file = log.export("perfetto", &[]).unwrap();
    let decoded = tools::python(&["perfetto_trace.py", "events"], &file).unwrap();

    let kernel = |name: &'static str| {
        decoded
            .iter()
            .filter(move |line| text(line, "kernel") == name)
    };
    let switches: Vec<_> = kernel("sched_switch")
        .map(|event| {
            let fields = &event["fields"];
            assert_eq!(integer(event, "cpu"), 1);
            let pair = (integer(fields, "prev_pid"), integer(fields, "next_pid"));
            (integer(event, "ns"), pair, integer(fields, "prev_state"))
        })
        .collect();
    let read: Vec<_> = log
        .events(&["--events", "switch"])
        .unwrap()
        .iter()
        .map(|event| {
            let is_out = text(event, "type") == "linux_trace_switch_out";
            let pair = if is_out { (7, 901) } else { (901, 7) };
            // The log does not say why the other thread leaves: the export must not claim that it
            // waits for a CPU.
            (integer(event, "ns"), pair, 1)
        })
        .collect();
    assert_eq!(read.len() as u64, 2 * ROUNDS);
    assert!(switches == read, "they differ");
    let next = decoded
        .iter()
        .find_map(|line| line["fields"].get("next_comm"));
    assert_eq!(next, Some(&json!("w\"k\\n\\xff,")));
    assert_eq!(kernel("sched_waking").count() as u64, ROUNDS);
    assert_eq!(kernel("task_newtask").count() as u64, ROUNDS);
}

#[test]
fn perfetto_reports_what_was_lost() {
    let log = Log::make(12_345).unwrap();
    let file = log.export("perfetto", &[]).unwrap();
    let decoded = tools::python(&["perfetto_trace.py", "events"], &file).unwrap();

    let mut lost = decoded
        .iter()
        .filter(|line| text(line, "instant") == "events lost");
    assert_eq!(
        lost.next().unwrap()["annotations"],
        json!({"count": 12_345})
    );
    assert_eq!(lost.next(), None);
}

#[test]
fn duckdb_reads_the_same_rows_from_parquet() {
    let log = Log::make(3).unwrap();
    let file = log.export("parquet", &[]).unwrap();
    let mut rows = tools::python(&["parquet_file.py", "events"], &file).unwrap();
    let columns = rows.pop().unwrap();
    let events = log.events(&[]).unwrap();

    assert_eq!(columns["columns"]["data"], "VARCHAR");
    assert!(
        text(&columns["columns"], "time").starts_with("TIMESTAMP"),
        "{columns}"
    );
    assert_eq!(rows.len() as u64, log.written);
    assert_eq!(rows.len(), events.len());
    for (row, event) in rows.iter().zip(&events) {
        let data: Value = serde_json::from_str(text(row, "data")).unwrap();
        let raw = text(row, "raw").to_ascii_lowercase();
        let expected = json!({
            "time": event["time"], "ns": event["ns"],
            "type": shown(text(event, "type")), "class": event["class"], "pid": event["pid"],
            "tid": event["tid"], "comm": shown(text(event, "comm")), "cpu": event["cpu"],
            "truncated": event["truncated"], "data": event["data"],
            "duration_ns": event["duration_ns"],
        });
        let mut seen = row.clone();
        seen["data"] = data;
        for name in ["prog_address", "thread_id", "raw"] {
            seen.as_object_mut().unwrap().remove(name);
        }
        assert_eq!(seen, expected);
        if text(event, "class") == "user" {
            assert_eq!(raw, text(&event["data"], "hex"));
        }
    }
    assert_eq!(
        rows[0]["prog_address"].as_u64(),
        Some(0xffff_ffff_ffff_fff0)
    );
}

/// Returns the duration of each event of a log, by the lines of JSON and by the rows of Parquet:
/// null for an event that ends no call, or a call of which the beginning is unknown.
fn durations(log: &Log) -> (Vec<Value>, Vec<Value>) {
    let parquet = log.file("out.parquet");
    let path = parquet.to_str().unwrap();
    let output = log.run("export", &["--to", "parquet", "--force", "-o", path]);
    let output = output.unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let mut rows = tools::python(&["parquet_file.py", "events"], &parquet).unwrap();
    let columns = rows.pop().unwrap();
    assert_eq!(columns["columns"]["duration_ns"], "UBIGINT");
    let of = |events: Vec<Value>| -> Vec<Value> {
        let took = events.iter().map(|event| event["duration_ns"].clone());
        took.collect()
    };
    (of(log.events(&[]).unwrap()), of(rows))
}

#[test]
fn how_long_calls_took_is_what_lies_between_their_rows_and_what_json_says() {
    let mut written = 0;
    let write = |path: &Path| {
        written = made_calls::write_whole(path, 6_000)?;
        Ok(())
    };
    let log = Log::written_by(write).unwrap();
    let (of_json, of_rows) = durations(&log);
    assert!(of_json == of_rows, "they differ");
    let known = of_rows.iter().filter(|took| took.is_u64()).count();
    assert_eq!(known, written);
    let path = log.file("out.parquet");
    let between = tools::python(&["parquet_file.py", "durations"], &path).unwrap();
    assert_eq!(between.len(), known + 1);
    for row in &between {
        assert_eq!(row["duration_ns"], row["between_ns"], "{row}");
    }
    assert!(between[0]["duration_ns"].is_null(), "it was begun before");

    // Behind damage it is unknown when a call began.
    let mut bytes = std::fs::read(log.path()).unwrap();
    let length = bytes.len();
    for place in 1..4 {
        bytes[length * place / 4] ^= 0xff;
    }
    std::fs::write(log.path(), bytes).unwrap();
    let (of_json, of_rows) = durations(&log);
    assert!(of_json == of_rows, "they differ");
    let left = of_rows.iter().filter(|took| took.is_u64()).count();
    assert!(known / 2 < left && left < known, "{left}");
    let between = tools::python(&["parquet_file.py", "durations"], &path).unwrap();
    let mut across = 0;
    for row in &between {
        let took = &row["duration_ns"];
        let is_across = row["between_ns"].as_u64() >= Some(made_calls::LONGEST_NS);
        across += usize::from(is_across);
        assert!(took.is_null() || *took == row["between_ns"], "{row}");
        assert!(took.is_null() || !is_across, "{row}");
    }
    assert!(across > 0, "no call seems to last over what is missing");
}

#[test]
fn chrome_traces_are_json_with_every_event() {
    let log = Log::make(3).unwrap();
    let file = log.export("chrome", &[]).unwrap();
    let whole: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let objects = whole["traceEvents"].as_array().unwrap();

    assert_eq!(whole["metadata"]["summary"]["lost"]["late"], 3);
    let of_phase = |phase: &'static str| objects.iter().filter(move |object| object["ph"] == phase);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "nanoseconds of a few seconds"
    )]
    let ns = |object: &Value, name: &str| (object[name].as_f64().unwrap() * 1000.0).round() as i64;
    let seen: Vec<_> = of_phase("i")
        .map(|object| {
            (
                ns(object, "ts"),
                text(object, "name").to_owned(),
                object["args"].clone(),
            )
        })
        .collect();
    let read: Vec<_> = log
        .events(&[])
        .unwrap()
        .into_iter()
        .filter(|event| !text(event, "type").starts_with("linux_trace_switch"))
        .map(|event| {
            let name = match text(&event, "class") {
                "user" => text(&event, "type").to_owned(),
                _ => short(text(&event, "type")),
            };
            let mut arguments = event["data"].clone();
            if let Some(address) = event.get("prog_address").and_then(Value::as_u64) {
                arguments["prog_address"] = format!("{address:#x}").into();
            }
            (integer(&event, "ns"), name, arguments)
        })
        .collect();
    assert_eq!(seen.len(), read.len());
    assert!(seen == read, "they differ");
    // The thread is off the CPU for 2 µs in every millisecond. It is on the CPU before the first
    // switch and after the last one, too.
    let slices: Vec<_> = of_phase("X").map(|slice| ns(slice, "dur")).collect();
    assert_eq!(slices.len() as u64, ROUNDS + 1);
    assert!(
        slices[1..slices.len() - 1]
            .iter()
            .all(|dur| *dur == 998_000)
    );
}

#[test]
fn pythons_csv_reader_reads_the_same_rows() {
    let log = Log::make(0).unwrap();
    let file = log.file("out.csv");
    let path = file.to_str().unwrap();
    log.run("read", &["--format", "csv", "-o", path]).unwrap();
    let rows = tools::python(&["csv_events.py"], &file).unwrap();
    let events = log.events(&[]).unwrap();

    assert_eq!(rows.len(), events.len());
    for (row, event) in rows.iter().zip(&events) {
        let cpu = event["cpu"]
            .as_i64()
            .map_or(String::new(), |cpu| cpu.to_string());
        let mut expected = json!({
            "ns": event["ns"].to_string(), "time": event["time"],
            "type": shown(text(event, "type")), "class": event["class"],
            "pid": event["pid"].to_string(), "tid": event["tid"].to_string(),
            "comm": shown(text(event, "comm")), "cpu": cpu,
            "truncated": event["truncated"].to_string(),
        });
        for name in ["ns_pid", "ns_tid", "thread_id", "prog_address"] {
            let known = event.get(name).map(Value::to_string);
            expected[name] = known.unwrap_or_default().into();
        }
        let data: Value = serde_json::from_str(text(row, "data")).unwrap();
        assert_eq!(data, event["data"]);
        expected["data"] = row["data"].clone();
        assert_eq!(*row, expected);
    }
}

#[test]
fn a_part_of_a_log_is_the_same_part_in_every_format() {
    let log = Log::make(0).unwrap();
    let hostile = str::from_utf8(NAMES[1].0).unwrap();
    let part = [
        "--tid", "8", "--event", hostile, "--event", "event", "--from", "0.5s", "--to", "1s",
    ];
    let expected = log.events(&part).unwrap().len();
    assert!(
        expected > 100 && (expected as u64) < log.written / 4,
        "{expected}"
    );

    let ctf = log.export("ctf", &part).unwrap();
    let (printed, warnings) = tools::babeltrace2(&[], &ctf).unwrap();
    assert_eq!((printed.lines().count(), warnings.as_str()), (expected, ""));
    let perfetto = log.export("perfetto", &part).unwrap();
    let decoded = tools::python(&["perfetto_trace.py", "events"], &perfetto).unwrap();
    let instants = decoded.iter().filter(|line| line.get("instant").is_some());
    assert_eq!(instants.count(), expected);
    let parquet = log.export("parquet", &part).unwrap();
    let rows = tools::python(&["parquet_file.py", "events"], &parquet).unwrap();
    assert_eq!(rows.len() - 1, expected);
    let chrome = std::fs::read(log.export("chrome", &part).unwrap()).unwrap();
    let chrome: Value = serde_json::from_slice(&chrome).unwrap();
    let instants = chrome["traceEvents"].as_array().unwrap().iter();
    assert_eq!(
        instants.filter(|object| object["ph"] == "i").count(),
        expected
    );
}

#[test]
fn info_counts_what_read_shows() {
    let log = Log::make(12).unwrap();
    let output = log.run("info", &["--format", "json"]).unwrap();
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = log.run("read", &["--format", "json"]).unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    let summary: Value = serde_json::from_str(read.lines().last().unwrap()).unwrap();

    assert_eq!(output.status.code(), Some(1), "events were lost");
    assert_eq!(info["event_count"], log.written);
    assert_eq!(info["events"], summary["summary"]["events"]);
    assert_eq!(info["lost"], summary["summary"]["lost"]);
    assert_eq!(info["lost"]["late"], 12);
    assert_eq!(info["attributes"]["name"], "made \"up\"");
    assert_eq!(info["clock"]["monotonic_ns"], START_NS);
    assert_eq!(info["completed"], true);
    assert_eq!(info["bytes"], std::fs::metadata(log.path()).unwrap().len());
    let threads = info["threads"].as_array().unwrap();
    let of_threads: u64 = threads
        .iter()
        .map(|thread| thread["events"].as_u64().unwrap())
        .sum();
    assert_eq!(of_threads, log.written);
}
