//! Subjects of events: the threads that they concern.

use crate::pid::Pid;

/// Process and thread that an event concerns.
pub trait Subject {
    /// Returns the process; 0 for none.
    fn pid(&self) -> Pid;
    /// Returns the thread; 0 for none.
    fn tid(&self) -> Pid;
    /// Returns the thread's `pthread_t`; 0 where it is not known.
    fn thread_id(&self) -> u64;
}

/// Subject of an event of a CPU, which works for no process.
pub struct NoProcess;

impl Subject for NoProcess {
    #[inline(always)]
    fn pid(&self) -> Pid {
        Pid(0)
    }

    #[inline(always)]
    fn tid(&self) -> Pid {
        Pid(0)
    }

    #[inline(always)]
    fn thread_id(&self) -> u64 {
        0
    }
}
