//! Data that several addresses lead to: the texts of an exec, the parts of a vectored read.

use tracer_common::kernel::gathered::{
    HEAD, HEADER, MESSAGE_HEAD, MORE, PART, TRUNCATED, UNKNOWN, UNREAD,
};

use super::bytes::{Bytes, quoted_start};
use super::pointed::Data;
use super::render::pointer;
use super::{control, netlink, network};
use crate::arguments::Call;
use crate::flags::MESSAGE;
use crate::names::Table;

/// A text or part: its bytes, as far as they were read, and whether there are more; `None` where
/// they could not be read.
type Read<'a> = Option<(&'a [u8], bool)>;

/// Returns the texts, and whether there are more; `None` where this is not what was gathered.
#[must_use]
pub fn strings(untrusted: &[u8]) -> Option<(Vec<Read<'_>>, bool)> {
    let bytes = Bytes(untrusted);
    let mut has_more = bytes.u16(0)? & MORE != 0;
    let mut texts = Vec::new();
    let mut rest = bytes.from(HEAD)?;
    while !rest.slice().is_empty() {
        let Some((text, behind)) = next(rest) else {
            has_more = true;
            break;
        };
        texts.push(text);
        rest = behind;
    }
    Some((texts, has_more))
}

/// Returns the number of variables of the environment that was given with these texts.
#[must_use]
pub fn variables(untrusted: &[u8]) -> Option<u16> {
    let count = Bytes(untrusted).u16(2)?;
    (count != UNKNOWN).then_some(count)
}

/// Returns the number of entries of a folder, and whether there may be more.
#[must_use]
pub fn entries(untrusted: &[u8]) -> Option<(u16, bool)> {
    let bytes = Bytes(untrusted);
    Some((bytes.u16(2)?, bytes.u16(0)? & MORE != 0))
}

/// Splits off a length and as many bytes, and returns the rest. Those that end too early have more.
fn next(bytes: Bytes<'_>) -> Option<(Read<'_>, Bytes<'_>)> {
    let length = bytes.u16(0)?;
    let rest = bytes.from(2)?;
    if length == UNREAD {
        return Some((None, rest));
    }
    let (wanted, is_truncated) = (usize::from(length & !TRUNCATED), length & TRUNCATED != 0);
    match rest.slice().split_at_checked(wanted) {
        Some((read, behind)) => Some((Some((read, is_truncated)), Bytes(behind))),
        None => Some((Some((rest.slice(), true)), Bytes(&[]))),
    }
}

/// Appends the texts that a program is given.
pub fn push_text_list(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    push_strings(out, data.bytes, data.has_more)
}

fn push_strings(out: &mut Vec<u8>, bytes: Bytes<'_>, is_cut: bool) -> Option<()> {
    let (texts, has_more) = strings(bytes.slice())?;
    let has_more = has_more || is_cut;
    let words = texts.into_iter().map(|text| match text {
        Some((text, is_truncated)) => quoted_start(text, is_truncated),
        None => "?".to_owned(),
    });
    push_list(out, words.collect(), has_more);
    Some(())
}

/// Appends parts with their data.
pub fn push_part_list(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    push_parts(out, data.bytes, data.has_more)
}

fn push_parts(out: &mut Vec<u8>, bytes: Bytes<'_>, is_cut: bool) -> Option<()> {
    let has_more = is_cut || bytes.u16(0)? & MORE != 0;
    push_parts_from(out, bytes.from(HEAD)?, (usize::MAX, has_more), None);
    Some(())
}

/// Mark that parts are those of a datagram of netlink.
#[derive(Clone, Copy, Debug)]
struct Netlink {
    protocol: u8,
    /// Bytes of the datagram that are not in the parts before.
    left: u64,
}

impl Netlink {
    /// Renders the next part, of this many bytes, of which these were read; `None` where it has no
    /// messages.
    fn shown(&mut self, untrusted: &[u8], length: u64) -> Option<String> {
        let length = length.min(self.left);
        self.left -= length;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        netlink::messages(self.protocol, netlink::Part::new(untrusted, length))
    }
}

