//! Conversion of switches to and from traced threads into switches of CPUs.
//!
//! The kernel switches a CPU from one thread to the next; of that a log has the parts that concern
//! traced threads: a switch away, a switch to, or both, one after the other. Here they become one
//! again. Between a switch away and the next switch to a traced thread other threads have the CPU.
//! The first and the last of them are known; where these are not the same, the CPU is shown as idle
//! rather than as any thread's. It is also shown as idle where a thread came whose switch away is
//! missing.
//!
//! Wake-ups as flows: from the waker to the moment when the woken thread gets a CPU.

use std::collections::{BTreeMap, HashMap};

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::WakeupData;
use tracer_engine::event::MonotonicNs;
use tracer_event::event_view::EventView;
use tracer_event::fields::until_null;

use crate::names::LogThread;

/// Limit of remembered CPUs: more than any machine has, and fewer than a damaged file may name.
pub const MOST_CPUS: usize = 65_536;

/// Thread, or the idle task: 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchedTask {
    /// Id of the thread.
    pub tid: i32,
    /// Name of the thread: any bytes.
    pub comm: Vec<u8>,
}

impl SwitchedTask {
    fn idle() -> Self {
        Self {
            tid: 0,
            comm: b"swapper".to_vec(),
        }
    }
}

/// Switch of a CPU from one thread to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// CPU that switches.
    pub cpu: u32,
    /// Time of the switch.
    pub at: MonotonicNs,
    /// Thread that leaves.
    pub prev: SwitchedTask,
    /// State in which it leaves, as the kernel's tracepoint shows it.
    pub prev_state: i64,
    /// Thread that comes.
    pub next: SwitchedTask,
}

/// State of a runnable thread.
pub const RUNNABLE: i64 = 0;
/// State of a thread that sleeps, and of one that leaves for an unknown reason, as most leave to
/// sleep. There is no word for an unknown state, and a runnable thread is taken for one that waits
/// for a CPU.
pub const ASLEEP: i64 = 1;

/// Last known switch of each CPU.
#[derive(Debug, Default)]
pub struct LastSwitches {
    cpus: BTreeMap<u32, Cpu>,
}

#[derive(Debug)]
enum Cpu {
    /// Switch by which a traced thread has come to it; the next switch decides whether the thread
    /// stayed there.
    Came(Switch),
    /// Switch by which a traced thread has left it; the next switch decides to which thread.
    Left(Switch),
}

impl LastSwitches {
    /// Notes a switch to a traced thread, away from `prev`.
    pub fn come(
        &mut self,
        (cpu, at): (u32, MonotonicNs),
        thread: SwitchedTask,
        prev: SwitchedTask,
        mut emit: impl FnMut(Switch),
    ) {
        if self.cpus.len() >= MOST_CPUS && !self.cpus.contains_key(&cpu) {
            return;
        }
        let mut came = Switch {
            cpu,
            at,
            prev,
            prev_state: ASLEEP,
            next: thread,
        };
        match self.cpus.remove(&cpu) {
            // Both sides of one switch.
            Some(Cpu::Left(left)) if left.next.tid == came.next.tid => came = left,
            Some(Cpu::Left(mut before) | Cpu::Came(mut before)) => {
                if before.next.tid != came.prev.tid {
                    before.next = SwitchedTask::idle();
                    came.prev = SwitchedTask::idle();
                }
                emit(before);
            }
            None => {}
        }
        self.cpus.insert(cpu, Cpu::Came(came));
    }

    /// Notes a switch away from a traced thread.
    pub fn leave(&mut self, switch: Switch, mut emit: impl FnMut(Switch)) {
        if self.cpus.len() >= MOST_CPUS && !self.cpus.contains_key(&switch.cpu) {
            emit(switch);
            return;
        }
        let tid = switch.prev.tid;
        match self.cpus.insert(switch.cpu, Cpu::Left(switch)) {
            Some(Cpu::Came(came)) if came.next.tid == tid => emit(came),
            Some(Cpu::Left(mut before) | Cpu::Came(mut before)) => {
                // The switch to the thread that leaves now is not in the log.
                before.next = SwitchedTask::idle();
                emit(before);
            }
            None => {}
        }
    }

    /// Emits the switches that were still undecided.
    pub fn end(&mut self, mut emit: impl FnMut(Switch)) {
        for cpu in std::mem::take(&mut self.cpus).into_values() {
            let (Cpu::Left(last) | Cpu::Came(last)) = cpu;
            emit(last);
        }
    }
}

/// Limit of remembered threads that wait for a CPU.
const MOST_WOKEN: usize = 65_536;

/// Threads that were woken and have no CPU yet.
#[derive(Debug, Default)]
pub struct Wakeups {
    woken: HashMap<LogThread, WakingThread>,
    flows: u64,
}

/// Waker of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakingThread {
    /// Thread that woke it.
    pub thread: LogThread,
    /// Name of the thread: any bytes.
    pub comm: Vec<u8>,
    /// Number of the flow.
    pub flow: u64,
}

