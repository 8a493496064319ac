//! Stacks of threads that are blocked for long.
//!
//! When a thread blocks, it is not known for how long, and when it gets a CPU again its stack
//! cannot be taken from there. So the stack is taken as the thread leaves its CPU, stays here, and
//! is recorded when the thread comes back after more than the limit.

use core::mem::offset_of;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, LruHashMap};

use tracer_common::kernel::{BlockedStack, MOST_FRAMES};

use crate::maps;
use crate::offsets::{OFF_CPU, OFF_CPU_HIGH, OFF_CPU_LOW};
use crate::pid::Pid;
use crate::python;
use crate::stack;
use crate::subject::Subject;
use crate::unwind;

/// By thread. The agent sets the number of entries, or leaves it at 1 where they are not asked for.
/// One that finds no space costs an older one its entry.
#[map]
static BLOCKED: LruHashMap<u32, BlockedStack> = LruHashMap::with_max_entries(1, 0);

/// Empty entry that new ones are made from: it is too large for a program's own memory.
#[map]
static BLOCKED_EMPTY: Array<BlockedStack> = Array::with_max_entries(1, 0);

/// Tells whether they are asked for: known when the program is loaded.
#[inline(always)]
pub fn is_asked() -> bool {
    OFF_CPU.load() != 0
}

/// Takes the stack of the running thread, which blocks.
#[inline(always)]
pub fn blocks(ctx: &impl EbpfContext, thread: &impl Subject) {
    let Pid(tid) = thread.tid();
    let Some(entry) = entry(tid) else {
        return;
    };
    let at = |offset| entry.cast::<u8>().wrapping_add(offset);
    let kernel_at = at(offset_of!(BlockedStack, kernel));
    let kernel = stack::kernel_frames_of_blocked::<MOST_FRAMES>(ctx, kernel_at);
    let user = if unwind::is_asked() {
        unwind::hold(thread);
        0
    } else {
        stack::user_frames::<MOST_FRAMES>(ctx, at(offset_of!(BlockedStack, user)))
    };
    if python::is_asked() {
        python::hold(thread);
    }
    let sizes = at(offset_of!(BlockedStack, kernel_bytes)).cast::<[i32; 2]>();
    // SAFETY: inside the entry, which is the running thread's.
    unsafe { sizes.write_volatile([kernel, user]) };
    // SAFETY: the helper takes no argument and only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: as above.
    unsafe {
        at(offset_of!(BlockedStack, since_ns))
            .cast::<u64>()
            .write_volatile(now)
    };
}

#[inline(always)]
fn entry(tid: u32) -> Option<*mut BlockedStack> {
    if let Some(entry) = BLOCKED.get_ptr_mut(tid) {
        return Some(entry);
    }
    let empty = BLOCKED_EMPTY.get(0)?;
    BLOCKED.insert(tid, empty, 0).ok()?;
    BLOCKED.get_ptr_mut(tid)
}

/// Records the stack that `thread` had when it blocked, which gets a CPU now, where that was for
/// longer than the limit.
#[inline(always)]
pub fn comes(thread: &impl Subject) {
    let Pid(tid) = thread.tid();
    let Some(entry) = BLOCKED.get_ptr_mut(tid) else {
        return;
    };
    let since_at = entry
        .cast::<u8>()
        .wrapping_add(offset_of!(BlockedStack, since_ns));
    let since_at = since_at.cast::<u64>();
    // SAFETY: inside the entry; the thread runs on no other CPU.
    let since = unsafe { since_at.read_volatile() };
    if since == 0 {
        return;
    }
    // SAFETY: as above.
    unsafe { since_at.write_volatile(0) };
    if since < maps::recorded_since() {
        // It may have had a CPU in between.
        return;
    }
    // SAFETY: the helper takes no argument and only reads the clock.
    let off_cpu_ns = unsafe { bpf_ktime_get_ns() }.saturating_sub(since);
    let limit = u64::from(OFF_CPU_HIGH.load()) << 32 | u64::from(OFF_CPU_LOW.load());
    if off_cpu_ns <= limit {
        return;
    }
    if python::is_asked() {
        python::record_blocked(thread);
    }
    if unwind::is_asked() {
        unwind::record_blocked(thread, entry, off_cpu_ns);
    } else {
        stack::record_blocked(thread, entry, off_cpu_ns);
    }
}

/// Forgets the stack of the thread that had the tid of a new thread before.
#[inline(always)]
pub fn forget(Pid(tid): Pid) {
    if is_asked() {
        let _ = BLOCKED.remove(tid);
    }
    python::forget(Pid(tid));
}
