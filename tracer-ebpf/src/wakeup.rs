//! Wake-ups.
//!
//! Who wakes is known where the wake-up is asked for (`sched_waking`); often the thread becomes
//! runnable on another CPU, in an interrupt (`sched_wakeup`). What is known is handed on by a map.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, WakeupData, WakeupRecord, waker_context};

use crate::context::{Tracepoint, at_tracepoint};
use crate::interrupted;
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
        maps::remember_waker(task.tid(), &asking(ctx, &task));
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
        wakeup(&task, true, asking(ctx, &task));
    }
}

/// Who asks for a wake-up.
pub struct Asking {
    /// See [`waker_context`].
    pub context: u32,
    pub pid: Pid,
    pub tid: Pid,
    pub comm: [u8; COMM_BYTES],
}

impl Asking {
    /// No thread: this.
    #[inline(always)]
    pub fn no_thread(context: u32) -> Self {
        Self {
            context,
            pid: Pid(0),
            tid: Pid(0),
            comm: [0; COMM_BYTES],
        }
    }
}

/// Who runs, and asks for the wake-up of `task`: an interrupt, or else the thread that has the CPU.
#[inline(always)]
fn asking<C: Tracepoint>(ctx: &C, task: &Task<C>) -> Asking {
    let context = interrupted::context(ctx);
    if context != waker_context::THREAD {
        return Asking::no_thread(context);
    }
    if task.serves_softirqs() {
        // Woken where an interrupt has just ended, on behalf of what it put off.
        return Asking::no_thread(waker_context::UNKNOWN);
    }
    let waker = Task::<C>::current();
    Asking {
        context,
        pid: waker.pid(),
        tid: waker.tid(),
        comm: waker.comm(),
    }
}

#[inline(always)]
fn wakeup<C: Tracepoint>(task: &Task<C>, is_new: bool, waker: Asking) {
    record(task, EventTypeId::WAKEUP, |header| WakeupRecord {
        header,
        data: WakeupData {
            target_cpu: task.cpu(),
            new: u32::from(is_new),
            waker_pid: waker.pid.shown(),
            waker_tid: waker.tid.shown(),
            waker_comm: waker.comm,
            waker_context: waker.context,
            reserved: 0,
        },
    });
}
