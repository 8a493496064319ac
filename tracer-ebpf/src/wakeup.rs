//! Wake-ups.
//!
//! The waker is known where the wake-up is asked for (`sched_waking`); often the thread becomes
//! runnable on another CPU, in an interrupt (`sched_wakeup`). A map hands it on.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{Record, WakeupData, traced, waker_context};

use crate::asking::Asking;
use crate::context::{Tracepoint, at_tracepoint};
use crate::cpu::this_cpu;
use crate::guard;
use crate::interrupted;
use crate::maps;
use crate::offsets::{COUNTS_RATES, RUN_QUEUE_SWITCHES};
use crate::packet;
use crate::record::record;
use crate::stack;
use crate::subject::Subject;
use crate::task::Task;

at_tracepoint!("sched_waking": sched_waking, sched_waking_raw => waking);
at_tracepoint!("sched_wakeup": sched_wakeup, sched_wakeup_raw => woken);
at_tracepoint!("sched_wakeup_new": sched_wakeup_new, sched_wakeup_new_raw => woken_first);

/// Runs where the wake-up is asked for.
#[inline(always)]
fn waking<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let state = maps::traced(task.pid());
    if state & traced::TRACED != 0 && maps::is_wanted(EventTypeId::WAKEUP) {
        let waker = asking(ctx, &task);
        maps::remember_waker(task.tid(), waker);
        if waker.context() == waker_context::THREAD {
            let waker = Task::<C>::current();
            if !guard::is_guarded(state) || may_show(state, &task, &waker) {
                stack::record_at_wakeup(ctx, &waker, task.tid());
            }
        }
    }
}

/// Tells whether the stack of the waker of a guarded thread may be recorded: not of a process that
/// is not traced, nor of one that may not be looked into.
#[inline(always)]
fn may_show<C: Tracepoint>(state: u8, task: &Task<C>, waker: &Task<C>) -> bool {
    let waker_state = maps::traced(waker.pid());
    stack::is_of_wakeups()
        && waker_state & traced::TRACED != 0
        && guard::is_visible(state, task)
        && !guard::hides(waker_state, waker)
}

/// Runs where the thread becomes runnable: the event concerns that thread.
#[inline(always)]
fn woken<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let state = maps::traced(task.pid());
    if state & traced::TRACED == 0 {
        return;
    }
    if maps::is_wanted(EventTypeId::WAKEUP) && !guard::withholds(state, &task, 1) {
        wakeup::<C, false>(&task, maps::take_waker(task.tid()));
    } else {
        maps::forget_queued(task.tid());
    }
}

/// Runs in the thread that made the new one.
#[inline(always)]
fn woken_first<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let state = maps::traced(task.pid());
    if state & traced::TRACED != 0
        && maps::is_wanted(EventTypeId::WAKEUP)
        && !guard::withholds(state, &task, 1)
    {
        wakeup::<C, true>(&task, asking(ctx, &task));
    }
}

/// Returns the waker of `task`, which runs now: an interrupt, or else the thread that has the CPU,
/// or that has sent the packet which an interrupt hands over.
#[inline(always)]
fn asking<C: Tracepoint>(ctx: &C, task: &Task<C>) -> Asking {
    let running = Task::<C>::current();
    let context = interrupted::context(ctx, &running);
    let context = match context {
        // Woken where an interrupt has just ended, on behalf of what it put off.
        waker_context::THREAD if task.serves_softirqs() => waker_context::UNKNOWN,
        waker_context::SOFTIRQ if packet::is_of(&running) && !task.serves_softirqs() => {
            waker_context::PACKET
        }
        context => context,
    };
    if context == waker_context::THREAD || context == waker_context::PACKET {
        Asking::thread(context, running.pid(), running.tid(), running.name())
    } else {
        Asking::no_thread(context)
    }
}

/// Records a wake-up. Whether the thread is new is no argument, so that each program has the code
/// for itself: shared, it would be called, with all that it needs handed over in memory.
#[inline(always)]
fn wakeup<C: Tracepoint, const IS_NEW: bool>(task: &Task<C>, waker: Asking) {
    let target_cpu = task.cpu();
    if RUN_QUEUE_SWITCHES.load() != NO_OFFSET && maps::is_wanted(EventTypeId::SWITCH_IN) {
        maps::set_queued(task.tid(), target_cpu, task.switches_of_its_cpu());
    } else {
        maps::forget_queued(task.tid());
    }
    if COUNTS_RATES.load() != 0 {
        maps::count_recorded(this_cpu(), 1);
    }
    record(task, EventTypeId::WAKEUP, |header| Record {
        header,
        data: WakeupData {
            target_cpu,
            new_thread: u32::from(IS_NEW),
            waker_pid: waker.pid().shown(),
            waker_tid: waker.tid().shown(),
            waker_comm: zerocopy::transmute!(waker.name),
            waker_context: waker.context(),
            reserved: 0,
        },
    });
}
