//! Context switches: the path that must cost nothing to those who are not traced.

use core::arch::asm;

use aya_ebpf::helpers::bpf_ktime_get_ns;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::{NO_OFFSET, SWITCH_STATE_LAST, SWITCH_STATE_SECOND};
use tracer_common::kernel::{
    Record, SWITCH_RECORD, SwitchInData, SwitchOutData, SwitchRecord, others, traced, waits_in,
};

use crate::context::{Tracepoint, at_tracepoint};
use crate::cpu::this_cpu;
use crate::guard;
use crate::maps;
use crate::off_cpu;
use crate::offsets::{
    CHOOSES, COUNTS_RATES, HAS_TASK_PT_REGS, REGS_CALL, RUN_QUEUE_SWITCHES, SWITCH_ARGUMENTS,
    TASK_FLAGS, TASK_STACK, USER_WORKER, WORD_TYPE,
};
use crate::pid::Pid;
use crate::record::{Wake, header, record_on};
use crate::stack;
use crate::subject::Subject;
use crate::task::{Address, Task, field, flags};
use crate::thread_context;
use crate::throttle;
use crate::truth::{is_not_zero, is_zero};

at_tracepoint!("sched_switch": sched_switch, sched_switch_raw => switch);

/// Runs in the scheduler with interrupts off, once for every switch that the kernel counts as a
/// voluntary or involuntary one.
#[inline(always)]
fn switch<C: Tracepoint>(ctx: &C) {
    let (prev, next) = switching(ctx);
    // Both at once, and all else behind it: most switches are between two that are not traced, and
    // what they run should be short, for it is seldom in the processor's nearest memory.
    let (prev_state, next_state) = (maps::traced(prev.pid()), maps::traced(next.pid()));
    if (prev_state | next_state) & traced::TRACED == 0 {
        // A process that is no longer chosen may leave its CPU here, and be chosen again later.
        if CHOOSES.load() != 0 {
            maps::forget_running(this_cpu());
        }
        return;
    }
    let (mut leaves, mut comes) = (
        prev_state & traced::TRACED != 0,
        next_state & traced::TRACED != 0,
    );
    let cpu = this_cpu();
    if guard::is_guarded(prev_state | next_state) {
        leaves = leaves && may_leave(ctx, prev_state, &prev);
        comes = comes && may_come(next_state, &next, cpu);
        if !leaves && !comes {
            maps::set_running(cpu, Pid(0), 0);
            return;
        }
    }
    if leaves {
        thread_context::note(&prev);
    }
    let since = maps::running_since(cpu, prev.tid());
    if leaves && maps::is_wanted(EventTypeId::SWITCH_OUT) {
        let gives_way = ctx.flag::<0>() || state_left_in(ctx, &prev) == 0;
        if gives_way && prev.is_out_of_group_quota() {
            throttle::record_throttle();
        }
        stack::record_at_event(ctx, &prev, EventTypeId::SWITCH_OUT);
    }
    if off_cpu::is_asked() && maps::is_wanted(EventTypeId::SWITCH_IN) {
        if leaves && is_blocking(ctx, &prev) {
            off_cpu::blocks(ctx, &prev);
        }
        if comes {
            off_cpu::comes(&next);
        }
    }
    let others = others_had_it(ctx, cpu, (&prev, leaves), (&next, comes));
    let time_ns = match (
        leaves && maps::is_wanted(EventTypeId::SWITCH_OUT),
        comes && maps::is_wanted(EventTypeId::SWITCH_IN),
    ) {
        (true, true) => record_both(ctx, cpu, (&prev, &next), since, others),
        (true, false) => record_out(ctx, cpu, &prev, &next, since),
        (false, true) => record_in(cpu, &prev, &next, others),
        (false, false) => None,
    };
    if COUNTS_RATES.load() != 0
        && let Some(time_ns) = time_ns
    {
        maps::count_recorded(cpu, u64::from(leaves) + u64::from(comes));
        if since != 0 {
            maps::add_running(cpu, time_ns.wrapping_sub(since));
        }
    }
    if comes {
        // SAFETY: the helper takes no argument and only reads the clock.
        let time_ns = time_ns.unwrap_or_else(|| unsafe { bpf_ktime_get_ns() });
        maps::set_running(cpu, next.tid(), time_ns);
    } else {
        maps::set_running(cpu, Pid(0), 0);
    }
}

