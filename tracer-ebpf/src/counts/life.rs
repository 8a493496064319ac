//! Begins and ends of what is counted: of programs, and of threads.

use tracer_common::kernel::traced;

use super::{are_asked, switches, threads};
use crate::context::Tracepoint;
use crate::maps;
use crate::pid::Pid;
use crate::subject::Subject;
use crate::task::Task;

/// Runs as the running thread, which ends, is taken off its process.
#[inline(always)]
pub fn ends<C: Tracepoint>(task: &Task<C>) {
    if are_asked(u32::MAX) {
        switches::end(task);
    }
}

/// Runs in a new program, whose thread had another number before, where its process has this
/// [`traced`] state: a command is counted from then on.
#[inline(always)]
pub fn replaced<C: Tracepoint>(task: &Task<C>, old: Pid, state: u8) {
    if !are_asked(u32::MAX) {
        return;
    }
    threads::renumber(old, task.tid().shown());
    if state & traced::UNSTARTED != 0 {
        maps::set_traced(task.pid(), state & !traced::UNSTARTED);
        switches::start(task);
    }
}
