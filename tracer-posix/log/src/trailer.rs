//! The end of a complete log: all its event types, and the final status.

use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT, SYSTEM_EVENT_TYPES};
use zerocopy::{FromBytes, IntoBytes};

use super::FinalStatus;
use super::encode::aligned;
use super::file_header::status_byte;
use super::layout::{ALIGNMENT, LogId, MAX_PACKET_BYTES, RawTrailer, TRAILER_MAGIC};
use super::preamble::{self, Definitions};
use super::varint::Cursor;
use tracer_engine::EventTypes;

/// Bytes of a trailer before the event types.
pub(super) const TRAILER_HEADER_BYTES: usize = size_of::<RawTrailer>();

/// Where its checksum lies.
const CRC: std::ops::Range<usize> = 12..16;

/// Returns a whole trailer. It lists the event types that the standard's list has, the predefined
/// ones first, as far as there is space. Each packet defines the types of its events as well.
pub(super) fn to_bytes(types: &EventTypes, status: FinalStatus, log_id: LogId) -> Vec<u8> {
    let mut definitions = Definitions::default();
    let system = SYSTEM_EVENT_TYPES.iter().map(|known| known.id);
    let first = EventTypeId(FIRST_USER_EVENT);
    let user = std::iter::successors(types.next_from(first), |id| {
        types.next_from(EventTypeId(id.0.saturating_add(1)))
    });
    for id in system.chain(user) {
        let Some(name) = types.name(id) else {
            continue;
        };
        let more = definitions.len() + preamble::max_definition_bytes(name);
        if aligned(TRAILER_HEADER_BYTES + more) > MAX_PACKET_BYTES {
            break;
        }
        definitions.add(id, name);
    }
    let length = aligned(TRAILER_HEADER_BYTES + definitions.len());
    let raw = RawTrailer {
        magic: TRAILER_MAGIC,
        length: u32::try_from(length).unwrap_or(u32::MAX).into(),
        crc: 0.into(),
        log_id,
        types: u32::try_from(definitions.count())
            .unwrap_or(u32::MAX)
            .into(),
        flush_error: status.flush_error.into(),
        status: status_byte(status),
        reserved: [0; 7],
    };
    let mut bytes = raw.as_bytes().to_vec();
    bytes.extend_from_slice(definitions.as_bytes());
    bytes.resize(length, 0);
    let crc = crc32c::crc32c(&bytes).to_le_bytes();
    if let Some(crc_bytes) = bytes.get_mut(CRC) {
        crc_bytes.copy_from_slice(&crc);
    }
    bytes
}

/// Returns the length of the trailer that begins here; `None` if no trailer of this log does.
pub(super) fn length_of(untrusted: &[u8], log_id: LogId) -> Option<usize> {
    let (raw, _) = RawTrailer::read_from_prefix(untrusted).ok()?;
    let length = usize::try_from(raw.length.get()).ok()?;
    let is_one = raw.magic == TRAILER_MAGIC
        && raw.log_id == log_id
        && (TRAILER_HEADER_BYTES..=MAX_PACKET_BYTES).contains(&length)
        && length.is_multiple_of(ALIGNMENT);
    is_one.then_some(length)
}

/// Returns the user event types of a whole trailer; `None` when it is damaged.
pub(super) fn types_of(untrusted: &[u8], log_id: LogId) -> Option<EventTypes> {
    let length = length_of(untrusted, log_id)?;
    let whole = untrusted.get(..length)?;
    let (raw, _) = RawTrailer::read_from_prefix(whole).ok()?;
    let crc = crc32c::crc32c(whole.get(..CRC.start)?);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, whole.get(CRC.end..)?);
    if crc != raw.crc.get() {
        return None;
    }
    let mut types = EventTypes::default();
    let mut cursor = Cursor::new(whole, TRAILER_HEADER_BYTES);
    for _ in 0..raw.types.get() {
        let (id, name) = preamble::definition(&mut cursor)?;
        // System types are known by their identifiers, also those of a later version.
        if id.0 > FIRST_USER_EVENT {
            if !preamble::can_be_defined(&types, id, name) {
                return None;
            }
            types.define_user(name, Some(id));
        }
    }
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = LogId([5; 16]);

    fn trailer() -> Vec<u8> {
        let mut types = EventTypes::default();
        types.define_user(b"one", Some(EventTypeId(FIRST_USER_EVENT + 1)));
        types.define_user(b"five", Some(EventTypeId(FIRST_USER_EVENT + 5)));
        to_bytes(&types, FinalStatus::default(), LOG)
    }

    #[test]
    fn more_types_than_there_is_space_for_are_left_out_at_the_end() {
        let mut types = EventTypes::default();
        let name = |n: u32| format!("{n:064}").into_bytes();
        let ids: Vec<_> = (0..20_000)
            .map(|n| types.define_user(&name(n), None))
            .collect();

        let bytes = to_bytes(&types, FinalStatus::default(), LOG);

        assert!(bytes.len() <= MAX_PACKET_BYTES);
        let read = types_of(&bytes, LOG).unwrap();
        assert_eq!(read.name(ids[600]), types.name(ids[600]));
        assert_eq!(read.name(ids[19_999]), None);
    }

    #[test]
    fn user_types_come_back_and_system_types_are_listed_for_other_readers() {
        let bytes = trailer();

        let types = types_of(&bytes, LOG).unwrap();

        let named = |index| types.name(EventTypeId(FIRST_USER_EVENT + index));
        assert_eq!(named(1), Some(&b"one"[..]));
        assert_eq!(named(2), None);
        assert_eq!(named(5), Some(&b"five"[..]));
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            text.contains("posix_trace_start") && text.contains("posix_trace_unnamed_userevent")
        );
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let whole = trailer();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);

            assert!(types_of(&damaged, LOG).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_trailer_that_is_truncated_gives_nothing() {
        let whole = trailer();
        for length in 0..whole.len() {
            assert!(types_of(&whole[..length], LOG).is_none());
        }
    }
}
