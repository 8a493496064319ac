//! Origin of the running work: the thread that has the CPU, or an interrupt.
//!
//! The kernel counts how deep it is in interrupts, for each CPU or in the running thread, according
//! to the machine. Which timer's function runs, it notes where it calls it. What it keeps for a CPU
//! lies together: from the CPU's run queue, in which the running thread is, it is always as far to
//! each of these variables as in the kernel's file. Where one may not read like that (before 6.2),
//! the variables are named. Where they have no names either, since the kernel was built without,
//! the tracepoints before and after interrupts say; and of what is within none of them, the stack:
//! that of a thread is used by its system calls, and by interrupts of its program too, but not at
//! the same time.

use core::arch::asm;
use core::mem::offset_of;

use aya_ebpf::helpers::generated::bpf_this_cpu_ptr;

use tracer_common::kernel::globals::{NO_CALL, NO_OFFSET};
use tracer_common::kernel::{InterruptsOf, cpu_variable, waker_context};

use crate::context::Tracepoint;
use crate::cpu::this_cpu;
use crate::maps;
use crate::offsets::{
    FAIR_QUEUE_RUN_QUEUE, HAS_TASK_PT_REGS, HRTIMER_BASE_BYTES, HRTIMER_BASES_DISTANCE,
    HRTIMER_RUNNING, INTERRUPT_BITS, NOTES_INTERRUPTS, PREEMPT_COUNT, PREEMPT_COUNT_DISTANCE,
    REGS_CALL, TASK_FAIR_QUEUE, TASK_PREEMPT_COUNT, TASK_SOFTIRQ_COUNT, TASK_STACK,
    TIMER_BASE_BYTES, TIMER_BASES, TIMER_BASES_DISTANCE, TIMER_RUNNING,
};
use crate::task::{Address, Task, field};

/// Bits of the count: a soft interrupt is served.
const SOFTIRQ: u32 = 0x100;

/// Clocks of `hrtimer_cpu_base` whose timers run in the interrupt; as many others follow whose
/// timers run in a soft interrupt.
const CLOCKS: u32 = 4;

/// Reads a `$type` in the variable that `$variable` names, as this CPU has it, `$offset` bytes from
/// its beginning. It is `$distance` bytes from the run queue, where that is known.
macro_rules! on_this_cpu {
    ($context:ty, $type:ty, $queue:expr, $variable:expr, $distance:expr, $offset:expr) => {
        if $distance != NO_OFFSET {
            let at = $queue.wrapping_offset($distance.cast_signed() as isize);
            let at = <$context>::readable(at.wrapping_add($offset as usize));
            // SAFETY: the variable is there, as the kernel's BTF says.
            unsafe { <$context>::read(at.cast::<$type>()) }
        } else {
            let variable: *const u8;
            // Written out so that it is one instruction, which the agent finds and changes.
            // SAFETY: a constant is loaded.
            unsafe {
                asm!("{variable} = {value} ll", variable = out(reg) variable,
                    value = const $variable, options(pure, nomem, nostack))
            };
            // SAFETY: the verifier sees to it that this is a variable of the kernel's.
            let address = unsafe { bpf_this_cpu_ptr(variable.cast()) };
            // SAFETY: the variable has such a field there.
            unsafe { field::<$context, $type>(address.cast::<u8>().cast_const(), $offset) }
        }
    };
}

/// Returns the run queue of this CPU, in which `running` is, where that has to be known; null
/// otherwise.
#[inline(always)]
fn run_queue<C: Tracepoint>(running: &Task<C>) -> *const u8 {
    if PREEMPT_COUNT_DISTANCE.load() == NO_OFFSET
        && HRTIMER_BASES_DISTANCE.load() == NO_OFFSET
        && TIMER_BASES_DISTANCE.load() == NO_OFFSET
    {
        return core::ptr::null();
    }
    // SAFETY: a task has a pointer there.
    let queue: Address = unsafe { field::<C, _>(running.address(), TASK_FAIR_QUEUE.load()) };
    // SAFETY: it is a `struct cfs_rq *`, and the run queue a pointer in it.
    let queue: Address = unsafe { field::<C, _>(queue.0, FAIR_QUEUE_RUN_QUEUE.load()) };
    queue.0
}

