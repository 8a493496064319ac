//! System calls.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    RecordHeader, SyscallEnterData, SyscallEnterRecord, SyscallExitData, SyscallExitRecord,
};

use crate::context::{Tracepoint, at_tracepoint};
use crate::maps::{self, CallWanted};
use crate::record::{Subject, record};
use crate::task::Task;
use crate::user::Registers;

at_tracepoint!("sys_enter": sys_enter, sys_enter_raw => enter);
at_tracepoint!("sys_exit": sys_exit, sys_exit_raw => exit);

/// Runs in the thread that calls, before the call.
#[inline(always)]
fn enter<C: Tracepoint>(ctx: &C) {
    #[expect(clippy::cast_possible_truncation, reason = "the number is an int")]
    let number = ctx.number::<1>() as u32;
    let wanted = maps::call_wanted(EventTypeId::SYSCALL_ENTER, number);
    let Some((task, is_compat)) = caller::<C>(wanted) else {
        return;
    };
    // SAFETY: the arguments are `struct pt_regs *, long number`.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    record(&task, EventTypeId::SYSCALL_ENTER, |header| {
        SyscallEnterRecord {
            header: RecordHeader {
                program_address: registers.address(),
                ..header
            },
            data: SyscallEnterData {
                number: number.cast_signed(),
                compat: u32::from(is_compat),
                args: registers.arguments(is_compat),
            },
        }
    });
}

/// Runs in the thread that called, after the call.
#[inline(always)]
fn exit<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments are `struct pt_regs *, long result`.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    #[expect(clippy::cast_possible_truncation, reason = "the number is an int")]
    let number = registers.number() as u32;
    let wanted = maps::call_wanted(EventTypeId::SYSCALL_EXIT, number);
    let Some((task, is_compat)) = caller::<C>(wanted) else {
        return;
    };
    record(&task, EventTypeId::SYSCALL_EXIT, |header| {
        SyscallExitRecord {
            header: RecordHeader {
                program_address: registers.address(),
                ..header
            },
            data: SyscallExitData {
                number: number.cast_signed(),
                compat: u32::from(is_compat),
                ret: ctx.number::<1>().cast_signed(),
            },
        }
    });
}

/// The running thread, and whether its call is one of a 32-bit program; `None` where the call is
/// not to be recorded.
///
/// The number is asked for first: which thread runs is the answer of a helper, whose call costs
/// several times what the look-ups do.
#[inline(always)]
fn caller<C: Tracepoint>(wanted: CallWanted) -> Option<(Task<C>, bool)> {
    if !wanted.in_any() {
        return None;
    }
    let task = Task::<C>::current();
    if !maps::is_traced(task.pid()) {
        return None;
    }
    let is_compat = task.is_in_compat_call();
    wanted.in_table(is_compat).then_some((task, is_compat))
}
