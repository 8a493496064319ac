//! Waits for CPUs, and the threads that have those meanwhile.

use std::collections::VecDeque;

use foldhash::HashMap;
use tracer_analysis::{Interval, IntervalEnd, Reason, State, Task, Thread, Waker};
use tracer_common::kernel::COMM_BYTES;

/// Rows of each kind.
const MOST_ROWS: usize = 65_536;

/// Waits of a thread for a CPU that are remembered.
const MOST_RECENT: usize = 16;

/// Threads that one event wakes before it is a herd.
const HERD: usize = 4;

/// Threads of one herd that are told apart.
const MOST_IN_HERD: usize = 256;

/// Longest time between two wake-ups of one herd, in nanoseconds: one call wakes all of it. A
/// thread that wakes one for each thing that there is to do takes longer in between.
const HERD_GAP_NS: u64 = 10_000;

/// Longest time for which a thread runs that was woken in vain, in nanoseconds.
const IN_VAIN_NS: u64 = 200_000;

/// Thread that waits for another one, which waits for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InvertedKey {
    /// The thread that waits.
    pub thread: Thread,
    /// Reason of its wait.
    pub reason: Reason,
    /// The thread that ended that wait.
    pub holder: Thread,
    /// The thread that had the CPU for which the other one waited.
    pub instead: Task,
}

/// Threads that wait while one of a lower priority has what they wait for, and no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inverted {
    /// How often.
    pub count: u64,
    /// How long, in nanoseconds.
    pub ns: u64,
}

/// Threads that were woken in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Herd {
    /// Times that many were woken at a time.
    pub count: u64,
    /// Threads that were woken then.
    pub woken: u64,
    /// Number of these that went back to their wait.
    pub in_vain: u64,
    /// One of them.
    pub thread: Thread,
}

/// Wake-ups that follow each other.
#[derive(Clone, Debug, Default)]
struct Burst {
    /// When the last of them was, in nanoseconds.
    last: u64,
    threads: Vec<Thread>,
}

/// How long others waited for the CPU of a task, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct HadCpu {
    /// In waits in which it had the CPU alone.
    pub alone: u64,
    /// In waits at whose end it had the CPU, after others or perhaps so.
    pub last: u64,
}

/// Waits for CPUs.
#[derive(Debug, Default)]
pub struct Queues {
    behind: HashMap<(Thread, Task), HadCpu>,
    recent: HashMap<Thread, VecDeque<(u64, u64, Task)>>,
    inverted: HashMap<InvertedKey, Inverted>,
    bursts: HashMap<(Waker, Reason), Burst>,
    /// Threads that were woken in a burst, and how long they ran since.
    awake: HashMap<Thread, (Reason, u64)>,
    herds: HashMap<Reason, Herd>,
}

impl Queues {
    /// Adds what a thread did.
    pub fn add(&mut self, interval: &Interval) {
        match interval.state {
            State::Runnable(wait) if !wait.is_throttled() => self.waited(interval),
            State::Blocked(reason) => {
                self.back(interval.thread, reason);
                self.woken(interval, reason);
            }
            State::Running => {
                if let Some((_, ran)) = self.awake.get_mut(&interval.thread) {
                    *ran = ran.saturating_add(interval.ns());
                }
            }
            _ => {}
        }
    }

    fn waited(&mut self, interval: &Interval) {
        let (task, is_alone) = match interval.end {
            IntervalEnd::GotCpu(behind) => (behind.task, behind.others == Some(false)),
            _ => (Task::default(), false),
        };
        let key = (interval.thread, task);
        if self.behind.len() < MOST_ROWS || self.behind.contains_key(&key) {
            let had = self.behind.entry(key).or_default();
            let sum = if is_alone {
                &mut had.alone
            } else {
                &mut had.last
            };
            *sum = sum.saturating_add(interval.ns());
        }
        if self.recent.len() >= MOST_ROWS {
            self.recent.clear();
        }
        let recent = self.recent.entry(interval.thread).or_default();
        if recent.len() >= MOST_RECENT {
            recent.pop_front();
        }
        recent.push_back((interval.from.0, interval.to.0, task));
    }

