//! The first look at threads when a trace begins: each traced one is looked at when the agent asks.
//!
//! The clock is read between two looks at the state, which have to be the same: so at that moment
//! it was that, and what happened before or after has another time.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::{bpf_get_task_stack, bpf_probe_read_kernel, bpf_task_pt_regs};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use aya_ebpf::programs::RawTracePointContext;

use core::mem::offset_of;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{
    LOOK_BYTES, LookRecord, MOST_FRAMES, REGISTERS, Record, ThreadStateData, thread_state, traced,
    waits_in,
};

use crate::guard;
use crate::listing::Context;
use crate::maps;
use crate::offsets::{
    REGS_CALL, STACK_KERNEL_FRAMES, TASK_FLAGS, TASK_ON_CPU, UNWIND_REGISTERS_BYTES,
};
use crate::record::header;
use crate::sched::what_a_thread_waits_in;
use crate::stack;
use crate::subject::Subject;
use crate::task::Task;
use crate::user::Registers;

/// Space for a thread's record, which is too large for the stack. One reader asks at a time.
#[map]
static LOOK: Array<LookRecord> = Array::with_max_entries(1, 0);

/// The kernel's bits of threads that have ended (`EXIT_DEAD`, `EXIT_ZOMBIE`, `TASK_DEAD`).
const DEAD: u32 = 0x10 | 0x20 | 0x80;
/// Of threads that were stopped by a signal.
const STOPPED: u32 = 0x4;
/// Of threads that were stopped by their tracer.
const TRACED: u32 = 0x8;

/// How a thread is read.
type Read = RawTracePointContext;

/// Runs for each thread of the reader's pid namespace, and once more at the end, without one.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn look_at_tasks(ctx: *const Context) -> i32 {
    // SAFETY: the kernel gives the context.
    let address = unsafe { Context::task(ctx) };
    if address.is_null() {
        return 0;
    }
    // SAFETY: the kernel gives a `struct task_struct *`. Read by the helper.
    let task: Task<Read> = unsafe { Task::at(address) };
    let traced = maps::traced(task.pid());
    if traced & traced::TRACED == 0 || !task.tid().is_visible() {
        return 0;
    }
    let Some(look) = LOOK.get_ptr_mut(0) else {
        return 0;
    };
    let look = look.cast::<u8>();
    let (kernel_state, is_on_cpu) = (task.state(), task.is_on_cpu());
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    let is_settled = kernel_state == task.state() && is_on_cpu == task.is_on_cpu();
    if kernel_state & DEAD != 0 {
        return 0;
    }
    // Within this program: functions of their own take no address of a task that is known to be
    // one.
    if guard::is_guarded(traced) && !guard::judge(traced, &task) {
        guard::count(task.pid(), 1);
        return 0;
    }
    let state = match kernel_state {
        _ if !is_settled || TASK_ON_CPU.load() == NO_OFFSET => thread_state::UNKNOWN,
        0 if is_on_cpu => thread_state::RUNNING,
        0 => thread_state::RUNNABLE,
        state if state & STOPPED != 0 => thread_state::STOPPED,
        state if state & TRACED != 0 => thread_state::TRACED,
        _ => thread_state::BLOCKED,
    };
    let is_still = state >= thread_state::BLOCKED && !is_on_cpu;
    let mut header = header(&task, EventTypeId::THREAD_STATE, time_ns, task.cpu());
    let mut data = ThreadStateData {
        number: -1,
        compat: 0,
        args: [0; 6],
        state,
        kernel_state,
        followed: u8::from(is_followed()),
        waits_in: 0,
        syscall: 0,
        reserved: 0,
    };
    let mut registers_bytes = 0_i32;
    if is_still {
        // SAFETY: the helper takes a task.
        let registers = unsafe { bpf_task_pt_regs(address.cast_mut().cast()) } as *const u8;
        // SAFETY: it is a `struct pt_regs *`.
        let registers: Registers<Read> = unsafe { Registers::at(registers) };
        let (inside, nr) = what_a_thread_waits_in(&task, kernel_state, || registers.call());
        (data.waits_in, data.syscall) = (inside, nr);
        let is_compat = inside & !waits_in::IO == waits_in::COMPAT_SYSCALL;
        if is_compat || inside & !waits_in::IO == waits_in::SYSCALL {
            data.number = i32::from(nr);
            data.compat = u32::from(is_compat);
            data.args = registers.arguments(is_compat);
            header.program_address = registers.address();
        }
        let has_program = TASK_FLAGS.load() != NO_OFFSET
            && REGS_CALL.load() != NO_OFFSET
            && inside & !waits_in::IO != waits_in::KERNEL;
        if stack::is_of_looks() && has_program {
            registers_bytes = copy_registers(&registers, look);
        }
    }
    let event = Record { header, data };
    // SAFETY: it is where the record begins.
    unsafe { look.cast::<Record<ThreadStateData>>().write(event) };
    let kernel_bytes = if stack::is_of_looks() && is_still {
        copy_kernel_frames(address, look)
    } else {
        0
    };
    let sizes = look.wrapping_add(offset_of!(LookRecord, kernel_bytes));
    // SAFETY: inside the entry: both sizes.
    unsafe {
        sizes
            .cast::<[i32; 2]>()
            .write([kernel_bytes, registers_bytes])
    };
    #[expect(clippy::cast_possible_truncation, reason = "some thousand")]
    let size = if stack::is_of_looks() {
        size_of::<LookRecord>() as u32
    } else {
        LOOK_BYTES as u32
    };
    // SAFETY: the kernel gives the context, and the entry has that many bytes.
    unsafe { Context::write(ctx, look, size) };
    0
}

/// Tells whether the next events of threads are recorded too.
#[inline(always)]
fn is_followed() -> bool {
    maps::is_wanted(EventTypeId::SWITCH_IN) && maps::is_wanted(EventTypeId::SWITCH_OUT)
}

/// Copies the registers of a program: how many bytes those are, or 0.
#[inline(always)]
fn copy_registers(registers: &Registers<Read>, look: *mut u8) -> i32 {
    let to = look.wrapping_add(offset_of!(LookRecord, registers));
    #[expect(clippy::cast_possible_truncation, reason = "some hundred")]
    let bytes = UNWIND_REGISTERS_BYTES.load().min((REGISTERS * 8) as u32);
    // SAFETY: the helper writes that many bytes, for which there is space, and checks the address.
    let failed = unsafe { bpf_probe_read_kernel(to.cast(), bytes, registers.base().cast()) };
    if failed == 0 { bytes.cast_signed() } else { 0 }
}

/// Copies where a thread that does not run is in the kernel: how many bytes, or an error.
#[inline(always)]
fn copy_kernel_frames(task: *const u8, look: *mut u8) -> i32 {
    let to = look.wrapping_add(offset_of!(LookRecord, kernel));
    #[expect(clippy::cast_possible_truncation, reason = "127 at most")]
    let bytes = STACK_KERNEL_FRAMES.load().min(MOST_FRAMES as u32) * 8;
    if bytes == 0 {
        return 0;
    }
    // SAFETY: the helper takes a task, and writes at most `bytes`, for which there is space.
    let written = unsafe { bpf_get_task_stack(task.cast_mut().cast(), to.cast(), bytes, 0) };
    #[expect(clippy::cast_possible_truncation, reason = "a size or an error")]
    let written = written as i32;
    written
}
