//! System calls.

use aya_ebpf::programs::RawTracePointContext;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_CALL;
use tracer_common::kernel::{
    Record, RecordHeader, SYSCALL_CALL_TEXTS, SYSCALL_ENTER_TEXTS, SYSCALL_EXIT_TEXTS,
    SyscallCallData, SyscallEnterData, SyscallExitData, call_texts, traced,
};

use crate::context::{Tracepoint, at_tracepoint};
use crate::cpu::this_cpu;
use crate::cpu_ring::record_call;
use crate::guard;
use crate::maps::{self, CallWanted};
use crate::offsets::{
    ALL_CALLS, CALLS_AT_EXIT, COMPAT_EXECVE, COMPAT_RT_SIGRETURN, COMPAT_SIGRETURN, COUNTS_RATES,
    EXECVE, ONLY_NAMES, SIGRETURN, STRING_BYTES,
};
use crate::socketcall::{Called, called};
use crate::stack;
use crate::subject::Subject;
use crate::task::Task;
use crate::texts::Texts;
use crate::thread_context;
use crate::user::Registers;

at_tracepoint!("sys_enter": sys_enter, sys_enter_raw => enter);
at_tracepoint!("sys_exit": sys_exit, sys_exit_raw => exit);

/// Runs in the thread that calls, before the call.
#[inline(always)]
fn enter<C: Tracepoint>(ctx: &C) {
    if COUNTS_RATES.load() != 0 {
        maps::count_call(this_cpu());
        maps::begin_timing(this_cpu());
    }
    record_entry(ctx);
    if COUNTS_RATES.load() != 0 {
        maps::end_timing(this_cpu());
    }
}

#[inline(always)]
fn record_entry<C: Tracepoint>(ctx: &C) {
    let Some(early) = early::<C>() else {
        return;
    };
    #[expect(clippy::cast_possible_truncation, reason = "the argument is an int")]
    let nr = ctx.argument::<1>() as u32;
    remember_sigreturn::<C>(nr);
    // SAFETY: the arguments are the registers and the system call number.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    let called = called(nr, &registers);
    let nr = called.nr;
    let wanted = maps::call_wanted(EventTypeId::SYSCALL_ENTER, nr);
    let Some((task, is_compat)) = caller_of::<C>(wanted, NO_CALL, 1, early) else {
        return;
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the lower half is that of the entry"
    )]
    let points_to = points_to(nr, is_compat) as u32;
    thread_context::note(&task);
    stack::record_at_call(
        ctx,
        &task,
        EventTypeId::SYSCALL_ENTER,
        &registers,
        is_compat,
    );
    if points_to != 0 {
        return enter_with_texts(&task, &called, is_compat, &registers, points_to);
    }
    record_data(&task, EventTypeId::SYSCALL_ENTER, &registers, || {
        SyscallEnterData {
            number: nr.cast_signed(),
            compat: u32::from(is_compat),
            args: called.arguments(&registers, is_compat),
        }
    });
}

/// Runs in the thread that called, after the call.
#[inline(always)]
fn exit<C: Tracepoint>(ctx: &C) {
    if COUNTS_RATES.load() != 0 {
        maps::begin_timing(this_cpu());
    }
    record_exit(ctx);
    if COUNTS_RATES.load() != 0 {
        maps::end_timing(this_cpu());
    }
}

