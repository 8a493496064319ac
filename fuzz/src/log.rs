//! Bytes that are read as a log.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use tracer_common::event_type::EventTypeId;
use tracer_engine::ClockPair;
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::{Attributes, EventTypes, Ledger, LogFullPolicy};
use tracer_log::{FinalStatus, LogHeader, LogOptions, LogReader, LogWriter};

/// An event, and the name of its thread.
type Recorded = (EventHeader, Vec<u8>, Vec<u8>);

/// Opens and reads any bytes as a log: that ends, without a panic. Checksums are made right, or
/// hardly anything would come past them.
pub fn any_bytes(bytes: &[u8]) {
    // The first byte says how much is repaired: nothing, the header, packets too.
    let Some((how, bytes)) = bytes.split_first() else {
        return;
    };
    let mut log = bytes.to_vec();
    repair(&mut log, how % 3);
    read_all(file_of(&log));
}

/// Changes a valid log: every event that is still reported is one that was written, and they are in
/// order.
pub fn mutated(bytes: &[u8]) {
    let Some((kind, changes)) = bytes.split_first() else {
        return;
    };
    let mut log = valid_log(*kind);
    let written = read_all(file_of(&log));
    assert!(!written.is_empty());
    change(&mut log, changes);

    let mut written = written.iter();
    for event in read_all(file_of(&log)) {
        assert!(
            written.any(|known| *known == event),
            "never written: {event:?}"
        );
    }
}

/// Changes a log as the bytes say: six bytes a change.
fn change(log: &mut Vec<u8>, changes: &[u8]) {
    for change in changes.chunks_exact(6) {
        let word = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
        // The header's gaps are of no interest.
        let at = match word(1) % 3 {
            0 => word(3) % 1024,
            1 => 4096 + word(3) % 1024,
            _ => 8192 + word(3),
        };
        let at = at.min(log.len());
        let length = usize::from(change[5]).min(log.len() - at);
        match change[0] % 6 {
            0 => {
                if let Some(byte) = log.get_mut(at) {
                    *byte ^= 1 << (change[5] % 8);
                }
            }
            1 => log.truncate(at),
            2 => {
                log.drain(at..at + length);
            }
            3 => {
                let copied = log[at..at + length].to_vec();
                log.splice(at..at, copied);
            }
            4 => log[at..at + length].fill(0),
            _ => {
                let copied = log[at..at + length].to_vec();
                log.extend_from_slice(&copied);
            }
        }
    }
}

unsafe extern "C" {
    fn memfd_create(name: *const std::ffi::c_char, flags: u32) -> i32;
}

