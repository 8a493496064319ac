//! The words of BTF: the fixed part of a type, and integers at an offset.

pub(super) mod kind {
    pub const INT: u8 = 1;
    pub const PTR: u8 = 2;
    pub const ARRAY: u8 = 3;
    pub const STRUCT: u8 = 4;
    pub const UNION: u8 = 5;
    pub const ENUM: u8 = 6;
    pub const FWD: u8 = 7;
    pub const TYPEDEF: u8 = 8;
    pub const VOLATILE: u8 = 9;
    pub const CONST: u8 = 10;
    pub const RESTRICT: u8 = 11;
    pub const FUNC: u8 = 12;
    pub const FUNC_PROTO: u8 = 13;
    pub const VAR: u8 = 14;
    pub const DATASEC: u8 = 15;
    pub const FLOAT: u8 = 16;
    pub const DECL_TAG: u8 = 17;
    pub const TYPE_TAG: u8 = 18;
    pub const ENUM64: u8 = 19;
}

/// The fixed part of a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) name: u32,
    pub(super) kind: u8,
    /// Number of members, parameters or values that follow.
    pub(super) length: usize,
    /// Whether the offsets of members carry the sizes of bit fields.
    pub(super) has_bit_fields: bool,
    /// Size, or the type that this one refers to.
    pub(super) size_or_type: u32,
    /// Offset of the data that follows, in the section of types.
    pub(super) rest: usize,
}

pub(super) fn read_type(types: &[u8], at: usize) -> Option<Type> {
    let info = read_u32(types, at.checked_add(4)?)?;
    Some(Type {
        name: read_u32(types, at)?,
        kind: u8::try_from((info >> 24) & 0x1f).ok()?,
        length: usize::try_from(info & 0xffff).ok()?,
        has_bit_fields: info >> 31 != 0,
        size_or_type: read_u32(types, at.checked_add(8)?)?,
        rest: at.checked_add(12)?,
    })
}

pub(super) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}