#[inline(always)]
fn record_exit<C: Tracepoint>(ctx: &C) {
    let Some(early) = early::<C>() else {
        return;
    };
    // SAFETY: the arguments are `struct pt_regs *, long result`.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    let nr = match registers.call() {
        NO_CALL => ended_sigreturn::<C>(),
        nr => nr,
    };
    let exec = if nr == EXECVE.load() || nr == COMPAT_EXECVE.load() {
        ended_exec(nr)
    } else {
        NO_CALL
    };
    let nr = if exec == NO_CALL {
        nr
    } else {
        exec & !maps::OF_32_BITS
    };
    let called = called(nr, &registers);
    let nr = called.nr;
    let wanted = maps::call_wanted(EventTypeId::SYSCALL_EXIT, nr);
    let Some((task, is_compat)) = caller_of::<C>(wanted, exec, 1, early) else {
        return;
    };
    let points_to = points_to(nr, is_compat);
    // The thread does not change it within a call.
    if CALLS_AT_EXIT.load() != 0 || !maps::is_wanted(EventTypeId::SYSCALL_ENTER) {
        thread_context::note(&task);
    }
    stack::record_at_call(ctx, &task, EventTypeId::SYSCALL_EXIT, &registers, is_compat);
    if CALLS_AT_EXIT.load() != 0 {
        // An exec, and the end of a signal handler, have replaced the registers.
        let are_known = exec == NO_CALL && nr != NO_CALL;
        let ret = ctx.argument::<1>().cast_signed();
        return exit_alone(
            &task, &called, is_compat, &registers, points_to, ret, are_known,
        );
    }
    if points_to != 0 {
        let ret = ctx.argument::<1>().cast_signed();
        let points_to = to_read_on_exit(&task, &registers, points_to, ret);
        if points_to != 0 {
            return exit_with_texts(&task, &called, is_compat, &registers, points_to, ret);
        }
    }
    record_data(&task, EventTypeId::SYSCALL_EXIT, &registers, || {
        SyscallExitData {
            number: nr.cast_signed(),
            compat: u32::from(is_compat),
            ret: ctx.argument::<1>().cast_signed(),
        }
    });
}

/// Records an event of a call, with nothing that its arguments point to.
#[inline(always)]
fn record_data<C: Tracepoint, D: 'static>(
    task: &Task<C>,
    event_type: EventTypeId,
    registers: &Registers<C>,
    data: impl FnOnce() -> D,
) {
    record_call::<C, Record<D>>(task, event_type, |space, header| {
        space.write(Record {
            header: RecordHeader {
                program_address: registers.address(),
                ..header
            },
            data: data(),
        });
        Some(size_of::<Record<D>>())
    });
}

/// Returns which data is to be read that the arguments of a call point to.
#[inline(always)]
fn points_to(nr: u32, is_compat: bool) -> u64 {
    if STRING_BYTES.load() == 0 {
        return 0;
    }
    maps::call_texts(nr, is_compat)
}

/// Records an entry with what its arguments point to, in as much space as was asked for.
#[inline(always)]
fn enter_with_texts<C: Tracepoint>(
    task: &Task<C>,
    called: &Called,
    is_compat: bool,
    registers: &Registers<C>,
    points_to: u32,
) {
    let nr = called.nr;
    let data = SyscallEnterData {
        number: nr.cast_signed(),
        compat: u32::from(is_compat),
        args: called.arguments(registers, is_compat),
    };
    let texts = Texts {
        event_type: SYSCALL_ENTER_TEXTS,
        program_address: registers.address(),
        arguments: &data.args,
        signal_mask: registers.signal_mask(nr, is_compat),
        points_to,
        returned: 0,
        is_compat: data.compat,
    };
    let unread = texts.record(task, &data);
    if unread != 0 && ONLY_NAMES.load() == 0 {
        maps::remember_unread(task.tid(), texts.program_address, unread);
    }
}

/// Records an exit with what its arguments point to, in as much space as was asked for.
#[inline(always)]
fn exit_with_texts<C: Tracepoint>(
    task: &Task<C>,
    called: &Called,
    is_compat: bool,
    registers: &Registers<C>,
    points_to: u32,
    ret: i64,
) {
    let nr = called.nr;
    let data = SyscallExitData {
        number: nr.cast_signed(),
        compat: u32::from(is_compat),
        ret,
    };
    let arguments = called.arguments(registers, is_compat);
    let texts = Texts {
        event_type: SYSCALL_EXIT_TEXTS,
        program_address: registers.address(),
        arguments: &arguments,
        signal_mask: 0,
        points_to,
        returned: ret.cast_unsigned(),
        is_compat: data.compat,
    };
    texts.record(task, &data);
}

