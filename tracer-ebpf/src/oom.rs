//! Processes that are killed for want of memory.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, OomKillData, Record, traced};

use crate::context::{Tracepoint, at_tracepoint};
use crate::guard;
use crate::maps;
use crate::offsets::VICTIM_IS_TASK;
use crate::pid::Pid;
use crate::record::record;
use crate::subject::Subject;
use crate::task::Task;

at_tracepoint!("mark_victim": mark_victim, mark_victim_raw => victim);

/// Runs in the thread that wanted the memory.
#[inline(always)]
fn victim<C: Tracepoint>(ctx: &C) {
    if VICTIM_IS_TASK.load() == 0 {
        #[expect(clippy::cast_possible_truncation, reason = "the thread is an int")]
        let pid = ctx.argument::<0>() as u32;
        let victim = KnownByPid(Pid(pid));
        kill(&victim, [0; COMM_BYTES], 0, |state| {
            guard::hid(state, victim.0)
        });
        return;
    }
    // SAFETY: the arguments are `struct task_struct *, uid_t`.
    let task = unsafe { Task::argument::<0>(ctx) };
    #[expect(clippy::cast_possible_truncation, reason = "the user is an int")]
    let uid = ctx.argument::<1>() as u32;
    kill(&task, task.comm(), uid, |state| guard::hides(state, &task));
}

#[inline(always)]
fn kill(subject: &impl Subject, comm: [u8; COMM_BYTES], uid: u32, hides: impl FnOnce(u8) -> bool) {
    let state = maps::traced(subject.pid());
    if state & traced::TRACED == 0 || !maps::is_wanted(EventTypeId::OOM_KILL) {
        return;
    }
    if hides(state) {
        guard::count(subject.pid(), 1);
        return;
    }
    record(subject, EventTypeId::OOM_KILL, |header| Record {
        header,
        data: OomKillData {
            comm,
            uid,
            reserved: 0,
        },
    });
}

/// A process of which only the pid is known: that of its first thread.
struct KnownByPid(Pid);

impl Subject for KnownByPid {
    #[inline(always)]
    fn pid(&self) -> Pid {
        self.0
    }

    #[inline(always)]
    fn tid(&self) -> Pid {
        self.0
    }

    #[inline(always)]
    fn thread_id(&self) -> u64 {
        0
    }
}
