//! Messages of netlink, as strace shows them: `{nlmsg_len=20, nlmsg_type=NLMSG_DONE, …}`.
//!
//! A datagram has one or several messages; of a message's header the kind is one of the socket's
//! protocol, which has to be known. What was not read is dots.

mod attributes;
mod fields;
mod link;
mod names;
mod part;
mod route;

pub use names::INTERFACE_FLAGS;

use names::{Flags, Names, name_of};
pub use part::Part;

use super::flags;
use crate::names::error_name;

/// `NETLINK_ROUTE`.
const ROUTE: u8 = 0;

/// `NETLINK_SOCK_DIAG`.
const SOCK_DIAG: u8 = 4;

/// `NETLINK_KOBJECT_UEVENT`, whose datagrams are texts.
const KOBJECT_UEVENT: u8 = 15;

/// Bytes of a `struct nlmsghdr`.
const HEADER: usize = 16;

/// The first kind that a protocol has for itself.
const FIRST_OF_PROTOCOL: u16 = 16;

const ERROR: u16 = 2;
const DONE: u16 = 3;

const KINDS: Names = &[
    ("NLMSG_NOOP", 1),
    ("NLMSG_ERROR", 2),
    ("NLMSG_DONE", 3),
    ("NLMSG_OVERRUN", 4),
];

const SOCK_DIAG_KINDS: Names = &[("SOCK_DIAG_BY_FAMILY", 20), ("SOCK_DESTROY", 21)];

const ANY_FLAGS: Flags = &[
    ("NLM_F_REQUEST", 1),
    ("NLM_F_MULTI", 2),
    ("NLM_F_ACK", 4),
    ("NLM_F_ECHO", 8),
    ("NLM_F_DUMP_INTR", 0x10),
    ("NLM_F_DUMP_FILTERED", 0x20),
];

const GET_FLAGS: Flags = &[
    ("NLM_F_DUMP", 0x300),
    ("NLM_F_ROOT", 0x100),
    ("NLM_F_MATCH", 0x200),
    ("NLM_F_ATOMIC", 0x400),
];

const NEW_FLAGS: Flags = &[
    ("NLM_F_REPLACE", 0x100),
    ("NLM_F_EXCL", 0x200),
    ("NLM_F_CREATE", 0x400),
    ("NLM_F_APPEND", 0x800),
];

const DELETE_FLAGS: Flags = &[("NLM_F_NONREC", 0x100), ("NLM_F_BULK", 0x200)];

const ANSWER_FLAGS: Flags = &[("NLM_F_CAPPED", 0x100), ("NLM_F_ACK_TLVS", 0x200)];

/// `NLM_F_CAPPED`: of a message that was refused, the header alone is given back.
const CAPPED: u16 = 0x100;

/// The header of a message.
#[derive(Clone, Copy, Debug)]
struct Header {
    length: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: i32,
}

impl Header {
    fn parse(part: Part<'_>) -> Option<Self> {
        let bytes = part.read();
        Some(Self {
            length: bytes.u32(0)?,
            kind: bytes.u16(4)?,
            flags: bytes.u16(6)?,
            sequence: bytes.u32(8)?,
            port: bytes.i32(12)?,
        })
    }

    fn bytes(self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    /// Returns the place where the next one begins, behind this one.
    fn next(self) -> Option<usize> {
        let next = self.bytes().checked_next_multiple_of(4);
        next.filter(|_| self.bytes() >= HEADER)
    }
}

/// Renders the messages in a datagram of a socket of this protocol; `None` where it has none.
pub fn messages(protocol: u8, datagram: Part<'_>) -> Option<String> {
    if protocol == KOBJECT_UEVENT {
        return None;
    }
    let mut shown = Vec::new();
    let mut rest = Some(datagram);
    while let Some(part) = rest {
        let header = match (part.has(HEADER), Header::parse(part)) {
            (None, _) => {
                shown.push(part.in_hex());
                break;
            }
            (_, None) => {
                shown.push("...".to_owned());
                break;
            }
            (_, Some(header)) => header,
        };
        shown.push(message(protocol, header, part, refusal));
        let next = header.next().filter(|next| *next < part.length());
        rest = next.map(|next| part.from(next));
    }
    Some(match &shown[..] {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    })
}

/// Renders the subject of an error.
type Refusal = fn(u8, Header, Part<'_>) -> String;

/// Renders a message, which begins this part.
fn message(protocol: u8, header: Header, part: Part<'_>, refusal: Refusal) -> String {
    let payload = part.first(header.bytes()).from(HEADER);
    let shown = format!(
        "{{nlmsg_len={}, nlmsg_type={}, nlmsg_flags={}, nlmsg_seq={}, nlmsg_pid={}}}",
        header.length,
        kind_name(protocol, header.kind),
        flag_names(protocol, header),
        header.sequence,
        header.port
    );
    if payload.length() == 0 {
        return shown;
    }
    let payload = match header.kind {
        ERROR => refusal(protocol, header, payload),
        _ => payload_of(protocol, header, payload),
    };
    format!("[{shown}, {payload}]")
}

fn kind_name(protocol: u8, kind: u16) -> String {
    let names = match protocol {
        _ if kind < FIRST_OF_PROTOCOL => KINDS,
        ROUTE => route::KINDS,
        SOCK_DIAG => SOCK_DIAG_KINDS,
        _ => &[],
    };
    name_of(names, kind.into())
}

fn flag_names(protocol: u8, header: Header) -> String {
    let of_kind = match (protocol, header.kind) {
        (_, ERROR) => ANSWER_FLAGS,
        (_, 0..FIRST_OF_PROTOCOL) => &[],
        (ROUTE, route::DELETE_ACTION) => GET_FLAGS,
        (ROUTE, kind) => match kind & 3 {
            0 => NEW_FLAGS,
            1 => DELETE_FLAGS,
            2 => GET_FLAGS,
            _ => &[],
        },
        (SOCK_DIAG, _) => GET_FLAGS,
        _ => &[],
    };
    flags(header.flags.into(), &[ANY_FLAGS, of_kind].concat(), "0")
}

fn payload_of(protocol: u8, header: Header, payload: Part<'_>) -> String {
    match header.kind {
        DONE if payload.length() == 4 => match payload.read().i32(0) {
            Some(value) => value.to_string(),
            None => "...".to_owned(),
        },
        kind if protocol == ROUTE && kind != DONE => route::payload(kind, payload),
        _ => payload.in_hex(),
    }
}

/// Renders a `struct nlmsgerr`: an error, or none, and the message that it is about.
fn refusal(protocol: u8, header: Header, payload: Part<'_>) -> String {
    let error = match (payload.has(4), payload.read().i32(0)) {
        (None, _) => return payload.in_hex(),
        (_, None) => return "{error=...}".to_owned(),
        (_, Some(error)) => error,
    };
    let error = match error_name(error.saturating_neg()) {
        Some(name) if error < 0 => format!("-{name}"),
        _ => error.to_string(),
    };
    let about = payload.from(4);
    let message = match Header::parse(about) {
        _ if about.length() == 0 => return format!("{{error={error}}}"),
        None if about.length() < HEADER => about.in_hex(),
        None => "...".to_owned(),
        Some(of) => {
            let is_capped = header.flags & CAPPED != 0;
            let bytes = if is_capped { HEADER } else { usize::MAX };
            // One error in another is never sent, and could be in a third.
            message(protocol, of, about.first(bytes), |_, _, part| part.in_hex())
        }
    };
    format!("{{error={error}, msg={message}}}")
}

#[cfg(test)]
mod tests;
