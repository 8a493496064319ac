//! Tests that switches take few bytes, and that a reader checks what follows data of the
//! dictionary.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SwitchOutData;

use super::decode::{Packet, Undecoded};
use super::encode::{PacketBuilder, PacketContext, SealedPacket, flags};
use super::layout::LogId;
use super::losses::LossCounts;
use super::packet_header::PacketHeader;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};

const START: u64 = 1_000_000;
const LOG_ID: LogId = LogId(*b"sixteen bytes id");

fn header(time: u64, event_type: EventTypeId) -> EventHeader {
    EventHeader {
        time: MonotonicNs(time),
        event_type,
        pid: 4711,
        tid: 4711,
        cpu: Some(1),
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
    }
}

fn switch_out(ran_ns: u64) -> Vec<u8> {
    let mut data = vec![7; size_of::<SwitchOutData>()];
    *data.last_chunk_mut().unwrap() = ran_ns.to_ne_bytes();
    data
}

fn sealed(events: &[(EventHeader, Vec<u8>)]) -> SealedPacket {
    let mut builder = PacketBuilder::default();
    for (header, data) in events {
        builder.push(header, data, b"worker", &EventTypes::default());
    }
    builder.seal(Vec::new())
}

/// Reads a packet back.
fn read(packet: &SealedPacket) -> Result<Packet, Undecoded> {
    let losses = LossCounts::from_ledger(&Ledger::default());
    let context = PacketContext {
        log_id: LOG_ID,
        sequence: 0,
        oldest_sequence: 0,
        realtime_offset: 0,
        losses: &losses,
    };
    let mut bytes = Vec::new();
    packet.write_to(&mut bytes, &context);
    let header = PacketHeader::from_bytes(&bytes, LOG_ID).unwrap();
    let mut packet = Packet::default();
    packet.buffer(bytes.len()).unwrap().copy_from_slice(&bytes);
    packet.decode(&header, &mut EventTypes::default())?;
    Ok(packet)
}

#[test]
fn how_long_a_thread_ran_is_read_as_it_was_written() {
    let (gets, leaves) = (EventTypeId::SWITCH_IN, EventTypeId::SWITCH_OUT);
    let events = [
        (header(START, leaves), switch_out(0)),
        (header(START + 100, gets), vec![1; 24]),
        (header(START + 150, leaves), switch_out(50)),
        (header(START + 250, leaves), switch_out(u64::MAX)),
        (header(START + 300, leaves), switch_out(200)),
        (header(START + 300, leaves), switch_out(200).split_off(8)),
    ];

    let mut packet = read(&sealed(&events)).unwrap();

    for (header, data) in &events {
        packet.advance().unwrap();
        let (event, _) = packet.at_hand().unwrap();
        assert_eq!((event.header, event.data), (*header, &data[..]));
    }
    assert!(!packet.has_next());
}

#[test]
fn a_switch_takes_six_bytes_and_not_how_long_the_thread_ran() {
    let mut events = Vec::new();
    for nth in 0..1_000 {
        let time = START + nth * 2_000;
        let ran = 700 + nth;
        events.push((header(time, EventTypeId::SWITCH_IN), vec![1; 24]));
        events.push((header(time + ran, EventTypeId::SWITCH_OUT), switch_out(ran)));
    }

    let packet = sealed(&events);

    // Flags, two bytes of time, site, data.
    assert!(packet.events.len() < 2 * 1_000 * 5 + 100);
}

/// Returns the packet with one event, with these flags instead of its own.
fn with_flags(event: (EventHeader, Vec<u8>), flags: u8) -> Result<Packet, Undecoded> {
    let mut packet = sealed(&[event]);
    *packet.events.first_mut().unwrap() = flags;
    read(&packet)
}

#[test]
fn an_integer_that_cannot_be_there_makes_a_packet_malformed() {
    let one = || (header(START, EventTypeId::SWITCH_OUT), switch_out(300));
    let right = flags::THREAD | flags::CPU | flags::COMMON_DATA | flags::INTEGER;
    assert!(with_flags(one(), right).is_ok());

    for wrong in [
        right & !flags::COMMON_DATA,
        right & !flags::INTEGER,
        right | flags::RAN,
        // No switch to the thread is known.
        right & !flags::INTEGER | flags::RAN,
        right | 128,
    ] {
        assert!(with_flags(one(), wrong).is_err(), "{wrong:#x}");
    }
}

#[test]
fn an_integer_does_not_follow_much_data() {
    let mut packet = sealed(&[(header(START, EventTypeId::WAKEUP), vec![0; 64])]);
    let last = packet.events.len() - 64;
    // One byte of data more than the limit, and an integer: both are zeros, as the padding was.
    packet.events[last - 1] = 65;
    packet.events.extend([0, 0]);
    packet.events[0] |= flags::INTEGER;
    assert!(read(&packet).is_err());

    packet.events[last - 1] = 64;
    packet.events.pop();
    assert!(read(&packet).is_ok());
}
