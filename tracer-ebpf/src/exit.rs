//! Ends of threads and processes.

use aya_log_ebpf::debug;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ExitData, Record, RecordHeader, traced};

use crate::context::{Tracepoint, at_tracepoint};
use crate::counts::life;
use crate::guard;
use crate::maps;
use crate::offsets::EXIT_SAYS_LAST;
use crate::python;
use crate::record::record;
use crate::subject::Subject;
use crate::task::Task;
use crate::thread_context;
use crate::user;

at_tracepoint!("sched_process_exit": sched_process_exit, sched_process_exit_raw => exit);

/// Runs in the thread that exits, after it was taken off `signal_struct::live`.
#[inline(always)]
fn exit<C: Tracepoint>(ctx: &C) {
    // SAFETY: the first argument is `struct task_struct *`.
    let task = unsafe { Task::argument::<0>(ctx) };
    let pid = task.pid();
    let state = maps::traced(pid);
    if state & traced::TRACED == 0 {
        return;
    }
    let is_last = is_last_thread(ctx, &task, state);
    let event_type = if is_last {
        maps::set_traced(pid, state | traced::DYING);
        debug!(ctx, "process {} has ended", pid.0);
        EventTypeId::EXIT
    } else {
        EventTypeId::THREAD_EXIT
    };
    maps::forget_call(task.tid());
    life::ends(&task);
    guard::note(state, &task);
    let is_withheld = guard::withholds_life(state, &task);
    // The agent always needs the end of a process, so that it can forget the process.
    if is_withheld && !is_last {
        return;
    }
    let program_address = user::address(ctx);
    if !is_withheld {
        thread_context::note(&task);
    }
    if is_last {
        thread_context::ends(task.pid());
        python::is_replaced(task.pid());
    }
    record(&task, event_type, |header| {
        let code = task.exit_code();
        Record {
            header: RecordHeader {
                program_address,
                truncated: guard::mark(is_withheld),
                ..header
            },
            // As `wait` decodes it: the signal is in bits 0 to 6, the status in bits 8 to 15.
            data: ExitData {
                status: (code >> 8 & 0xff).cast_signed(),
                signal: code & 0x7f,
            },
        }
    });
}

/// Tells whether no other thread of the process is left.
#[inline(always)]
fn is_last_thread<C: Tracepoint>(ctx: &C, task: &Task<C>, state: u8) -> bool {
    if EXIT_SAYS_LAST.load() != 0 {
        return ctx.flag::<1>();
    }
    // The kernel may take two threads that exit at the same moment off `live` before either of them
    // comes here. Then both see 0, and the later one finds the mark that the earlier one has set.
    task.live_threads() == 0 && state & traced::DYING == 0
}
