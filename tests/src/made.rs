//! The beginning of logs that tests write event by event, and a log with one event of each type.

use std::fs::File;
use std::path::Path;

use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES};
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::{Attributes, ClockPair, EventTypes, Ledger, LogFullPolicy};
use tracer_log::{FinalStatus, LogHeader, LogOptions, LogWriter};

/// Time at which the logs were made, on the monotonic clock.
pub const START_NS: u64 = 5_000_000_000;
/// [`START_NS`] as a date.
const START_DATE_NS: u64 = 1_700_000_000_000_000_000;

/// Address in the program at which each event was emitted.
pub const PROG_ADDRESS: u64 = 0x1234;
/// The thread's `pthread_t`.
pub const THREAD_ID: u64 = 0x77;

/// Data that are longer than those of any type.
const DATA: [u8; 512] = [0; 512];

/// A new log of a stream of this name.
pub(crate) fn log(path: &Path, name: &str) -> anyhow::Result<LogWriter> {
    let header = LogHeader {
        attributes: Attributes::default().with_name(name),
        anchor: ClockPair {
            monotonic: MonotonicNs(START_NS),
            realtime: RealtimeNs(START_DATE_NS),
        },
    };
    let options = LogOptions {
        policy: LogFullPolicy::Append,
        max_size: 0,
    };
    let mut file = File::options();
    let file = file.read(true).write(true).create_new(true).open(path)?;
    Ok(LogWriter::create(file, &header, options)?)
}

/// Writes a log with one event of each type of system event, with a millisecond between two events.
///
/// # Errors
///
/// It cannot be written.
pub fn write_each_type(path: &Path) -> anyhow::Result<()> {
    let mut writer = log(path, "types")?;
    let types = EventTypes::default();
    for (event_type, time) in SYSTEM_EVENT_TYPES
        .iter()
        .zip((START_NS..).step_by(1_000_000))
    {
        let header = header_of_type(event_type.id, time);
        writer.append(&header, &DATA, b"worker", &types)?;
    }
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

fn header_of_type(event_type: EventTypeId, time: u64) -> EventHeader {
    EventHeader {
        time: MonotonicNs(time),
        event_type,
        pid: 7,
        tid: 8,
        cpu: Some(1),
        thread_id: THREAD_ID,
        program_address: PROG_ADDRESS,
        truncation: Truncation::None,
    }
}
