//! Calls that wait: for descriptors, signals and futexes.

use std::borrow::Cow;
use std::mem::{offset_of, size_of};

use super::bytes::{Bytes, int};
use super::pointed::Data;
use super::render::{flags, push_list};
use crate::arguments::Call;
use crate::shape::Shape;

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
    ("POLLERR", 8),
    ("POLLHUP", 0x10),
    ("POLLNVAL", 0x20),
    ("POLLRDNORM", 0x40),
    ("POLLRDBAND", 0x80),
    ("POLLWRNORM", 0x100),
    ("POLLWRBAND", 0x200),
    ("POLLMSG", 0x400),
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

/// Appends an event: what is taken out is not looked at.
pub fn push_epoll(out: &mut Vec<u8>, Data { bytes, call, .. }: Data<'_>) -> Option<()> {
    if int(call, 1)? == libc::EPOLL_CTL_DEL {
        return None;
    }
    out.extend_from_slice(epoll(bytes)?.as_bytes());
    Some(())
}

pub fn push_epoll_list(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let (bytes, has_more) = (data.bytes, data.has_more);
    let all = bytes.slice().chunks_exact(size_of::<libc::epoll_event>());
    push_list(out, all.filter_map(|one| epoll(Bytes(one))), has_more);
    Some(())
}

/// Appends the events that `poll` is to wait for.
pub fn push_poll_list(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let (bytes, has_more, named) = (data.bytes, data.has_more, data.named);
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

/// Returns the descriptors in a set.
fn descriptors(call: &Call, untrusted: &[u8]) -> Vec<usize> {
    let most = usize::try_from(call.registers[0] & 0x7fff_ffff).unwrap_or(0);
    let bits = untrusted.iter().enumerate().flat_map(|(nth, byte)| {
        (0..8_usize).filter_map(move |bit| (byte >> bit & 1 == 1).then_some(nth * 8 + bit))
    });
    bits.take_while(|descriptor| *descriptor < most).collect()
}

fn spaced(descriptors: &[usize]) -> String {
    let words: Vec<_> = descriptors.iter().map(usize::to_string).collect();
    format!("[{}]", words.join(" "))
}

pub fn push_fd_set(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let (call, bytes, named) = (data.call, data.bytes, data.named);
    // Where none are asked for, nothing is read.
    if bytes.slice().is_empty() {
        return None;
    }
    let words = descriptors(call, bytes.slice()).into_iter().map(|fd| {
        let what = i32::try_from(fd).map(|fd| named.shown_anywhere(fd));
        format!("{fd}{}", what.unwrap_or_default())
    });
    let words: Vec<_> = words.collect();
    out.extend_from_slice(format!("[{}]", words.join(" ")).as_bytes());
    Some(())
}

/// Appends the set of signals that `pselect6` is given, with its size.
pub fn push_sized_sigset(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let size = bytes.u64(8)?;
    out.extend_from_slice(b"{sigmask=");
    match bytes.u64(0)? {
        0 => out.extend_from_slice(b"NULL"),
        address => match bytes.from(16).filter(|set| set.slice().len() == 8) {
            Some(set) => super::signals::push_set(out, set)?,
            None => out.extend_from_slice(format!("{address:#x}").as_bytes()),
        },
    }
    out.extend_from_slice(format!(", sigsetsize={size}}}").as_bytes());
    Some(())
}

/// Appends the descriptors that `select` has found, and how much of its time is left:
/// ` (in [3], left {tv_sec=0, tv_usec=999})`. `of` returns the data that was read of each argument
/// as it ended.
pub fn push_ready<'a>(
    out: &mut Vec<u8>,
    call: &Call,
    found: i64,
    of: impl Fn(usize) -> Option<&'a [u8]>,
    left: Option<Vec<u8>>,
) {
    let mut parts = Vec::new();
    let mut rest = usize::try_from(found).unwrap_or(0);
    for (argument, name) in [(1, "in"), (2, "out"), (3, "except")] {
        let mut set = descriptors(call, of(argument).unwrap_or_default());
        set.truncate(rest);
        rest -= set.len();
        if !set.is_empty() {
            parts.push(format!("{name} {}", spaced(&set)));
        }
    }
    if let Some(left) = left {
        parts.push(format!("left {}", String::from_utf8_lossy(&left)));
    }
    out.extend_from_slice(format!(" ({})", parts.join(", ")).as_bytes());
}

/// Appends the events that `poll` has found, and how much of its time is left:
/// ` ([{fd=3, revents=POLLIN}])`.
pub fn push_found(out: &mut Vec<u8>, untrusted: &[u8], has_more: bool, left: Option<Vec<u8>>) {
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
    if let Some(left) = left {
        out.extend_from_slice(b", left ");
        out.extend_from_slice(&left);
    }
    out.push(b')');
}

/// Bits of an operation on a futex without its flags.
fn futex_operation(call: &Call) -> u64 {
    call.registers[1] & 0x7f
}

/// Chooses the arguments that an operation on a futex looks at.
pub fn show_futex(call: &Call) -> Shape {
    Shape::unnamed(match futex_operation(call) {
        1 | 7 | 8 => &[0, 1, 2],
        3 => &[0, 1, 2, 3, 4],
        9 => &[0, 1, 2, 3, 5],
        10 => &[0, 1, 2, 5],
        4 | 5 | 11 | 12 => &[0, 1, 2, 3, 4, 5],
        _ => &[0, 1, 2, 3],
    })
}

/// Names the argument that is a time or a count.
pub fn name_futex_count(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let count = call.registers.get(index)?;
    matches!(futex_operation(call), 3..=5).then(|| count.to_string().into())
}

/// Names the bits by which waiting threads are chosen.
pub fn name_futex_bits(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let is_any = matches!(futex_operation(call), 9 | 10) && int(call, index)? == -1;
    is_any.then_some("FUTEX_BITSET_MATCH_ANY".into())
}
