//! Structs in a message: one member after the other.

use super::names::{FAMILIES, Flags, Names, flags_of, name_of};
use super::part::Part;
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