/// Tells whether it may be recorded that the thread leaves its CPU; counts what is not.
#[inline(always)]
fn may_leave<C: Tracepoint>(ctx: &C, state: u8, prev: &Task<C>) -> bool {
    if !guard::hides(state, prev) {
        return true;
    }
    if maps::is_wanted(EventTypeId::SWITCH_OUT) {
        let gives_way = ctx.flag::<0>() || state_left_in(ctx, prev) == 0;
        let is_throttled =
            gives_way && maps::is_wanted(EventTypeId::THROTTLE) && prev.is_out_of_group_quota();
        guard::count(prev.pid(), 1 + u64::from(is_throttled));
    }
    false
}

/// Tells whether it may be recorded that the thread gets a CPU; counts what is not. Then nothing is
/// known any more of why it had none.
#[inline(always)]
fn may_come<C: Tracepoint>(state: u8, next: &Task<C>, cpu: u32) -> bool {
    if !guard::hides(state, next) {
        return true;
    }
    off_cpu::forget(next.tid());
    if RUN_QUEUE_SWITCHES.load() != NO_OFFSET {
        maps::take_queued(next.tid(), cpu, 0);
    }
    if maps::is_wanted(EventTypeId::SWITCH_IN) {
        guard::count(next.pid(), 1);
    }
    false
}

/// Notes since when `prev` waits for the CPU, where it leaves it to others. Whether others than
/// `prev` had it while `next` waited for it: one of [`others`].
///
/// The kernel counts the switches of each CPU: where this is the first since the one by which the
/// thread had to give way, or since it became runnable, a single thread had the CPU in between.
#[inline(always)]
fn others_had_it<C: Tracepoint>(
    ctx: &C,
    cpu: u32,
    (prev, leaves): (&Task<C>, bool),
    (next, comes): (&Task<C>, bool),
) -> u32 {
    if RUN_QUEUE_SWITCHES.load() == NO_OFFSET {
        return others::UNKNOWN;
    }
    let switches = next.switches_of_its_cpu();
    let others = if comes {
        maps::take_queued(next.tid(), cpu, switches)
    } else {
        others::UNKNOWN
    };
    if leaves {
        let is_preempted = is_not_zero(ctx.argument::<0>() & 0xff);
        let is_runnable = is_zero(state_left_in(ctx, prev).into());
        let gives_way = is_preempted | is_runnable;
        maps::leave_queue(prev.tid(), cpu, switches, gives_way);
    }
    others
}

/// Tells whether the thread leaves its CPU to wait for something else, and not for ever.
#[inline(always)]
fn is_blocking<C: Tracepoint>(ctx: &C, prev: &Task<C>) -> bool {
    /// `TASK_DEAD`, and `TASK_DEAD` with what newer kernels put beside it.
    const DEAD: u32 = 0x80;
    let state = state_left_in(ctx, prev);
    !ctx.flag::<0>() && state != 0 && state & DEAD == 0
}

/// Records both halves of a switch at once: one reservation, one clock.
#[inline(always)]
fn record_both<C: Tracepoint>(
    ctx: &C,
    cpu: u32,
    (prev, next): (&Task<C>, &Task<C>),
    since: u64,
    others: u32,
) -> Option<u64> {
    record_on(cpu, 2, Wake::InTime, |space, time_ns, cpu| {
        let header = header(prev, EventTypeId(u32::from(SWITCH_RECORD)), time_ns, cpu);
        space.write(SwitchRecord {
            header,
            out: out_data(ctx, prev, next, time_ns, since, cpu),
            next_thread_id: next.thread_id(),
            others,
            reserved: 0,
            prev_comm: prev.comm(),
        });
    })
}

