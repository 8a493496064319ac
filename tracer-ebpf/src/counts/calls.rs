//! System calls that are counted.

use aya_ebpf::helpers::bpf_ktime_get_ns;

use tracer_common::kernel::globals::NO_CALL;
use tracer_common::kernel::{counted, counting};

use super::sums::{NO_TIME, count};
use super::threads::{entry, open_call};
use super::{are_asked, running};
use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::offsets::ALL_CALLS;
use crate::socketcall::called;
use crate::subject::Subject;
use crate::syscall::ended_exec;
use crate::task::Task;
use crate::user::Registers;

at_tracepoint!("sys_enter": sys_enter_counts, sys_enter_counts_raw => enter);
at_tracepoint!("sys_exit": sys_exit_counts, sys_exit_counts_raw => exit);

/// The lowest result that is an error.
const LOWEST_ERROR: i64 = -4095;

/// Runs in the thread that calls, before the call.
#[inline(always)]
fn enter<C: Tracepoint>(ctx: &C) {
    let (Some(task), Some(open)) = (running::<C>(), open_call()) else {
        return;
    };
    // SAFETY: the arguments are the registers and the system call number.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    #[expect(clippy::cast_possible_truncation, reason = "the argument is an int")]
    let call = call_of(&task, ctx.argument::<1>() as u32, &registers);
    if !is_wanted(call) {
        return;
    }
    // SAFETY: the helper takes no argument and only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    open.enter(task.tid().shown(), call, now);
}

/// Runs in the thread that called, after the call.
#[inline(always)]
fn exit<C: Tracepoint>(ctx: &C) {
    if are_asked(counting::WITHOUT_TIMES) {
        return exit_alone(ctx);
    }
    let (Some(task), Some(open)) = (running::<C>(), open_call()) else {
        return;
    };
    let result = ctx.argument::<1>().cast_signed();
    let failed = u64::from((LOWEST_ERROR..0).contains(&result));
    let tid = task.tid().shown();
    if open.tid() == tid {
        let (call, entered) = open.take();
        return count(&task, call, failed, since(entered));
    }
    // It has left its CPU meanwhile, or was not seen to begin.
    if let Some(entry) = entry(tid) {
        let entered = entry.entered();
        if entered != 0 {
            entry.set_entered(0);
            let call = (entry.kind(), entry.number());
            return count(&task, call, failed, since(entered));
        }
        if entry.is_new() != 0 {
            // It returns from the call that made it, which its maker has made.
            entry.set_new(0);
            return;
        }
    }
    // SAFETY: the arguments are `struct pt_regs *, long result`.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    let call = call_of(&task, registers.call(), &registers);
    if is_wanted(call) {
        count(&task, call, failed, NO_TIME);
    }
}

/// Counts a call of which only the end is seen.
#[inline(always)]
fn exit_alone<C: Tracepoint>(ctx: &C) {
    let Some(task) = running::<C>() else {
        return;
    };
    let result = ctx.argument::<1>().cast_signed();
    if result == 0
        && let Some(entry) = entry(task.tid().shown())
        && entry.is_new() != 0
    {
        // It returns from the call that made it, which its maker has made.
        entry.set_new(0);
        return;
    }
    // SAFETY: the arguments are `struct pt_regs *, long result`.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    let nr = registers.call();
    // An exec may have changed the table: the call is known by its beginning.
    let exec = ended_exec(nr);
    let call = if exec == NO_CALL {
        call_of(&task, nr, &registers)
    } else if exec & maps::OF_32_BITS != 0 {
        (counted::COMPAT_CALL, exec & !maps::OF_32_BITS)
    } else {
        (counted::CALL, exec)
    };
    if is_wanted(call) {
        let failed = u64::from((LOWEST_ERROR..0).contains(&result));
        count(&task, call, failed, NO_TIME);
    }
}

/// Returns how long it is since then.
#[inline(always)]
fn since(entered: u64) -> u64 {
    // SAFETY: the helper takes no argument and only reads the clock.
    unsafe { bpf_ktime_get_ns() }.saturating_sub(entered)
}

/// Returns the kind and the number of a call.
#[inline(always)]
fn call_of<C: Tracepoint>(task: &Task<C>, nr: u32, registers: &Registers<C>) -> (u32, u32) {
    let kind = if task.is_in_compat_call() {
        counted::COMPAT_CALL
    } else {
        counted::CALL
    };
    (kind, called(nr, registers).nr)
}

/// Tells whether the call is one of those that are counted. What ends a signal handler is none any
/// more as it ends, and is wanted where all are.
#[inline(always)]
fn is_wanted((kind, number): (u32, u32)) -> bool {
    ALL_CALLS.load() != 0
        || number != NO_CALL && maps::call_chosen(number).in_table(kind == counted::COMPAT_CALL)
}