/// Returns the context that runs now, where `running` has the CPU: a [`waker_context`].
#[inline(always)]
pub fn context<C: Tracepoint>(ctx: &C, running: &Task<C>) -> u32 {
    let queue = run_queue(running);
    match counted(ctx, running, queue) {
        waker_context::IRQ if hrtimer_runs::<C>(queue, 0) => waker_context::HRTIMER,
        waker_context::SOFTIRQ if timer_runs::<C>(queue) || hrtimer_runs::<C>(queue, CLOCKS) => {
            waker_context::TIMER
        }
        context => context,
    }
}

/// Returns the context that runs now, as [`context`] does, but does not ask for timers: a soft
/// interrupt is one, whatever it serves, where the kernel gives its count.
#[inline(always)]
pub fn place<C: Tracepoint>(ctx: &C, running: &Task<C>) -> u32 {
    counted(ctx, running, run_queue(running))
}

/// Returns the context by the kernel's count, or else by what was noted.
#[inline(always)]
fn counted<C: Tracepoint>(ctx: &C, running: &Task<C>, queue: *const u8) -> u32 {
    let count = if PREEMPT_COUNT.load() != NO_OFFSET {
        if PREEMPT_COUNT_DISTANCE.load() != NO_OFFSET && queue.is_null() {
            return waker_context::UNKNOWN;
        }
        on_this_cpu!(
            C,
            u32,
            queue,
            cpu_variable::PREEMPT_COUNT,
            PREEMPT_COUNT_DISTANCE.load(),
            PREEMPT_COUNT.load()
        )
    } else if TASK_PREEMPT_COUNT.load() != NO_OFFSET {
        // SAFETY: the running task has an int there.
        unsafe { field::<C, u32>(running.address(), TASK_PREEMPT_COUNT.load()) }
    } else {
        return noted::<C>(ctx, running);
    };
    if count & INTERRUPT_BITS.load() != 0 {
        return waker_context::IRQ;
    }
    let of_task = if TASK_SOFTIRQ_COUNT.load() == NO_OFFSET {
        0
    } else {
        // SAFETY: the running task has an int there.
        unsafe { field::<C, u32>(running.address(), TASK_SOFTIRQ_COUNT.load()) }
    };
    if (count | of_task) & SOFTIRQ == 0 {
        waker_context::THREAD
    } else {
        waker_context::SOFTIRQ
    }
}

/// Returns the context that runs now, where the count cannot be read.
#[inline(always)]
fn noted<C: Tracepoint>(ctx: &C, running: &Task<C>) -> u32 {
    if NOTES_INTERRUPTS.load() == 0 {
        return waker_context::UNKNOWN;
    }
    let Some(noted) = maps::interrupts(this_cpu()) else {
        return waker_context::UNKNOWN;
    };
    // SAFETY: in the entry, which only this CPU uses.
    let read = |at: usize| unsafe { noted.wrapping_byte_add(at).read_volatile() };
    if read(offset_of!(InterruptsOf, hrtimer)) != 0 {
        return waker_context::HRTIMER;
    }
    if read(offset_of!(InterruptsOf, handlers)) != 0 {
        return waker_context::IRQ;
    }
    match read(offset_of!(InterruptsOf, softirq)) {
        0 if is_call_of_thread(ctx, running) => waker_context::THREAD,
        // An interrupt of another CPU, a page fault, or what else has no tracepoint.
        0 => waker_context::UNKNOWN,
        TIMER_SOFTIRQ | HRTIMER_SOFTIRQ => waker_context::TIMER,
        _ => waker_context::SOFTIRQ,
    }
}

