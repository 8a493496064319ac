//! The fixed parts of a log, as they lie in the file. `docs/log-format.md` says what each field
//! means.
//!
//! Everything is little-endian. No field is ever moved or given another meaning; new ones take
//! reserved bytes.

use std::mem::offset_of;

use zerocopy::byteorder::little_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use tracer_engine::sizes::TRACE_NAME_MAX;

/// The version of the format that is written here.
pub(super) const VERSION: u16 = 4;

/// The oldest version whose readers can decode what is written here.
pub(super) const OLDEST_READER: u16 = 3;

/// Starts a log. The first byte is not text; the last ones reveal a transfer that has changed the
/// ends of lines.
pub(super) const FILE_MAGIC: [u8; 8] = *b"\x93TRL\r\n\x1a\n";

/// Starts a packet.
pub(super) const PACKET_MAGIC: [u8; 8] = *b"\xa7TRLpkt\n";

/// Starts the trailer.
pub(super) const TRAILER_MAGIC: [u8; 8] = *b"\xc2TRLend\n";

/// Where the two copies of the file's header lie: in pages of their own, so that one torn write
/// damages one of them.
pub(super) const HEADER_COPIES: [u64; 2] = [0, 4096];

/// Where packets begin.
pub(super) const REGION_START: u64 = 8192;

/// Packets and the trailer begin and end at multiples of this.
pub(super) const ALIGNMENT: usize = 8;

/// The longest packet, and the longest trailer.
pub(super) const MAX_PACKET_BYTES: usize = MAX_PACKET_FIELD as usize;

/// [`MAX_PACKET_BYTES`], as the file's header states it.
pub(super) const MAX_PACKET_FIELD: u32 = 1 << 20;

/// Bytes of the file's header, as the header states them.
pub(super) const HEADER_BYTES_FIELD: u32 = 1032;

/// Bytes of the header of versions 1 to 3. Headers of later versions begin with the same fields.
pub(super) const LEAST_HEADER_BYTES: usize = 1024;

/// Bytes of a packet before its preamble.
pub(super) const PACKET_HEADER_BYTES: usize = size_of::<RawPacketHeader>();

/// Distinguishes one log from another, so that packets of a log that was there before are not taken
/// for its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub(super) struct LogId(pub [u8; 16]);

/// Events lost for one cause, in the file's header.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawLoss {
    pub cause: U32,
    pub reserved: U32,
    pub count: U64,
}

/// Causes that the file's header has space for.
pub(super) const HEADER_LOSSES: usize = 42;

/// Bytes of a kernel's release in the header, the null at its end included: longer ones are
/// truncated.
pub(super) const KERNEL_RELEASE_BYTES: usize = 40;

/// Bytes of a machine's name in the header, the null at its end included.
pub(super) const MACHINE_BYTES: usize = 16;

/// The file's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawFileHeader {
    pub magic: [u8; 8],
    pub version: U16,
    pub oldest_reader: U16,
    /// Checksum of the whole header, with 0 in this field.
    pub crc: U32,
    pub header_bytes: U32,
    pub byte_order: u8,
    pub word_bytes: u8,
    pub is_complete: u8,
    pub log_full_policy: u8,
    pub generation: U64,
    pub log_id: LogId,
    pub region_start: U64,
    pub max_size: U64,
    pub max_packet: U32,
    pub stream_full_policy: u8,
    pub inheritance: u8,
    pub attribute_log_full_policy: u8,
    pub status: u8,
    pub creation_time: U64,
    pub clock_resolution: U64,
    pub stream_min_size: U64,
    pub max_data_size: U64,
    pub log_max_size: U64,
    pub generation_version: [u8; TRACE_NAME_MAX],
    pub trace_name: [u8; TRACE_NAME_MAX],
    pub anchor_monotonic: U64,
    pub anchor_realtime: U64,
    pub trailer_offset: U64,
    pub packets: U64,
    pub events: U64,
    pub flush_error: I32,
    pub losses_used: U32,
    pub oldest_sequence: U64,
    pub kernel_release: [u8; KERNEL_RELEASE_BYTES],
    pub machine: [u8; MACHINE_BYTES],
    pub losses: [RawLoss; HEADER_LOSSES],
    /// Since version 4.
    pub ended: U64,
}

/// Bits of `RawFileHeader::status`.
pub(super) mod status_bits {
    pub const STREAM_FULL: u8 = 1;
    pub const STREAM_OVERRUN: u8 = 2;
    pub const LOG_FULL: u8 = 4;
    pub const LOG_OVERRUN: u8 = 8;
}

/// Start of a packet. A preamble follows, then the events.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawPacketHeader {
    pub magic: [u8; 8],
    pub length: U32,
    pub events_offset: U32,
    pub events: U32,
    pub preamble_crc: U32,
    pub sequence: U64,
    pub oldest_sequence: U64,
    pub first_time: U64,
    pub last_time: U64,
    pub realtime_offset: I64,
    pub log_id: LogId,
    pub events_crc: U32,
    /// Checksum of what is before this field.
    pub header_crc: U32,
}

/// Start of the trailer. Event types follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawTrailer {
    pub magic: [u8; 8],
    pub length: U32,
    /// Checksum of the whole trailer, with 0 in this field.
    pub crc: U32,
    pub log_id: LogId,
    pub types: U32,
    pub flush_error: I32,
    pub status: u8,
    pub reserved: [u8; 7],
}

const _: () = {
    assert!(size_of::<RawFileHeader>() == HEADER_BYTES_FIELD as usize);
    assert!(offset_of!(RawFileHeader, crc) == 12);
    assert!(offset_of!(RawFileHeader, generation) == 24);
    assert!(offset_of!(RawFileHeader, max_packet) == 64);
    assert!(offset_of!(RawFileHeader, creation_time) == 72);
    assert!(offset_of!(RawFileHeader, generation_version) == 112);
    assert!(offset_of!(RawFileHeader, anchor_monotonic) == 240);
    assert!(offset_of!(RawFileHeader, flush_error) == 280);
    assert!(offset_of!(RawFileHeader, kernel_release) == 296);
    assert!(offset_of!(RawFileHeader, machine) == 336);
    assert!(offset_of!(RawFileHeader, losses) == 352);
    assert!(offset_of!(RawFileHeader, ended) == LEAST_HEADER_BYTES);
    assert!(size_of::<RawFileHeader>() as u64 <= HEADER_COPIES[1]);
    assert!(size_of::<RawPacketHeader>() == 88);
    assert!(offset_of!(RawPacketHeader, sequence) == 24);
    assert!(offset_of!(RawPacketHeader, log_id) == 64);
    assert!(offset_of!(RawPacketHeader, header_crc) == 84);
    assert!(size_of::<RawTrailer>() == 48);
    assert!(offset_of!(RawTrailer, log_id) == 16);
    assert!(REGION_START.is_multiple_of(ALIGNMENT as u64));
};
