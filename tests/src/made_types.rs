//! A log with one event of each type of system event.

use std::path::Path;

use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::FinalStatus;

use crate::made::{self, START_NS};

/// Address in the program at which each event was emitted.
pub const PROG_ADDRESS: u64 = 0x1234;
/// The thread's `pthread_t`.
pub const THREAD_ID: u64 = 0x77;

/// Data that are longer than those of any type.
const DATA: [u8; 512] = [0; 512];

/// Writes the log, with a millisecond between two events.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path) -> anyhow::Result<()> {
    let mut writer = made::log(path, "types")?;
    let types = EventTypes::default();
    for (event_type, time) in SYSTEM_EVENT_TYPES
        .iter()
        .zip((START_NS..).step_by(1_000_000))
    {
        let header = header_of(event_type.id, time);
        writer.append(&header, &DATA, b"worker", &types)?;
    }
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

fn header_of(event_type: EventTypeId, time: u64) -> EventHeader {
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
