//! States of a thread, how long they last, and how they end.

use std::mem::offset_of;

use tracer_common::event_type::read_grown;
use tracer_common::kernel::{
    COMM_BYTES, SwitchInData, SwitchOutData, WakeupData, others, waits_in, waker_context,
};
use tracer_engine::event::MonotonicNs;

use crate::calls::CallKey;

/// A thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
}

/// A thread that an event of another one names, traced or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    /// The thread; a tid of 0 is the idle task.
    pub thread: Thread,
    /// Its name at that time.
    pub comm: [u8; COMM_BYTES],
}

impl Task {
    pub(crate) fn new(pid: u32, tid: u32, comm: [u8; COMM_BYTES]) -> Self {
        Self {
            thread: Thread {
                pid: pid.cast_signed(),
                tid: tid.cast_signed(),
            },
            comm,
        }
    }
}

/// A thread that had a CPU for which another one waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Behind {
    /// The thread.
    pub task: Task,
    /// Whether others had that CPU too in the same time; `None` where that is not known.
    pub others: Option<bool>,
}

impl Behind {
    /// Returns the thread that a switch to a waiting thread names: it had the CPU last.
    pub(crate) fn last(data: &SwitchInData) -> Self {
        Self {
            task: Task::new(data.prev_pid, data.prev_tid, data.prev_comm),
            others: match data.others {
                others::NONE => Some(false),
                others::SOME => Some(true),
                _ => None,
            },
        }
    }
}

/// A control group, by the inode of its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u64);

impl GroupId {
    /// It is not known.
    pub const UNKNOWN: Self = Self(0);
}

/// Why a thread that could run has no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// It is new.
    New,
    /// It was woken.
    Woken,
    /// It had to give way.
    Preempted,
    /// It had to give way to a thread of a higher real-time priority.
    Outranked,
    /// It gave way by itself (`sched_yield()`).
    Yielded,
    /// A control group that it is in has used up its time (`cpu.max`).
    Throttled(GroupId),
    /// It has used up its budget (`SCHED_DEADLINE`).
    OutOfBudget,
    /// Real-time threads have used up the time that they may have together.
    OutOfRealTime,
    /// It did when the trace began: why is not known.
    Unsaid,
}

impl Wait {
    /// Tells whether it waits for its own time, and for no CPU: whatever runs meanwhile is not to
    /// blame.
    #[must_use]
    pub fn is_throttled(self) -> bool {
        matches!(
            self,
            Self::Throttled(_) | Self::OutOfBudget | Self::OutOfRealTime
        )
    }
}

/// Context that a thread blocks in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Inside {
    /// It is not known.
    #[default]
    Unknown,
    /// A system call.
    Call(CallKey),
    /// A page fault, or, rarely, another exception.
    Fault,
    /// Its exit.
    Exit,
    /// The kernel, whose thread it is.
    Kernel,
}

/// Why a thread blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    /// Context that it is in.
    pub inside: Inside,
    /// Whether it waits for a device.
    pub is_io: bool,
    /// The function in which it waits.
    pub function: FunctionId,
    /// The lock for which it waits.
    pub lock: LockId,
    /// The object of the system call, where that is told.
    pub object: ObjectId,
}

/// A lock and its holder, by numbers in a [`LockTable`](crate::LockTable).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId {
    /// The lock with this thread as its holder.
    pub exact: u32,
    /// The lock with a holder of this name.
    pub by_name: u32,
}

impl LockId {
    /// None is known.
    pub const NONE: Self = Self {
        exact: 0,
        by_name: 0,
    };
    /// One beyond those that are told apart.
    pub const BEYOND: Self = Self {
        exact: u32::MAX,
        by_name: u32::MAX,
    };

    /// Returns the lock with a holder of this name.
    #[must_use]
    pub fn with_name(self) -> Self {
        Self {
            exact: self.by_name,
            ..self
        }
    }
}

/// An object of a system call, by numbers whose meaning is up to the code that names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The object.
    pub exact: u32,
    /// Those that are the same where many waits are added up.
    pub by_name: u32,
}

impl ObjectId {
    /// None is known.
    pub const NONE: Self = Self {
        exact: 0,
        by_name: 0,
    };

