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

impl Context {
    /// Returns the task; null at the end.
    ///
    /// # Safety
    ///
    /// The kernel has given `ctx`, whose fields the verifier knows.
    #[inline(always)]
    pub unsafe fn task(ctx: *const Self) -> *const u8 {
        // SAFETY: as promised by the caller.
        unsafe { (*ctx).task }
    }

    /// Hands over so many bytes at `from`. When the file's buffer is full, the kernel empties it
    /// and asks for the same task again.
    ///
    /// # Safety
    ///
    /// As for [`task`](Self::task); and that many bytes may be read there.
    #[inline(always)]
    pub unsafe fn write(ctx: *const Self, from: *const u8, bytes: u32) {
        // SAFETY: as promised by the caller.
        let meta = unsafe { (*ctx).meta };
        // SAFETY: the kernel gives what the listing concerns, with the file first in it.
        let file = unsafe { (*meta).file };
        // SAFETY: as promised by the caller.
        unsafe { bpf_seq_write(file, from.cast_mut().cast(), bytes) };
    }
}

/// Runs for each thread of the reader's pid namespace, and once more at the end, without one.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn list_tasks(ctx: *const Context) -> i32 {
    // SAFETY: the kernel gives the context.
    let address = unsafe { Context::task(ctx) };
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
    #[expect(clippy::cast_possible_truncation, reason = "16")]
    let size = size_of::<TaskIds>() as u32;
    // SAFETY: as above; `ids` has that many bytes.
    unsafe { Context::write(ctx, (&raw const ids).cast(), size) };
    0
}
