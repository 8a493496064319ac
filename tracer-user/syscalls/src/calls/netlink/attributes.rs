//! Attributes, which follow the struct that a message begins with, or lie within attributes.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::fields::{self, NetlinkMember};
use super::link;
use super::names::{FAMILIES, Flags, Names, flags_of, name_of};
use super::part::Part;
use crate::calls::bytes::{quoted, quoted_start};

/// Bytes of a `struct nlattr`.
const HEADER: usize = 4;

/// Bit of the type: the value consists of attributes.
const NESTED: u16 = 0x8000;

/// Bit of the type: the value is in network byte order.
const NETWORK_ORDER: u16 = 0x4000;

/// Type of the value of an attribute.
#[derive(Clone, Copy, Debug)]
pub enum NetlinkValue {
    /// Bytes that are not known.
    Bytes,
    /// An integer.
    U8,
    U16,
    U32,
    I32,
    U64,
    /// A port, in the order of networks.
    Port,
    /// Text.
    Text,
    /// The address of a device.
    Hardware,
    /// An address of the family that the message is about.
    Address,
    /// An address of IPv6.
    Address6,
    /// A value that has a name.
    Named8(Names),
    Named32(Names),
    /// Bits that have names.
    Flags32(Flags),
    /// A struct.
    Struct(&'static [NetlinkMember]),
    /// Attributes.
    Nested(NetlinkAttributes),
    /// Attributes of address families.
    OfFamilies,
    /// Numbers of settings: 32 bits each, or 64.
    Settings(&'static [&'static str]),
    Counts(&'static [&'static str]),
}

/// Names and values of attributes, by their types from 0 on.
pub type NetlinkAttributes = &'static [(&'static str, NetlinkValue)];

/// Renders the attributes in this part, of a message about this address family.
pub fn shown(attributes: NetlinkAttributes, family: u8, part: Part<'_>) -> String {
    list(part, |kind, value| {
        let known = attributes.get(usize::from(kind));
        let name = known.map_or_else(|| name_of(&[], kind.into()), |(name, _)| (*name).to_owned());
        let what = known.map_or(NetlinkValue::Bytes, |(_, what)| *what);
        (name, what.shown(family, value))
    })
}

/// Renders attributes that are each of an address family.
fn of_families(part: Part<'_>) -> String {
    list(part, |family, value| {
        let attributes = match i32::from(family) {
            libc::AF_INET => Some(link::INET),
            libc::AF_INET6 => Some(link::INET6),
            _ => None,
        };
        let shown = match attributes {
            Some(attributes) => shown(attributes, 0, value),
            None => value.in_hex(),
        };
        (name_of(FAMILIES, family.into()), shown)
    })
}

