//! Description of an event's data, for its readers and for `trace.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::SystemField;

/// The data of an event: a struct that `event_data!` declares, or nothing.
pub trait EventData: FromBytes + IntoBytes + Immutable {
    /// Fields that are shown, in order.
    const FIELDS: &'static [SystemField];
    /// How it is laid out; `None` for no data.
    const LAYOUT: Option<&'static DataLayout>;
}

impl EventData for () {
    const FIELDS: &'static [SystemField] = &[];
    const LAYOUT: Option<&'static DataLayout> = None;
}

/// Reads data that `least` bytes are enough for: what an earlier version has written is shorter,
/// and has zeroes for what it did not know.
#[must_use]
pub fn read_grown<T: FromBytes + IntoBytes>(untrusted: &[u8], least: usize) -> Option<T> {
    let mut data = T::new_zeroed();
    let bytes = data.as_mut_bytes();
    let length = untrusted.len().min(bytes.len());
    if length < least {
        return None;
    }
    bytes
        .get_mut(..length)?
        .copy_from_slice(untrusted.get(..length)?);
    Some(data)
}

/// The layout of a struct of data. `trace.h` has a struct with the same members.
#[derive(Debug)]
pub struct DataLayout {
    /// Its name in Rust, which ends with `Data`.
    pub rust_name: &'static str,
    /// Its documentation, line by line.
    pub doc: &'static [&'static str],
    /// Its size in bytes.
    pub size: usize,
    /// Its members, in order.
    pub members: &'static [DataMember],
}

/// A member of a struct of data.
#[derive(Debug)]
pub struct DataMember {
    /// Its name in Rust; that in C has `linux_` before it.
    pub name: &'static str,
    /// Its documentation, line by line.
    pub doc: &'static [&'static str],
    /// Its offset in bytes.
    pub offset: usize,
    /// Its type.
    pub c_type: CType,
}

/// The type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CType {
    /// Of the member, or of each element.
    pub scalar: Scalar,
    /// How many elements an array has; `None` for no array.
    pub length: Option<usize>,
}

/// Scalar types that members consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A character.
    Char,
    /// An unsigned number of 8 bits.
    U8,
    /// An unsigned number of 16 bits.
    U16,
    /// A signed number of 32 bits.
    I32,
    /// An unsigned number of 32 bits.
    U32,
    /// A signed number of 64 bits.
    I64,
    /// An unsigned number of 64 bits.
    U64,
}

/// A type that members may have.
pub trait MemberType {
    /// Its type in C.
    const C_TYPE: CType;
}

macro_rules! member_types {
    ($($rust:ty => $scalar:ident),*) => {$(
        impl MemberType for $rust {
            const C_TYPE: CType = CType { scalar: Scalar::$scalar, length: None };
        }
    )*};
}
member_types!(u8 => U8, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64);

impl<const N: usize> MemberType for [u8; N] {
    const C_TYPE: CType = CType {
        scalar: Scalar::Char,
        length: Some(N),
    };
}

impl<const N: usize> MemberType for [u64; N] {
    const C_TYPE: CType = CType {
        scalar: Scalar::U64,
        length: Some(N),
    };
}
