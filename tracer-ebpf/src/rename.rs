//! New thread names.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, Record, RecordHeader, RenameData, traced};

use crate::choice;
use crate::context::{Tracepoint, at_tracepoint};
use crate::guard;
use crate::maps;
use crate::offsets::CHOOSES;
use crate::record::record;
use crate::subject::Subject;
use crate::task::Task;
use crate::user;

at_tracepoint!("task_rename": task_rename, task_rename_raw => rename);

/// Runs before the name is set.
#[inline(always)]
fn rename<C: Tracepoint>(ctx: &C) {
    // SAFETY: the first argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let (pid, tid) = (task.pid(), task.tid());
    let state = maps::traced(pid);
    let is_traced = state & traced::TRACED != 0;
    // A process goes by the name of its first thread.
    if !is_traced && (CHOOSES.load() == 0 || tid != pid) {
        return;
    }
    let name = ctx.argument::<1>() as *const u8;
    let mut comm = [0; COMM_BYTES];
    #[expect(clippy::cast_possible_truncation, reason = "16")]
    let size = COMM_BYTES as u32;
    // SAFETY: the helper writes at most 16 bytes into `comm`, and checks `name`, which is the
    // new name: at an exec that of the file, of any length.
    unsafe { bpf_probe_read_kernel_str(comm.as_mut_ptr().cast(), size, name.cast()) };
    if !is_traced {
        let bits = choice::bits(&task, comm);
        if bits == 0 {
            return;
        }
        maps::set_traced(pid, bits);
    }
    let program_address = user::address(ctx);
    // An exec renames the thread while its registers are still those of the call.
    maps::remember_call(tid, program_address);
    let is_in_exec = user::may_be_in_exec(ctx);
    if is_in_exec && let Some(call) = user::call(ctx) {
        // Of which it is when it ends, as well.
        maps::remember_exec(tid, call, Task::<C>::current().is_in_compat_call());
    }
    // Where an exec begins, the agent has to know that, whatever may be looked into.
    if !is_in_exec && guard::withholds_life(state, &task) {
        return;
    }
    record(&task, EventTypeId::RENAME, |header| Record {
        header: RecordHeader {
            program_address,
            truncated: if is_in_exec {
                RecordHeader::EXEC_BEGINS
            } else {
                0
            },
            ..header
        },
        data: RenameData { comm },
    });
}
