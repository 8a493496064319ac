//! Shared memory, semaphores and messages.

use std::borrow::Cow;

use super::files::permissions;
use super::registers::int;
use super::render::flags;
use crate::arguments::Call;

/// Names the key of shared memory, of messages and of semaphores.
pub fn name_ipc_key(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    Some(match int(call, index)? {
        libc::IPC_PRIVATE => "IPC_PRIVATE".into(),
        key => format!("{key:#x}").into(),
    })
}

/// Names the flags of `shmget`, among which are permissions.
pub fn name_shared_flags(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let bits = int(call, index)?.cast_unsigned();
    let mut named = flags(
        (bits & !0o777).into(),
        &[
            ("IPC_CREAT", 0o1000),
            ("IPC_EXCL", 0o2000),
            ("SHM_HUGETLB", 0o4000),
            ("SHM_NORESERVE", 0o10000),
        ],
        "",
    );
    if !named.is_empty() {
        named.push('|');
    }
    Some((named + &permissions(bits & 0o777)).into())
}