    /// Returns what it is the same as where many waits are added up.
    #[must_use]
    pub fn with_name(self) -> Self {
        Self {
            exact: self.by_name,
            ..self
        }
    }
}

/// A function of a program, by a number whose meaning is up to the code that names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// None is known.
    pub const NONE: Self = Self(0);
}

/// Waker of a thread: another thread, or an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// It is not known.
    Unknown,
    /// A thread.
    Thread(Task),
    /// An interrupt, of a device or of another CPU.
    Interrupt,
    /// A soft interrupt.
    SoftInterrupt,
    /// A timer.
    Timer,
}

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Not known: nothing was seen of it yet, or events were lost.
    Unknown,
    /// It has a CPU.
    Running,
    /// It could run, and waits for a CPU.
    Runnable(Wait),
    /// It waits for something else.
    Blocked(Reason),
    /// It was stopped, by a signal or a debugger, or its control group is frozen.
    Stopped,
    /// It has ended.
    Dead,
}

/// A switch away, as it was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// State of the thread then.
    pub state: State,
    /// How long it had the CPU; 0 where that is not known.
    pub ran_ns: u64,
    /// Thread that gets the CPU.
    pub next: Task,
}

impl Left {
    /// Reads a switch's data; `None` where it is too short.
    pub fn read(untrusted: &[u8]) -> Option<Self> {
        let data: SwitchOutData = read_grown(untrusted, offset_of!(SwitchOutData, ran_ns))?;
        Some(Self {
            state: State::from_switch_out(&data),
            ran_ns: data.ran_ns,
            next: Task::new(data.next_pid, data.next_tid, data.next_comm),
        })
    }
}

impl Left {
    /// Sets the function that the thread waits in.
    pub fn in_function(mut self, function: FunctionId) -> Self {
        if let State::Blocked(reason) = &mut self.state {
            reason.function = function;
        }
        self
    }
}

impl State {
    /// Returns the state with the lock that a thread waits for, where it is blocked.
    pub(crate) fn waiting_for(mut self, lock: LockId) -> Self {
        if let Self::Blocked(reason) = &mut self {
            reason.lock = lock;
        }
        self
    }

    /// Returns the state with the object of this system call, where the thread is blocked in it.
    pub(crate) fn waiting_on(mut self, (call, object): (CallKey, ObjectId)) -> Self {
        if let Self::Blocked(reason) = &mut self
            && reason.inside == Inside::Call(call)
        {
            reason.object = object;
        }
        self
    }

    /// Returns the state with the control group that has used up its time, where it is for that.
    pub(crate) fn throttled_by(self, group: GroupId) -> Self {
        if let Self::Runnable(Wait::Throttled(_)) = self {
            Self::Runnable(Wait::Throttled(group))
        } else {
            self
        }
    }

    /// Returns the state of a thread that leaves its CPU. The kernel's state bits are those of
    /// `task_struct::__state` since Linux 4.14.
    fn from_switch_out(data: &SwitchOutData) -> Self {
        const STOPPED: u32 = 0x4 | 0x8;
        const DEAD: u32 = 0x10 | 0x20 | 0x80;
        let bits = data.state;
        let is_frozen = is_frozen(data);
        if data.preempted != 0 {
            Self::Runnable(match data.waits_in {
                waits_in::GROUP_QUOTA => Wait::Throttled(GroupId::UNKNOWN),
                waits_in::DEADLINE_BUDGET => Wait::OutOfBudget,
                waits_in::REAL_TIME_LIMIT => Wait::OutOfRealTime,
                waits_in::HIGHER_PRIORITY => Wait::Outranked,
                _ => Wait::Preempted,
            })
        } else if bits == 0 {
            Self::Runnable(Wait::Yielded)
        } else if bits & DEAD != 0 {
            Self::Dead
        } else if bits & STOPPED != 0 || is_frozen {
            Self::Stopped
        } else {
            Self::Blocked(Reason::from_switch_out(data))
        }
    }
}

