//! New processes and threads.

use aya_log_ebpf::debug;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{ForkData, Record, RecordHeader, traced};

use crate::choice;
use crate::context::{Tracepoint, at_tracepoint};
use crate::guard;
use crate::maps;
use crate::off_cpu;
use crate::offsets::{TASK_FLAGS, USER_WORKER};
use crate::pids;
use crate::python;
use crate::record::record;
use crate::subject::Subject;
use crate::task::Task;
use crate::thread_context;
use crate::user;

at_tracepoint!("sched_process_fork": sched_process_fork, sched_process_fork_raw => fork);

/// Runs in the parent, before the child runs for the first time.
#[inline(always)]
fn fork<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments are `struct task_struct *parent, *child`.
    let parent = unsafe { Task::argument::<0>(ctx) };
    // SAFETY: as above.
    let child = unsafe { Task::argument::<1>(ctx) };
    begin(ctx, &parent, &child);
}

at_tracepoint!("task_newtask": task_newtask, task_newtask_raw => worker);

/// Runs in the thread for which the kernel makes a worker (of `io_uring`, say), before that runs
/// for the first time. What else is made is seen by the other one.
#[inline(always)]
fn worker<C: Tracepoint>(ctx: &C) {
    // SAFETY: the first argument is `struct task_struct *`.
    let child = unsafe { Task::argument::<0>(ctx) };
    if TASK_FLAGS.load() == NO_OFFSET || child.flags() & USER_WORKER.load() == 0 {
        return;
    }
    begin(ctx, &Task::<C>::current(), &child);
}

/// Notes and records that a process or thread was made.
#[inline(always)]
fn begin<C: Tracepoint>(ctx: &C, parent: &Task<C>, child: &Task<C>) {
    let (parent_pid, child_pid) = (parent.pid(), child.pid());
    let state = maps::traced(parent_pid);
    pids::learn(child);

    let is_process = child_pid != parent_pid;
    if is_process {
        const ADDED: u8 = traced::TRACED | traced::INHERIT;
        let inherits = state & (ADDED | traced::GUARDED | traced::OWNED);
        let is_added = inherits & ADDED == ADDED;
        let bits = if is_added {
            inherits
        } else {
            choice::bits(child, child.comm()) | choice::bits_of_newcomer(parent_pid, child_pid)
        };
        maps::set_traced(child_pid, bits);
        python::inherit(parent_pid, child_pid);
        // What an earlier process of this pid was is forgotten.
        guard::note(bits, child);
        if bits != 0 && !is_added {
            choice::say_name(child);
        }
        if is_added {
            debug!(
                ctx,
                "process {} traced as a child of {}", child_pid.0, parent_pid.0
            );
        }
    }
    off_cpu::forget(child.tid());
    thread_context::begins(parent_pid, child);
    if state & traced::TRACED == 0 {
        return;
    }
    let is_withheld = guard::withholds_life(state, parent);
    // Of a new process the agent has to know all the same: it may be looked into later.
    if is_withheld && !is_process {
        return;
    }
    let event_type = if is_process {
        EventTypeId::FORK
    } else {
        EventTypeId::THREAD_CREATE
    };
    let program_address = user::address(ctx);
    if !is_withheld {
        thread_context::note(parent);
    }
    record(parent, event_type, |header| Record {
        header: RecordHeader {
            program_address,
            truncated: guard::mark(is_withheld),
            ..header
        },
        data: ForkData {
            child_pid: child_pid.shown(),
            child_tid: child.tid().shown(),
            child_comm: child.comm(),
            child_ns_pid: child.leader().ns_tid(),
            child_ns_tid: child.ns_tid(),
        },
    });
}
