//! The common part of the tests of logs: events to write, and the reader's expected answers.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tracer_common::event_type::EventTypeId;
use tracer_engine::ClockPair;
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::{Attributes, EventTypes, Ledger, LogFullPolicy};
use tracer_log::{FinalStatus, LogHeader, LogOptions, LogReader, LogWriter};

/// An event with everything that a log keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub header: EventHeader,
    pub data: Vec<u8>,
    pub comm: Vec<u8>,
}

/// The first user event type with a name.
pub const FIRST_NAMED: EventTypeId = EventTypeId(257);

pub fn types() -> EventTypes {
    let mut types = EventTypes::default();
    for (index, name) in ["request", "answer", "a longer name of an event"]
        .iter()
        .enumerate()
    {
        types.define_user(
            name.as_bytes(),
            Some(EventTypeId(FIRST_NAMED.0 + u32::try_from(index).unwrap())),
        );
    }
    types
}

pub fn log_header() -> LogHeader {
    LogHeader {
        attributes: Attributes::default().with_name("a test"),
        anchor: ClockPair {
            monotonic: MonotonicNs(1_000_000),
            realtime: RealtimeNs(1_700_000_000_000_000_000),
        },
    }
}

pub fn event(index: u64) -> Recorded {
    let thread = i32::try_from(index % 3).unwrap();
    Recorded {
        header: EventHeader {
            time: MonotonicNs(1_000_000 + index * 500),
            event_type: EventTypeId(FIRST_NAMED.0 + u32::try_from(index % 2).unwrap()),
            pid: 4711,
            tid: 4711 + thread,
            cpu: (!index.is_multiple_of(5)).then_some(u32::try_from(index / 7 % 4).unwrap()),
            thread_id: 0x7fff_1234_0000 + thread.unsigned_abs() as u64,
            program_address: 0x5555_0000 + index % 2,
            truncation: if index.is_multiple_of(11) {
                Truncation::Record
            } else {
                Truncation::None
            },
        },
        data: index.to_le_bytes().repeat(4),
        comm: format!("worker {thread}").into_bytes(),
    }
}

/// Returns a file in memory.
pub fn file() -> File {
    tempfile::tempfile_in("/dev/shm").unwrap()
}

pub fn options(policy: LogFullPolicy, max_size: u64) -> LogOptions {
    LogOptions { policy, max_size }
}

/// Writes a log with these events; `flush_every` so many.
pub fn write_log(
    file: &File,
    options: LogOptions,
    events: &[Recorded],
    flush_every: usize,
) -> LogWriter {
    let mut writer = LogWriter::create(file.try_clone().unwrap(), &log_header(), options).unwrap();
    add(&mut writer, events, flush_every);
    writer
}

pub fn add(writer: &mut LogWriter, events: &[Recorded], flush_every: usize) {
    let types = types();
    for (index, event) in events.iter().enumerate() {
        writer
            .append(&event.header, &event.data, &event.comm, &types)
            .unwrap();
        if (index + 1) % flush_every == 0 {
            writer.flush(&Ledger::default()).unwrap();
        }
    }
}

pub fn complete(mut writer: LogWriter) {
    writer
        .complete(&types(), &Ledger::default(), FinalStatus::default())
        .unwrap();
}

pub fn open(file: &File) -> LogReader {
    LogReader::open(file.try_clone().unwrap()).unwrap()
}

/// Returns all events that are left.
pub fn rest_of(reader: &mut LogReader) -> Vec<Recorded> {
    let mut events = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        events.push(Recorded {
            header: record.event.header,
            data: record.event.data.to_vec(),
            comm: record.comm.to_vec(),
        });
    }
    events
}

pub fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Makes a file hold just these bytes.
pub fn overwrite(file: &File, bytes: &[u8]) {
    file.set_len(bytes.len() as u64).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}
