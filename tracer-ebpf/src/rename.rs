//! New thread names.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, RenameData, RenameRecord, traced};

use crate::context::Tracepoint;
use crate::maps;
use crate::record::record;
use crate::task::Task;

/// At the BTF tracepoint.
#[btf_tracepoint(function = "task_rename")]
pub fn task_rename(ctx: BtfTracePointContext) -> i32 {
    rename(&ctx);
    0
}

/// At the raw tracepoint.
#[raw_tracepoint(tracepoint = "task_rename")]
pub fn task_rename_raw(ctx: RawTracePointContext) -> i32 {
    rename(&ctx);
    0
}

/// Runs before the name is set.
#[inline(always)]
fn rename<C: Tracepoint>(ctx: &C) {
    // SAFETY: the first argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    if maps::traced(task.pid()) & traced::TRACED == 0 {
        return;
    }
    let name = ctx.number::<1>() as *const u8;
    let mut comm = [0; COMM_BYTES];
    #[expect(clippy::cast_possible_truncation, reason = "16")]
    let size = COMM_BYTES as u32;
    // SAFETY: the helper writes at most 16 bytes into `comm`, and checks `name`, which is the
    // new name: at an exec that of the file, of any length.
    unsafe { bpf_probe_read_kernel_str(comm.as_mut_ptr().cast(), size, name.cast()) };
    record(&task, EventTypeId::RENAME, |header| RenameRecord {
        header,
        data: RenameData { comm },
    });
}