/// Appends `count` parts, or all that there are, and whether there are more. Returns the bytes
/// behind them.
fn push_parts_from<'a>(
    out: &mut Vec<u8>,
    bytes: Bytes<'a>,
    (count, has_more): (usize, bool),
    mut netlink: Option<Netlink>,
) -> Bytes<'a> {
    let (mut rest, mut has_more) = (bytes, has_more);
    let mut parts = Vec::new();
    while !rest.slice().is_empty() && parts.len() < count {
        let entry = (rest.u64(0), rest.u64(8), rest.from(PART).and_then(next));
        let (Some(address), Some(length), Some((read, behind))) = entry else {
            has_more = true;
            rest = Bytes(&[]);
            break;
        };
        rest = behind;
        let shown = match read {
            Some((read, is_truncated)) if address != 0 => {
                let messages = netlink.as_mut().and_then(|all| all.shown(read, length));
                messages.unwrap_or_else(|| quoted_start(read, is_truncated))
            }
            _ => pointer(address),
        };
        parts.push(format!("{{iov_base={shown}, iov_len={length}}}"));
    }
    push_list(out, parts, has_more);
    rest
}

/// Appends a `struct msghdr`.
pub fn push_message(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let bytes = data.bytes;
    let has_more = data.has_more || bytes.u16(0)? & MORE != 0;
    let behind = bytes.from(HEAD + HEADER)?;
    let left = data.returned.map(|bytes| u64::try_from(bytes).unwrap_or(0));
    let parts = (usize::MAX, has_more);
    push_one(out, bytes.from(HEAD)?, behind, parts, (data, left))?;
    Some(())
}

/// Appends several of `struct mmsghdr`.
pub fn push_message_list(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let bytes = data.bytes;
    let mut has_more = data.has_more || bytes.u16(0)? & MORE != 0;
    let all = bytes.slice();
    let mut messages = Vec::new();
    let mut at = HEAD;
    while at < all.len() {
        let mut message = b"{msg_hdr=".to_vec();
        let header = Bytes(all).from(at.next_multiple_of(8));
        let shown = header.and_then(|header| push_message_of_several(&mut message, header, data));
        let Some(left) = shown else {
            has_more = true;
            break;
        };
        messages.push(String::from_utf8_lossy(&message).into_owned());
        at = all.len() - left;
    }
    push_list(out, messages, has_more);
    Some(())
}

/// Appends several of `struct mmsghdr` that were received.
pub fn push_received_list(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    push_message_list(out, data)
}

/// Appends a `struct msghdr` that was received, or the length of its name where it was not.
pub fn push_received_message(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    if data.bytes.slice().len() == BEFORE {
        push_name_length(out, data.call, data.bytes)
    } else {
        push_message(out, data)
    }
}

/// Appends the rest of a `struct mmsghdr`: how many bytes are behind it.
fn push_message_of_several(out: &mut Vec<u8>, header: Bytes<'_>, data: Data<'_>) -> Option<usize> {
    let (length, parts) = (header.u32(HEADER)?, header.u32(HEADER + 4)?);
    let has_more = u64::from(parts) < header.u64(24)?;
    let parts = (usize::try_from(parts).ok()?, has_more);
    let left = data.returned.map(|_| length.into());
    let rest = push_one(out, header, header.from(MESSAGE_HEAD)?, parts, (data, left))?;
    // How much of it was sent is known once it was.
    if data.returned.is_some() {
        out.extend_from_slice(format!(", msg_len={length}").as_bytes());
    }
    out.push(b'}');
    Some(rest.slice().len())
}

