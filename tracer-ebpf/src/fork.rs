//! New processes and threads.

use aya_ebpf::bindings::BPF_F_USER_STACK;
use aya_ebpf::helpers::generated::bpf_get_stack;
use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};
use aya_log_ebpf::debug;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ForkData, ForkRecord, RecordHeader, traced};

use crate::context::Tracepoint;
use crate::maps;
use crate::record::record;
use crate::task::Task;

/// At the BTF tracepoint.
#[btf_tracepoint(function = "sched_process_fork")]
pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    fork(&ctx);
    0
}

/// At the raw tracepoint.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn sched_process_fork_raw(ctx: RawTracePointContext) -> i32 {
    fork(&ctx);
    0
}

/// Runs in the parent, before the child runs for the first time.
#[inline(always)]
fn fork<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments are `struct task_struct *parent, *child`.
    let parent = unsafe { Task::argument::<0>(ctx) };
    // SAFETY: as above.
    let child = unsafe { Task::argument::<1>(ctx) };
    let (parent_pid, child_pid) = (parent.pid(), child.pid());
    let state = maps::traced(parent_pid);

    let is_process = child_pid != parent_pid;
    if is_process {
        let inherits = state & (traced::TRACED | traced::INHERIT);
        let is_added = inherits == traced::TRACED | traced::INHERIT;
        maps::set_traced(child_pid, if is_added { inherits } else { 0 });
        if is_added {
            debug!(
                ctx,
                "process {} traced as a child of {}", child_pid, parent_pid
            );
        }
    }
    if state & traced::TRACED == 0 {
        return;
    }
    let event_type = if is_process {
        EventTypeId::FORK
    } else {
        EventTypeId::THREAD_CREATE
    };
    let program_address = user_address(ctx);
    record(&parent, event_type, |header| ForkRecord {
        header: RecordHeader {
            program_address,
            ..header
        },
        data: ForkData {
            child_pid,
            child_tid: child.tid(),
            child_comm: child.comm(),
        },
    });
}

/// Where the running thread goes on in user space: the first frame of its stack; 0 when it has
/// none.
#[inline(always)]
fn user_address<C: Tracepoint>(ctx: &C) -> u64 {
    let mut frame = 0_u64;
    let flags = u64::from(BPF_F_USER_STACK);
    // SAFETY: the helper writes at most the 8 bytes of `frame`.
    let written = unsafe { bpf_get_stack(ctx.as_ptr(), (&raw mut frame).cast(), 8, flags) };
    if written == 8 { frame } else { 0 }
}
