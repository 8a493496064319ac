//! Logs that were truncated, damaged, or never were logs: what is whole is reported, and nothing
//! else.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use tracer_engine::LogFullPolicy;
use tracer_log::{Damage, LogReader};

use crate::support::{
    Recorded, complete, contents, event, file, open, options, overwrite, rest_of, write_log,
};

/// A packet of a log, found by the bytes that start one.
#[derive(Clone, Debug)]
struct Packet {
    bytes: Range<usize>,
    events: usize,
    sequence: u64,
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().unwrap()
}

fn packets(log: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    for offset in (8192..log.len()).step_by(8) {
        if log[offset..].starts_with(b"\xa7TRLpkt\n") {
            let length = u32::from_le_bytes(field(log, offset + 8)) as usize;
            packets.push(Packet {
                bytes: offset..offset + length,
                events: u32::from_le_bytes(field(log, offset + 16)) as usize,
                sequence: u64::from_le_bytes(field(log, offset + 24)),
            });
        }
    }
    packets.sort_by_key(|packet| packet.sequence);
    packets
}

/// Returns the number of events that are written to it; with `LOOP` some give way.
fn count(policy: LogFullPolicy) -> u64 {
    match policy {
        LogFullPolicy::Loop => 88,
        LogFullPolicy::Append | LogFullPolicy::UntilFull => 20,
    }
}

/// A small complete log of a few packets, and its events.
struct Small {
    bytes: Vec<u8>,
    packets: Vec<Packet>,
    events: Vec<Recorded>,
}

impl Small {
    fn new(policy: LogFullPolicy, is_complete: bool) -> Self {
        let file = file();
        let mut events: Vec<_> = (0..count(policy)).map(event).collect();
        for event in &mut events {
            event.data.truncate(8);
        }
        let writer = write_log(&file, options(policy, 2_500), &events, 4);
        if is_complete {
            complete(writer);
        } else {
            drop(writer);
        }
        let bytes = contents(&file);
        let mut reader = open(&file);
        let read = rest_of(&mut reader);
        if policy == LogFullPolicy::Loop {
            assert!(read.len() < events.len() && events.ends_with(&read));
        }
        events = read;
        let mut packets = packets(&bytes);
        // What is left of an earlier lap is no part of the log.
        let newest = packets.last().unwrap().bytes.start;
        let oldest = u64::from_le_bytes(field(&bytes, newest + 32));
        packets.retain(|packet| packet.sequence >= oldest);
        assert_eq!(
            packets.iter().map(|packet| packet.events).sum::<usize>(),
            events.len()
        );
        Self {
            bytes,
            packets,
            events,
        }
    }

    /// Returns the events of the packets that `is_whole` says are whole.
    fn events_of(&self, is_whole: impl Fn(&Packet) -> bool) -> Vec<Recorded> {
        let mut events = self.events.iter();
        let mut expected = Vec::new();
        for packet in &self.packets {
            let of_packet = events.by_ref().take(packet.events);
            if is_whole(packet) {
                expected.extend(of_packet.cloned());
            } else {
                of_packet.for_each(drop);
            }
        }
        expected
    }
}

#[test]
fn a_log_truncated_anywhere_gives_all_events_of_its_whole_packets() {
    for (policy, is_complete) in [
        (LogFullPolicy::Append, true),
        (LogFullPolicy::Append, false),
        (LogFullPolicy::Loop, true),
        (LogFullPolicy::Loop, false),
    ] {
        let small = Small::new(policy, is_complete);
        let file = file();
        overwrite(&file, &small.bytes);
        let last_byte = small.packets.iter().map(|packet| packet.bytes.end).max();
        for length in (0..=small.bytes.len()).rev() {
            if length == 8192 {
                // Between the headers lie zeros; each length there is as the next.
                for length in (5128..8192).step_by(511).chain([4096, 1032]) {
                    file.set_len(length).unwrap();
                    assert!(rest_of(&mut open(&file)).is_empty());
                }
                break;
            }
            file.set_len(length as u64).unwrap();
            let mut reader = open(&file);
            let read = rest_of(&mut reader);

            let expected = small.events_of(|packet| packet.bytes.end <= length);
            assert!(read == expected, "{length}");
            let is_boundary = small
                .packets
                .iter()
                .any(|packet| packet.bytes.end == length);
            let is_truncated = length < last_byte.unwrap() && (is_complete || !is_boundary);
            if policy == LogFullPolicy::Append && length > 8192 {
                assert_eq!(reader.damage().sites > 0, is_truncated, "{length}");
            }
        }
        for length in 0..1032 {
            file.set_len(0).unwrap();
            overwrite(&file, &small.bytes[..length]);
            assert!(LogReader::open(file.try_clone().unwrap()).is_err());
        }
    }
}

