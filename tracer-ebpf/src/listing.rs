//! The processes that are there: listed to the agent when it asks, by both their pids.
//!
//! Only an agent in a pid namespace that is not the first one asks.

use aya_ebpf::helpers::generated::bpf_seq_write;
use aya_ebpf::programs::RawTracePointContext;

use tracer_common::kernel::TaskIds;

use crate::maps;
use crate::offsets::NAMESPACE;
use crate::subject::Subject;
use crate::task::Task;

/// `struct bpf_iter__task` of the kernel.
#[repr(C)]
pub struct Context {
    meta: *const Meta,
    task: *const u8,
}

/// `struct bpf_iter_meta` of the kernel, as far as it is read.
#[repr(C)]
struct Meta {
    file: *mut aya_ebpf::bindings::seq_file,
}

/// Runs for each thread of the reader's pid namespace, and once more at the end, without one.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn list_tasks(ctx: *const Context) -> i32 {
    // SAFETY: the kernel gives the context, whose fields the verifier knows.
    let address = unsafe { (*ctx).task };
    if address.is_null() {
        return 0;
    }
    // SAFETY: the kernel gives a `struct task_struct *`. Read by the helper.
    let task: Task<RawTracePointContext> = unsafe { Task::at(address) };
    let namespace = NAMESPACE.load();
    let own_tid = task.id_in(namespace);
    // It has just ended, and its tid is free.
    if own_tid == 0 {
        return 0;
    }
    maps::set_own(task.tid(), own_tid);
    let ids = TaskIds {
        pid: task.pid().0,
        tid: task.tid().0,
        own_pid: task.leader().id_in(namespace),
        own_tid,
    };
    // SAFETY: as above.
    let meta = unsafe { (*ctx).meta };
    // SAFETY: the kernel gives what the listing concerns, with the file first in it.
    let file = unsafe { (*meta).file };
    #[expect(clippy::cast_possible_truncation, reason = "16")]
    let size = size_of::<TaskIds>() as u32;
    // When the file's buffer is full, the kernel empties it and asks for the same task again.
    // SAFETY: the helper reads that many bytes of `ids`.
    unsafe { bpf_seq_write(file, (&raw const ids).cast(), size) };
    0
}