/// Vectors of soft interrupts, plus 1.
const TIMER_SOFTIRQ: u32 = 2;
const HRTIMER_SOFTIRQ: u32 = 9;

/// Tells whether this is on the stack of the thread that runs, and that is in a system call, or has
/// no program. An interrupt that comes then has another stack.
#[inline(always)]
fn is_call_of_thread<C: Tracepoint>(ctx: &C, running: &Task<C>) -> bool {
    if HAS_TASK_PT_REGS.load() == 0 || TASK_STACK.load() == NO_OFFSET {
        return false;
    }
    let registers = C::registers(running.address());
    // SAFETY: a task has a pointer there.
    let stack: Address = unsafe { field::<C, _>(running.address(), TASK_STACK.load()) };
    // The arguments of a tracepoint are on the stack in use.
    let here = ctx.as_ptr().cast_const().cast::<u8>();
    if here < stack.0 || here > registers {
        return false;
    }
    if running.is_of_kernel() {
        return true;
    }
    // SAFETY: the call is an int of the registers, or the lower half of a long.
    let call: u32 = unsafe { field::<C, _>(registers, REGS_CALL.load()) };
    // An interrupt and a fault leave no call there.
    call != NO_CALL
}

/// Notes that a handler of a device's interrupt begins or ends. Handlers are not interrupted by
/// others, and are not counted: an end that the kernel does not report would count for ever.
#[inline(always)]
pub fn note_handler(begins: bool) {
    note(offset_of!(InterruptsOf, handlers), u32::from(begins));
}

/// Notes that the function of a high-resolution timer runs, 1, or has run, 0.
#[inline(always)]
pub fn note_hrtimer(runs: u32) {
    note(offset_of!(InterruptsOf, hrtimer), runs);
}

/// Notes the vector of the soft interrupt that runs, plus 1; 0 for none.
#[inline(always)]
pub fn note_softirq(vector: u32) {
    note(offset_of!(InterruptsOf, softirq), vector);
}

#[inline(always)]
fn note(at: usize, value: u32) {
    if NOTES_INTERRUPTS.load() == 0 {
        return;
    }
    let Some(noted) = maps::interrupts(this_cpu()) else {
        return;
    };
    let word = noted.wrapping_byte_add(at);
    // SAFETY: in the entry, which only this CPU uses.
    unsafe { word.write_volatile(value) };
}

/// Tells whether a high-resolution timer runs that belongs to one of the clocks from `first` on.
#[inline(always)]
fn hrtimer_runs<C: Tracepoint>(queue: *const u8, first: u32) -> bool {
    if HRTIMER_RUNNING.load() == NO_OFFSET {
        return false;
    }
    let runs = |clock: u32| {
        let at = HRTIMER_RUNNING.load() + (first + clock) * HRTIMER_BASE_BYTES.load();
        let timer: Address = on_this_cpu!(
            C,
            Address,
            queue,
            cpu_variable::HRTIMER_BASES,
            HRTIMER_BASES_DISTANCE.load(),
            at
        );
        !timer.0.is_null()
    };
    runs(0) || runs(1) || runs(2) || runs(3)
}

/// Tells whether another timer runs.
#[inline(always)]
fn timer_runs<C: Tracepoint>(queue: *const u8) -> bool {
    if TIMER_RUNNING.load() == NO_OFFSET {
        return false;
    }
    let runs = |index: u32| {
        if index >= TIMER_BASES.load() {
            return false;
        }
        let at = TIMER_RUNNING.load() + index * TIMER_BASE_BYTES.load();
        let timer: Address = on_this_cpu!(
            C,
            Address,
            queue,
            cpu_variable::TIMER_BASES,
            TIMER_BASES_DISTANCE.load(),
            at
        );
        !timer.0.is_null()
    };
    runs(0) || runs(1) || runs(2)
}
