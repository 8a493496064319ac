//! Wake-ups.
//!
//! Who wakes is known where the wake-up is asked for (`sched_waking`); often the thread becomes
//! runnable on another CPU, in an interrupt (`sched_wakeup`). What is known is handed on by a map.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Record, WakeupData, waker_context};

use crate::context::{CommWords, Tracepoint, at_tracepoint};
use crate::interrupted;
use crate::maps;
use crate::pids::Pid;
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
        maps::remember_waker(task.tid(), asking(ctx, &task));
    }
}

/// Runs where the thread becomes runnable: the event concerns that thread.
#[inline(always)]
fn woken<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::is_traced(task.pid()) && maps::is_wanted(EventTypeId::WAKEUP) {
        wakeup::<C, false>(&task, maps::waker(task.tid()));
    }
}

/// Runs in the thread that made the new one.
#[inline(always)]
fn woken_first<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::is_traced(task.pid()) && maps::is_wanted(EventTypeId::WAKEUP) {
        wakeup::<C, true>(&task, asking(ctx, &task));
    }
}

/// Who asks for a wake-up, in words: fields of other sizes would be cleared and copied byte by byte.
#[derive(Clone, Copy)]
pub struct Asking {
    /// From the lowest bit: thread and process, [`TASK_BITS`] each, and the [`waker_context`].
    pub who: u64,
    /// The thread's name.
    pub name: CommWords,
}

/// Bits of [`Asking::who`] for the number of a thread or process: the kernel has none above.
pub const TASK_BITS: u32 = 22;
const TASK: u64 = (1 << TASK_BITS) - 1;
/// Where in it the context lies.
const CONTEXT_AT: u32 = 2 * TASK_BITS;
/// Bits of all that.
pub const WHO_BITS: u32 = CONTEXT_AT + 4;

impl Asking {
    /// No thread: this.
    #[inline(always)]
    pub fn no_thread(context: u32) -> Self {
        Self {
            who: u64::from(context) << CONTEXT_AT,
            name: [0; 2],
        }
    }

    #[inline(always)]
    fn context(self) -> u32 {
        // Below 16.
        (self.who >> CONTEXT_AT) as u32
    }

    #[inline(always)]
    fn pid(self) -> Pid {
        Pid((self.who >> TASK_BITS & TASK) as u32)
    }

    #[inline(always)]
    fn tid(self) -> Pid {
        Pid((self.who & TASK) as u32)
    }
}

/// Who runs, and asks for the wake-up of `task`: an interrupt, or else the thread that has the CPU.
#[inline(always)]
fn asking<C: Tracepoint>(ctx: &C, task: &Task<C>) -> Asking {
    let running = Task::<C>::current();
    let context = interrupted::context(ctx, &running);
    if context != waker_context::THREAD {
        return Asking::no_thread(context);
    }
    if task.serves_softirqs() {
        // Woken where an interrupt has just ended, on behalf of what it put off.
        return Asking::no_thread(waker_context::UNKNOWN);
    }
    let (pid, tid) = (u64::from(running.pid().0), u64::from(running.tid().0));
    Asking {
        who: u64::from(context) << CONTEXT_AT | pid << TASK_BITS | tid,
        name: running.name(),
    }
}

/// Whether the thread is new is no argument, so that each program has the code for itself: shared, it
/// would be called, with all that it needs handed over in memory.
#[inline(always)]
fn wakeup<C: Tracepoint, const IS_NEW: bool>(task: &Task<C>, waker: Asking) {
    record(task, EventTypeId::WAKEUP, |header| Record {
        header,
        data: WakeupData {
            target_cpu: task.cpu(),
            new_thread: u32::from(IS_NEW),
            waker_pid: waker.pid().shown(),
            waker_tid: waker.tid().shown(),
            waker_comm: zerocopy::transmute!(waker.name),
            waker_context: waker.context(),
            reserved: 0,
        },
    });
}
