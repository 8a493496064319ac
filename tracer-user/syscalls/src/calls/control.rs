//! Control messages, which are sent and received beside the data of a message.

use super::bytes::Bytes;
use super::network::level_name;
use crate::descriptors::Named;

/// Control messages as they were read.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    /// Bytes that were read: any bytes.
    pub untrusted: &'a [u8],
    /// Whether there is more of it.
    pub has_more: bool,
    /// Whether they are those of a 32-bit program.
    pub is_narrow: bool,
    /// Descriptions of the descriptors in them.
    pub named: Named<'a>,
}

impl Messages<'_> {
    /// Appends them; `None` where there is not even one.
    pub fn push(self, out: &mut Vec<u8>) -> Option<()> {
        push_messages(out, self)
    }
}

fn push_messages(out: &mut Vec<u8>, of: Messages<'_>) -> Option<()> {
    let Messages {
        untrusted,
        has_more,
        is_narrow,
        named,
    } = of;
    // A length of four bytes or eight, a level and a type.
    let (word, head) = if is_narrow { (4, 12) } else { (8, 16) };
    let mut rest = Bytes(untrusted);
    let mut messages = Vec::new();
    while rest.slice().len() >= head {
        let length = if is_narrow {
            u64::from(rest.u32(0)?)
        } else {
            rest.u64(0)?
        };
        let (level, kind) = (rest.i32(word)?, rest.i32(word + 4)?);
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let data = rest.slice().get(head..bytes.min(rest.slice().len()));
        messages.push(message(
            length,
            (level, kind),
            data.unwrap_or_default(),
            named,
        ));
        let next = bytes.checked_next_multiple_of(word).unwrap_or(usize::MAX);
        match rest.from(next).filter(|_| next >= head) {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    if messages.is_empty() {
        return None;
    }
    if has_more {
        messages.push("...".to_owned());
    }
    out.extend_from_slice(format!("[{}]", messages.join(", ")).as_bytes());
    Some(())
}

fn message(length: u64, what: (i32, i32), untrusted: &[u8], named: Named<'_>) -> String {
    let (level, kind) = what;
    let mut parts = vec![
        format!("cmsg_len={length}"),
        format!("cmsg_level={}", level_name(level)),
    ];
    let data = Bytes(untrusted);
    let ints = |shown: &dyn Fn(i32) -> String| {
        let (ints, _) = untrusted.as_chunks::<4>();
        let ints = ints.iter().map(|int| shown(i32::from_ne_bytes(*int)));
        format!("[{}]", ints.collect::<Vec<_>>().join(", "))
    };
    match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
            parts.push("cmsg_type=SCM_RIGHTS".to_owned());
            if untrusted.len() >= 4 {
                let shown = |fd| format!("{fd}{}", named.shown_anywhere(fd));
                parts.push(format!("cmsg_data={}", ints(&shown)));
            }
        }
        (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
            parts.push("cmsg_type=SCM_CREDENTIALS".to_owned());
            if let (Some(pid), Some(uid), Some(gid)) = (data.i32(0), data.u32(4), data.u32(8)) {
                parts.push(format!("cmsg_data={{pid={pid}, uid={uid}, gid={gid}}}"));
            }
        }
        (libc::SOL_IP, libc::IP_TTL) => {
            parts.push("cmsg_type=IP_TTL".to_owned());
            parts.push(format!("cmsg_data={}", ints(&|int| int.to_string())));
        }
        _ => parts.push(format!("cmsg_type={:#x}", kind.cast_unsigned())),
    }
    format!("{{{}}}", parts.join(", "))
}
