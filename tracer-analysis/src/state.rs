//! What a thread does, and for how long.

use tracer_engine::event::MonotonicNs;

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
}

/// Why a thread that could run has no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It is new.
    New,
    /// It was woken.
    Woken,
    /// It had to give way.
    Preempted,
    /// It gave way by itself (`sched_yield()`).
    Yielded,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody knows: nothing was seen of it yet, or events were lost.
    Unknown,
    /// It has a CPU.
    Running,
    /// It could run, and waits for a CPU.
    Runnable(Wait),
    /// It waits for something else.
    Blocked,
    /// It was stopped, by a signal or a debugger.
    Stopped,
    /// It has ended.
    Dead,
}

impl State {
    /// The state of a thread that leaves its CPU: the kernel's state bits (`task_struct::__state`,
    /// as since Linux 4.14), and whether it had to give way.
    #[must_use]
    pub fn of_switch_out(bits: u32, is_preempted: bool) -> Self {
        const STOPPED: u32 = 0x4 | 0x8;
        const DEAD: u32 = 0x10 | 0x20 | 0x80;
        if is_preempted {
            Self::Runnable(Wait::Preempted)
        } else if bits == 0 {
            Self::Runnable(Wait::Yielded)
        } else if bits & DEAD != 0 {
            Self::Dead
        } else if bits & STOPPED != 0 {
            Self::Stopped
        } else {
            Self::Blocked
        }
    }
}

/// A thread in one state, from a moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The thread.
    pub thread: Thread,
    /// What it did.
    pub state: State,
    /// From when on.
    pub from: MonotonicNs,
    /// Until when.
    pub to: MonotonicNs,
    /// Whether the thread went on with something else then, and not just the trace ended.
    pub is_over: bool,
}

impl Interval {
    /// How long, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }
}