    /// Looks for what kept the waker from its CPU while a thread waited for it.
    fn woken(&mut self, interval: &Interval, reason: Reason) {
        let IntervalEnd::Woken(waker) = interval.end else {
            return;
        };
        let Waker::Thread(by) = waker else {
            return;
        };
        // An interrupt wakes one after the other for as many reasons.
        self.note_burst(interval.thread, (waker, reason), interval.to.0);
        let Some(recent) = self.recent.get(&by.thread) else {
            return;
        };
        for (from, to, behind) in recent {
            let (from, to) = ((*from).max(interval.from.0), (*to).min(interval.to.0));
            let is_other = behind.thread != interval.thread && behind.thread.tid != 0;
            let key = InvertedKey {
                thread: interval.thread,
                reason,
                holder: by.thread,
                instead: *behind,
            };
            let has_space = self.inverted.len() < MOST_ROWS || self.inverted.contains_key(&key);
            if from < to && is_other && has_space {
                let inverted = self.inverted.entry(key).or_default();
                inverted.count += 1;
                inverted.ns = inverted.ns.saturating_add(to - from);
            }
        }
    }

    fn note_burst(&mut self, thread: Thread, (by, reason): (Waker, Reason), at: u64) {
        if self.bursts.len() >= MOST_ROWS || self.awake.len() >= MOST_ROWS {
            self.bursts.clear();
            self.awake.clear();
        }
        let burst = self.bursts.entry((by, reason)).or_default();
        let gap = at.saturating_sub(std::mem::replace(&mut burst.last, at));
        if gap > HERD_GAP_NS {
            burst.threads.clear();
        }
        self.awake.insert(thread, (reason, 0));
        // One that is woken again is no other one.
        if burst.threads.contains(&thread) || burst.threads.len() >= MOST_IN_HERD {
            return;
        }
        burst.threads.push(thread);
        if burst.threads.len() >= HERD {
            let first = burst.threads.len() == HERD;
            let herd = self.herds.entry(reason).or_default();
            herd.thread = thread;
            herd.count += u64::from(first);
            herd.woken += if first { HERD as u64 } else { 1 };
        }
    }

    /// Notes that a thread waits: in vain was its last wake-up where it waits in the same again.
    fn back(&mut self, thread: Thread, reason: Reason) {
        let Some((was, ran)) = self.awake.remove(&thread) else {
            return;
        };
        // Behind what they wait for there may be a lock, by the same call.
        if was.inside == reason.inside
            && ran <= IN_VAIN_NS
            && let Some(herd) = self.herds.get_mut(&was)
        {
            herd.in_vain += 1;
        }
    }

    /// Returns who had the CPUs for which the threads that are meant waited, the longest first.
    #[must_use]
    pub fn behind(&self, is_meant: impl Fn(Thread) -> bool) -> Vec<(Task, HadCpu)> {
        let mut by_name: HashMap<[u8; COMM_BYTES], (Task, HadCpu)> = HashMap::default();
        for ((_, task), had) in self.behind.iter().filter(|((of, _), _)| is_meant(*of)) {
            let (first, sum) = by_name
                .entry(task.comm)
                .or_insert((*task, HadCpu::default()));
            *first = (*first).min(*task);
            sum.alone = sum.alone.saturating_add(had.alone);
            sum.last = sum.last.saturating_add(had.last);
        }
        let mut all: Vec<_> = by_name.into_values().collect();
        let in_all = |had: HadCpu| had.alone.saturating_add(had.last);
        all.sort_unstable_by_key(|(task, had)| (std::cmp::Reverse(in_all(*had)), *task));
        all
    }

    /// Returns the thread that waits, the one that it waits for, and the one that has the CPU of
    /// that, the longest first.
    #[must_use]
    pub fn inverted(&self) -> Vec<(InvertedKey, Inverted)> {
        let mut all: Vec<_> = self.inverted.iter().map(|(key, of)| (*key, *of)).collect();
        all.sort_unstable_by_key(|(key, of)| (std::cmp::Reverse(of.ns), *key));
        all
    }

    /// Returns the herds by what their threads wait in, the largest first.
    #[must_use]
    pub fn herds(&self) -> Vec<(Reason, Herd)> {
        let mut all: Vec<_> = self.herds.iter().map(|(key, of)| (*key, *of)).collect();
        all.sort_unstable_by_key(|(key, of)| (std::cmp::Reverse(of.in_vain), *key));
        all
    }
}