/// Appends a `struct msghdr` with its name, its control messages and its parts, which lie `behind`
/// it: `count_and_more` is the number of the parts, and whether there are more. `bytes` of them
/// were sent or received. Returns the bytes behind those.
fn push_one<'a>(
    out: &mut Vec<u8>,
    header: Bytes<'_>,
    behind: Bytes<'a>,
    count_and_more: (usize, bool),
    (data, bytes): (Data<'_>, Option<u64>),
) -> Option<Bytes<'a>> {
    let (call, named) = (data.call, data.named);
    let (name, behind) = next(behind)?;
    let (control_messages, mut behind) = next(behind)?;
    out.extend_from_slice(b"{msg_name=");
    let start = out.len();
    let address = header.u64(0)?;
    let shown = match name {
        Some((name, _)) if !name.is_empty() => network::push_address(out, Bytes(name)),
        _ => None,
    };
    if shown.is_none() {
        out.truncate(start);
        out.extend_from_slice(pointer(address).as_bytes());
    }
    let length = header.u32(8)?;
    out.extend_from_slice(format!(", msg_namelen={length}, msg_iov=").as_bytes());
    match header.u64(16)? {
        0 => out.extend_from_slice(b"NULL"),
        _ => {
            let netlink = named.netlink(call).map(|protocol| Netlink {
                protocol,
                left: bytes.unwrap_or(u64::MAX),
            });
            behind = push_parts_from(out, behind, count_and_more, netlink);
        }
    }
    let (parts, control, control_length) = (header.u64(24)?, header.u64(32)?, header.u64(40)?);
    out.extend_from_slice(format!(", msg_iovlen={parts}").as_bytes());
    if control_length != 0 {
        out.extend_from_slice(b", msg_control=");
        let start = out.len();
        let shown = control_messages.and_then(|(read, has_more)| {
            let messages = control::Messages {
                untrusted: read,
                has_more,
                is_narrow: call.table == Table::Compat,
                named,
            };
            messages.push(out)
        });
        if shown.is_none() {
            out.truncate(start);
            out.extend_from_slice(pointer(control).as_bytes());
        }
    }
    let flags = header.u32(48)?;
    out.extend_from_slice(format!(", msg_controllen={control_length}, msg_flags=").as_bytes());
    MESSAGE.push(out, flags);
    out.push(b'}');
    Some(behind)
}

/// Bytes of the first two members of a `struct msghdr`: the name and its length. Of a 32-bit
/// program it is more, and not shown.
const BEFORE: usize = 16;

/// Returns where the length lies, behind an address.
fn name_length_at(call: &Call) -> usize {
    match call.table {
        Table::Native => 8,
        Table::Compat => 4,
    }
}

/// Appends the length of the name alone, of a message that was not received.
fn push_name_length(out: &mut Vec<u8>, call: &Call, bytes: Bytes<'_>) -> Option<()> {
    let length = bytes.u32(name_length_at(call))?;
    out.extend_from_slice(format!("{{msg_namelen={length}}}").as_bytes());
    Some(())
}

/// Appends, where a received message has changed the length of its name, both: the length that was
/// there `before` the call, and the one that is shown from `start` on.
pub fn push_new_name_length(out: &mut Vec<u8>, call: &Call, start: usize, before: &[u8]) {
    const KEY: &[u8] = b"msg_namelen=";
    let shown = out.get(start..).unwrap_or_default();
    let at = shown.windows(KEY.len()).position(|window| window == KEY);
    let (Some(at), Some(before)) = (at, Bytes(before).u32(name_length_at(call))) else {
        return;
    };
    let at = start + at + KEY.len();
    let digits = out.get(at..).unwrap_or_default();
    let length = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits.get(..length) != Some(before.to_string().as_bytes()) {
        out.splice(at..at, format!("{before} => ").into_bytes());
    }
}

