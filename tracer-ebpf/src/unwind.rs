//! Stacks whose part of the program is found by the agent, from what is copied here: the registers
//! of the thread and the memory at its stack pointer.
//!
//! Without frame pointers only a program's file says where its functions are called from, in a
//! language of its own (`.eh_frame`). The agent reads that; an eBPF program could not.

use core::mem::offset_of;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_probe_read_kernel as read_kernel_bytes, bpf_probe_read_user,
    bpf_task_pt_regs,
};
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, LruHashMap};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    BLOCKED_BYTES, BlockedMemory, BlockedStack, COPIED_BYTES, MOST_FRAMES, REGISTERS, RecordHeader,
    UNWIND_RECORD, UnwindRecord,
};

use crate::cpu::this_cpu;
use crate::gathered::bounded;
use crate::maps::count_ring_full;
use crate::offsets::{REGS_STACK, UNWIND_BYTES, UNWIND_REGISTERS_BYTES};
use crate::pid::Pid;
use crate::record::{header, reserve, submit_flags};
use crate::stack::{self, Reason};
use crate::subject::Subject;

/// By thread. The agent sets the number of entries, or leaves it at 1 where they are not asked for.
/// One that finds no space costs an older one its entry.
#[map]
static BLOCKED_MEMORY: LruHashMap<u32, BlockedMemory> = LruHashMap::with_max_entries(1, 0);

/// Empty entry that new ones are made from.
#[map]
static BLOCKED_MEMORY_EMPTY: Array<BlockedMemory> = Array::with_max_entries(1, 0);

/// Where not all can be read, it is read in steps of so many bytes.
const STEP: usize = 512;

const SMALL: usize = COPIED_BYTES[0];
const MIDDLE: usize = COPIED_BYTES[1];
const LARGE: usize = COPIED_BYTES[2];

/// Tells whether the copies are asked for: known when the program is loaded.
#[inline(always)]
pub fn is_asked() -> bool {
    UNWIND_BYTES.load() != 0
}

/// Records where the running thread is in the kernel, and what its program's part is found from.
#[inline(always)]
pub fn take(ctx: &impl EbpfContext, subject: &impl Subject, reason: &Reason) {
    let bytes = UNWIND_BYTES.load() as usize;
    if bytes <= SMALL {
        take_in::<SMALL>(ctx, subject, reason);
    } else if bytes <= MIDDLE {
        take_in::<MIDDLE>(ctx, subject, reason);
    } else {
        take_in::<LARGE>(ctx, subject, reason);
    }
}

#[inline(always)]
fn take_in<const N: usize>(ctx: &impl EbpfContext, subject: &impl Subject, reason: &Reason) {
    let cpu = this_cpu();
    let Some((ring, mut space)) = reserve::<UnwindRecord<N>>(cpu) else {
        count_ring_full(cpu, 1);
        return;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    let record = space.as_mut_ptr().cast::<u8>();
    let header = header(subject, EventTypeId(u32::from(UNWIND_RECORD)), time_ns, cpu);
    // SAFETY: it is where the record begins.
    unsafe { record.cast::<RecordHeader>().write(header) };
    let kernel_at = record.wrapping_add(offset_of!(UnwindRecord<N>, kernel));
    let kernel_bytes = stack::kernel_frames::<MOST_FRAMES>(ctx, kernel_at);
    let registers_at = record.wrapping_add(offset_of!(UnwindRecord<N>, registers));
    let memory_at = record.wrapping_add(offset_of!(UnwindRecord<N>, memory));
    let memory_bytes = copy::<N>(registers_at, memory_at);
    stack::write_rest(record, reason, kernel_bytes, memory_bytes, 0);
    space.submit(submit_flags(ring, time_ns));
}

/// Copies the registers and the memory of the running thread: how many bytes of that were read, or
/// less than 0.
#[inline(always)]
fn copy<const N: usize>(registers: *mut u8, memory: *mut u8) -> i32 {
    match copy_registers(registers) {
        None => -1,
        // A thread of the kernel has no program.
        Some(0) => 0,
        Some(stack) => copy_memory::<N>(memory, stack),
    }
}

/// Copies the registers of the running thread, and returns its stack pointer.
#[inline(always)]
fn copy_registers(registers: *mut u8) -> Option<u64> {
    // SAFETY: the helper takes no argument.
    let task = unsafe { bpf_get_current_task_btf() };
    // SAFETY: the helper takes the running task.
    let from = unsafe { bpf_task_pt_regs(task) } as *const u8;
    #[expect(clippy::cast_possible_truncation, reason = "some hundred")]
    let bytes = UNWIND_REGISTERS_BYTES.load().min((REGISTERS * 8) as u32);
    // SAFETY: the helper writes that many bytes, for which there is space, and checks the address.
    let failed = unsafe { read_kernel_bytes(registers.cast(), bytes, from.cast()) };
    if failed != 0 {
        return None;
    }
    let at = from.wrapping_add(REGS_STACK.load() as usize).cast::<u64>();
    // SAFETY: the helper checks the address.
    Some(unsafe { bpf_probe_read_kernel(at) }.unwrap_or(0))
}

/// Returns how many bytes are wanted where there is space for `N`.
#[inline(always)]
fn wanted<const N: usize>() -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "some thousand")]
    let space = N as u32;
    UNWIND_BYTES.load().min(space)
}