/// Records a call that is recorded only as it ends, with its arguments where the registers still
/// have them, and with what these point to.
#[inline(always)]
fn exit_alone<C: Tracepoint>(
    task: &Task<C>,
    called: &Called,
    is_compat: bool,
    registers: &Registers<C>,
    points_to: u64,
    ret: i64,
    are_known: bool,
) {
    let data = SyscallCallData {
        exit: SyscallExitData {
            number: called.nr.cast_signed(),
            compat: u32::from(is_compat),
            ret,
        },
        args: called.arguments(registers, is_compat),
        are_known: u64::from(are_known),
    };
    let points_to = if are_known {
        let first = u32::from(points_to & 0xffff != 0);
        let second = u32::from(points_to >> call_texts::BITS & 0xffff != 0);
        let unread = first | second << 1;
        joined(points_to, ret, unread)
    } else {
        0
    };
    let texts = Texts {
        event_type: SYSCALL_CALL_TEXTS,
        program_address: registers.address(),
        arguments: &data.args,
        signal_mask: 0,
        points_to,
        returned: ret.cast_unsigned(),
        is_compat: data.exit.compat,
    };
    texts.record(task, &data);
}

/// Returns which data is to be read as a call ends: what it has filled in, or what could not be
/// read as it began, where the registers are still those.
#[inline(always)]
fn to_read_on_exit<C: Tracepoint>(
    task: &Task<C>,
    registers: &Registers<C>,
    points_to: u64,
    ret: i64,
) -> u32 {
    // Names that could not be read as the call began are left out.
    let is_given = ONLY_NAMES.load() == 0 && points_to & 0xffff_ffff != 0;
    // After an exec the registers are other ones.
    let unread = if is_given {
        maps::forget_unread(task.tid(), registers.address())
    } else {
        0
    };
    joined(points_to, ret, unread)
}

/// Returns what is to be read of a call that has returned this: what it has filled in, and of what
/// it was given what was not read yet, a bit each.
#[inline(always)]
fn joined(points_to: u64, ret: i64, unread: u32) -> u32 {
    let filled = filled((points_to >> call_texts::FILLED_AT) as u32 & 0xffff, ret);
    let also_filled = (points_to >> (call_texts::FILLED_AT + call_texts::BITS)) as u32;
    let also_filled = self::filled(also_filled, ret);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the lower half is that of the entry"
    )]
    let on_entry = points_to as u32;
    if on_entry == 0 {
        return filled | also_filled << call_texts::BITS;
    }
    let first = if unread & 1 != 0 {
        on_entry & 0xffff
    } else if unread & 2 != 0 && also_filled == 0 {
        // The place of the other one is taken.
        filled
    } else {
        also_filled
    };
    let second = if unread & 2 != 0 {
        on_entry >> call_texts::BITS
    } else {
        filled
    };
    first | second << call_texts::BITS
}

/// Returns what an argument points to, where a call that has returned this has filled it in, or
/// else 0.
#[inline(always)]
fn filled(points_to: u32, ret: i64) -> u32 {
    let kind = if ONLY_NAMES.load() == 0 {
        points_to & call_texts::KIND
    } else {
        // Of what calls fill in, nothing else is read then.
        call_texts::FIXED
    };
    let is_whole = matches!(
        kind,
        call_texts::FIXED | call_texts::ARRAY | call_texts::COUNTED | call_texts::GATHERED
    );
    /// Instead of an error: the call is made again. How much of its time is left has been said.
    const RESTART_BLOCK: i64 = -516;
    let is_fixed = kind == call_texts::FIXED;
    if ret > 0 || (ret == 0 && is_whole) || (ret == RESTART_BLOCK && is_fixed) {
        points_to
    } else {
        0
    }
}

