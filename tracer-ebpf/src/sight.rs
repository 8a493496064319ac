//! Properties that decide who may look into a process, as `ptrace` would ask.

use aya_ebpf::helpers::bpf_probe_read_kernel;

use tracer_common::kernel::Sight;
use tracer_common::kernel::globals::NO_OFFSET;

use crate::context::Tracepoint;
use crate::offsets::{
    CRED_EGID, CRED_EUID, CRED_GID, CRED_PERMITTED, CRED_SGID, CRED_SUID, CRED_UID, CRED_USER_NS,
    MM_FLAGS, MM_USER_NS, TASK_CRED, TASK_MM, USER_NS_ID, USER_NS_LEVEL, USER_NS_OWNER,
    USER_NS_PARENT,
};
use crate::task::{Address, Task};

/// Bits of `mm_struct::flags` that say whether the memory may be dumped, and their value where its
/// user may do so.
const DUMPABLE_BITS: u64 = 3;
const DUMPABLE: u64 = 1;

/// Level of the deepest user namespace that the kernel makes: one in a namespace of level 32.
const DEEPEST: u32 = 33;

/// Returns the properties that decide who may look into the process of a task. One that cannot be
/// read denies access.
#[inline(always)]
pub fn collect<C: Tracepoint>(task: &Task<C>) -> Sight {
    let task = Address(task.address());
    let pointer = |base, offset| {
        let pointer = read::<u64>(base, offset).unwrap_or(0);
        Address(pointer as *const u8)
    };
    let credentials = pointer(task, TASK_CRED.load());
    let same = |offsets: [u32; 3]| {
        let [real, effective, saved] =
            offsets.map(|offset| read::<u32>(credentials, offset).unwrap_or(Sight::NOBODY));
        if real == effective && real == saved {
            real
        } else {
            Sight::NOBODY
        }
    };
    let namespace = pointer(credentials, CRED_USER_NS.load());
    let level = read(namespace, USER_NS_LEVEL.load()).unwrap_or(u32::MAX);
    let memory = pointer(task, TASK_MM.load());
    let flags = read::<u64>(memory, MM_FLAGS.load()).unwrap_or(0);
    let of_memory = pointer(memory, MM_USER_NS.load());
    let outermost = outermost(namespace.0 as u64, level);
    Sight {
        permitted: read(credentials, CRED_PERMITTED.load()).unwrap_or(u64::MAX),
        uid: same([CRED_UID.load(), CRED_EUID.load(), CRED_SUID.load()]),
        gid: same([CRED_GID.load(), CRED_EGID.load(), CRED_SGID.load()]),
        is_dumpable: u32::from(is_dumpable(flags)),
        namespace_level: level,
        memory_level: read(of_memory, USER_NS_LEVEL.load()).unwrap_or(0),
        namespace_owner: (outermost & 0xffff_ffff) as u32,
        namespace_id: (outermost >> 32) as u32,
        reserved: 0,
    }
}

/// Returns the owner of the user namespace right within the initial one that the one at this
/// address, of this level, is, or is in, and in the upper half the inode of that one;
/// [`Sight::NOBODY`] and 0 where it is the initial one, or this cannot be read. A function of its
/// own, so that the verifier walks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn outermost(namespace: u64, level: u32) -> u64 {
    let (mut namespace, mut level) = (Address(namespace as *const u8), level);
    for _ in 1..DEEPEST {
        if level <= 1 {
            break;
        }
        let parent = read::<u64>(namespace, USER_NS_PARENT.load()).unwrap_or(0);
        namespace = Address(parent as *const u8);
        level -= 1;
    }
    if level != 1 {
        return Sight::NOBODY.into();
    }
    let owner = read(namespace, USER_NS_OWNER.load()).unwrap_or(Sight::NOBODY);
    let id = read::<u32>(namespace, USER_NS_ID.load()).unwrap_or(0);
    u64::from(owner) | u64::from(id) << 32
}

/// Tells whether memory with these `mm_struct::flags` may be dumped by its user.
#[inline(always)]
pub fn is_dumpable(flags: u64) -> bool {
    flags & DUMPABLE_BITS == DUMPABLE
}

/// Reads a field of the struct at `base`, where the kernel has it.
///
/// By a helper, because these are behind several pointers, and of sizes that differ between
/// kernels. For each pointer that a program reads from a task without a helper, the verifier
/// searches all types of the kernel, on each path to it.
#[inline(always)]
pub fn read<T>(base: Address, offset: u32) -> Option<T> {
    if offset == NO_OFFSET {
        return None;
    }
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(base.0.wrapping_add(offset as usize).cast()) }.ok()
}
