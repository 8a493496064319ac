//! Context switches: the path that must cost nothing to those who are not traced.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::{SWITCH_STATE_LAST, SWITCH_STATE_SECOND};
use tracer_common::kernel::{SwitchInData, SwitchInRecord, SwitchOutData, SwitchOutRecord, traced};

use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::offsets::SWITCH_ARGUMENTS;
use crate::record::{Subject, record};
use crate::task::Task;

at_tracepoint!("sched_switch": sched_switch, sched_switch_raw => switch);

/// Runs in the scheduler with interrupts off, once for every switch that the kernel counts as a
/// voluntary or involuntary one.
#[inline(always)]
fn switch<C: Tracepoint>(ctx: &C) {
    let (prev, next) = if SWITCH_ARGUMENTS.load() == SWITCH_STATE_SECOND {
        // SAFETY: the arguments are `preempt, prev_state, prev, next`.
        unsafe { tasks::<C, 2, 3>(ctx) }
    } else {
        // SAFETY: the arguments begin with `preempt, prev, next`.
        unsafe { tasks::<C, 1, 2>(ctx) }
    };
    // Both at once, and all else behind it: most switches are between two that are not traced, and
    // what they run should be short, for it is seldom in the processor's nearest memory.
    let (prev_state, next_state) = (maps::traced(prev.pid()), maps::traced(next.pid()));
    if (prev_state | next_state) & traced::TRACED == 0 {
        return;
    }
    if prev_state & traced::TRACED != 0 && maps::is_wanted(EventTypeId::SWITCH_OUT) {
        record(&prev, EventTypeId::SWITCH_OUT, |header| {
            let state = state_left_in(ctx, &prev);
            let is_preempted = ctx.flag::<0>() || state == 0;
            SwitchOutRecord {
                header,
                data: SwitchOutData {
                    next_pid: next.pid().shown(),
                    next_tid: next.tid().shown(),
                    next_comm: next.comm(),
                    state,
                    preempted: u32::from(is_preempted),
                },
            }
        });
    }
    if next_state & traced::TRACED != 0 && maps::is_wanted(EventTypeId::SWITCH_IN) {
        record(&next, EventTypeId::SWITCH_IN, |header| SwitchInRecord {
            header,
            data: SwitchInData {
                prev_pid: prev.pid().shown(),
                prev_tid: prev.tid().shown(),
                prev_comm: prev.comm(),
            },
        });
    }
}

/// The tasks that are the tracepoint's arguments `PREV` and `NEXT`.
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

/// The state in which the thread leaves its CPU.
///
/// Where the tracepoint does not say, the task does; there another CPU may have woken it in
/// between, which is why newer kernels do say.
#[inline(always)]
fn state_left_in<C: Tracepoint>(ctx: &C, prev: &Task<C>) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the state is an int")]
    match SWITCH_ARGUMENTS.load() {
        SWITCH_STATE_LAST => ctx.number::<3>() as u32,
        SWITCH_STATE_SECOND => ctx.number::<1>() as u32,
        _ => prev.state(),
    }
}