/// Notes a call that ends a signal handler: it brings the registers back as they were before the
/// signal, and with them the number of no call.
#[inline(always)]
fn remember_sigreturn<C: Tracepoint>(nr: u32) {
    let is_native = nr == SIGRETURN.load();
    let is_compat = nr == COMPAT_SIGRETURN.load() || nr == COMPAT_RT_SIGRETURN.load();
    if !is_native && !is_compat && nr != NO_CALL {
        return;
    }
    let task = Task::<C>::current();
    if !maps::is_traced(task.pid()) {
        return;
    }
    if if task.is_in_compat_call() {
        is_compat
    } else {
        is_native
    } && nr != NO_CALL
    {
        maps::remember_sigreturn(task.tid(), nr);
    } else {
        // Its end is not that of an earlier one.
        maps::forget_sigreturn(task.tid());
    }
}

/// Returns the system call number of the call that ends without one, as its entry had it.
#[inline(always)]
fn ended_sigreturn<C: Tracepoint>() -> u32 {
    maps::forget_sigreturn(Task::<C>::current().tid()).unwrap_or(NO_CALL)
}

/// Returns the call by which the running thread has replaced its program, where one with this
/// system call number ends: with the bit [`maps::OF_32_BITS`], or [`NO_CALL`]. A function of its
/// own, so that the verifier walks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ended_exec(nr: u32) -> u32 {
    let is_native = nr == EXECVE.load();
    let is_compat = nr == COMPAT_EXECVE.load();
    if !is_native && !is_compat || nr == NO_CALL {
        return NO_CALL;
    }
    let task = Task::<RawTracePointContext>::current();
    // Others have these numbers in the other table.
    if !if task.is_in_compat_call() {
        is_compat
    } else {
        is_native
    } {
        return NO_CALL;
    }
    maps::forget_exec(task.tid()).unwrap_or(NO_CALL)
}

/// Returns the running thread, and whether its call is one of a 32-bit program; `None` where the
/// call is not to be recorded. `early` is the thread, where that was asked before; else the call is
/// asked for first: which thread runs is the answer of a helper, whose call costs several times
/// what the look-ups do.
///
/// It may be known by which call a program was replaced: see [`ended_exec`]. Where the thread is
/// guarded and may not be looked into, so many events are counted.
#[inline(always)]
pub fn caller_of<C: Tracepoint>(
    wanted: CallWanted,
    exec: u32,
    events: u64,
    early: Option<Caller<C>>,
) -> Option<(Task<C>, bool)> {
    if !wanted.in_any() {
        return None;
    }
    let Caller { task, state } = match early {
        Some(caller) => caller,
        None => Caller::traced()?,
    };
    let is_compat = if exec == NO_CALL {
        task.is_in_compat_call()
    } else {
        exec & maps::OF_32_BITS != 0
    };
    if !wanted.in_table(is_compat) || guard::withholds(state, &task, events) {
        return None;
    }
    Some((task, is_compat))
}

/// The running thread, which is traced, with the [`traced`] bits of its process.
pub struct Caller<C> {
    task: Task<C>,
    state: u8,
}

impl<C: Tracepoint> Caller<C> {
    /// Returns the running thread; `None` where it is not traced.
    #[inline(always)]
    fn traced() -> Option<Self> {
        let task = Task::<C>::current();
        let state = maps::traced(task.pid());
        (state & traced::TRACED != 0).then_some(Self { task, state })
    }
}

/// Returns the running thread where all calls are wanted: then nothing else needs to be asked of a
/// thread that is not traced, for which that is `None`.
#[inline(always)]
pub fn early<C: Tracepoint>() -> Option<Option<Caller<C>>> {
    if ALL_CALLS.load() == 0 {
        return Some(None);
    }
    Caller::traced().map(Some)
}
