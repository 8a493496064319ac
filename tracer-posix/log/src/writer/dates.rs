//! Dates in a log whose clocks are read with errors, or are set.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};

use super::core::WriterCore;
use crate::medium::Medium;
use crate::{FinalStatus, LogHeader, LogOptions, LogReader};
use tracer_engine::ClockPair;
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::{Attributes, EventTypes, Ledger, LogFullPolicy};

/// True difference between the two clocks, in nanoseconds.
const APART: i64 = 1_700_000_000_000_000_000;

/// A file, and clocks that are as far apart as a test says.
#[derive(Debug)]
struct Scripted {
    file: File,
    apart: Rc<Cell<i64>>,
}

impl Medium for Scripted {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn reserve(&mut self, _length: u64) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }

    fn clocks(&mut self) -> ClockPair {
        ClockPair {
            monotonic: MonotonicNs(1_000),
            realtime: RealtimeNs(1_000_u64.saturating_add_signed(self.apart.get())),
        }
    }
}

/// Writes a log with a packet for each reading of the clocks. Returns how far the date of each
/// event is from its time plus [`APART`].
fn off(readings: &[i64]) -> Vec<i64> {
    let file = tempfile::tempfile().unwrap();
    let apart = Rc::new(Cell::new(APART));
    let mut medium = Scripted {
        file: file.try_clone().unwrap(),
        apart: Rc::clone(&apart),
    };
    let info = LogHeader {
        attributes: Attributes::default(),
        anchor: medium.clocks(),
    };
    let options = LogOptions {
        policy: LogFullPolicy::Append,
        max_size: 0,
    };
    let mut types = EventTypes::default();
    let id = EventTypeId(FIRST_USER_EVENT + 1);
    types.define_user(b"dated", Some(id));
    let ledger = Ledger::default();
    let mut core = WriterCore::create(medium, &info, options).unwrap();
    for (time, reading) in (1_000_000..).step_by(1_000_000).zip(readings) {
        let header = EventHeader {
            time: MonotonicNs(time),
            event_type: id,
            pid: 1,
            tid: 1,
            cpu: None,
            thread_id: 1,
            program_address: 0,
            truncation: Truncation::None,
        };
        core.append(&header, b"", b"", &types).unwrap();
        apart.set(APART + reading);
        core.flush(&ledger).unwrap();
    }
    core.complete(&types, &ledger, FinalStatus::default())
        .unwrap();
    let mut reader = LogReader::open(file).unwrap();
    let mut off = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let expected = record.event.header.time.0.saturating_add_signed(APART);
        off.push(record.realtime.0.wrapping_sub(expected).cast_signed());
    }
    off
}

#[test]
fn dates_do_not_move_by_the_error_of_a_reading() {
    assert_eq!(off(&[0, 9_000, -4_000, 35, -9_999, 9_999]), [0; 6]);
}

#[test]
fn dates_follow_a_clock_that_is_set() {
    const HOUR: i64 = 3_600_000_000_000;
    let readings = [0, HOUR, HOUR + 500, 2 * HOUR, 2 * HOUR - 200];
    assert_eq!(off(&readings), [0, HOUR, HOUR, 2 * HOUR, 2 * HOUR]);
}