#[inline(always)]
fn record_out<C: Tracepoint>(
    ctx: &C,
    cpu: u32,
    prev: &Task<C>,
    next: &Task<C>,
    since: u64,
) -> Option<u64> {
    record_on(cpu, 1, Wake::InTime, |space, time_ns, cpu| {
        space.write(Record {
            header: header(prev, EventTypeId::SWITCH_OUT, time_ns, cpu),
            data: out_data(ctx, prev, next, time_ns, since, cpu),
        });
    })
}

#[inline(always)]
fn record_in<C: Tracepoint>(cpu: u32, prev: &Task<C>, next: &Task<C>, others: u32) -> Option<u64> {
    record_on(cpu, 1, Wake::InTime, |space, time_ns, cpu| {
        space.write(Record {
            header: header(next, EventTypeId::SWITCH_IN, time_ns, cpu),
            data: SwitchInData {
                prev_pid: prev.pid().shown(),
                prev_tid: prev.tid().shown(),
                prev_comm: prev.comm(),
                others,
                reserved: 0,
            },
        });
    })
}

/// Returns the data of a switch away at `time_ns`, from a thread that has had the CPU since
/// `since`, or since a time that is not known: 0.
#[inline(always)]
fn out_data<C: Tracepoint>(
    ctx: &C,
    prev: &Task<C>,
    next: &Task<C>,
    time_ns: u64,
    since: u64,
    cpu: u32,
) -> SwitchOutData {
    let state = state_left_in(ctx, prev);
    let is_preempted = ctx.flag::<0>() || state == 0;
    let (waits_in, syscall) = if is_preempted {
        (prev.gives_way_for(next), 0)
    } else {
        what_it_waits_in(prev, state, cpu)
    };
    SwitchOutData {
        next_pid: next.pid().shown(),
        next_tid: next.tid().shown(),
        next_comm: next.comm(),
        state,
        preempted: u8::from(is_preempted),
        waits_in,
        syscall,
        ran_ns: match since {
            0 => 0,
            since => time_ns.wrapping_sub(since).max(1),
        },
    }
}

/// Returns the context of the thread that leaves its CPU in this state, and runs this: see
/// [`waits_in`].
#[inline(always)]
fn what_it_waits_in<C: Tracepoint>(prev: &Task<C>, state: u32, cpu: u32) -> (u8, u16) {
    what_a_thread_waits_in(prev, state, || call_of(prev, cpu))
}

/// Returns the call or place that a thread blocks in, or was stopped in: see [`waits_in`].
/// `call_of` says the number of the system call that it is in, all ones for none; it is asked only
/// where it can be said.
#[inline(always)]
pub fn what_a_thread_waits_in<C: Tracepoint>(
    thread: &Task<C>,
    state: u32,
    call_of: impl FnOnce() -> u32,
) -> (u8, u16) {
    /// `TASK_UNINTERRUPTIBLE`: the state of a thread that waits for a device. Others are not asked,
    /// which costs.
    const UNINTERRUPTIBLE: u32 = 2;
    if TASK_FLAGS.load() == NO_OFFSET {
        return (waits_in::UNKNOWN, 0);
    }
    let io = if state & UNINTERRUPTIBLE != 0 && thread.is_in_io_wait() {
        waits_in::IO
    } else {
        0
    };
    let task_flags = thread.flags();
    if task_flags & (flags::KERNEL_THREAD | USER_WORKER.load()) != 0 {
        return (waits_in::KERNEL | io, 0);
    }
    if task_flags & flags::EXITING != 0 {
        return (waits_in::EXIT | io, 0);
    }
    if HAS_TASK_PT_REGS.load() == 0 || REGS_CALL.load() == NO_OFFSET {
        return (waits_in::UNKNOWN | io, 0);
    }
    // Of the x32 kind or not, it is the same call.
    let call = call_of();
    match call & !(1 << 30) {
        _ if call == u32::MAX => (waits_in::FAULT | io, 0),
        #[expect(clippy::cast_possible_truncation, reason = "looked at")]
        call if call <= 0xffff && thread.is_in_compat_call() => {
            (waits_in::COMPAT_SYSCALL | io, call as u16)
        }
        #[expect(clippy::cast_possible_truncation, reason = "looked at")]
        call if call <= 0xffff => (waits_in::SYSCALL | io, call as u16),
        _ => (waits_in::UNKNOWN | io, 0),
    }
}