fn push_list(out: &mut Vec<u8>, mut members: Vec<String>, has_more: bool) {
    if has_more {
        members.push("...".to_owned());
    }
    out.push(b'[');
    out.extend_from_slice(members.join(", ").as_bytes());
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(flags: u16, variables: u16) -> Vec<u8> {
        [flags.to_ne_bytes(), variables.to_ne_bytes()].concat()
    }

    fn entry(head: u16, bytes: &[u8]) -> Vec<u8> {
        [&head.to_ne_bytes(), bytes].concat()
    }

    fn shown(push: impl Fn(&mut Vec<u8>, Bytes<'_>) -> Option<()>, bytes: &[u8]) -> Option<String> {
        let mut out = Vec::new();
        push(&mut out, Bytes(bytes))?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn texts_are_a_list() {
        let texts = [
            head(MORE, 23),
            entry(2, b"ls"),
            entry(TRUNCATED | 1, b"-"),
            entry(UNREAD, b""),
        ]
        .concat();
        let list = r#"["ls", "-"..., ?, ...]"#;
        let whole = |out: &mut Vec<u8>, bytes: Bytes<'_>| push_strings(out, bytes, false);
        assert_eq!(shown(whole, &texts).as_deref(), Some(list));
        // Cut between two of them.
        let cut = |out: &mut Vec<u8>, bytes: Bytes<'_>| push_strings(out, bytes, true);
        let first = [head(0, 23), entry(2, b"ls")].concat();
        assert_eq!(shown(cut, &first).as_deref(), Some(r#"["ls", ...]"#));
        assert_eq!(variables(&texts), Some(23));
        assert_eq!(variables(&head(0, UNKNOWN)), None);
        // Truncated anywhere, it ends there, and says so.
        for end in HEAD..texts.len() - 1 {
            let (texts, has_more) = strings(&texts[..end]).unwrap();
            assert!(texts.len() < 4 && has_more, "{end}");
        }
        assert_eq!(strings(b"123"), None);
    }

    #[test]
    fn parts_have_addresses_lengths_and_data() {
        let part = |address: u64, length: u64, data: Vec<u8>| {
            [&address.to_ne_bytes()[..], &length.to_ne_bytes(), &data].concat()
        };
        let parts = [
            head(0, UNKNOWN),
            part(16, 3, entry(3, b"abc")),
            part(16, 9, entry(TRUNCATED | 1, b"a")),
            part(0, 0, entry(0, b"")),
            part(16, 4, entry(UNREAD, b"")),
        ]
        .concat();
        let list = "[{iov_base=\"abc\", iov_len=3}, {iov_base=\"a\"..., iov_len=9}, \
                    {iov_base=NULL, iov_len=0}, {iov_base=0x10, iov_len=4}]";
        let whole = |out: &mut Vec<u8>, bytes: Bytes<'_>| push_parts(out, bytes, false);
        assert_eq!(shown(whole, &parts).as_deref(), Some(list));
        // Cut anywhere, between two of them too, it says so.
        let cut = |out: &mut Vec<u8>, bytes: Bytes<'_>| push_parts(out, bytes, true);
        for end in HEAD..parts.len() {
            let shown = shown(cut, &parts[..end]).unwrap();
            assert!(shown.starts_with('[') && shown.ends_with("...]"), "{shown}");
        }
    }

    #[test]
    fn the_length_of_a_name_is_shown_before_and_after() {
        let before = [0_u64.to_ne_bytes(), 128_u64.to_ne_bytes()].concat();
        let mut out = b"x{msg_name=NULL, msg_namelen=16, msg_iov=[]".to_vec();
        let call = Call {
            table: Table::Native,
            nr: 0,
            registers: [0; 6],
        };
        push_new_name_length(&mut out, &call, 1, &before);
        assert_eq!(out, b"x{msg_name=NULL, msg_namelen=128 => 16, msg_iov=[]");
        let same = [0_u64.to_ne_bytes(), 16_u64.to_ne_bytes()].concat();
        let mut out = b"{msg_namelen=16, ".to_vec();
        push_new_name_length(&mut out, &call, 0, &same);
        assert_eq!(out, b"{msg_namelen=16, ");
    }
}
