//! Threads that have to wait since a control group has used up its time (`cpu.max`), and which that
//! is: of the groups that a thread is in, each may have a limit, and the queue of the one that has
//! used it up is throttled.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::programs::RawTracePointContext;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Record, ThrottleData};

use crate::descriptors::space::{half_at, word_at};
use crate::group_path;
use crate::maps;
use crate::offsets::{
    CGROUP_LEVEL, CGROUP_NODE, ENTITY_PARENT, ENTITY_QUEUE, FAIR_QUEUE_GROUP,
    FAIR_QUEUE_LIMITED_BITS, FAIR_QUEUE_LIMITED_MASK, GROUP_CGROUP, NODE_ID, TASK_FAIR_QUEUE,
    TASK_PARENT_ENTITY,
};
use crate::record::{Wake, record_by};
use crate::task::Task;

/// Groups that are within each other at most.
const DEEPEST: u32 = 16;

/// How the task is read: the same in both kinds of programs, and walked by the verifier by itself.
type Read = RawTracePointContext;

/// Records which control group has used up its time, of the running thread, which has to wait for
/// that. The scheduler's lock is held, so that it is as it was.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn record_throttle() -> i32 {
    if !maps::is_wanted(EventTypeId::THROTTLE) {
        return 0;
    }
    // SAFETY: the helper takes no argument.
    let running = unsafe { bpf_get_current_task() };
    let group = throttled_group(running);
    if group == 0 {
        return 0;
    }
    let node = word_at(group, CGROUP_NODE.load());
    let is_cut = group_path::make_group_path(node);
    // SAFETY: it is a `struct task_struct *`.
    let task: Task<Read> = unsafe { Task::at(running as *const u8) };
    let (type_id, wake) = (EventTypeId::THROTTLE, Wake::InTime);
    record_by(&task, type_id, wake, |record, header| {
        *record = MaybeUninit::zeroed();
        // SAFETY: zeroed just now, and every bit pattern is a valid record.
        let record: &mut Record<ThrottleData> = unsafe { record.assume_init_mut() };
        record.header = header;
        record.header.truncated = is_cut.cast_unsigned();
        record.data.id = word_at(node, NODE_ID.load());
        record.data.level = half_at(group, CGROUP_LEVEL.load());
        group_path::copy(&mut record.data.path);
    });
    0
}

/// Returns the `struct cgroup` whose queue is throttled of those that a task is in, the innermost
/// one; 0 for none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn throttled_group(task: u64) -> u64 {
    let mut queue = word_at(task, TASK_FAIR_QUEUE.load());
    let mut entity = word_at(task, TASK_PARENT_ENTITY.load());
    let mut depth = 0;
    while depth < DEEPEST {
        depth += 1;
        let group = group_if_throttled(queue);
        if group != 0 {
            return group;
        }
        if entity == 0 {
            break;
        }
        queue = word_of(entity, ENTITY_QUEUE.load());
        entity = word_of(entity, ENTITY_PARENT.load());
    }
    0
}

/// Returns the `struct cgroup` whose queue this is, if it is throttled; 0 if not.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn group_if_throttled(queue: u64) -> u64 {
    let bits = half_at(queue, FAIR_QUEUE_LIMITED_BITS.load());
    if bits & FAIR_QUEUE_LIMITED_MASK.load() == 0 {
        return 0;
    }
    let group = word_at(queue, FAIR_QUEUE_GROUP.load());
    word_at(group, GROUP_CGROUP.load())
}

/// Reads as [`word_at`] does: walked by the verifier by itself, and not in each round of a loop.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn word_of(base: u64, offset: u32) -> u64 {
    word_at(base, offset)
}
