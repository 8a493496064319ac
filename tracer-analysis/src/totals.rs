//! What threads did, summed up.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_engine::event::MonotonicNs;

use crate::durations::Durations;
use crate::state::{Interval, State, Thread, Wait};

/// Threads that are counted each for itself; what others did is added up.
const MOST_THREADS: usize = 65_536;

/// What a thread did. Times are in nanoseconds; their sum is the time that it was there.
#[derive(Clone, Debug, Default)]
pub struct ThreadTotal {
    /// It had a CPU.
    pub running: u64,
    /// It could run, and waited for a CPU.
    pub runnable: u64,
    /// It waited for something else.
    pub blocked: u64,
    /// It was stopped.
    pub stopped: u64,
    /// Nobody knows what it did.
    pub unknown: u64,
    /// Times that it had to give way.
    pub preempted: u64,
    /// Its waits for a CPU that ended with one.
    pub waits: Durations,
    /// When the longest of them ended.
    pub longest_wait_at: MonotonicNs,
    /// How long it waited for a CPU after it was made or woken.
    pub wakeups: Durations,
}

/// What all threads did.
#[derive(Debug, Default)]
pub struct ThreadTotals {
    threads: HashMap<Thread, ThreadTotal, RandomState>,
    others: ThreadTotal,
}

impl ThreadTotals {
    /// Adds an interval.
    pub fn add(&mut self, interval: &Interval) {
        let is_one_more = !self.threads.contains_key(&interval.thread);
        let total = if is_one_more && self.threads.len() >= MOST_THREADS {
            &mut self.others
        } else {
            self.threads.entry(interval.thread).or_default()
        };
        let ns = interval.ns();
        match interval.state {
            State::Running => total.running += ns,
            State::Runnable(wait) => {
                total.runnable += ns;
                if interval.is_over {
                    total.add_wait(wait, ns, interval.to);
                }
            }
            State::Blocked => total.blocked += ns,
            State::Stopped => total.stopped += ns,
            State::Unknown => total.unknown += ns,
            State::Dead => {}
        }
    }

    /// The threads, in order of process and thread.
    #[must_use]
    pub fn sorted(&self) -> Vec<(Thread, &ThreadTotal)> {
        let mut sorted: Vec<_> = self.threads.iter().map(|(id, one)| (*id, one)).collect();
        sorted.sort_unstable_by_key(|(thread, _)| *thread);
        sorted
    }

    /// What threads did that are not counted each for itself.
    #[must_use]
    pub fn others(&self) -> &ThreadTotal {
        &self.others
    }
}

impl ThreadTotal {
    fn add_wait(&mut self, wait: Wait, ns: u64, at: MonotonicNs) {
        if ns > self.waits.longest() {
            self.longest_wait_at = at;
        }
        self.waits.add(ns);
        match wait {
            Wait::New | Wait::Woken => self.wakeups.add(ns),
            Wait::Preempted => self.preempted += 1,
            Wait::Yielded => {}
        }
    }

    /// All of its time.
    #[must_use]
    pub fn all(&self) -> u64 {
        let parts = [
            self.running,
            self.runnable,
            self.blocked,
            self.stopped,
            self.unknown,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}
