//! Replaced programs.

use core::mem::MaybeUninit;

use aya_log_ebpf::debug;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ExecRecord;

use crate::choice;
use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::offsets::{BINPRM_FILENAME, EXEC_WAKES};
use crate::pid::Pid;
use crate::record::{Wake, record_by};
use crate::sight;
use crate::subject::Subject;
use crate::task::{Address, Task, field};
use crate::text;

at_tracepoint!("sched_process_exec": sched_process_exec, sched_process_exec_raw => exec);

/// Runs in the new program, before its first instruction.
#[inline(always)]
fn exec<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments are `struct task_struct *, pid_t, struct linux_binprm *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let pid = task.pid();
    if !maps::is_traced(pid) {
        let bits = choice::bits(&task, task.comm());
        if bits == 0 {
            return;
        }
        maps::set_traced(pid, bits);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the thread is an int")]
    let old_tid = Pid(ctx.argument::<1>() as u32);
    // SAFETY: the argument is a `struct linux_binprm *`, and `filename` a pointer in it.
    let name: Address = unsafe { field::<C, _>(ctx.address::<2>(), BINPRM_FILENAME.load()) };
    let program_address = maps::forget_call(task.tid());
    // A program with a trace area of its own has one in a millisecond or so: the agent looks for
    // it, where user events are wanted.
    let wake = if EXEC_WAKES.load() != 0 {
        Wake::Now
    } else {
        Wake::InTime
    };
    record_by(&task, EventTypeId::EXEC, wake, |record, header| {
        // The file name is by far the largest part: all is zeroed, and it is read where it lies.
        *record = MaybeUninit::zeroed();
        // SAFETY: zeroed just now, and every bit pattern is a valid record.
        let record: &mut ExecRecord = unsafe { record.assume_init_mut() };
        record.header = header;
        record.header.program_address = program_address;
        record.data.comm = task.comm();
        record.data.old_tid = old_tid.shown();
        record.header.truncated = text::read(&mut record.data.file, name.0);
        record.sight = sight::of(&task);
    });
    debug!(ctx, "process {} runs another program", pid.0);
}
