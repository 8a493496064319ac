//! Wake-ups.
//!
//! Who wakes is known where the wake-up is asked for (`sched_waking`); often the thread becomes
//! runnable on another CPU, in an interrupt (`sched_wakeup`). What is known is handed on by a map.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, WakeupData, WakeupRecord};

use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::numbers::Pid;
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
        let (pid, tid, comm) = running::<C>();
        maps::remember_waker(task.tid(), pid, tid, comm);
    }
}

/// Runs where the thread becomes runnable: the event is about that thread.
#[inline(always)]
fn woken<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::is_traced(task.pid()) && maps::is_wanted(EventTypeId::WAKEUP) {
        wakeup(&task, false, maps::waker(task.tid()));
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

/// Process, thread and name of who runs.
#[inline(always)]
fn running<C: Tracepoint>() -> (Pid, Pid, [u8; COMM_BYTES]) {
    let waker = Task::<C>::current();
    (waker.pid(), waker.tid(), waker.comm())
}

#[inline(always)]
fn wakeup<C: Tracepoint>(task: &Task<C>, is_new: bool, waker: (Pid, Pid, [u8; COMM_BYTES])) {
    let (waker_pid, waker_tid, waker_comm) = waker;
    record(task, EventTypeId::WAKEUP, |header| WakeupRecord {
        header,
        data: WakeupData {
            target_cpu: task.cpu(),
            new: u32::from(is_new),
            waker_pid: waker_pid.shown(),
            waker_tid: waker_tid.shown(),
            waker_comm,
        },
    });
}
