//! Moves to other control groups.

use crate::choice;
use crate::context::{Tracepoint, at_tracepoint};
use crate::task::Task;

at_tracepoint!("cgroup_attach_task": cgroup_attach_task, cgroup_attach_task_raw => moved);

/// Runs wherever a process is moved to another control group, after that.
#[inline(always)]
fn moved<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments are `struct cgroup *, const char *path, struct task_struct *, bool`.
    let task = unsafe { Task::argument::<2>(ctx) };
    choice::moved(ctx, &task);
}
