//! Tests with a medium that fails: what a log still holds afterwards.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};

use super::core::WriterCore;
use crate::medium::Medium;
use crate::packet_cursor::Damage;
use crate::{FinalStatus, LogHeader, LogOptions, LogReader, WriteError};
use tracer_engine::ClockPair;
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::{Attributes, EventTypes, Ledger, LogFullPolicy};

/// Events of a log.
const EVENTS: u64 = 400;

/// Effects of a write that fails.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// Number of the write that fails, counted from 0.
    write: usize,
    /// Bytes of that write that are written all the same.
    torn_after: usize,
    error: i32,
    /// All writes after it fail as well, and write nothing.
    for_good: bool,
}

/// A disk in memory.
#[derive(Debug, Default)]
struct Disk {
    bytes: Vec<u8>,
    writes: usize,
    failure: Option<Failure>,
    /// No file can be longer.
    capacity: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Shared(Rc<RefCell<Disk>>);

impl Medium for Shared {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        let nth = disk.writes;
        disk.writes += 1;
        let offset = usize::try_from(offset).unwrap();
        let mut written = bytes.len();
        let mut error = None;
        if let Some(failure) = disk.failure
            && (nth == failure.write || nth > failure.write && failure.for_good)
        {
            let is_first = nth == failure.write;
            written = if is_first {
                failure.torn_after.min(written)
            } else {
                0
            };
            error = Some(failure.error);
        }
        if let Some(capacity) = disk.capacity
            && offset + written > capacity
        {
            written = capacity.saturating_sub(offset);
            error = Some(libc::ENOSPC);
        }
        if written > 0 {
            let end = offset + written;
            let length = disk.bytes.len().max(end);
            disk.bytes.resize(length, 0);
            disk.bytes[offset..end].copy_from_slice(&bytes[..written]);
        }
        error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap();
        self.0.borrow_mut().bytes.resize(length, 0);
        Ok(())
    }

    fn reserve(&mut self, _length: u64) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }

    fn clocks(&mut self) -> ClockPair {
        anchor()
    }
}

fn anchor() -> ClockPair {
    ClockPair {
        monotonic: MonotonicNs(1_000),
        realtime: RealtimeNs(5_000),
    }
}

fn types() -> EventTypes {
    let mut types = EventTypes::default();
    types.define_user(b"counted", Some(EventTypeId(FIRST_USER_EVENT + 1)));
    types
}

/// Writes a log of `EVENTS` events to a disk, each with its index as data, and flushes it after
/// every 10. Returns the result of completing the log.
fn write(disk: &Shared, policy: LogFullPolicy) -> Result<(), WriteError> {
    let info = LogHeader {
        attributes: Attributes::default().with_max_data_size(64),
        anchor: anchor(),
    };
    let options = LogOptions {
        policy,
        max_size: 6_000,
    };
    let (types, ledger) = (types(), Ledger::default());
    let mut core = WriterCore::create(disk.clone(), &info, options)?;
    for index in 0..EVENTS {
        let header = EventHeader {
            time: MonotonicNs(index),
            event_type: EventTypeId(FIRST_USER_EVENT + 1),
            pid: 1,
            tid: 1,
            cpu: None,
            thread_id: 1,
            program_address: 0,
            truncation: Truncation::None,
        };
        // An error that lasts is returned at the end as well.
        let _ = core.append(&header, &index.to_le_bytes(), b"", &types);
        if index % 10 == 9 {
            let _ = core.flush(&ledger);
        }
    }
    core.complete(&types, &ledger, FinalStatus::default())
}

/// Result of reading the log.
#[derive(Debug)]
struct Read {
    indices: Vec<u64>,
    damage: Damage,
    lost: u64,
    status: Option<FinalStatus>,
}

fn read(disk: &Shared) -> Option<Read> {
    let file: File = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all_at(&disk.0.borrow().bytes, 0).unwrap();
    let mut reader = LogReader::open(file).ok()?;
    let mut indices = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        if record.event.header.event_type != EventTypeId::STOP {
            indices.push(u64::from_le_bytes(record.event.data.try_into().unwrap()));
        }
    }
    Some(Read {
        indices,
        damage: reader.damage(),
        lost: reader.lost_in_log(),
        status: reader.final_status(),
    })
}

fn written_without_failure(policy: LogFullPolicy) -> (usize, Read) {
    let disk = Shared::default();
    write(&disk, policy).unwrap();
    let writes = disk.0.borrow().writes;
    (writes, read(&disk).unwrap())
}

const POLICIES: [LogFullPolicy; 3] = [
    LogFullPolicy::Append,
    LogFullPolicy::UntilFull,
    LogFullPolicy::Loop,
];

fn is_a_run(indices: &[u64]) -> bool {
    indices.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

#[test]
fn a_write_that_fails_once_loses_nothing() {
    for policy in POLICIES {
        let (writes, whole) = written_without_failure(policy);
        // The first two writes are those of the header, without which there is no log.
        for write_that_fails in 2..writes - 3 {
            for torn_after in [0, 1, 100, 10_000] {
                let disk = Shared::default();
                disk.0.borrow_mut().failure = Some(Failure {
                    write: write_that_fails,
                    torn_after,
                    error: libc::EIO,
                    for_good: false,
                });
                write(&disk, policy).unwrap();
                let read = read(&disk).unwrap();

                assert_eq!(read.damage, Damage::default());
                assert_eq!(read.indices.len() as u64 + read.lost, EVENTS);
                assert!(is_a_run(&read.indices));
                // The packet that is written again, and those after it, may have other sizes.
                let difference = read.indices.len().abs_diff(whole.indices.len());
                assert!(
                    difference <= 40,
                    "{policy:?} {write_that_fails} {difference}"
                );
            }
        }
    }
}

#[test]
fn wherever_writing_stops_what_was_whole_can_be_read() {
    for policy in POLICIES {
        let (writes, _) = written_without_failure(policy);
        let mut last_seen = 0;
        for write_that_fails in 0..writes {
            for torn_after in [0, 1, 7, 90, 131, 200, 1_000] {
                let disk = Shared::default();
                disk.0.borrow_mut().failure = Some(Failure {
                    write: write_that_fails,
                    torn_after,
                    error: libc::EIO,
                    for_good: true,
                });
                let _ = write(&disk, policy);
                let Some(read) = read(&disk) else {
                    // Neither copy of the header was written whole.
                    assert!(write_that_fails < 1);
                    continue;
                };

                assert!(is_a_run(&read.indices), "{:?}", read.indices);
                let newest = read.indices.last().map_or(0, |last| last + 1);
                assert!(
                    newest >= last_seen,
                    "{policy:?} {write_that_fails} {torn_after}"
                );
                if policy != LogFullPolicy::Loop {
                    assert_eq!(read.indices.len() as u64, newest);
                }
                last_seen = newest;
            }
        }
        assert!(last_seen > 100);
    }
}

#[test]
fn a_full_disk_costs_what_did_not_fit_and_says_so() {
    for policy in [LogFullPolicy::Append, LogFullPolicy::Loop] {
        for capacity in (8_192..13_000).step_by(333) {
            let disk = Shared::default();
            disk.0.borrow_mut().capacity = Some(capacity);

            let errno = write(&disk, policy).unwrap_err().error_number();
            let read = read(&disk).unwrap();

            assert_eq!(errno, libc::ENOSPC);
            assert!(is_a_run(&read.indices));
            assert_eq!(read.indices.len() as u64 + read.lost, EVENTS);
            assert_eq!(read.damage, Damage::default());
            let status = read.status.unwrap();
            assert!(status.is_log_overrun || read.lost == 0);
        }
    }
}