#[test]
fn a_flipped_bit_costs_one_packet_at_most() {
    for policy in [LogFullPolicy::Append, LogFullPolicy::Loop] {
        let small = Small::new(policy, true);
        let file = file();
        overwrite(&file, &small.bytes);
        let headers = match policy {
            LogFullPolicy::Append => (0..1032).chain(4096..5128),
            // They are no other.
            LogFullPolicy::Loop | LogFullPolicy::UntilFull => (0..0).chain(0..0),
        };
        for byte in headers.chain(8192..small.bytes.len()) {
            for bit in 0..8 {
                let damaged = small.bytes[byte] ^ 1 << bit;
                file.write_all_at(&[damaged], byte as u64).unwrap();
                let mut reader = open(&file);
                let read = rest_of(&mut reader);

                let expected = small.events_of(|packet| !packet.bytes.contains(&byte));
                assert!(read == expected, "byte {byte} bit {bit}");
                let missing = u64::from(expected.len() < small.events.len());
                assert_eq!(
                    reader.damage().packets_missing,
                    missing,
                    "byte {byte} bit {bit}"
                );
                assert_eq!(reader.damage().sites, missing, "byte {byte} bit {bit}");
            }
            file.write_all_at(&small.bytes[byte..=byte], byte as u64)
                .unwrap();
        }
    }
}

/// Bytes of a log that one damaged byte, or a truncation, may cost.
const MOST_LOST_BYTES: usize = 16 * 1024;

/// Returns a log of many packets as they are written while nothing asks for a flush, and its
/// events.
fn large(policy: LogFullPolicy) -> Small {
    let file = file();
    let mut events: Vec<_> = (0..8_000).map(event).collect();
    for event in &mut events {
        event.data.truncate(8);
    }
    complete(write_log(
        &file,
        options(policy, 150_000),
        &events,
        usize::MAX,
    ));
    let bytes = contents(&file);
    let events = rest_of(&mut open(&file));
    let mut packets = packets(&bytes);
    if policy == LogFullPolicy::Loop {
        let newest = packets.last().unwrap().bytes.start;
        let oldest = u64::from_le_bytes(field(&bytes, newest + 32));
        packets.retain(|packet| packet.sequence >= oldest);
    }
    Small {
        bytes,
        packets,
        events,
    }
}

const POLICIES: [LogFullPolicy; 3] = [
    LogFullPolicy::Append,
    LogFullPolicy::UntilFull,
    LogFullPolicy::Loop,
];

#[test]
fn a_damaged_byte_of_a_large_log_costs_16_kib_at_most() {
    for policy in POLICIES {
        let large = large(policy);
        assert!(large.packets.len() > 5);
        let file = file();
        overwrite(&file, &large.bytes);
        let starts = large.packets.iter().map(|packet| packet.bytes.start);
        // All over the file, and what packets begin with.
        let offsets = (0..large.bytes.len()).step_by(9_973);
        for byte in offsets.chain(starts.flat_map(|start| [start, start + 9, start + 84])) {
            file.write_all_at(&[large.bytes[byte] ^ 0x10], byte as u64)
                .unwrap();
            let read = rest_of(&mut open(&file));
            file.write_all_at(&large.bytes[byte..=byte], byte as u64)
                .unwrap();

            let hit = |packet: &&Packet| packet.bytes.contains(&byte);
            assert!(
                large
                    .packets
                    .iter()
                    .filter(hit)
                    .all(|hit| hit.bytes.len() <= MOST_LOST_BYTES)
            );
            assert!(
                read == large.events_of(|packet| !hit(&packet)),
                "{policy:?}: byte {byte}"
            );
        }
    }
}

#[test]
fn a_large_log_that_was_truncated_loses_16_kib_before_its_end_at_most() {
    let large = large(LogFullPolicy::Append);
    let file = file();
    for length in (8192..large.bytes.len()).step_by(9_973) {
        overwrite(&file, &large.bytes[..length]);
        let read = rest_of(&mut open(&file));

        let expected = large.events_of(|packet| packet.bytes.end <= length);
        assert!(read == expected, "{length}");
        let whole = large
            .packets
            .iter()
            .take_while(|packet| packet.bytes.end <= length);
        let end = whole.last().map_or(8192, |packet| packet.bytes.end);
        assert!(
            length - end <= MOST_LOST_BYTES || length > large.packets.last().unwrap().bytes.end
        );
    }
}

#[test]
fn a_scar_in_the_log_of_a_short_trace_costs_a_part_of_it() {
    // What takes 54 kB was one packet once, and a scar cost nearly all of it.
    let large = large(LogFullPolicy::Append);
    let file = file();
    let end = large.packets[3].bytes.end;
    let events: usize = large.packets[..=3].iter().map(|packet| packet.events).sum();
    let mut bytes = large.bytes[..end].to_vec();
    bytes[end / 2..end / 2 + 28].fill(0xa5);
    overwrite(&file, &bytes);

    assert!((40_000..80_000).contains(&end), "{end}");
    let read = rest_of(&mut open(&file)).len();
    assert!(read * 2 >= events, "{read} of {events}");
}

