//! Moves to other control groups.

use core::mem::MaybeUninit;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{CgroupAttachData, Record, traced};

use crate::choice;
use crate::context::{Tracepoint, at_tracepoint};
use crate::guard;
use crate::maps;
use crate::offsets::{CGROUP_LEVEL, CGROUP_NODE, NODE_ID};
use crate::record::{Wake, record_by};
use crate::subject::Subject;
use crate::task::{Address, Task, field};
use crate::text;

at_tracepoint!("cgroup_attach_task": cgroup_attach_task, cgroup_attach_task_raw => moved);

/// Runs wherever a process is moved to another control group, after that.
#[inline(always)]
fn moved<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments are `struct cgroup *, const char *path, struct task_struct *, bool`.
    let task = unsafe { Task::argument::<2>(ctx) };
    let state = maps::traced(task.pid());
    let was_traced = state & traced::TRACED != 0;
    choice::moved(ctx, &task);
    // Also the move by which it comes to be traced, and the one that ends that.
    let concerns_traced = was_traced || maps::is_traced(task.pid());
    if concerns_traced
        && maps::is_wanted(EventTypeId::CGROUP_ATTACH)
        && !guard::withholds(state, &task, 1)
    {
        record_attach(ctx, &task);
    }
}

#[inline(always)]
fn record_attach<C: Tracepoint>(ctx: &C, task: &Task<C>) {
    let group = ctx.address::<0>();
    // SAFETY: the argument is a `struct cgroup *`, and `level` an int of it.
    let level: u32 = unsafe { field::<C, _>(group, CGROUP_LEVEL.load()) };
    // SAFETY: as above; the node is a pointer in it.
    let node: Address = unsafe { field::<C, _>(group, CGROUP_NODE.load()) };
    // SAFETY: it is a `struct kernfs_node *`, and `id` 64 bits of it.
    let id: u64 = unsafe { field::<C, _>(node.0, NODE_ID.load()) };
    // In version 2 it is the task's now; in another hierarchy the task has one of version 2 beside
    // it.
    let is_second = task.control_group().0 == group;
    let (type_id, wake) = (EventTypeId::CGROUP_ATTACH, Wake::InTime);
    record_by(task, type_id, wake, |record, header| {
        *record = MaybeUninit::zeroed();
        // SAFETY: zeroed just now, and every bit pattern is a valid record.
        let record: &mut Record<CgroupAttachData> = unsafe { record.assume_init_mut() };
        record.header = header;
        record.data.id = id;
        record.data.target_comm = task.comm();
        record.data.target_pid = header.pid;
        record.data.target_tid = header.tid;
        record.data.whole_process = u32::from(ctx.flag::<3>());
        record.data.level = level;
        record.data.version = if is_second { 2 } else { 1 };
        record.header.truncated = text::read(&mut record.data.path, ctx.address::<1>());
    });
}
