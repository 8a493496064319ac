//! Activity of threads, counted: on a CPU, runnable, blocked, stopped.

use aya_ebpf::helpers::bpf_ktime_get_ns;

use tracer_common::kernel::{counted, counting};

use super::sums::{NO_TIME, count};
use super::threads::{self, Entry, entry, entry_or_new, open_call};
use super::{are_asked, is_counted};
use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::sched::{state_left_in, switching};
use crate::subject::Subject;
use crate::task::Task;

at_tracepoint!("sched_switch": sched_switch_counts, sched_switch_counts_raw => switch);
at_tracepoint!("sched_wakeup": sched_wakeup_counts, sched_wakeup_counts_raw => woken);
at_tracepoint!("sched_wakeup_new": sched_wakeup_new_counts, sched_wakeup_new_counts_raw => woken_first);

/// The kernel's bit of threads that have ended (`TASK_DEAD`).
const DEAD: u32 = 0x80;
/// Of threads that were stopped by a signal, or by their tracer.
const STOPPED: u32 = 0x4 | 0x8;

/// Runs in the scheduler, with interrupts off.
#[inline(always)]
fn switch<C: Tracepoint>(ctx: &C) {
    let (prev, next) = switching(ctx);
    let leaves = is_counted(maps::traced(prev.pid()));
    let comes = is_counted(maps::traced(next.pid()));
    if !leaves && !comes {
        return;
    }
    // SAFETY: the helper takes no argument and only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    if leaves {
        leave(ctx, &prev, now);
    }
    if comes && are_asked(counting::SWITCHES) {
        come(&next, now);
    }
}

/// Counts that a thread leaves its CPU, and keeps the call that it is in.
#[inline(always)]
fn leave<C: Tracepoint>(ctx: &C, prev: &Task<C>, now: u64) {
    let tid = prev.tid().shown();
    let state = state_left_in(ctx, prev);
    let is_forced = ctx.flag::<0>() || state == 0;
    let call = match open_call() {
        Some(open) if open.tid() == tid && tid != 0 => Some(open.take()),
        _ => None,
    };
    if !is_forced && state & DEAD != 0 {
        if are_asked(counting::SWITCHES) {
            count(prev, (counted::RUNNING, 0), 0, ran(entry(tid), now));
        }
        threads::forget(tid);
        return;
    }
    if call.is_none() && !are_asked(counting::SWITCHES) {
        return;
    }
    let known = entry_or_new(prev);
    if let (Some(((kind, number), entered)), Some(entry)) = (call, known) {
        entry.set_kind(kind);
        entry.set_number(number);
        entry.set_entered(entered);
    }
    if !are_asked(counting::SWITCHES) {
        return;
    }
    let ran = ran(known, now);
    count(prev, (counted::RUNNING, 0), u64::from(is_forced), ran);
    if let Some(entry) = known {
        let does = if is_forced {
            counted::RUNNABLE
        } else if state & STOPPED != 0 {
            counted::STOPPED
        } else {
            counted::BLOCKED
        };
        entry.set_forced(u32::from(is_forced));
        entry.begin(does, now);
    }
}

/// Returns how long a thread has had its CPU by now, where that is known.
#[inline(always)]
fn ran(known: Option<Entry>, now: u64) -> u64 {
    match known {
        Some(entry) if entry.does() == counted::RUNNING => now.saturating_sub(entry.since()),
        _ => NO_TIME,
    }
}

/// Counts what a thread that gets a CPU has waited for.
#[inline(always)]
fn come<C: Tracepoint>(next: &Task<C>, now: u64) {
    let Some(entry) = entry_or_new(next) else {
        return;
    };
    let did = entry.does();
    if did == counted::RUNNABLE {
        let took = now.saturating_sub(entry.since());
        let also = u64::from(entry.is_forced() != 0);
        count(next, (counted::RUNNABLE, 0), also, took);
    }
    if did == counted::BLOCKED || did == counted::STOPPED {
        ended_wait(next, entry, now);
    }
    entry.begin(counted::RUNNING, now);
}

/// Runs where the thread becomes runnable.
#[inline(always)]
fn woken<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if !is_counted(maps::traced(task.pid())) {
        return;
    }
    let Some(entry) = entry_or_new(&task) else {
        return;
    };
    let did = entry.does();
    if did == counted::RUNNING || did == counted::RUNNABLE {
        return;
    }
    // SAFETY: the helper takes no argument and only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    if did != 0 {
        ended_wait(&task, entry, now);
    }
    entry.set_forced(0);
    entry.begin(counted::RUNNABLE, now);
}

/// Counts a wait for something else than a CPU, which has ended.
#[inline(always)]
fn ended_wait<C: Tracepoint>(task: &Task<C>, entry: Entry, now: u64) {
    let took = now.saturating_sub(entry.since());
    count(task, (entry.does(), 0), 0, took);
}

/// Runs in the thread that made the new one.
#[inline(always)]
fn woken_first<C: Tracepoint>(ctx: &C) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if !is_counted(maps::traced(task.pid())) {
        return;
    }
    if let Some(entry) = threads::begin(&task) {
        // SAFETY: the helper takes no argument and only reads the clock.
        let now = unsafe { bpf_ktime_get_ns() };
        entry.begin(counted::RUNNABLE, now);
    }
}

/// Notes that the running thread makes no call any more and ends. Until it leaves its CPU for good,
/// it has the CPU, waits for it, or for something else.
#[inline(always)]
pub fn end<C: Tracepoint>(task: &Task<C>) {
    let tid = task.tid().shown();
    let Some(entry) = entry(tid) else {
        return;
    };
    if are_asked(counting::SWITCHES) {
        entry.set_kind(0);
        entry.set_entered(0);
    } else {
        threads::forget(tid);
    }
}

/// Notes that the running thread, of a command that is counted from now on, has its CPU.
#[inline(always)]
pub fn start<C: Tracepoint>(task: &Task<C>) {
    if are_asked(counting::SWITCHES) {
        // SAFETY: the helper takes no argument and only reads the clock.
        threads::start(task, counted::RUNNING, unsafe { bpf_ktime_get_ns() });
    }
}
