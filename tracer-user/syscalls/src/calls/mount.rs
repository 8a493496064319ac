//! Mounts and swap.

use std::borrow::Cow;

use super::bytes::int;
use crate::arguments::{Call, Shown};
use crate::flags::{MAGIC, MAGIC_MASK, PRIORITY, SWAP, words};
use crate::shown::push_argument;

/// Names the argument that holds data which the kernel ignores: a file system that is mounted
/// already has its type and options.
pub fn name_ignored_of_mount(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    const TYPE: usize = 2;
    let has_type = index == TYPE;
    let bits = mount_flags(call.registers[3]);
    let has = |flags: u64| bits & flags != 0;
    let moved = libc::MS_BIND
        | libc::MS_MOVE
        | libc::MS_SHARED
        | libc::MS_PRIVATE
        | libc::MS_SLAVE
        | libc::MS_UNBINDABLE;
    let is_remounted = has(libc::MS_REMOUNT);
    let is_ignored = has_type && is_remounted || !is_remounted && has(moved);
    let address = *call.registers.get(index).filter(|_| is_ignored)?;
    let mut out = Vec::new();
    push_argument(
        &mut out,
        match address {
            0 => Shown::Named("NULL", 0),
            address => Shown::Hex(address),
        },
    );
    Some(String::from_utf8_lossy(&out).into_owned().into())
}

/// Returns the flags of `mount`, without the value that stands for none.
fn mount_flags(register: u64) -> u64 {
    let mask = u64::from(MAGIC_MASK);
    if register & mask == u64::from(MAGIC) {
        register & !mask
    } else {
        register
    }
}

/// Names the flags of `swapon`, among which is a priority.
pub fn name_swap_flags(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let bits = int(call, index)?.cast_unsigned();
    let (named, priority) = (bits & !PRIORITY, bits & PRIORITY);
    Some(match named {
        0 => priority.to_string().into(),
        _ => format!("{}|{priority}", words(&SWAP, named.into())).into(),
    })
}
