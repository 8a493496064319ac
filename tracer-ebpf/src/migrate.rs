//! Moves to other CPUs.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{MigrateData, Record, traced};

use crate::context::{Tracepoint, at_tracepoint};
use crate::guard;
use crate::maps;
use crate::record::record;
use crate::subject::Subject;
use crate::task::Task;

at_tracepoint!("sched_migrate_task": sched_migrate_task, sched_migrate_task_raw => migrate);

/// Runs wherever the scheduler decides it, before the thread is moved.
#[inline(always)]
fn migrate<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments begin with `struct task_struct *, int dest_cpu`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let state = maps::traced(task.pid());
    if state & traced::TRACED == 0 || !maps::is_wanted(EventTypeId::MIGRATE) {
        return;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the CPU is an int")]
    let to_cpu = ctx.argument::<1>() as u32;
    let from_cpu = task.cpu();
    // The scheduler says it also where the thread stays: it does not count that either.
    if from_cpu == to_cpu || guard::withholds(state, &task, 1) {
        return;
    }
    record(&task, EventTypeId::MIGRATE, |header| Record {
        header,
        data: MigrateData { from_cpu, to_cpu },
    });
}