/// Tells whether a thread leaves its CPU since its control group is frozen. It does so on its way
/// back to the program, where the kernel cannot tell an interrupt from a page fault; but no page
/// fault waits like that (Linux 6.1 and later).
#[must_use]
pub fn is_frozen(data: &SwitchOutData) -> bool {
    const FREEZABLE: u32 = 0x2000;
    const FROZEN: u32 = 0x8000;
    let is_by_fault = data.waits_in == waits_in::FAULT;
    data.state & FROZEN != 0 || (data.state & FREEZABLE != 0 && is_by_fault)
}

impl Reason {
    fn from_switch_out(data: &SwitchOutData) -> Self {
        Self::from_bits(data.waits_in, data.syscall)
    }

    /// Reads these bits of [`waits_in`], and the number of a system call.
    pub(crate) fn from_bits(bits: u8, syscall: u16) -> Self {
        let call = |is_compat| {
            Inside::Call(CallKey {
                is_compat,
                nr: syscall.into(),
            })
        };
        let inside = match bits & !waits_in::IO {
            waits_in::SYSCALL => call(false),
            waits_in::COMPAT_SYSCALL => call(true),
            waits_in::FAULT => Inside::Fault,
            waits_in::EXIT => Inside::Exit,
            waits_in::KERNEL => Inside::Kernel,
            _ => Inside::Unknown,
        };
        Self {
            inside,
            is_io: bits & waits_in::IO != 0,
            function: FunctionId::NONE,
            lock: LockId::NONE,
            object: ObjectId::NONE,
        }
    }

    /// Returns the reason without the function, the lock and the object.
    #[must_use]
    pub fn anywhere(self) -> Self {
        Self {
            function: FunctionId::NONE,
            lock: LockId::NONE,
            object: ObjectId::NONE,
            ..self
        }
    }
}

impl Waker {
    /// Returns the waker that asked for this wake-up.
    pub(crate) fn from_wakeup(data: &WakeupData) -> Self {
        match data.waker_context {
            waker_context::IRQ => Self::Interrupt,
            waker_context::SOFTIRQ => Self::SoftInterrupt,
            waker_context::HRTIMER | waker_context::TIMER => Self::Timer,
            // A packet is handed over within its sender's call. And where nothing is known, it was
            // written before contexts were: who is named has asked.
            waker_context::UNKNOWN | waker_context::THREAD | waker_context::PACKET
                if data.waker_tid != 0 =>
            {
                Self::Thread(Task::new(data.waker_pid, data.waker_tid, data.waker_comm))
            }
            _ => Self::Unknown,
        }
    }
}

/// How a thread comes out of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntervalEnd {
    /// It has not: the trace ends, or has not come further.
    Open,
    /// It is not known, or goes without saying.
    Unsaid,
    /// It was woken.
    Woken(Waker),
    /// It got the CPU that it waited for: behind this one, which had it last.
    GotCpu(Behind),
}

/// A thread in one state, from a moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The thread.
    pub thread: Thread,
    /// State that it was in.
    pub state: State,
    /// From when on.
    pub from: MonotonicNs,
    /// Until when.
    pub to: MonotonicNs,
    /// How it ended.
    pub end: IntervalEnd,
    /// Where it ran, or for which CPU it waited first; where that is known.
    pub cpu: Option<u32>,
    /// Since when it waited for that: before `from` where it had waited for it before, in vain.
    pub waits_since: MonotonicNs,
}

impl Interval {
    /// Returns its length, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }

    /// Tells whether the thread went on with something else then, and not just the trace ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end != IntervalEnd::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_sent_a_packet_is_the_waker_and_who_was_interrupted_is_not() {
        let waker = |waker_context, waker_tid| {
            Waker::from_wakeup(&WakeupData {
                target_cpu: 0,
                new_thread: 0,
                waker_pid: waker_tid,
                waker_tid,
                waker_comm: [0; COMM_BYTES],
                waker_context,
                reserved: 0,
            })
        };
        let seven = Waker::Thread(Task::new(7, 7, [0; COMM_BYTES]));

        assert_eq!(waker(waker_context::PACKET, 7), seven);
        assert_eq!(waker(waker_context::PACKET, 0), Waker::Unknown);
        assert_eq!(waker(waker_context::SOFTIRQ, 7), Waker::SoftInterrupt);
        assert_eq!(waker(waker_context::PACKET + 1, 7), Waker::Unknown);
    }
}
