//! Wake-ups.
//!
//! Who wakes is known where the wake-up is asked for (`sched_waking`); often the thread becomes
//! runnable on another CPU, in an interrupt (`sched_wakeup`). What is known is handed on by a map.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Waker, WakeupData, WakeupRecord};

use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::record::{Subject, record};
use crate::task::Task;

at_tracepoint!("sched_waking": sched_waking, sched_waking_raw => waking);
at_tracepoint!("sched_wakeup": sched_wakeup, sched_wakeup_raw => woken);
at_tracepoint!("sched_wakeup_new": sched_wakeup_new, sched_wakeup_new_raw => woken_first);

/// Runs where the wake-up is asked for.
#[inline(always)]
fn waking<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::is_traced(task.pid()) && maps::is_wanted(EventTypeId::WAKEUP) {
        maps::remember_waker(task.tid(), &running::<C>());
    }
}

/// Runs where the thread becomes runnable: the event is about that thread.
#[inline(always)]
fn woken<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::is_traced(task.pid()) && maps::is_wanted(EventTypeId::WAKEUP) {
        wakeup(&task, false, maps::forget_waker(task.tid()));
    }
}

/// Runs in the thread that made the new one.
#[inline(always)]
fn woken_first<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::is_traced(task.pid()) && maps::is_wanted(EventTypeId::WAKEUP) {
        wakeup(&task, true, running::<C>());
    }
}

#[inline(always)]
fn running<C: Tracepoint>() -> Waker {
    let waker = Task::<C>::current();
    Waker {
        pid: waker.pid(),
        tid: waker.tid(),
        comm: waker.comm(),
    }
}

#[inline(always)]
fn wakeup<C: Tracepoint>(task: &Task<C>, is_new: bool, waker: Waker) {
    record(task, EventTypeId::WAKEUP, |header| WakeupRecord {
        header,
        data: WakeupData {
            target_cpu: task.cpu(),
            new: u32::from(is_new),
            waker_pid: waker.pid,
            waker_tid: waker.tid,
            waker_comm: waker.comm,
        },
    });
}
