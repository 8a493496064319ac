//! A log of a large machine: many CPUs, and more threads than a page remembers at once, which get
//! CPUs, leave them and wake each other at random.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SwitchInData, SwitchOutData, WakeupData};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::{FinalStatus, LogWriter};
use zerocopy::IntoBytes as _;

use crate::made::{self, START_NS};

/// Number of threads: their tids count up from [`FIRST_TID`].
pub const THREADS: usize = 1500;
/// Tid of the first thread.
pub const FIRST_TID: i32 = 1000;
/// Tid of an untraced thread that wakes threads and has CPUs.
pub const STRANGER_TID: i32 = 77;

const STEPS: usize = 60_000;
const CPUS: usize = 70;
const SLEEPING: u32 = 1;

/// Occurrence in a thread: its tid, the time, and the other thread's tid or the CPU.
pub type Happened = (i32, u64, i64);

/// Expected content of the log, in order of time.
#[derive(Debug, Default)]
pub struct Expected {
    /// Wake-ups of threads, with the tids of their wakers.
    pub woken: Vec<Happened>,
    /// Switches to threads on the CPU that they waited for, with the tids of those that had it
    /// before.
    pub got: Vec<Happened>,
    /// Switches away from threads, with the CPUs that they left.
    pub left: Vec<Happened>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Blocked,
    Runnable,
    Running,
}

/// Writes the log, and returns its content.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path) -> anyhow::Result<Expected> {
    let mut log = Made {
        log: made::log(path, "many")?,
        expected: Expected::default(),
        now: 0,
        random: 1,
        states: vec![State::Blocked; THREADS],
        cpus: vec![0; THREADS],
        since: vec![0; THREADS],
        on: vec![None; CPUS],
    };
    for _ in 0..STEPS {
        log.step()?;
    }
    let (types, ledger) = (EventTypes::default(), Ledger::default());
    log.log
        .complete(&types, &ledger, FinalStatus::default())
        .map_err(anyhow::Error::from)?;
    Ok(log.expected)
}

struct Made {
    log: LogWriter,
    expected: Expected,
    now: u64,
    random: u64,
    states: Vec<State>,
    /// CPU that each thread waits for, or had last.
    cpus: Vec<usize>,
    /// Time since which each thread has its CPU.
    since: Vec<u64>,
    on: Vec<Option<usize>>,
}

impl Made {
    fn step(&mut self) -> anyhow::Result<()> {
        self.now += 1 + self.below(3000) as u64;
        let cpu = self.below(CPUS);
        // Some threads wake the one beside them, others any thread.
        let any = self.below(THREADS);
        let beside = self.on[cpu].map(|thread| (thread + 1) % THREADS);
        let other = beside.filter(|_| any.is_multiple_of(2)).unwrap_or(any);
        if self.states[other] == State::Blocked && self.below(3) > 0 {
            let waker = self.on[cpu].filter(|_| !any.is_multiple_of(10));
            return self.wake(cpu, other, waker.map_or(STRANGER_TID, tid));
        }
        let left = self.on[cpu].take();
        if let Some(thread) = left {
            self.leave(cpu, thread)?;
        }
        // Now and then a CPU takes one that waits for another.
        let takes_any = self.below(10) == 0;
        let from = self.below(THREADS);
        let next = (from..THREADS).chain(0..from).find(|thread| {
            self.states[*thread] == State::Runnable
                && Some(*thread) != left
                && (takes_any || self.cpus[*thread] == cpu)
        });
        if let Some(thread) = next {
            self.come(cpu, thread, left.map_or(STRANGER_TID, tid))?;
        }
        Ok(())
    }

    fn below(&mut self, end: usize) -> usize {
        let random = self.random;
        self.random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(random >> 33).unwrap_or_default() % end
    }

    fn wake(&mut self, cpu: usize, thread: usize, waker: i32) -> anyhow::Result<()> {
        self.states[thread] = State::Runnable;
        self.cpus[thread] = self.below(CPUS);
        self.expected
            .woken
            .push((tid(thread), self.now, waker.into()));
        let data = WakeupData {
            target_cpu: cpu_id(self.cpus[thread]),
            new_thread: 0,
            waker_pid: waker.cast_unsigned(),
            waker_tid: waker.cast_unsigned(),
            waker_comm: *b"many\0\0\0\0\0\0\0\0\0\0\0\0",
            waker_context: 1,
            reserved: 0,
        };
        self.append(cpu, EventTypeId::WAKEUP, thread, data.as_bytes())
    }

    fn leave(&mut self, cpu: usize, thread: usize) -> anyhow::Result<()> {
        let is_preempted = self.below(3) == 0;
        self.states[thread] = if is_preempted {
            State::Runnable
        } else {
            State::Blocked
        };
        let left = (tid(thread), self.now, cpu_id(cpu).into());
        self.expected.left.push(left);
        let data = SwitchOutData {
            next_pid: 0,
            next_tid: 0,
            next_comm: [0; 16],
            state: if is_preempted { 0 } else { SLEEPING },
            preempted: is_preempted.into(),
            waits_in: 0,
            syscall: 0,
            ran_ns: self.now - self.since[thread],
        };
        self.append(cpu, EventTypeId::SWITCH_OUT, thread, data.as_bytes())
    }

    fn come(&mut self, cpu: usize, thread: usize, before: i32) -> anyhow::Result<()> {
        self.states[thread] = State::Running;
        self.on[cpu] = Some(thread);
        if self.cpus[thread] == cpu {
            let got = (tid(thread), self.now, before.into());
            self.expected.got.push(got);
        }
        self.cpus[thread] = cpu;
        self.since[thread] = self.now;
        let data = SwitchInData {
            prev_pid: before.cast_unsigned(),
            prev_tid: before.cast_unsigned(),
            prev_comm: *b"many\0\0\0\0\0\0\0\0\0\0\0\0",
            others: 0,
            reserved: 0,
        };
        self.append(cpu, EventTypeId::SWITCH_IN, thread, data.as_bytes())
    }

    fn append(
        &mut self,
        cpu: usize,
        id: EventTypeId,
        thread: usize,
        data: &[u8],
    ) -> anyhow::Result<()> {
        let header = EventHeader {
            time: MonotonicNs(START_NS + self.now),
            event_type: id,
            pid: tid(thread),
            tid: tid(thread),
            cpu: Some(cpu_id(cpu)),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let types = EventTypes::default();
        Ok(self.log.append(&header, data, b"many", &types)?)
    }
}

fn tid(thread: usize) -> i32 {
    FIRST_TID + i32::try_from(thread).unwrap_or_default()
}

/// Returns the id of a CPU: some have high ids.
fn cpu_id(cpu: usize) -> u32 {
    let id = u32::try_from(cpu).unwrap_or_default();
    if id % 10 == 9 { id * 100 } else { id }
}
