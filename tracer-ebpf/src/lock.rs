//! Waits for locks: the memory around the futex that a thread begins to wait for, as it leaves its
//! CPU. Layouts of locks, which say who has it, are for user space.
//!
//! A program of its own, which is attached before that of the switch and only where this is asked
//! for. The thread that leaves is the running one, whose memory is at hand; what is not in memory
//! is not waited for, and left out. So is what was read too late after the event's time, as where
//! a virtual machine was stopped between both: other threads have the lock by then.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::bpf_probe_read_user;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::{NO_OFFSET, SWITCH_STATE_SECOND};
use tracer_common::kernel::{LockWaitData, Record, lock_memory, traced};

use crate::context::{Tracepoint, at_tracepoint};
use crate::cpu::this_cpu;
use crate::guard;
use crate::maps;
use crate::offsets::{FUTEX, FUTEX_WAIT, HAS_TASK_PT_REGS, REGS_CALL, SWITCH_ARGUMENTS};
use crate::record::{Wake, record_by};
use crate::sched::{call_of, state_left_in};
use crate::subject::Subject;
use crate::task::Task;
use crate::thread_context;
use crate::user::Registers;

at_tracepoint!("sched_switch": sched_switch_locks, sched_switch_locks_raw => switch);

/// `TASK_INTERRUPTIBLE`, as a thread waits for a futex.
const INTERRUPTIBLE: u32 = 1;

/// Longest time from the event's until its memory is read.
const WITHIN_NS: u64 = 10_000;

/// Bit of a call of the x32 kind.
const X32: u32 = 1 << 30;

/// Runs in the scheduler, before the thread that leaves has left.
#[inline(always)]
fn switch<C: Tracepoint>(ctx: &C) {
    if HAS_TASK_PT_REGS.load() == 0 || REGS_CALL.load() == NO_OFFSET || ctx.flag::<0>() {
        return;
    }
    let prev = if SWITCH_ARGUMENTS.load() == SWITCH_STATE_SECOND {
        // SAFETY: the arguments are `preempt, prev_state, prev, next`.
        unsafe { Task::<C>::argument::<2>(ctx) }
    } else {
        // SAFETY: the arguments begin with `preempt, prev`.
        unsafe { Task::<C>::argument::<1>(ctx) }
    };
    let state = maps::traced(prev.pid());
    if state & traced::TRACED == 0
        || !maps::is_wanted(EventTypeId::LOCK_WAIT)
        || state_left_in(ctx, &prev) & INTERRUPTIBLE == 0
        || prev.is_of_kernel()
    {
        return;
    }
    let call = call_of(&prev, this_cpu());
    let is_futex = call == FUTEX.load() || call == FUTEX_WAIT.load();
    if !is_futex || call & X32 != 0 || prev.is_in_compat_call() {
        return;
    }
    // SAFETY: it is the running task's `struct pt_regs *`.
    let registers: Registers<C> = unsafe { Registers::at(C::registers(prev.address())) };
    let Some(wait) = Wait::from_arguments(call, &registers.arguments(false)) else {
        return;
    };
    if !guard::withholds(state, &prev, 1) {
        thread_context::note(&prev);
        wait.record(&prev);
    }
}

/// A wait, as the arguments of the call say it.
struct Wait {
    address: u64,
    operation: u32,
    value: u32,
    is_timed: bool,
}

impl Wait {
    /// Reads the arguments; `None` where the call does not wait.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "operation and value are ints"
    )]
    fn from_arguments(call: u32, arguments: &[u64; 6]) -> Option<Self> {
        /// Operations of `futex()` that wait: `FUTEX_WAIT`, `LOCK_PI`, `WAIT_BITSET`,
        /// `WAIT_REQUEUE_PI`, `LOCK_PI2`.
        const WAITING: u32 = 1 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 13;
        const WAIT_BITSET: u32 = 9;
        const PRIVATE: u32 = 128;
        /// Operations, without flags.
        const OPERATION: u32 = 127;
        if call == FUTEX_WAIT.load() {
            return Some(Self {
                address: arguments[0],
                operation: WAIT_BITSET | arguments[3] as u32 & PRIVATE,
                value: arguments[1] as u32,
                is_timed: arguments[4] != 0,
            });
        }
        let operation = arguments[1] as u32;
        let code = operation & OPERATION;
        if code > 13 || WAITING >> (code & 31) & 1 == 0 {
            return None;
        }
        Some(Self {
            address: arguments[0],
            operation,
            value: arguments[2] as u32,
            is_timed: arguments[3] != 0,
        })
    }

    #[inline(always)]
    fn record<C: Tracepoint>(&self, thread: &Task<C>) {
        let own_tid = thread.ns_tid();
        let (type_id, wake) = (EventTypeId::LOCK_WAIT, Wake::InTime);
        record_by::<Record<LockWaitData>>(thread, type_id, wake, |space, header| {
            *space = MaybeUninit::zeroed();
            // SAFETY: zeroed just now, and every bit pattern is a valid record.
            let record = unsafe { space.assume_init_mut() };
            record.header = header;
            let data = &mut record.data;
            data.address = self.address;
            data.operation = self.operation;
            data.value = self.value;
            data.timed = u32::from(self.is_timed);
            data.own_tid = own_tid;
            let from = self.address.wrapping_sub(lock_memory::BEFORE);
            let parts = read_memory(&raw mut data.memory, from);
            // SAFETY: it only reads the clock.
            let now = unsafe { bpf_ktime_get_ns() };
            if now.wrapping_sub(record.header.time_ns) <= WITHIN_NS {
                data.parts = parts;
            } else {
                data.memory = Memory::default();
            }
        });
    }
}

/// Memory around a futex.
type Memory = [u64; lock_memory::PARTS * lock_memory::PART / size_of::<u64>()];

/// Reads the memory from an address on; the bits of its parts, without those that could not be
/// read.
#[inline(always)]
fn read_memory(memory: *mut Memory, from: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "48")]
    const BYTES: u32 = size_of::<Memory>() as u32;
    const ALL: u32 = (1 << lock_memory::PARTS) - 1;
    let memory = memory.cast::<u8>();
    // SAFETY: it is as long as that, and the helper checks the address.
    if unsafe { bpf_probe_read_user(memory.cast(), BYTES, from as *const _) } == 0 {
        return ALL;
    }
    read_part(memory, from, 0) | read_part(memory, from, 1) | read_part(memory, from, 2)
}

/// Reads a part of the memory; its bit, or 0 where it could not be read.
#[inline(always)]
fn read_part(memory: *mut u8, from: u64, part: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "sixteen")]
    const BYTES: u32 = lock_memory::PART as u32;
    let at = part * lock_memory::PART;
    let from = from.wrapping_add(at as u64) as *const core::ffi::c_void;
    // SAFETY: there is space for each part; the helper checks the address, and leaves zeros where
    // it cannot read.
    let result = unsafe { bpf_probe_read_user(memory.wrapping_add(at).cast(), BYTES, from) };
    u32::from(result == 0) << part
}
