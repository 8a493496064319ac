//! Logs of system calls: an entry of each, and calls from their beginnings to their ends.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
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

/// Upper bound of the durations of calls.
pub const LONGEST_NS: u64 = (LONG_ROUNDS + 1) * ROUND_NS;

/// Duration of a round, in which each of two threads makes a short call, one within the other's
/// time.
const ROUND_NS: u64 = 1_000;

/// Rounds that a call of a third thread lasts, which is always in a call.
const LONG_ROUNDS: u64 = 50;

/// Writes calls in `rounds` rounds, and returns how many ended. Before them a call ends that has
/// begun before the log, and the last long call does not end.
///
/// # Errors
///
/// It cannot be written.
pub fn write_whole(path: &Path, rounds: u64) -> anyhow::Result<usize> {
    let mut writer = made::log(path, "whole calls")?;
    let types = EventTypes::default();
    let read = i32::try_from(libc::SYS_read)?;
    let entered = SyscallEnterData {
        number: read,
        compat: 0,
        args: [3, 0, 10, 0, 0, 0],
    };
    let left = SyscallExitData {
        number: read,
        compat: 0,
        ret: 10,
    };
    let mut append = |ns: u64, tid: i32, is_end: bool| -> anyhow::Result<()> {
        let (event_type, data) = if is_end {
            (EventTypeId::SYSCALL_EXIT, left.as_bytes())
        } else {
            (EventTypeId::SYSCALL_ENTER, entered.as_bytes())
        };
        let header = EventHeader {
            time: MonotonicNs(START_NS + ns),
            event_type,
            pid: 7,
            tid,
            cpu: Some(0),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        Ok(writer.append(&header, data, b"caller", &types)?)
    };
    append(0, 10, true)?;
    append(1, 7, false)?;
    let mut written = 0;
    for round in 0..rounds {
        let begin = 2 + round * ROUND_NS;
        append(begin, 8, false)?;
        append(begin + 1, 9, false)?;
        append(begin + 100 + round % 90, 9, true)?;
        append(begin + 300 + round % 90, 8, true)?;
        written += 2;
        if round % LONG_ROUNDS == 0 {
            append(begin + 500, 7, true)?;
            append(begin + 501, 7, false)?;
            written += 1;
        }
    }
    writer.complete(&types, &Ledger::default(), FinalStatus::default())?;
    Ok(written)
}
