//! Guarded processes ([`traced::GUARDED`]): those whose events are recorded only while `ptrace` may
//! look into them.
//!
//! The agent checks once whether a user may look into a process. The eBPF programs check it again
//! before each event, since the answer changes without an exec: a process forbids dumps of its
//! memory (`PR_SET_DUMPABLE`), changes its credentials, or makes a user namespace. A process may be
//! looked into while it is *plain*:
//!
//! - its memory may be dumped by its user (`mm_struct::flags`);
//! - its real, effective and saved user are one, and its groups too;
//! - it has no capability;
//! - it is in the first user namespace.
//!
//! Where [`traced::OWNED`] is set, it may also be looked into while it is *owned*:
//!
//! - it is in another user namespace;
//! - its memory may be dumped, or counts in such a namespace too (`mm_struct::user_ns`).
//!
//! In a user namespace that a user has made, this user may do everything from the namespace in
//! which it was made, and so in all namespaces within: whichever users, groups and capabilities the
//! processes there have (`cap_capable`).
//!
//! Dumpability alone is not enough. The kernel takes it away where a process changes its effective
//! user or group or gains capabilities (`commit_creds`), but the process may then set it again by
//! `prctl`. And the kernel does not take it away where a process makes a user namespace, in which
//! the process has every capability.
//!
//! The programs do not check which user a process belongs to: without an exec, a plain process
//! keeps its user. To change the user it needs a capability, and it gets one only in a user
//! namespace of its user's: one that it makes, or one that its user has made and it enters
//! (`userns_install`). From there it gets into namespaces within, and never out again, by an exec
//! neither: the users and capabilities of a file count only as the namespace has them. So the
//! namespace right within the first one stays the same, and has the same owner. The memory of a
//! process counts in the namespace of its exec, or in one around that which may read the file:
//! these are on the way from its namespace to the first one.
//!
//! In the first namespace an exec may change the user. The programs always record an exec, with the
//! properties by which the agent judges ([`sight`](crate::sight)).
//!
//! They read the credentials from `real_cred`, as `ptrace` does: file systems change `cred` for the
//! time of a call. They read them anew for each event. The address of credentials that were judged
//! before proves nothing: the kernel reuses addresses, and a process can make it do so.
//!
//! # Order of an exec
//!
//! The kernel takes these steps (`begin_new_exec`, `load_elf_binary`, `exec_binprm`), and the
//! programs record some of them:
//!
//! 1. The kernel kills the other threads. Their ends are events of the old program, and are judged
//!    by its credentials and its memory.
//! 2. The memory is replaced. The new one is as dumpable as the old one.
//! 3. The memory becomes not dumpable where the user may not read the file, or where the old
//!    program's effective user or group is not its real one; else it becomes dumpable, whatever it
//!    was before.
//! 4. The thread is renamed. The rename is recorded, with
//!    [`EXEC_BEGINS`](tracer_common::kernel::RecordHeader::EXEC_BEGINS), also where the process may
//!    not be looked into. Up to here events show nothing of the new program but its name, which
//!    the old program chose.
//! 5. The new credentials are in force (`commit_creds`): from now on events are judged by them.
//!    Where the effective user or group changes, or capabilities are gained, the memory becomes not
//!    dumpable.
//! 6. The program is mapped. Events of that time, such as page faults, are judged by 3 and 5; the
//!    agent holds them back until it has seen 7.
//! 7. The exec is recorded in any case, with the properties by which the agent judges.

use aya_ebpf::programs::RawTracePointContext;

use tracer_common::kernel::globals::{NO_OFFSET, guards};
use tracer_common::kernel::{RecordHeader, traced};

use crate::context::Tracepoint;
use crate::cpu::this_cpu;
use crate::maps;
use crate::offsets::{
    CRED_EGID, CRED_EUID, CRED_GID, CRED_PERMITTED, CRED_SGID, CRED_SUID, CRED_UID, CRED_USER_NS,
    EXIT_SAYS_LAST, GUARDS, MM_FLAGS, MM_USER_NS, TASK_CRED, TASK_MM, USER_NS_LEVEL, WORD_TYPE,
};
use crate::pid::Pid;
use crate::sight::is_dumpable;
use crate::subject::Subject;
use crate::task::{Address, Task, field};

