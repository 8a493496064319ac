//! The start of a packet.

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use zerocopy::{FromBytes, IntoBytes};

use super::layout::{
    ALIGNMENT, LogId, MAX_PACKET_BYTES, PACKET_HEADER_BYTES, PACKET_MAGIC, RawPacketHeader,
};

/// Where the header's own checksum lies, which covers everything before it.
const HEADER_CRC: usize = PACKET_HEADER_BYTES - 4;

/// Least bytes of an event: flags, time, site, and the length of its data.
const LEAST_EVENT_BYTES: usize = 4;

/// The start of a packet, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketHeader {
    /// Bytes of the packet, this header included.
    pub length: usize,
    /// Where its events begin.
    pub events_offset: usize,
    /// How many events it has.
    pub events: u32,
    /// Checksum of the bytes between this header and the events.
    pub preamble_crc: u32,
    /// Counts the packets of a log.
    pub sequence: u64,
    /// The oldest packet that counts, once this one is in the log.
    pub oldest_sequence: u64,
    /// When the first event was generated.
    pub first_time: u64,
    /// When the last event was generated.
    pub last_time: u64,
    /// Nanoseconds to add to the times to have them on `CLOCK_REALTIME`.
    pub realtime_offset: i64,
    /// Checksum of the events, and of the zeros that fill the packet up.
    pub events_crc: u32,
}

impl PacketHeader {
    /// Returns the header as it lies in the file.
    pub fn to_bytes(self, log_id: LogId) -> [u8; PACKET_HEADER_BYTES] {
        let mut raw = RawPacketHeader {
            magic: PACKET_MAGIC,
            length: to_u32(self.length).into(),
            events_offset: to_u32(self.events_offset).into(),
            events: self.events.into(),
            preamble_crc: self.preamble_crc.into(),
            sequence: self.sequence.into(),
            oldest_sequence: self.oldest_sequence.into(),
            first_time: self.first_time.into(),
            last_time: self.last_time.into(),
            realtime_offset: self.realtime_offset.into(),
            log_id,
            events_crc: self.events_crc.into(),
            header_crc: 0.into(),
        };
        let checked = raw.as_bytes().split_at(HEADER_CRC).0;
        raw.header_crc = crc32c::crc32c(checked).into();
        let mut bytes = [0; PACKET_HEADER_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Returns the header of a packet of this log; `None` when it is damaged, or something else.
    pub fn from_bytes(untrusted: &[u8], log_id: LogId) -> Option<Self> {
        if !untrusted.starts_with(&PACKET_MAGIC) {
            return None;
        }
        let (raw, _) = RawPacketHeader::read_from_prefix(untrusted).ok()?;
        let crc = crc32c::crc32c(raw.as_bytes().get(..HEADER_CRC)?);
        if crc != raw.header_crc.get() || raw.log_id != log_id {
            return None;
        }
        let header = Self {
            length: usize::try_from(raw.length.get()).ok()?,
            events_offset: usize::try_from(raw.events_offset.get()).ok()?,
            events: raw.events.get(),
            preamble_crc: raw.preamble_crc.get(),
            sequence: raw.sequence.get(),
            oldest_sequence: raw.oldest_sequence.get(),
            first_time: raw.first_time.get(),
            last_time: raw.last_time.get(),
            realtime_offset: raw.realtime_offset.get(),
            events_crc: raw.events_crc.get(),
        };
        header.is_possible().then_some(header)
    }

    fn is_possible(&self) -> bool {
        let space = self.length.saturating_sub(self.events_offset);
        let events = usize::try_from(self.events).unwrap_or(usize::MAX);
        self.length <= MAX_PACKET_BYTES
            && self.length.is_multiple_of(ALIGNMENT)
            && (PACKET_HEADER_BYTES..=self.length).contains(&self.events_offset)
            && events <= space / LEAST_EVENT_BYTES
            && self.first_time <= self.last_time
            && self.oldest_sequence <= self.sequence
            && self.sequence < u64::MAX
    }
}

/// Narrows a length within a packet, which is never longer than [`MAX_PACKET_BYTES`].
fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = LogId([3; 16]);

    const HEADER: PacketHeader = PacketHeader {
        length: 4096,
        events_offset: 200,
        events: 77,
        preamble_crc: 0xdead_beef,
        sequence: 12,
        oldest_sequence: 4,
        first_time: 1_000,
        last_time: 1_001,
        realtime_offset: -5,
        events_crc: 0xcafe,
    };

    #[test]
    fn a_header_comes_back_as_it_was() {
        let bytes = HEADER.to_bytes(LOG);

        assert_eq!(PacketHeader::from_bytes(&bytes, LOG), Some(HEADER));
    }

    #[test]
    fn a_packet_of_another_log_is_none_of_this_one() {
        let bytes = HEADER.to_bytes(LogId([4; 16]));

        assert_eq!(PacketHeader::from_bytes(&bytes, LOG), None);
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let whole = HEADER.to_bytes(LOG);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole;
            damaged[bit / 8] ^= 1 << (bit % 8);

            assert_eq!(PacketHeader::from_bytes(&damaged, LOG), None, "bit {bit}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_although_its_checksum_is_right() {
        let impossible = [
            PacketHeader {
                length: 4100,
                ..HEADER
            },
            PacketHeader {
                length: MAX_PACKET_BYTES + 8,
                ..HEADER
            },
            PacketHeader {
                length: 0,
                ..HEADER
            },
            PacketHeader {
                events_offset: 80,
                ..HEADER
            },
            PacketHeader {
                events_offset: 4104,
                ..HEADER
            },
            PacketHeader {
                events: u32::MAX,
                ..HEADER
            },
            PacketHeader {
                first_time: 2_000,
                ..HEADER
            },
            PacketHeader {
                oldest_sequence: 13,
                ..HEADER
            },
            PacketHeader {
                sequence: u64::MAX,
                ..HEADER
            },
        ];
        for header in impossible {
            let bytes = header.to_bytes(LOG);

            assert_eq!(PacketHeader::from_bytes(&bytes, LOG), None, "{header:?}");
        }
    }
}