/// Copies the memory at the stack pointer of the running thread: how many bytes were read.
#[inline(always)]
fn copy_memory<const N: usize>(memory: *mut u8, stack: u64) -> i32 {
    let wanted = wanted::<N>();
    // SAFETY: the helper writes that many bytes, for which there is space, and checks the address.
    let failed = unsafe { bpf_probe_read_user(memory.cast(), wanted, stack as *const _) };
    if failed == 0 {
        return wanted.cast_signed();
    }
    // The stack begins before that, or some of it is not in memory.
    let mut read = 0_usize;
    while read + STEP <= N {
        let to = memory.wrapping_add(read).cast();
        let address = stack.wrapping_add(read as u64) as *const _;
        #[expect(clippy::cast_possible_truncation, reason = "some hundred")]
        let step = STEP as u32;
        // SAFETY: as above.
        if read + STEP > wanted as usize || unsafe { bpf_probe_read_user(to, step, address) } != 0 {
            break;
        }
        read += STEP;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "some thousand"
    )]
    let read = read as i32;
    read
}

/// How often the end of a thread's stack is believed before it is looked for again.
const MOST_BELIEFS: u32 = 64;

/// Holds what the stack of the running thread, which blocks, is found from.
#[inline(always)]
pub fn hold(thread: &impl Subject) {
    let Pid(tid) = thread.tid();
    let Some(entry) = entry(tid) else {
        return;
    };
    let at = |offset| entry.cast::<u8>().wrapping_add(offset);
    let memory_at = at(offset_of!(BlockedMemory, memory));
    let bytes = match copy_registers(at(offset_of!(BlockedMemory, registers))) {
        None => -1,
        // A thread of the kernel has no program.
        Some(0) => 0,
        Some(stack) => match copy_to_end(entry, stack) {
            0 => {
                let bytes = copy_memory::<BLOCKED_BYTES>(memory_at, stack);
                let is_whole = bytes == wanted::<BLOCKED_BYTES>().cast_signed();
                set_end(
                    entry,
                    if is_whole {
                        0
                    } else {
                        stack.wrapping_add(u64::from(bytes.cast_unsigned()))
                    },
                );
                bytes
            }
            bytes => bytes,
        },
    };
    let bytes_at = at(offset_of!(BlockedMemory, memory_bytes)).cast::<i32>();
    // SAFETY: inside the entry, which is the running thread's.
    unsafe { bytes_at.write_volatile(bytes) };
}

/// Copies the memory at the stack pointer up to where nothing could be read before, where that is
/// less than is wanted: how many bytes were read. What cannot be read is a fault each time, which
/// costs more than all else here; a thread that blocks often does so at a few depths of one stack.
#[inline(always)]
fn copy_to_end(entry: *mut BlockedMemory, stack: u64) -> i32 {
    const MOST: u64 = BLOCKED_BYTES as u64 - 1;
    let at = |offset| entry.cast::<u8>().wrapping_add(offset);
    let beliefs_at = at(offset_of!(BlockedMemory, beliefs)).cast::<u32>();
    // SAFETY: inside the entry, which is the running thread's.
    let beliefs = unsafe { beliefs_at.read_volatile() };
    // SAFETY: as above.
    let end = unsafe {
        at(offset_of!(BlockedMemory, end))
            .cast::<u64>()
            .read_volatile()
    };
    let bytes = end.wrapping_sub(stack);
    if bytes == 0 || bytes >= u64::from(wanted::<BLOCKED_BYTES>()) || beliefs >= MOST_BELIEFS {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "some thousand")]
    let bytes = bounded(bytes, MOST) as u32;
    let memory_at = at(offset_of!(BlockedMemory, memory));
    // SAFETY: the helper writes that many bytes, for which there is space, and checks the address.
    if unsafe { bpf_probe_read_user(memory_at.cast(), bytes, stack as *const _) } != 0 {
        return 0;
    }
    // SAFETY: as above.
    unsafe { beliefs_at.write_volatile(beliefs + 1) };
    bytes.cast_signed()
}

