//! A reader that was written from `docs/log-format.md` alone reads the same as this crate's.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SwitchOutData;
use tracer_engine::LogFullPolicy;
use tracer_engine::event::{MonotonicNs, Truncation};
use tracer_engine::source::LossCause;
use tracer_log::{LogReader, LogWriter};

use crate::support::{Recorded, add, complete, contents, event, log_header, options};

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/read_log.py");

/// Returns the lines that the independent reader prints.
fn by_python(log: &Path) -> Vec<Value> {
    let output = Command::new("python3")
        .arg(READER)
        .arg(log)
        .output()
        .expect("python3 has to be installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the lines of this crate's reader.
fn by_us(log: &Path) -> Vec<Value> {
    let mut reader = LogReader::open(File::open(log).unwrap()).unwrap();
    let types = LogReader::open(File::open(log).unwrap()).unwrap();
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let header = record.event.header;
        let name = types.event_types().name(header.event_type);
        // Only the trailer names the system's types.
        let is_listed = header.event_type.is_user() || types.final_status().is_some();
        let name = name.filter(|_| is_listed).unwrap_or_default();
        lines.push(json!({
            "time": header.time.0,
            "realtime": record.realtime.0,
            "type": header.event_type.0,
            "pid": header.pid,
            "tid": header.tid,
            "thread_id": header.thread_id,
            "comm": hex(record.comm),
            "cpu": header.cpu,
            "address": header.program_address,
            "truncated": header.truncation == Truncation::Record,
            "data": hex(record.event.data),
            "name": String::from_utf8_lossy(name),
        }));
    }
    let mut losses = serde_json::Map::new();
    let mut lose = |id: &str, count: u64| {
        if count > 0 {
            losses.insert(id.to_owned(), json!(count));
        }
    };
    for (id, cause) in (1..).zip(LossCause::ALL) {
        lose(&id.to_string(), reader.lost(cause));
    }
    lose("64", reader.overwritten_in_log());
    lose("65", reader.lost_in_log() - reader.overwritten_in_log());
    lines.push(json!({
        "missing": reader.damage().packets_missing,
        "losses": losses,
        "complete": reader.final_status().is_some(),
        "ended": reader.ended().map_or(0, |at| at.0),
    }));
    lines
}

/// Returns user events, and system events with data that comes again.
fn events(count: u64) -> Vec<Recorded> {
    let mut events: Vec<_> = (0..count).map(event).collect();
    for (index, event) in events.iter_mut().enumerate().filter(|(n, _)| n % 3 == 0) {
        event.header.event_type = EventTypeId::SWITCH_IN;
        event.data = vec![u8::try_from(index % 4).unwrap(); 24];
    }
    // The thread ran since its last switch-in, as a rule.
    for index in (12..events.len()).filter(|index| index % 12 == 6) {
        let since = events[index - 3].header;
        let event = &mut events[index];
        event.header.event_type = EventTypeId::SWITCH_OUT;
        event.header.tid = since.tid;
        event.data = vec![1; size_of::<SwitchOutData>()];
        let ran_ns = match index % 5 {
            0 => index as u64,
            _ => event.header.time.0 - since.time.0,
        };
        *event.data.last_chunk_mut().unwrap() = ran_ns.to_ne_bytes();
    }
    events
}

#[test]
fn the_document_is_enough_to_read_a_log() {
    let directory = tempfile::tempdir().unwrap();
    for (name, policy, max_size, is_complete) in [
        ("append", LogFullPolicy::Append, 0, true),
        ("truncated", LogFullPolicy::Append, 0, false),
        ("until full", LogFullPolicy::UntilFull, 20_000, true),
        ("loop", LogFullPolicy::Loop, 20_000, true),
        ("loop without end", LogFullPolicy::Loop, 20_000, false),
    ] {
        let path = directory.path().join(name);
        let file = File::create_new(&path).unwrap();
        let mut writer = LogWriter::create(file, &log_header(), options(policy, max_size)).unwrap();
        add(&mut writer, &events(1_500), 100);
        if is_complete {
            writer.advance(MonotonicNs(u64::MAX / 2));
            complete(writer);
        } else {
            drop(writer);
        }

        let (theirs, ours) = (by_python(&path), by_us(&path));

        assert!(ours.len() > 100, "{name}");
        assert!(
            theirs == ours,
            "{name}: {:?} {:?}",
            theirs.last(),
            ours.last()
        );
    }
}

#[test]
fn both_readers_miss_the_same_of_a_damaged_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    for policy in [LogFullPolicy::Append, LogFullPolicy::Loop] {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        let mut writer = LogWriter::create(
            file.try_clone().unwrap(),
            &log_header(),
            options(policy, 20_000),
        )
        .unwrap();
        add(&mut writer, &events(800), 30);
        complete(writer);
        let mut bytes = contents(&file);
        for offset in (9_000..bytes.len() - 2_000).step_by(5_000) {
            bytes[offset..offset + 10].fill(0xee);
        }
        std::fs::write(&path, &bytes).unwrap();

        let (theirs, ours) = (by_python(&path), by_us(&path));

        assert!(theirs == ours, "{:?} {:?}", theirs.last(), ours.last());
        assert!(ours.last().unwrap()["missing"].as_u64().unwrap() > 0);
    }
}