impl Wakeups {
    /// Notes an event. Returns the waker, where it is a wake-up by a thread.
    pub fn wake(&mut self, entry: &EventView<'_>, thread: LogThread) -> Option<WakingThread> {
        let event = &entry.event;
        if event.header.event_type != EventTypeId::WAKEUP {
            return None;
        }
        // The waker of an earlier wake-up has nothing to do with the next time that the thread
        // runs.
        self.woken.remove(&thread);
        let waker_end = std::mem::offset_of!(WakeupData, waker_context);
        let data: WakeupData = read_grown(event.data, waker_end)?;
        if data.waker_tid == 0 || self.woken.len() >= MOST_WOKEN {
            return None;
        }
        self.flows += 1;
        let waker = WakingThread {
            thread: LogThread {
                pid: data.waker_pid.cast_signed(),
                tid: data.waker_tid.cast_signed(),
            },
            comm: until_null(&data.waker_comm).to_vec(),
            flow: self.flows,
        };
        self.woken.insert(thread, waker.clone());
        Some(waker)
    }

    /// Returns the waker of a thread that gets a CPU by this event.
    pub fn run(&mut self, entry: &EventView<'_>, thread: LogThread) -> Option<WakingThread> {
        let is_switch = entry.event.header.event_type == EventTypeId::SWITCH_IN;
        if is_switch {
            self.woken.remove(&thread)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: i32) -> SwitchedTask {
        SwitchedTask {
            tid,
            comm: if tid == 0 {
                b"swapper".to_vec()
            } else {
                Vec::new()
            },
        }
    }

    /// Time, leaving thread and coming thread of each switch.
    type Seen = Vec<(u64, i32, i32)>;

    /// Step at a time: `Ok`: a thread comes after another; `Err`: it leaves for another.
    type Step = (u64, Result<(i32, i32), (i32, i32)>);

    fn seen(steps: &[Step]) -> Seen {
        let mut switches = LastSwitches::default();
        let mut seen = Vec::new();
        let mut emit = |switch: Switch| {
            seen.push((switch.at.0, switch.prev.tid, switch.next.tid));
        };
        for (at, step) in steps {
            match step {
                Ok((tid, prev)) => {
                    switches.come((0, MonotonicNs(*at)), task(*tid), task(*prev), &mut emit);
                }
                Err((tid, next)) => {
                    let switch = Switch {
                        cpu: 0,
                        at: MonotonicNs(*at),
                        prev: task(*tid),
                        prev_state: 1,
                        next: task(*next),
                    };
                    switches.leave(switch, &mut emit);
                }
            }
        }
        switches.end(&mut emit);
        seen
    }

    #[test]
    fn both_sides_of_a_switch_are_one() {
        assert_eq!(
            seen(&[(10, Ok((1, 0))), (20, Err((1, 2))), (21, Ok((2, 1)))]),
            [(10, 0, 1), (20, 1, 2)]
        );
    }

    #[test]
    fn a_thread_that_is_not_traced_has_the_cpu_in_between() {
        assert_eq!(
            seen(&[(10, Err((1, 9))), (20, Ok((1, 9)))]),
            [(10, 1, 9), (20, 9, 1)]
        );
    }

    #[test]
    fn the_unknown_belongs_to_no_thread() {
        assert_eq!(
            seen(&[(10, Err((1, 8))), (20, Ok((1, 9)))]),
            [(10, 1, 0), (20, 0, 1)]
        );
        assert_eq!(
            seen(&[(10, Err((1, 8))), (20, Err((2, 9)))]),
            [(10, 1, 0), (20, 2, 9)]
        );
    }

    #[test]
    fn a_thread_whose_switch_away_is_missing_was_not_there_for_good() {
        assert_eq!(
            seen(&[(10, Ok((1, 0))), (50, Ok((2, 3))), (60, Err((2, 0)))]),
            [(10, 0, 0), (50, 0, 2), (60, 2, 0)]
        );
        assert_eq!(
            seen(&[(10, Ok((1, 0))), (50, Err((2, 0)))]),
            [(10, 0, 0), (50, 2, 0)]
        );
        // Here the switch names it.
        assert_eq!(
            seen(&[(10, Ok((1, 0))), (50, Ok((2, 1)))]),
            [(10, 0, 1), (50, 1, 2)]
        );
    }

    #[test]
    fn each_switch_leaves_who_came_before() {
        let steps: Vec<Step> = (0..50)
            .map(|step: i32| {
                let at = u64::try_from(step).unwrap();
                let (tid, other) = (1 + step % 3, 8 + step % 5);
                (
                    at,
                    if step % 2 == 0 {
                        Ok((tid, other))
                    } else {
                        Err((tid, other))
                    },
                )
            })
            .collect();
        let seen = seen(&steps);
        assert!(seen.is_sorted_by_key(|(at, ..)| *at), "{seen:?}");
    }
}