#[inline(always)]
fn set_end(entry: *mut BlockedMemory, end: u64) {
    let at = |offset| entry.cast::<u8>().wrapping_add(offset);
    // SAFETY: inside the entry, which is the running thread's.
    unsafe {
        at(offset_of!(BlockedMemory, end))
            .cast::<u64>()
            .write_volatile(end)
    };
    // SAFETY: as above.
    unsafe {
        at(offset_of!(BlockedMemory, beliefs))
            .cast::<u32>()
            .write_volatile(0)
    };
}

#[inline(always)]
fn entry(tid: u32) -> Option<*mut BlockedMemory> {
    if let Some(entry) = BLOCKED_MEMORY.get_ptr_mut(tid) {
        return Some(entry);
    }
    let empty = BLOCKED_MEMORY_EMPTY.get(0)?;
    BLOCKED_MEMORY.insert(tid, empty, 0).ok()?;
    BLOCKED_MEMORY.get_ptr_mut(tid)
}

/// Records what was held of `subject`, which has been blocked for `off_cpu_ns` and gets a CPU now,
/// with where it was in the kernel.
#[inline(always)]
pub fn record_blocked(subject: &impl Subject, taken: *const BlockedStack, off_cpu_ns: u64) {
    if UNWIND_BYTES.load() as usize <= SMALL {
        copy_in::<SMALL>(subject, taken.cast(), off_cpu_ns);
    } else {
        copy_in::<BLOCKED_BYTES>(subject, taken.cast(), off_cpu_ns);
    }
}

#[inline(always)]
fn copy_in<const N: usize>(subject: &impl Subject, taken: *const u8, off_cpu_ns: u64) {
    let Pid(tid) = subject.tid();
    let held = BLOCKED_MEMORY.get_ptr_mut(tid);
    let cpu = this_cpu();
    let Some((ring, mut space)) = reserve::<UnwindRecord<N>>(cpu) else {
        count_ring_full(cpu, 1);
        return;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    let record = space.as_mut_ptr().cast::<u8>();
    let header = header(subject, EventTypeId(u32::from(UNWIND_RECORD)), time_ns, cpu);
    // SAFETY: it is where the record begins.
    unsafe { record.cast::<RecordHeader>().write(header) };
    let bytes_at = taken.wrapping_add(offset_of!(BlockedStack, kernel_bytes));
    // SAFETY: inside the entry of a map.
    let kernel_bytes = unsafe { bytes_at.cast::<i32>().read_volatile() };
    let kernel_at = record.wrapping_add(offset_of!(UnwindRecord<N>, kernel));
    let from = taken.wrapping_add(offset_of!(BlockedStack, kernel));
    #[expect(clippy::cast_possible_truncation, reason = "a thousand")]
    let bytes = (MOST_FRAMES * 8) as u32;
    // SAFETY: the helper writes that many bytes, which the record has, and checks the address.
    unsafe { read_kernel_bytes(kernel_at.cast(), bytes, from.cast()) };
    let memory_bytes = match held {
        // Another thread has its entry.
        None => -1,
        Some(held) => {
            let held = held.cast::<u8>();
            let registers_at = record.wrapping_add(offset_of!(UnwindRecord<N>, registers));
            let from = held.wrapping_add(offset_of!(BlockedMemory, registers));
            #[expect(clippy::cast_possible_truncation, reason = "some thousand")]
            let bytes = (REGISTERS * 8 + N) as u32;
            // SAFETY: as above: the memory is right behind the registers, in both.
            unsafe { read_kernel_bytes(registers_at.cast(), bytes, from.cast()) };
            let bytes_at = held.wrapping_add(offset_of!(BlockedMemory, memory_bytes));
            // SAFETY: inside the entry of a map.
            unsafe { bytes_at.cast::<i32>().read_volatile() }
        }
    };
    let reason = Reason::event(EventTypeId::SWITCH_IN.0);
    stack::write_rest(record, &reason, kernel_bytes, memory_bytes, off_cpu_ns);
    space.submit(submit_flags(ring, time_ns));
}
