//! Replaced programs.

use core::mem::{MaybeUninit, offset_of};

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_log_ebpf::debug;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::exec_space::{LARGE, MIDDLE, SMALL};
use tracer_common::kernel::{ExecRecord, traced};

use crate::choice;
use crate::context::{Tracepoint, at_tracepoint};
use crate::counts::life;
use crate::cpu::this_cpu;
use crate::gathered::bounded;
use crate::guard;
use crate::maps::{self, count_ring_full};
use crate::offsets::{BINPRM_FILENAME, EXEC_BYTES, EXEC_WAKES, MM_ARG_END, MM_ARG_START, TASK_MM};
use crate::pid::Pid;
use crate::python;
use crate::record::{Wake, record_if_it_fits};
use crate::sight;
use crate::subject::Subject;
use crate::task::{Address, Task, field};
use crate::text;
use crate::thread_context;

/// Words of a record before the arguments.
const BEFORE_ARGUMENTS: usize = offset_of!(ExecRecord<0>, arguments) / 8;

/// Where a program has what it was given, in its own memory.
#[derive(Clone, Copy)]
struct Arguments {
    start: u64,
    /// Bytes of them; [`ExecRecord::UNREAD`] where that cannot be said.
    length: u32,
}

impl Arguments {
    #[inline(always)]
    fn from_task<C: Tracepoint>(task: &Task<C>) -> Self {
        let memory = sight::read(Address(task.address()), TASK_MM.load()).unwrap_or(0_u64);
        let address = |offset| sight::read::<u64>(Address(memory as *const u8), offset);
        let (Some(start), Some(end)) = (address(MM_ARG_START.load()), address(MM_ARG_END.load()))
        else {
            let (start, length) = (0, ExecRecord::UNREAD);
            return Self { start, length };
        };
        // The kernel allows some megabytes.
        let length = end
            .saturating_sub(start)
            .min(u64::from(ExecRecord::UNREAD - 1));
        #[expect(clippy::cast_possible_truncation, reason = "limited above")]
        let length = length as u32;
        Self { start, length }
    }

    /// Tells whether they need more space than this.
    #[inline(always)]
    fn need_more_than<const N: usize>(self) -> bool {
        self.length != ExecRecord::UNREAD && self.length as usize > N
    }

    /// Reads as many of them as there is space for: how many bytes there are.
    #[inline(always)]
    fn read<const N: usize>(self, to: &mut [u8; N]) -> u32 {
        if self.length == ExecRecord::UNREAD {
            return self.length;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 65536")]
        let most = (N as u64).min(u64::from(EXEC_BYTES.load())) as u32;
        let size = bounded(u64::from(self.length), u64::from(most));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most what there is space for"
        )]
        let size = size as u32;
        let to = to.as_mut_ptr().cast();
        // SAFETY: the helper writes at most as many bytes as there are, and checks the address.
        let read = unsafe { bpf_probe_read_user(to, size, self.start as *const _) };
        if read < 0 {
            ExecRecord::UNREAD
        } else {
            self.length
        }
    }
}

/// Records an exec, beside its arguments.
struct Replaced {
    old_tid: Pid,
    /// The file, in the kernel's memory.
    name: *const u8,
    program_address: u64,
    wake: Wake,
}

impl Replaced {
    /// Records it where there is space for so many bytes of arguments: whether there is.
    #[inline(always)]
    fn record<C: Tracepoint, const N: usize>(&self, task: &Task<C>, arguments: Arguments) -> bool {
        let fill = |record: &mut MaybeUninit<ExecRecord<N>>, header| {
            // The arguments are written as far as they are read, and no more of them is looked at.
            let start = record.as_mut_ptr().cast::<[u64; BEFORE_ARGUMENTS]>();
            // SAFETY: inside the record, which is aligned.
            unsafe { start.write([0; BEFORE_ARGUMENTS]) };
            // SAFETY: zeroed just now, or memory of the ring, and every bit pattern is a valid
            // record.
            let record = unsafe { record.assume_init_mut() };
            record.header = header;
            record.header.program_address = self.program_address;
            record.data.comm = task.comm();
            record.data.old_tid = self.old_tid.shown();
            record.header.truncated = text::read(&mut record.data.file, self.name);
            record.sight = sight::collect(task);
            record.arguments_asked = EXEC_BYTES.load();
            record.arguments_length = arguments.read(&mut record.arguments);
        };
        record_if_it_fits::<ExecRecord<N>>(task, EventTypeId::EXEC, self.wake, fill)
    }
}

at_tracepoint!("sched_process_exec": sched_process_exec, sched_process_exec_raw => exec);

/// Runs in the new program, before its first instruction.
#[inline(always)]
fn exec<C: Tracepoint>(ctx: &C) {
    // SAFETY: the arguments are `struct task_struct *, pid_t, struct linux_binprm *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let pid = task.pid();
    let state = maps::traced(pid);
    if state & traced::TRACED == 0 {
        let bits = choice::bits(&task, task.comm());
        if bits == 0 {
            return;
        }
        maps::set_traced(pid, bits);
    }
    // Recorded in any case: the agent judges by it. Later events may need to know what it is now.
    guard::note(state, &task);
    thread_context::replaced(&task);
    python::is_replaced(task.pid());
    #[expect(clippy::cast_possible_truncation, reason = "the thread is an int")]
    let old_tid = Pid(ctx.argument::<1>() as u32);
    life::replaced(&task, old_tid, state);
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
    let replaced = Replaced {
        old_tid,
        name: name.0,
        program_address,
        wake,
    };
    let arguments = Arguments::from_task(&task);
    let is_large = EXEC_BYTES.load() as usize > MIDDLE && arguments.need_more_than::<MIDDLE>();
    let is_recorded = is_large && replaced.record::<C, LARGE>(&task, arguments)
        || arguments.need_more_than::<SMALL>() && replaced.record::<C, MIDDLE>(&task, arguments)
        || replaced.record::<C, SMALL>(&task, arguments);
    if !is_recorded {
        count_ring_full(this_cpu(), 1);
    }
    debug!(ctx, "process {} runs another program", pid.0);
}
