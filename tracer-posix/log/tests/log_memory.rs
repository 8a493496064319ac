//! Memory for writing and reading a large log. Alone in its file: the peak is the whole process's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "log_file/support.rs"]
#[expect(dead_code, reason = "this test uses a part of it")]
mod support;

use support::{complete, event, log_header, open, options, types};
use tracer_engine::{Ledger, LogFullPolicy};
use tracer_log::LogWriter;

const EVENTS: u64 = 3_000;
const DATA_BYTES: usize = 50_000;

/// Returns the most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_log_larger_than_that_is_written_and_read_within_64_megabytes() {
    for policy in [LogFullPolicy::Append, LogFullPolicy::Loop] {
        let file = tempfile::tempfile().unwrap();
        let options = options(policy, 120_000_000);
        let types = types();
        let mut writer =
            LogWriter::create(file.try_clone().unwrap(), &log_header(), options).unwrap();
        for index in 0..EVENTS {
            let mut event = event(index);
            event.data.resize(DATA_BYTES, 7);
            writer
                .append(&event.header, &event.data, &event.comm, &types)
                .unwrap();
        }
        writer.flush(&Ledger::default()).unwrap();
        complete(writer);
        let mut reader = open(&file);
        let mut events = 0;
        while let Some(record) = reader.next_record().unwrap() {
            assert_eq!(record.event.data.len(), DATA_BYTES);
            events += 1;
        }

        assert_eq!(events + reader.lost_in_log(), EVENTS);
        assert!(file.metadata().unwrap().len() > 100_000_000);
        assert!(peak() < 64 << 20, "{} bytes", peak());
    }
}