/// Renders attributes one after the other; `each` returns the name of one of a type, and its value.
fn list(part: Part<'_>, each: impl Fn(u16, Part<'_>) -> (String, String)) -> String {
    let mut shown = Vec::new();
    let mut rest = Some(part);
    while let Some(part) = rest {
        let bytes = part.read();
        let (length, kind) = match (part.has(HEADER), bytes.u16(0), bytes.u16(2)) {
            (None, _, _) => {
                shown.push(part.in_hex());
                break;
            }
            (_, Some(length), Some(kind)) => (length, kind),
            _ => {
                shown.push("...".to_owned());
                break;
            }
        };
        let bytes = usize::from(length);
        let value = part.first(bytes).from(HEADER);
        let (name, words) = each(kind & !(NESTED | NETWORK_ORDER), value);
        let has = |bit: u16, name: &'static str| if kind & bit != 0 { name } else { "" };
        let head = format!(
            "{{nla_len={length}, nla_type={}{}{name}}}",
            has(NESTED, "NLA_F_NESTED|"),
            has(NETWORK_ORDER, "NLA_F_NET_BYTEORDER|"),
        );
        shown.push(if value.length() == 0 {
            head
        } else {
            format!("[{head}, {words}]")
        });
        let next = bytes.next_multiple_of(4);
        let has_next = bytes >= HEADER && next < part.length();
        rest = has_next.then(|| part.from(next));
    }
    match &shown[..] {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

impl NetlinkValue {
    /// Renders the value in words; as bytes where it is not what it should be.
    fn shown(self, family: u8, part: Part<'_>) -> String {
        match self {
            Self::Nested(attributes) => shown(attributes, family, part),
            Self::OfFamilies => of_families(part),
            Self::Struct(members) => fields::shown(members, part),
            Self::Settings(names) => numbers(names, part, 4),
            Self::Counts(names) => numbers(names, part, 8),
            Self::Text => text(part),
            Self::Bytes => part.in_hex(),
            _ => match part.has(self.bytes(family)) {
                Some(true) => self.one(family, part).unwrap_or_else(|| part.in_hex()),
                Some(false) => "...".to_owned(),
                None => part.in_hex(),
            },
        }
    }

    /// Returns the count of bytes that it has to have.
    fn bytes(self, family: u8) -> usize {
        match self {
            Self::U8 | Self::Named8(_) => 1,
            Self::U16 | Self::Port => 2,
            Self::U32 | Self::I32 | Self::Named32(_) | Self::Flags32(_) => 4,
            Self::U64 => 8,
            Self::Address6 => 16,
            Self::Address if i32::from(family) == libc::AF_INET => 4,
            Self::Address if i32::from(family) == libc::AF_INET6 => 16,
            _ => 0,
        }
    }

    /// Renders one value, of which all was read.
    fn one(self, family: u8, part: Part<'_>) -> Option<String> {
        let bytes = part.read();
        let byte = bytes.slice().first().copied();
        Some(match self {
            Self::U8 => byte?.to_string(),
            Self::U16 => bytes.u16(0)?.to_string(),
            Self::U32 => bytes.u32(0)?.to_string(),
            Self::I32 => bytes.i32(0)?.to_string(),
            Self::U64 => bytes.u64(0)?.to_string(),
            Self::Port => format!("htons({})", bytes.u16_be(0)?),
            Self::Named8(names) => name_of(names, byte?.into()),
            Self::Named32(names) => name_of(names, bytes.u32(0)?.into()),
            Self::Flags32(names) => flags_of(names, bytes.u32(0)?.into()),
            Self::Address6 => address6(bytes.slice())?,
            Self::Address => match i32::from(family) {
                libc::AF_INET => {
                    let four = *bytes.slice().first_chunk::<4>()?;
                    format!("inet_addr(\"{}\")", Ipv4Addr::from(four))
                }
                libc::AF_INET6 => address6(bytes.slice())?,
                _ => return None,
            },
            Self::Hardware if !part.has_more() => {
                let digits = bytes.slice().iter().map(|byte| format!("{byte:02x}"));
                digits.collect::<Vec<_>>().join(":")
            }
            _ => return None,
        })
    }
}

fn address6(bytes: &[u8]) -> Option<String> {
    let address = Ipv6Addr::from(*bytes.first_chunk::<16>()?);
    Some(format!("inet_pton(AF_INET6, \"{address}\")"))
}

/// Returns the text up to its null.
fn text(part: Part<'_>) -> String {
    let bytes = part.read().slice();
    match bytes.split(|byte| *byte == 0).next() {
        Some(text) if text.len() < bytes.len() => quoted(text),
        _ if bytes.is_empty() => "...".to_owned(),
        _ => quoted_start(bytes, part.has_more()),
    }
}

/// Renders numbers with names, of this many bytes each.
fn numbers(names: &[&str], part: Part<'_>, bytes: usize) -> String {
    let mut shown = Vec::new();
    let mut rest = part;
    while rest.length() >= bytes {
        let number = match bytes {
            8 => rest.read().u64(0).map(|number| number.to_string()),
            _ => rest.read().i32(0).map(|number| number.to_string()),
        };
        let Some(number) = number else {
            shown.push("...".to_owned());
            break;
        };
        let nth = shown.len();
        let name = names.get(nth).map(|name| (*name).to_owned());
        let name = name.unwrap_or_else(|| nth.to_string());
        shown.push(format!("[{name}]={number}"));
        rest = rest.from(bytes);
    }
    format!("[{}]", shown.join(", "))
}