/// Tells whether a process with this [`state`](tracer_common::kernel::traced) is guarded.
#[inline(always)]
pub fn is_guarded(state: u8) -> bool {
    GUARDS.load() != 0 && state & traced::GUARDED != 0
}

/// Tells whether events of `task`, whose process has this [`state`](tracer_common::kernel::traced),
/// must not be recorded; if so, counts `events` of them as withheld.
#[inline(always)]
pub fn withholds<C: Tracepoint>(state: u8, task: &Task<C>, events: u64) -> bool {
    let is_hidden = hides(state, task);
    if is_hidden {
        count(task.pid(), events);
    }
    is_hidden
}

/// Tells, as [`withholds`] does, whether an event that shows which processes exist must not be
/// recorded. Recordings beside each other all see such an event; only one of them counts it.
#[inline(always)]
pub fn withholds_life<C: Tracepoint>(state: u8, task: &Task<C>) -> bool {
    withholds(state, task, u64::from(GUARDS.load() == guards::COUNTS_LIFE))
}

/// Returns the bit that marks a record, in its header, as that of a withheld event, which is for
/// the agent alone; 0 for any other event.
#[inline(always)]
pub const fn mark(is_withheld: bool) -> u32 {
    if is_withheld {
        RecordHeader::WITHHELD
    } else {
        0
    }
}

/// Tells whether events of `task`, whose process has this [`state`](tracer_common::kernel::traced),
/// must not be recorded.
#[inline(always)]
pub fn hides<C: Tracepoint>(state: u8, task: &Task<C>) -> bool {
    is_guarded(state) && !is_visible(state, task)
}

/// Tells whether events of process `pid`, with this state, must not be recorded, where the caller
/// has no thread of the process to judge: the last judgement counts.
#[inline(always)]
pub fn hid(state: u8, pid: Pid) -> bool {
    is_guarded(state) && !maps::was_visible(pid)
}

/// Counts events of process `pid` that must not be recorded.
#[inline(always)]
pub fn count(pid: Pid, events: u64) {
    maps::count_withheld(this_cpu(), pid, events);
}

/// Judges a task of a process with this state.
#[inline(always)]
pub fn is_visible<C: Tracepoint>(state: u8, task: &Task<C>) -> bool {
    if C::IS_DIRECT {
        judge(state, task)
    } else {
        judge_by_helper(task.address() as u64, state.into()) != 0
    }
}

/// Judges the task at this address, whose process has this state: 1 where it can be looked into. A
/// function of its own, so that the verifier walks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn judge_by_helper(task: u64, state: u32) -> u32 {
    // SAFETY: it is a `struct task_struct *`. Read by the helper, which checks the address.
    let task: Task<RawTracePointContext> = unsafe { Task::at(task as *const u8) };
    let [state, ..] = state.to_le_bytes();
    u32::from(judge(state, &task))
}

/// Judges a task as [`is_visible`] does, within the program that asks.
#[inline(always)]
pub fn judge<C: Tracepoint>(state: u8, task: &Task<C>) -> bool {
    if TASK_MM.load() == NO_OFFSET || MM_FLAGS.load() == NO_OFFSET {
        return false;
    }
    let standing = standing(task);
    let is_owned = standing == Standing::WITHIN && state & traced::OWNED != 0;
    let may_be_seen = standing == Standing::PLAIN || is_owned;
    let memory = task.memory();
    let pid = task.pid();
    if memory.0.is_null() {
        return may_be_seen && maps::was_visible(pid);
    }
    // SAFETY: it is a `struct mm_struct *`, and the flags a word of it.
    let flags: u64 = unsafe { field::<C, _>(memory.0, MM_FLAGS.load()) };
    let is_shown = is_dumpable(flags) || is_owned && counts_within::<C>(memory.0);
    // A task on another CPU may give up its memory meanwhile, and another process may get it.
    let is_visible = may_be_seen && is_shown && task.memory().0 == memory.0;
    // Where a thread still has its memory when it reports its end, `note` at that end is enough.
    if EXIT_SAYS_LAST.load() == 0 {
        maps::set_visible(pid, is_visible);
    }
    is_visible
}

/// Judges a task of a process with this state, and notes the result for the time when the task's
/// memory is gone.
#[inline(always)]
pub fn note<C: Tracepoint>(state: u8, task: &Task<C>) {
    if is_guarded(state) {
        maps::set_visible(task.pid(), is_visible(state, task));
    }
}

