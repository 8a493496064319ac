//! Wake-ups.

use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{WakeupData, WakeupRecord, traced};

use crate::context::Tracepoint;
use crate::maps;
use crate::record::record;
use crate::task::Task;

/// At the BTF tracepoint.
#[btf_tracepoint(function = "sched_wakeup")]
pub fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
    wakeup(&ctx, false);
    0
}

/// At the raw tracepoint.
#[raw_tracepoint(tracepoint = "sched_wakeup")]
pub fn sched_wakeup_raw(ctx: RawTracePointContext) -> i32 {
    wakeup(&ctx, false);
    0
}

/// At the BTF tracepoint for a thread that never ran before.
#[btf_tracepoint(function = "sched_wakeup_new")]
pub fn sched_wakeup_new(ctx: BtfTracePointContext) -> i32 {
    wakeup(&ctx, true);
    0
}

/// At the raw tracepoint for a thread that never ran before.
#[raw_tracepoint(tracepoint = "sched_wakeup_new")]
pub fn sched_wakeup_new_raw(ctx: RawTracePointContext) -> i32 {
    wakeup(&ctx, true);
    0
}

/// Runs wherever the wake-up happens: the event is about the thread that is woken.
#[inline(always)]
fn wakeup<C: Tracepoint>(ctx: &C, is_new: bool) {
    // SAFETY: the argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::traced(task.pid()) & traced::TRACED == 0 || !maps::is_wanted(EventTypeId::WAKEUP) {
        return;
    }
    record(&task, EventTypeId::WAKEUP, |header| WakeupRecord {
        header,
        data: WakeupData {
            target_cpu: task.cpu(),
            new: u32::from(is_new),
        },
    });
}
