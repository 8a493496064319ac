//! Replaced programs.

use core::mem::offset_of;

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_log_ebpf::debug;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{EXEC_ARGUMENT_BYTES, ExecRecord};

use crate::choice;
use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::offsets::{BINPRM_FILENAME, EXEC_WAKES, MM_ARG_END, MM_ARG_START};
use crate::pid::Pid;
use crate::record::{Wake, record_by};
use crate::sight;
use crate::subject::Subject;
use crate::task::{Address, Task, field};
use crate::text;

/// Words of a record before the arguments.
const BEFORE_ARGUMENTS: usize = offset_of!(ExecRecord, arguments) / 8;

/// Reads what the program was given from its own memory: how many bytes there are.
#[inline(always)]
fn read_arguments<C: Tracepoint>(task: &Task<C>, to: &mut [u8; EXEC_ARGUMENT_BYTES]) -> u32 {
    let memory = task.memory();
    let address = |offset| sight::read::<u64>(memory, offset);
    let (Some(start), Some(end)) = (address(MM_ARG_START.load()), address(MM_ARG_END.load()))
    else {
        return ExecRecord::UNREAD;
    };
    // The kernel allows some megabytes.
    let length = end
        .saturating_sub(start)
        .min(u64::from(ExecRecord::UNREAD - 1));
    #[expect(clippy::cast_possible_truncation, reason = "at most 1024")]
    let size = length.min(EXEC_ARGUMENT_BYTES as u64) as u32;
    // SAFETY: the helper writes at most as many bytes as there are, and checks the address.
    let read = unsafe { bpf_probe_read_user(to.as_mut_ptr().cast(), size, start as *const _) };
    #[expect(clippy::cast_possible_truncation, reason = "limited above")]
    let length = length as u32;
    if read < 0 { ExecRecord::UNREAD } else { length }
}

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
    record_by::<ExecRecord>(&task, EventTypeId::EXEC, wake, |record, header| {
        // The arguments are written as far as they are read, and no more of them is looked at.
        let start = record.as_mut_ptr().cast::<[u64; BEFORE_ARGUMENTS]>();
        // SAFETY: inside the record, which is aligned.
        unsafe { start.write([0; BEFORE_ARGUMENTS]) };
        // SAFETY: zeroed just now, or memory of the ring, and every bit pattern is a valid record.
        let record: &mut ExecRecord = unsafe { record.assume_init_mut() };
        record.header = header;
        record.header.program_address = program_address;
        record.data.comm = task.comm();
        record.data.old_tid = old_tid.shown();
        record.header.truncated = text::read(&mut record.data.file, name.0);
        record.sight = sight::of(&task);
        record.arguments_length = read_arguments(&task, &mut record.arguments);
    });
    debug!(ctx, "process {} runs another program", pid.0);
}
