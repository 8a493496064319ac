//! A log with an entry of every system call.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SyscallEnterData;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::FinalStatus;
use zerocopy::IntoBytes as _;

use crate::made::{self, START_NS};

/// Writes the calls 0 to `most` of the machine's table, and of that for 32-bit programs.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path, most: i32) -> anyhow::Result<()> {
    let mut writer = made::log(path, "calls")?;
    let types = EventTypes::default();
    let calls = [0, 1].into_iter();
    let calls = calls.flat_map(|compat| (0..=most).map(move |nr| (compat, nr)));
    for ((compat, nr), time) in calls.zip(START_NS..) {
        let header = EventHeader {
            time: MonotonicNs(time),
            event_type: EventTypeId::SYSCALL_ENTER,
            pid: 7,
            tid: 7,
            cpu: Some(0),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let data = SyscallEnterData {
            number: nr,
            compat,
            args: [0; 6],
        };
        writer.append(&header, data.as_bytes(), b"caller", &types)?;
    }
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}
