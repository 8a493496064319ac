//! Structs in a message, one member after the other, and the bytes of a message, of which not all
//! were read.

use super::names::{FAMILIES, Flags, Names, flags_of, name_of};
use crate::calls::bytes::Bytes;
use crate::calls::packet;

/// Type of a member.
#[derive(Clone, Copy, Debug)]
pub enum NetlinkKind {
    /// Bytes that are not shown.
    Padding(usize),
    /// An integer.
    U8,
    U16,
    U32,
    I32,
    U64,
    /// Integers shown in hexadecimal.
    Hex8,
    Hex32,
    Hex64,
    /// An address family.
    Family,
    /// The kind of a device.
    Device,
    /// A value that has a name.
    Named8(Names),
    /// Bits that have names.
    Flags8(Flags),
    Flags16(Flags),
    Flags32(Flags),
}

/// Name and kind of a member.
pub type NetlinkMember = (&'static str, NetlinkKind);

impl NetlinkKind {
    fn bytes(self) -> usize {
        match self {
            Self::Padding(bytes) => bytes,
            Self::U8 | Self::Hex8 | Self::Family | Self::Named8(_) | Self::Flags8(_) => 1,
            Self::U16 | Self::Device | Self::Flags16(_) => 2,
            Self::U32 | Self::I32 | Self::Hex32 | Self::Flags32(_) => 4,
            Self::U64 | Self::Hex64 => 8,
        }
    }

    /// Renders the value that begins this part; `None` where it was not read.
    fn shown(self, part: Part<'_>) -> Option<String> {
        let bytes = part.read();
        let byte = bytes.slice().first().copied();
        Some(match self {
            Self::Padding(_) => String::new(),
            Self::U8 => byte?.to_string(),
            Self::U16 => bytes.u16(0)?.to_string(),
            Self::U32 => bytes.u32(0)?.to_string(),
            Self::I32 => bytes.i32(0)?.to_string(),
            Self::U64 => bytes.u64(0)?.to_string(),
            Self::Hex8 => in_hex(byte?.into()),
            Self::Hex32 => in_hex(bytes.u32(0)?.into()),
            Self::Hex64 => in_hex(bytes.u64(0)?),
            Self::Family => name_of(FAMILIES, byte?.into()),
            Self::Device => packet::device_kind(bytes.u16(0)?),
            Self::Named8(names) => name_of(names, byte?.into()),
            Self::Flags8(names) => flags_of(names, byte?.into()),
            Self::Flags16(names) => flags_of(names, bytes.u16(0)?.into()),
            Self::Flags32(names) => flags_of(names, bytes.u32(0)?.into()),
        })
    }
}

/// Renders `0`, or the value in hexadecimal.
fn in_hex(value: u64) -> String {
    name_of(&[], value)
}

/// Returns the bytes of a struct.
pub fn size(members: &[NetlinkMember]) -> usize {
    members.iter().map(|(_, kind)| kind.bytes()).sum()
}

/// Renders a struct, as far as it was read. Of one that is shorter, those members are shown that it
/// has.
pub fn shown(members: &[NetlinkMember], part: Part<'_>) -> String {
    let mut rest = part;
    let mut words = Vec::new();
    for (name, kind) in members {
        if rest.length() < kind.bytes() {
            break;
        }
        match kind.shown(rest) {
            Some(_) if name.is_empty() => {}
            Some(value) => words.push(format!("{name}={value}")),
            None => {
                words.push("...".to_owned());
                break;
            }
        }
        rest = rest.from(kind.bytes());
    }
    format!("{{{}}}", words.join(", "))
}

/// A part of a message: the bytes of it that were read, and its length.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    read: &'a [u8],
    length: usize,
}

impl<'a> Part<'a> {
    /// Makes a part of this many bytes, of which these were read: any bytes.
    pub fn new(untrusted: &'a [u8], length: usize) -> Self {
        Self {
            read: untrusted.get(..length).unwrap_or(untrusted),
            length,
        }
    }

    /// Returns the part from this offset on; nothing behind its end.
    pub fn from(self, at: usize) -> Self {
        Self {
            read: self.read.get(at..).unwrap_or_default(),
            length: self.length.saturating_sub(at),
        }
    }

    /// Returns its first bytes, at most this many.
    pub fn first(self, length: usize) -> Self {
        Self::new(self.read, length.min(self.length))
    }

    /// Returns its length.
    pub fn length(self) -> usize {
        self.length
    }

    /// Tells whether it is longer than the bytes of it that were read.
    pub fn has_more(self) -> bool {
        self.read.len() < self.length
    }

    /// Returns the bytes of it that were read.
    pub fn read(self) -> Bytes<'a> {
        Bytes(self.read)
    }

    /// Tells whether this many of its bytes were read. `None` where it has fewer.
    pub fn has(self, bytes: usize) -> Option<bool> {
        (self.length >= bytes).then_some(self.read.len() >= bytes)
    }

    /// Renders its bytes as escapes, in quotes.
    pub fn in_hex(self) -> String {
        if self.read.is_empty() && self.has_more() {
            return "...".to_owned();
        }
        let digits = self.read.iter().map(|byte| format!("\\x{byte:02x}"));
        let more = if self.has_more() { "..." } else { "" };
        format!("\"{}\"{more}", digits.collect::<String>())
    }
}
