//! Test that the code writes and reads the packet that `docs/log-format.md` shows.

use std::fmt::Write as _;

use tracer_common::event_type::EventTypeId;

use super::decode::Packet;
use super::encode::{PacketBuilder, PacketContext};
use super::layout::LogId;
use super::losses::LossCounts;
use super::packet_header::PacketHeader;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::LossCause;
use tracer_engine::{EventTypes, Ledger};

const DOCUMENT: &str = include_str!("../../../docs/log-format.md");

fn header(time: u64, event_type: EventTypeId, tid: i32) -> EventHeader {
    EventHeader {
        time: MonotonicNs(time),
        event_type,
        pid: 4711,
        tid,
        cpu: Some(1),
        thread_id: 0x7000,
        program_address: 0x40_1136,
        truncation: Truncation::None,
    }
}

fn events() -> Vec<(EventHeader, &'static [u8])> {
    let named = EventTypeId(257);
    let wakeup = EventTypeId::WAKEUP;
    let data = &[1, 0, 0, 0, 0, 0, 0, 0];
    let mut truncated = header(1_001_300, named, 4711);
    truncated.truncation = Truncation::Record;
    vec![
        (header(1_000_000, named, 4711), b"hello"),
        (header(1_000_700, wakeup, 4712), data),
        (header(1_001_000, wakeup, 4712), data),
        (truncated, b"worl"),
    ]
}

fn example() -> Vec<u8> {
    let mut types = EventTypes::default();
    types.define_user(b"request", Some(EventTypeId(257)));
    let mut builder = PacketBuilder::default();
    for (header, data) in events() {
        builder.push(&header, data, b"server", &types);
    }
    let mut ledger = Ledger::default();
    ledger.lose(LossCause::ThreadRingFull, 3);
    let losses = LossCounts {
        counted_by: 1_001_500,
        ..LossCounts::from_ledger(&ledger)
    };
    let context = PacketContext {
        log_id: LogId(*b"sixteen bytes id"),
        sequence: 7,
        oldest_sequence: 2,
        realtime_offset: 1_700_000_000_000_000_000,
        losses: &losses,
    };
    let mut bytes = Vec::new();
    builder.seal(Vec::new()).write_to(&mut bytes, &context);
    bytes
}

#[test]
fn the_packet_in_the_document_is_the_one_that_is_written() {
    let mut dump = String::new();
    for (index, line) in example().chunks(16).enumerate() {
        let _ = write!(dump, "{:04x} ", index * 16);
        for byte in line {
            let _ = write!(dump, " {byte:02x}");
        }
        dump.push('\n');
    }

    assert!(DOCUMENT.contains(&dump), "the document should have\n{dump}");
}

#[test]
fn the_packet_in_the_document_is_read_as_it_says() {
    let bytes = example();
    let log_id = LogId(*b"sixteen bytes id");
    let header = PacketHeader::from_bytes(&bytes, log_id).unwrap();
    let mut packet = Packet::default();
    packet.buffer(bytes.len()).unwrap().copy_from_slice(&bytes);
    let mut types = EventTypes::default();

    let losses = packet.decode(&header, &mut types).unwrap();

    assert_eq!(losses.lost(LossCause::ThreadRingFull), 3);
    assert_eq!(types.name(EventTypeId(257)), Some(&b"request"[..]));
    for (header, data) in events() {
        packet.advance().unwrap();
        let (event, comm) = packet.at_hand().unwrap();
        assert_eq!(
            (event.header, event.data, comm),
            (header, data, &b"server"[..])
        );
    }
    assert!(!packet.has_next());
}