/// Returns the number of the system call that the running thread, which has a program, is in; all
/// ones for none.
#[inline(always)]
pub fn call_of<C: Tracepoint>(running: &Task<C>, cpu: u32) -> u32 {
    let distance = maps::registers_from_stack(cpu);
    let (Some(distance), true) = (
        distance,
        WORD_TYPE.load() != 0 && TASK_STACK.load() != NO_OFFSET,
    ) else {
        let registers = C::registers(running.address());
        // SAFETY: it is a `struct pt_regs *`, and the number of the call a long of it.
        return unsafe { field::<C, _>(registers, REGS_CALL.load()) };
    };
    // SAFETY: a task has a pointer there.
    let stack: Address = unsafe { field::<C, _>(running.address(), TASK_STACK.load()) };
    // SAFETY: in the entry, which only this CPU uses.
    let mut known = unsafe { distance.read_volatile() };
    if known == 0 {
        // The helper's call costs more than all else here: it is asked once.
        known = difference(C::registers(running.address()), stack.0);
        // SAFETY: as above.
        unsafe { distance.write_volatile(known) };
    }
    #[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits")]
    let at = stack.0.wrapping_add(known as usize);
    let at = C::readable(at.wrapping_add(REGS_CALL.load() as usize));
    // SAFETY: the registers lie there, as the helper has said, and the number of the call in them.
    unsafe { C::read(at.cast()) }
}

/// Returns how many bytes it is from one address to another, which is less than 4 GiB behind it.
#[inline(always)]
fn difference(to: *const u8, from: *const u8) -> u64 {
    let bytes: u64;
    // Written out because the verifier allows arithmetic with the halves of addresses only like
    // this. SAFETY: a subtraction.
    unsafe {
        asm!("w1 -= w2", inout("r1") to => bytes, in("r2") from, options(pure, readonly, nostack));
    };
    bytes
}

/// Returns the threads that a switch is from and to.
#[inline(always)]
pub fn switching<C: Tracepoint>(ctx: &C) -> (Task<C>, Task<C>) {
    if SWITCH_ARGUMENTS.load() == SWITCH_STATE_SECOND {
        // SAFETY: the arguments are `preempt, prev_state, prev, next`.
        unsafe { tasks::<C, 2, 3>(ctx) }
    } else {
        // SAFETY: the arguments begin with `preempt, prev, next`.
        unsafe { tasks::<C, 1, 2>(ctx) }
    }
}

/// Returns the tasks that are the tracepoint's arguments `PREV` and `NEXT`.
///
/// # Safety
///
/// Both arguments are `struct task_struct *`.
#[inline(always)]
unsafe fn tasks<C: Tracepoint, const PREV: usize, const NEXT: usize>(
    ctx: &C,
) -> (Task<C>, Task<C>) {
    // SAFETY: as promised by the caller.
    let prev = unsafe { Task::argument::<PREV>(ctx) };
    // SAFETY: as promised by the caller.
    let next = unsafe { Task::argument::<NEXT>(ctx) };
    (prev, next)
}

/// Returns the state in which the thread leaves its CPU.
///
/// Where the tracepoint does not say, the task does; there another CPU may have woken it in
/// between, which is why newer kernels do say.
#[inline(always)]
pub fn state_left_in<C: Tracepoint>(ctx: &C, prev: &Task<C>) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the state is an int")]
    match SWITCH_ARGUMENTS.load() {
        SWITCH_STATE_LAST => ctx.argument::<3>() as u32,
        SWITCH_STATE_SECOND => ctx.argument::<1>() as u32,
        _ => prev.state(),
    }
}