/// Returns a file in memory with these bytes.
fn file_of(bytes: &[u8]) -> File {
    // SAFETY: the name is a string ended by a null.
    let descriptor = unsafe { memfd_create(c"log".as_ptr(), 1) };
    assert!(descriptor >= 0);
    // SAFETY: it was opened just now, and no other value owns it.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// Returns everything that a file says as a log, twice: the same both times.
fn read_all(file: File) -> Vec<Recorded> {
    let length = file.metadata().unwrap().len();
    let Ok(mut reader) = LogReader::open(file) else {
        return Vec::new();
    };
    let first = read(&mut reader, length);
    reader.rewind();
    assert_eq!(first, read(&mut reader, length));
    reader.rewind();
    reader.skip_to(MonotonicNs(1_000_500));
    read(&mut reader, length);
    let _ = LogReader::header(&reader);
    first
}

fn read(reader: &mut LogReader, length: u64) -> Vec<Recorded> {
    let mut events = Vec::new();
    let (mut time, mut realtime) = (MonotonicNs(0), RealtimeNs(0));
    while let Some(record) = reader.next_record().unwrap() {
        let header = record.event.header;
        assert!(header.time >= time && record.realtime >= realtime);
        (time, realtime) = (header.time, record.realtime);
        events.push((header, record.event.data.to_vec(), record.comm.to_vec()));
        // Each event takes some bytes of the file.
        assert!(events.len() as u64 <= length);
    }
    let (done, all) = reader.progress();
    assert!(done <= all);
    let _ = (reader.damage(), reader.lost_in_log(), reader.final_status());
    events
}

/// Returns a small log: the lowest bits of `kind` choose its policy and whether it is complete.
fn valid_log(kind: u8) -> Vec<u8> {
    static LOGS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let logs = LOGS.get_or_init(|| (0..6).map(new_log).collect());
    logs[usize::from(kind) % logs.len()].clone()
}

fn new_log(kind: u8) -> Vec<u8> {
    let policies = [
        LogFullPolicy::Append,
        LogFullPolicy::Loop,
        LogFullPolicy::UntilFull,
    ];
    let info = LogHeader {
        attributes: Attributes::default().with_max_data_size(64),
        anchor: ClockPair {
            monotonic: MonotonicNs(0),
            realtime: RealtimeNs(1),
        },
    };
    let options = LogOptions {
        policy: policies[usize::from(kind / 2)],
        max_size: LogOptions::least_size(&info.attributes) + 500,
    };
    let mut types = EventTypes::default();
    types.define_user(b"request", Some(EventTypeId(257)));
    let file = file_of(&[]);
    let mut writer = LogWriter::create(file.try_clone().unwrap(), &info, options).unwrap();
    for index in 0..60_u8 {
        let header = EventHeader {
            time: MonotonicNs(1_000_000 + u64::from(index) * 100),
            event_type: EventTypeId(if index % 3 == 0 { 37 } else { 257 }),
            pid: 4711,
            tid: 4711 + i32::from(index % 2),
            cpu: (index % 5 > 0).then_some(u32::from(index % 4)),
            thread_id: 0x7000,
            program_address: 0x40_0000,
            truncation: Truncation::None,
        };
        // Events differ from one another.
        let data = [index, 1, 2, 3, 4, 5, 6, 7];
        writer.append(&header, &data, b"thread", &types).unwrap();
        if index % 4 == 3 {
            writer.flush(&Ledger::default()).unwrap();
        }
    }
    if kind % 2 == 0 {
        writer
            .complete(&types, &Ledger::default(), FinalStatus::default())
            .unwrap();
    }
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Makes checksums right, and the ids of packets that of the log: 0 none of them, 1 the header's, 2
/// all.
fn repair(log: &mut Vec<u8>, how: u8) {
    if how == 0 || log.len() < 9000 {
        return;
    }
    log[..8].copy_from_slice(b"\x93TRL\r\n\x1a\n");
    log[10..12].copy_from_slice(&[1, 0]);
    log[16..22].copy_from_slice(&[0, 4, 0, 0, 1, 8]);
    log[12..16].fill(0);
    let crc = crc32c(&log[..1024]);
    log[12..16].copy_from_slice(&crc.to_le_bytes());
    if how == 1 {
        return;
    }
    let id: [u8; 16] = log[32..48].try_into().unwrap();
    let mut offset = 8192;
    while offset + 88 <= log.len() {
        if log[offset..].starts_with(b"\xa7TRLpkt\n") {
            repair_packet(&mut log[offset..], &id);
        }
        offset += 8;
    }
}

fn repair_packet(packet: &mut [u8], id: &[u8; 16]) {
    let field = |packet: &[u8], at: usize| {
        u32::from_le_bytes(packet[at..at + 4].try_into().unwrap()) as usize
    };
    let (length, events) = (field(packet, 8), field(packet, 12));
    packet[64..80].copy_from_slice(id);
    if let Some(preamble) = packet.get(88..events) {
        let crc = crc32c(preamble);
        packet[20..24].copy_from_slice(&crc.to_le_bytes());
    }
    if let Some(events) = packet.get(events..length) {
        let crc = crc32c(events);
        packet[80..84].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c(&packet[..84]);
    packet[84..88].copy_from_slice(&crc.to_le_bytes());
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}
