//! Properties that decide who may look into a process, as `ptrace` would ask.

use aya_ebpf::helpers::bpf_probe_read_kernel;

use tracer_common::kernel::Sight;
use tracer_common::kernel::globals::NO_OFFSET;

use crate::context::Tracepoint;
use crate::offsets::{
    CRED_EGID, CRED_EUID, CRED_GID, CRED_PERMITTED, CRED_SGID, CRED_SUID, CRED_UID, CRED_USER_NS,
    MM_FLAGS, USER_NS_LEVEL,
};
use crate::task::{Address, Task};

/// Bits of `mm_struct::flags` that say whether the memory may be dumped, and their value where its
/// user may do so.
const DUMPABLE_BITS: u64 = 3;
const DUMPABLE: u64 = 1;

/// Returns the properties that decide who may look into the process of a task. One that cannot be
/// read denies access.
#[inline(always)]
pub fn collect<C: Tracepoint>(task: &Task<C>) -> Sight {
    let credentials = task.credentials();
    let same = |offsets: [u32; 3]| {
        let [real, effective, saved] =
            offsets.map(|offset| read::<u32>(credentials, offset).unwrap_or(Sight::NOBODY));
        if real == effective && real == saved {
            real
        } else {
            Sight::NOBODY
        }
    };
    let namespace = read::<u64>(credentials, CRED_USER_NS.load()).unwrap_or(0);
    let namespace = Address(namespace as *const u8);
    let flags = read::<u64>(task.memory(), MM_FLAGS.load()).unwrap_or(0);
    Sight {
        permitted: read(credentials, CRED_PERMITTED.load()).unwrap_or(u64::MAX),
        uid: same([CRED_UID.load(), CRED_EUID.load(), CRED_SUID.load()]),
        gid: same([CRED_GID.load(), CRED_EGID.load(), CRED_SGID.load()]),
        is_dumpable: u32::from(is_dumpable(flags)),
        namespace_level: read(namespace, USER_NS_LEVEL.load()).unwrap_or(u32::MAX),
    }
}

/// Tells whether memory with these `mm_struct::flags` may be dumped by its user.
#[inline(always)]
pub fn is_dumpable(flags: u64) -> bool {
    flags & DUMPABLE_BITS == DUMPABLE
}

/// Reads a field of the struct at `base`, where the kernel has it.
///
/// By a helper, because these are behind several pointers, and of sizes that differ between
/// kernels.
#[inline(always)]
pub fn read<T>(base: Address, offset: u32) -> Option<T> {
    if offset == NO_OFFSET {
        return None;
    }
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(base.0.wrapping_add(offset as usize).cast()) }.ok()
}