#[test]
fn without_its_trailer_a_log_has_the_types_of_its_packets() {
    let small = Small::new(LogFullPolicy::Append, true);
    let file = file();
    overwrite(
        &file,
        &small.bytes[..small.packets.last().unwrap().bytes.end],
    );

    let mut reader = open(&file);

    assert_eq!(
        reader
            .event_types()
            .name(tracer_common::event_type::EventTypeId(258)),
        Some(&b"answer"[..])
    );
    assert_eq!(
        rest_of(&mut reader).len() as u64,
        count(LogFullPolicy::Append)
    );
    assert_eq!(reader.damage(), Damage::default());
}

#[test]
fn packets_of_an_earlier_log_in_the_same_file_are_none_of_this_one() {
    let (old, new) = (
        Small::new(LogFullPolicy::Append, true),
        Small::new(LogFullPolicy::Append, false),
    );
    let mut bytes = new.bytes.clone();
    bytes.truncate(new.packets[3].bytes.end);
    bytes.extend_from_slice(&old.bytes[old.packets[4].bytes.start..]);
    let file = file();
    overwrite(&file, &bytes);

    let mut reader = open(&file);

    assert!(rest_of(&mut reader) == new.events[..16]);
    assert_eq!(reader.damage().sites, 1);
}

/// Checks that every reported event is one that was written, and that they come in order.
fn assert_subset(read: &[Recorded], written: &[Recorded]) {
    let mut written = written.iter();
    for event in read {
        assert!(written.any(|known| known == event), "{event:?}");
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(usize, u8),
    Truncate(usize),
    Copy(usize, usize, usize),
    Remove(usize, usize),
    Zero(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let offset = || (0_usize..4_000).prop_map(|offset| offset + 8_000);
    prop_oneof![
        (offset(), any::<u8>()).prop_map(|(offset, byte)| Mutation::Set(offset, byte)),
        offset().prop_map(Mutation::Truncate),
        (offset(), offset(), 0_usize..1_000).prop_map(|(from, to, n)| Mutation::Copy(from, to, n)),
        (offset(), 0_usize..100).prop_map(|(offset, n)| Mutation::Remove(offset, n * 8)),
        (offset(), 0_usize..1_000).prop_map(|(offset, n)| Mutation::Zero(offset, n)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let clamp = |offset: usize| offset.min(bytes.len());
    match *mutation {
        Mutation::Set(offset, byte) => {
            if let Some(to) = bytes.get_mut(offset) {
                *to = byte;
            }
        }
        Mutation::Truncate(offset) => bytes.truncate(offset),
        Mutation::Copy(from, to, length) => {
            let range = clamp(from)..clamp(from + length);
            let copied = bytes[range].to_vec();
            let to = clamp(to);
            bytes.splice(to..to, copied);
        }
        Mutation::Remove(offset, length) => {
            let range = clamp(offset)..clamp(offset + length);
            bytes.drain(range);
        }
        Mutation::Zero(offset, length) => {
            let range = clamp(offset)..clamp(offset + length);
            bytes[range].fill(0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn garbage_is_no_log(bytes in prop::collection::vec(any::<u8>(), 0..10_000)) {
        let file = file();
        overwrite(&file, &bytes);

        prop_assert!(LogReader::open(file).is_err());
    }

    #[test]
    fn garbage_after_a_valid_start_gives_no_event(
        garbage in prop::collection::vec(any::<u8>(), 0..5_000),
        magic in prop::collection::vec(0_usize..600, 0..5),
        policy in prop::sample::select(vec![LogFullPolicy::Append, LogFullPolicy::Loop]),
    ) {
        let mut bytes = Small::new(policy, false).bytes;
        bytes.truncate(8192);
        bytes.extend_from_slice(&garbage);
        for offset in magic {
            let offset = 8192 + offset * 8;
            if let Some(to) = bytes.get_mut(offset..offset + 8) {
                to.copy_from_slice(b"\xa7TRLpkt\n");
            }
        }
        let file = file();
        overwrite(&file, &bytes);
        let mut reader = open(&file);

        prop_assert!(rest_of(&mut reader).is_empty());
        prop_assert_eq!(reader.damage().bytes > 0, policy == LogFullPolicy::Append && !garbage.is_empty());
    }

    #[test]
    fn whatever_is_done_to_a_log_its_events_stay_true_and_in_order(
        mutations in prop::collection::vec(mutation(), 1..6),
        policy in prop::sample::select(vec![LogFullPolicy::Append, LogFullPolicy::Loop]),
        is_complete: bool,
    ) {
        let small = Small::new(policy, is_complete);
        let mut bytes = small.bytes.clone();
        for mutation in &mutations {
            mutate(&mut bytes, mutation);
        }
        let file = file();
        overwrite(&file, &bytes);
        let mut reader = open(&file);

        let mut first = rest_of(&mut reader);
        assert_subset(&first, &small.events);
        reader.rewind();
        let again = rest_of(&mut reader);
        prop_assert!(first == again);
        first.clear();
    }
}
