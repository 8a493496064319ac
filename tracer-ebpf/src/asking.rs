//! Wakers, between where a wake-up is asked for and where the thread becomes runnable.

use crate::context::CommWords;
use crate::pid::Pid;

/// Waker of a thread, in words: fields of other sizes would be cleared and copied byte by byte.
#[derive(Clone, Copy)]
pub struct Asking {
    /// From the lowest bit: thread and process, [`TASK_BITS`] each, and the context.
    pub who: u64,
    /// The thread's name.
    pub name: CommWords,
}

/// Bits of [`Asking::who`] for a tid or pid: the kernel has none above.
pub const TASK_BITS: u32 = 22;
const TASK: u64 = (1 << TASK_BITS) - 1;
/// Where in it the context lies.
const CONTEXT_AT: u32 = 2 * TASK_BITS;
/// Bits of all that.
pub const WHO_BITS: u32 = CONTEXT_AT + 4;

impl Asking {
    /// This thread, asking in this context.
    #[inline(always)]
    pub fn thread(context: u32, pid: Pid, tid: Pid, name: CommWords) -> Self {
        Self {
            who: u64::from(context) << CONTEXT_AT
                | u64::from(pid.0) << TASK_BITS
                | u64::from(tid.0),
            name,
        }
    }

    /// Returns a waker that is no thread, but this context.
    #[inline(always)]
    pub fn no_thread(context: u32) -> Self {
        Self {
            who: u64::from(context) << CONTEXT_AT,
            name: [0; 2],
        }
    }

    /// Returns the kind of the waker: one of `waker_context`.
    #[inline(always)]
    pub fn context(self) -> u32 {
        // Below 16.
        (self.who >> CONTEXT_AT) as u32
    }

    /// Returns its process.
    #[inline(always)]
    pub fn pid(self) -> Pid {
        Pid((self.who >> TASK_BITS & TASK) as u32)
    }

    /// Returns the thread.
    #[inline(always)]
    pub fn tid(self) -> Pid {
        Pid((self.who & TASK) as u32)
    }
}
