//! Tracepoints of the kernel by name. Their events are user events, which say themselves what they
//! carry: see [`typed_data`].

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Added to the index of the tracepoint in a record's event type, as
/// [`PROBE_RECORDS`](super::PROBE_RECORDS) is to that of a probe.
pub const TRACEPOINT_RECORDS: u16 = 0xc000;

/// The most tracepoints that may be recorded at a time.
pub const MAX_TRACEPOINTS: usize = 512;

/// Bytes at the front of what the kernel has for a program at a tracepoint: an address of its own.
pub const TRACEPOINT_COMMON_BYTES: usize = 8;

/// Fields of a tracepoint whose bytes lie behind all others.
pub const TRACEPOINT_LOCATED: usize = 8;

/// Fields that are recorded at a tracepoint: the value of the map `TRACEPOINT_SITES`, by the cookie
/// of the attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TracepointSite {
    /// Bytes of the fields that are always as long, with [`TRACEPOINT_COMMON_BYTES`].
    pub fixed_bytes: u32,
    /// How many of `at` there are.
    pub located: u32,
    /// Where a field says where its bytes are and how many: the lower and the upper half of 32
    /// bits.
    pub at: [u16; TRACEPOINT_LOCATED],
    /// Bit *n*: that is said from the end of field *n*, and not from the front.
    pub relative: u32,
}

/// Fields of a tracepoint: the data of a record. `N` is one of [`tracepoint_space`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TracepointData<const N: usize> {
    /// Bytes that there are, of which no more than `N` are here.
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// The fields, from behind [`TRACEPOINT_COMMON_BYTES`].
    pub bytes: [u8; N],
}

/// Space for the fields of a tracepoint.
pub mod tracepoint_space {
    /// For what most have.
    pub const SMALL: usize = 120;
    /// For a path.
    pub const MIDDLE: usize = 1016;
    /// For all that the kernel gives (`PERF_MAX_TRACE_SIZE`).
    pub const LARGE: usize = 8192;
}

/// Data that says itself what its fields are called and how they are stored, so that a log is read
/// where the kernel or the program is another one.
///
/// It begins as [`ProbeData`](super::ProbeData) does: `kind`, and `count` fields that follow; then
/// two words of 16 bits that are zero. Each field is a head of [`HEAD`](typed_data::HEAD) bytes,
/// its name, and its value, with nothing between them. The head:
///
/// | bytes | |
/// |---|---|
/// | 1 | the type: see below |
/// | 1 | bits: [`UNREAD`](typed_data::UNREAD), [`MORE`](typed_data::MORE) |
/// | 1 | bytes of the name |
/// | 1 | bytes of each element: 1, 2, 4 or 8 |
/// | 2 | bytes of the value |
pub mod typed_data {
    /// Bytes before the first field.
    pub const START: usize = 8;
    /// Bytes of a field before its name.
    pub const HEAD: usize = 6;

    /// Signed integers: one, or an array of them.
    pub const SIGNED: u8 = 1;
    /// Unsigned integers.
    pub const UNSIGNED: u8 = 2;
    /// Addresses, and integers that are shown as such.
    pub const ADDRESS: u8 = 3;
    /// Truth values.
    pub const FLAG: u8 = 4;
    /// A character.
    pub const CHARACTER: u8 = 5;
    /// Text, without a null.
    pub const TEXT: u8 = 6;
    /// Bytes of which nothing is known.
    pub const BYTES: u8 = 7;
    /// Floating-point values.
    pub const FLOAT: u8 = 8;
    /// Added to a type: an array, of however many elements.
    pub const ARRAY: u8 = 0x80;

    /// Bit: it could not be read.
    pub const UNREAD: u8 = 1;
    /// Bit: there is more of it.
    pub const MORE: u8 = 2;
}

const _: () = {
    assert!(size_of::<TracepointSite>() == 28);
    assert!(size_of::<TracepointData<{ tracepoint_space::SMALL }>>() == 128);
};
