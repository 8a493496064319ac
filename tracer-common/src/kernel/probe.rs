//! Probes: points of programs that have nothing of this library. Their events are user events.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::RecordHeader;

/// Arguments that a probe records at most.
pub const PROBE_ARGUMENTS: usize = 6;

/// Added to the index of the probe in a record's event type: no event type has such an identifier,
/// and the agent replaces it by the one that the stream has given.
pub const PROBE_RECORDS: u16 = 0x8000;

/// Added to the index of the site in the cookie of an attachment: it is where the function is
/// entered whose return the site is.
pub const ENTRY_OF_RETURN: u64 = 1 << 32;

/// As many functions of a thread, one within another, can the kernel see return
/// (`MAX_URETPROBE_DEPTH`).
pub const RETURN_DEPTH: u32 = 64;

/// Data of an event of a probe. Ends after as many arguments as there are.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProbeData {
    /// Kind of the probe: see [`probe_kind`].
    pub kind: u16,
    /// Arguments that follow.
    pub count: u16,
    /// Bit *n*: argument *n* is a signed integer.
    pub signed: u16,
    /// Bit *n*: argument *n* could not be read, and is 0 here.
    pub unread: u16,
    /// The arguments, each extended to 64 bits.
    pub args: [u64; PROBE_ARGUMENTS],
}

/// Bytes of [`ProbeData`] before the arguments.
pub const PROBE_DATA_BYTES: usize = offset_of!(ProbeData, args);

/// Kinds of probes.
pub mod probe_kind {
    /// A static probe of the program; the arguments are those that it states.
    pub const USDT: u16 = 1;
    /// Somewhere in a function; at its start, the registers hold the arguments.
    pub const FUNCTION: u16 = 2;
    /// The return of a function; the one argument is what it returns.
    pub const RETURN: u16 = 3;
    /// A tracepoint of the kernel: the data is [`typed_data`](super::super::typed_data).
    pub const TRACEPOINT: u16 = 4;
    /// The start of a function whose arguments have types: the data is
    /// [`typed_data`](super::super::typed_data).
    pub const TYPED_FUNCTION: u16 = 5;
    /// The return of a function whose return value has a type: the data is
    /// [`typed_data`](super::super::typed_data).
    pub const TYPED_RETURN: u16 = 6;
    /// No probe: the program itself has emitted [`typed_data`](super::super::typed_data).
    pub const PROGRAMS_OWN: u16 = 7;
}

/// How one argument is found: an entry of [`ProbeSite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProbeArgument {
    /// The constant, or what is added to the register.
    pub value: u64,
    /// Offset of the register in the saved registers (`struct pt_regs`), in bytes.
    pub register: u16,
    /// As `register`, of the register that is shifted and added.
    pub index: u16,
    /// See [`probe_source`].
    pub source: u8,
    /// Bytes of the argument: 1, 2, 4 or 8.
    pub size: u8,
    /// How far the index is shifted to the left.
    pub shift: u8,
    /// 1: it is the address of a text, which is read too.
    pub is_text: u8,
}

/// Where an argument is.
pub mod probe_source {
    /// Nowhere that can be read.
    pub const NONE: u8 = 0;
    /// It is the value.
    pub const CONSTANT: u8 = 1;
    /// In the register.
    pub const REGISTER: u8 = 2;
    /// In memory, at the register plus the value.
    pub const MEMORY: u8 = 3;
    /// In memory, at the register plus the shifted index plus the value.
    pub const INDEXED: u8 = 4;
}

/// A site in a program where a probe is: the value of the map `PROBE_SITES`. Which one it is, the
/// kernel gives the program as the cookie of the attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProbeSite {
    /// The index of the probe: several sites may be one probe.
    pub probe: u16,
    /// As in [`ProbeData`].
    pub kind: u16,
    /// As in [`ProbeData`].
    pub count: u16,
    /// As in [`ProbeData`].
    pub signed: u16,
    /// Offset of the instruction's address in the saved registers, in bytes.
    pub address: u16,
    /// 1: it has more arguments than are recorded.
    pub truncated: u16,
    /// How many of the arguments are texts.
    pub texts: u32,
    /// The arguments.
    pub args: [ProbeArgument; PROBE_ARGUMENTS],
}

/// A record of a probe of whose arguments some are texts. `N` is one of [`probe_texts`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProbeTextsRecord<const N: usize> {
    /// Header of every record.
    pub header: RecordHeader,
    /// The arguments, of texts their addresses.
    pub data: ProbeData,
    /// For each argument: bytes of its text with its null, 0 where it is none, or an error.
    pub lengths: [i32; PROBE_ARGUMENTS],
    /// Bytes of a text that are wanted: what there is beyond says only that there is more.
    pub wanted: u32,
    /// Zero.
    pub reserved: u32,
    /// The texts, each in the space of its argument.
    pub bytes: [[u8; N]; PROBE_ARGUMENTS],
}

/// Space for each text of a probe.
pub mod probe_texts {
    /// Bytes beyond those that are wanted.
    pub const MORE: usize = 8;
    /// Where few are wanted.
    pub const SMALL: usize = 64 + MORE;
    /// The most that there are.
    pub const LARGE: usize = 256 + MORE;
}

const _: () = {
    assert!(size_of::<ProbeTextsRecord<{ probe_texts::SMALL }>>().is_multiple_of(8));
    assert!(PROBE_DATA_BYTES == 8);
    assert!(size_of::<ProbeData>() == 56);
    assert!(size_of::<ProbeArgument>() == 16);
    assert!(size_of::<ProbeSite>() == 112);
};
