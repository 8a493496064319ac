//! What calls wait for.

use std::mem::{offset_of, size_of};

use super::bytes::Bytes;
use super::{flags, push_list};
use crate::descriptors::Named;

const EPOLL_FLAGS: &[(&str, u64)] = &[
    ("EPOLLIN", 1),
    ("EPOLLPRI", 2),
    ("EPOLLOUT", 4),
    ("EPOLLRDNORM", 0x40),
    ("EPOLLRDBAND", 0x80),
    ("EPOLLWRNORM", 0x100),
    ("EPOLLWRBAND", 0x200),
    ("EPOLLMSG", 0x400),
    ("EPOLLERR", 8),
    ("EPOLLHUP", 0x10),
    ("EPOLLRDHUP", 0x2000),
    ("EPOLLEXCLUSIVE", 1 << 28),
    ("EPOLLWAKEUP", 1 << 29),
    ("EPOLLONESHOT", 1 << 30),
    ("EPOLLET", 1 << 31),
];

const POLL_FLAGS: &[(&str, u64)] = &[
    ("POLLIN", 1),
    ("POLLPRI", 2),
    ("POLLOUT", 4),
    ("POLLRDNORM", 0x40),
    ("POLLRDBAND", 0x80),
    ("POLLWRNORM", 0x100),
    ("POLLWRBAND", 0x200),
    ("POLLMSG", 0x400),
    ("POLLERR", 8),
    ("POLLHUP", 0x10),
    ("POLLNVAL", 0x20),
    ("POLLRDHUP", 0x2000),
];

fn epoll(bytes: Bytes<'_>) -> Option<String> {
    let events = bytes.u32(0)?;
    let at = offset_of!(libc::epoll_event, u64);
    let (half, whole) = (bytes.u32(at)?, bytes.u64(at)?);
    Some(format!(
        "{{events={}, data={{u32={half}, u64={whole}}}}}",
        flags(events.into(), EPOLL_FLAGS, "0")
    ))
}

pub fn push_epoll(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    out.extend_from_slice(epoll(bytes)?.as_bytes());
    Some(())
}

pub fn push_epolls(out: &mut Vec<u8>, bytes: Bytes<'_>, has_more: bool) -> Option<()> {
    let all = bytes.slice().chunks_exact(size_of::<libc::epoll_event>());
    push_list(out, all.filter_map(|one| epoll(Bytes(one))), has_more);
    Some(())
}

/// Appends what `poll` is to wait for.
pub fn push_polls(
    out: &mut Vec<u8>,
    bytes: Bytes<'_>,
    has_more: bool,
    named: Named<'_>,
) -> Option<()> {
    let all = bytes.slice().chunks_exact(size_of::<libc::pollfd>());
    let one = |(nth, one): (usize, &[u8])| {
        let one = Bytes(one);
        let events = flags(one.u16(4)?.into(), POLL_FLAGS, "0");
        Some(match one.i32(0)? {
            // Such an entry is none.
            fd @ ..0 => format!("{{fd={fd}}}"),
            fd => {
                let what = named.shown_listed(nth, fd);
                format!("{{fd={fd}{what}, events={events}}}")
            }
        })
    };
    push_list(out, all.enumerate().filter_map(one), has_more);
    Some(())
}

/// Appends what `poll` has found: ` ([{fd=3, revents=POLLIN}])`.
pub fn push_found(out: &mut Vec<u8>, untrusted: &[u8], has_more: bool) {
    let all = untrusted.chunks_exact(size_of::<libc::pollfd>());
    let found = all.filter_map(|one| {
        let one = Bytes(one);
        let events = one.u16(6)?;
        let fd = one.i32(0)?;
        let named = flags(events.into(), POLL_FLAGS, "0");
        (events != 0).then(|| format!("{{fd={fd}, revents={named}}}"))
    });
    out.extend_from_slice(b" (");
    push_list(out, found, has_more);
    out.push(b')');
}