/// Credentials of a task, as far as they say who may look into it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Standing(u8);

impl Standing {
    /// In the first user namespace, with several users or groups, or with capabilities; or not
    /// known.
    const OTHER: Self = Self(0);
    /// In the first user namespace, with one user and one group, and without capabilities.
    const PLAIN: Self = Self(1);
    /// In another user namespace.
    const WITHIN: Self = Self(2);
}

/// Tells whether this memory counts in another user namespace than the first one.
#[inline(always)]
fn counts_within<C: Tracepoint>(memory: *const u8) -> bool {
    if MM_USER_NS.load() == NO_OFFSET {
        return false;
    }
    // SAFETY: it is a `struct mm_struct *`, and the namespace a pointer in it.
    let namespace: Address = unsafe { field::<C, _>(memory, MM_USER_NS.load()) };
    !namespace.0.is_null() && level::<C>(namespace) != 0
}

/// Returns how deep a user namespace is, whose address is not null.
#[inline(always)]
fn level<C: Tracepoint>(namespace: Address) -> u32 {
    // SAFETY: it is a `struct user_namespace *`, and the level an int of it.
    unsafe { field::<C, _>(namespace.0, USER_NS_LEVEL.load()) }
}

/// Returns how a task stands by its credentials; `OTHER` where the kernel does not say where one of
/// these is.
#[inline(always)]
fn standing<C: Tracepoint>(task: &Task<C>) -> Standing {
    let needed = [
        TASK_CRED.load(),
        CRED_UID.load(),
        CRED_EUID.load(),
        CRED_SUID.load(),
        CRED_GID.load(),
        CRED_EGID.load(),
        CRED_SGID.load(),
        CRED_PERMITTED.load(),
        CRED_USER_NS.load(),
        USER_NS_LEVEL.load(),
    ];
    if needed.contains(&NO_OFFSET) {
        return Standing::OTHER;
    }
    let credentials = task.credentials().0;
    if credentials.is_null() {
        return Standing::OTHER;
    }
    // SAFETY: it is a `struct cred *`, and the capabilities are 64 bits of it.
    let permitted: u64 = unsafe { field::<C, _>(credentials, CRED_PERMITTED.load()) };
    // SAFETY: as above, and the namespace a pointer in it.
    let namespace: Address = unsafe { field::<C, _>(credentials, CRED_USER_NS.load()) };
    if namespace.0.is_null() {
        return Standing::OTHER;
    }
    let is_plain = permitted | differences::<C>(credentials) == 0;
    if level::<C>(namespace) != 0 {
        Standing::WITHIN
    } else if is_plain {
        Standing::PLAIN
    } else {
        Standing::OTHER
    }
}

/// Returns the bits in which the users of these credentials differ, and their groups.
#[inline(always)]
fn differences<C: Tracepoint>(credentials: *const u8) -> u64 {
    let users = [CRED_UID.load(), CRED_EUID.load(), CRED_SUID.load()];
    let groups = [CRED_GID.load(), CRED_EGID.load(), CRED_SGID.load()];
    // Where each group is behind its user, as in every kernel so far, one read gets both: reading
    // takes most of the time here.
    let are_beside = users[0].wrapping_add(4) == groups[0]
        && users[1].wrapping_add(4) == groups[1]
        && users[2].wrapping_add(4) == groups[2];
    if are_beside && (!C::IS_DIRECT || WORD_TYPE.load() != 0) {
        let both = |offset: u32| {
            let at = C::readable(credentials.wrapping_add(offset as usize));
            // SAFETY: a user and the group behind it, in a `struct cred`.
            unsafe { C::read(at.cast::<u64>()) }
        };
        let real = both(users[0]);
        return (real ^ both(users[1])) | (real ^ both(users[2]));
    }
    // SAFETY: it is a `struct cred *`, and each of these ids 32 bits of it.
    let id = |offset| unsafe { field::<C, u32>(credentials, offset) };
    let (user, group) = (id(users[0]), id(groups[0]));
    let differ = (user ^ id(users[1]))
        | (user ^ id(users[2]))
        | (group ^ id(groups[1]))
        | (group ^ id(groups[2]));
    differ.into()
}
