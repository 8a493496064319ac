//! Waits of threads, by what they wait in and who ends that.

use tracer_engine::event::MonotonicNs;

use crate::rows::TotalsByKey;
use crate::state::{Interval, IntervalEnd, Reason, State, Task, Thread, Waker};

/// Kind of waker: threads are told apart by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndedBy {
    /// No waker: the wait lasts at the end of the trace.
    Nothing,
    /// The waker, of a thread only its name.
    Waker(Waker),
}

/// Thread that waits, what it waits in, and who ends that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitKey {
    /// The thread that waits.
    pub thread: Thread,
    /// Call, or other context, that it waits in.
    pub reason: Reason,
    /// Waker that ends the wait.
    pub by: EndedBy,
}

/// Totals of one key. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotal {
    /// How many.
    pub count: u64,
    /// How long together.
    pub ns: u64,
    /// How long the longest was.
    pub longest: u64,
    /// When the longest ended.
    pub longest_at: MonotonicNs,
    /// The thread that ended the longest, where one did.
    pub waker: Option<Thread>,
}

impl WaitTotal {
    /// Adds those of another one.
    pub fn add_all(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.ns = self.ns.saturating_add(other.ns);
        if other.longest > self.longest {
            self.longest = other.longest;
            self.longest_at = other.longest_at;
            self.waker = other.waker;
        }
    }
}

/// The waits of all threads.
#[derive(Debug, Default)]
pub struct WaitTotals {
    totals: TotalsByKey<WaitKey, WaitTotal>,
}

impl WaitTotals {
    /// Adds what a thread did, where that was a wait.
    pub fn add(&mut self, interval: &Interval) {
        let State::Blocked(reason) = interval.state else {
            return;
        };
        let (by, waker) = match interval.end {
            IntervalEnd::Open => (EndedBy::Nothing, None),
            IntervalEnd::Woken(Waker::Thread(task)) => {
                let named = Task {
                    thread: Thread::default(),
                    ..task
                };
                (EndedBy::Waker(Waker::Thread(named)), Some(task.thread))
            }
            IntervalEnd::Woken(other) => (EndedBy::Waker(other), None),
            IntervalEnd::Unsaid | IntervalEnd::GotCpu(_) => (EndedBy::Waker(Waker::Unknown), None),
        };
        let key = WaitKey {
            thread: interval.thread,
            reason,
            by,
        };
        let ns = interval.ns();
        self.totals.get_or_insert(key).add_all(&WaitTotal {
            count: 1,
            ns,
            longest: ns,
            longest_at: interval.to,
            waker,
        });
    }

    /// Returns the totals by key.
    #[must_use]
    pub fn totals(&self) -> &TotalsByKey<WaitKey, WaitTotal> {
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Inside;
    use crate::story::thread;

    #[test]
    fn waits_are_told_apart_by_what_they_are_in_and_by_the_name_of_who_ends_them() {
        let mut waits = WaitTotals::default();
        let waker = |tid, name: u8| {
            let mut task = Task {
                thread: thread(tid),
                ..Task::default()
            };
            task.comm[0] = name;
            IntervalEnd::Woken(Waker::Thread(task))
        };
        let wait = |from, to, end| Interval {
            thread: thread(11),
            state: State::Blocked(Reason {
                inside: Inside::Fault,
                ..Reason::default()
            }),
            from: MonotonicNs(from),
            to: MonotonicNs(to),
            end,
            cpu: None,
            waits_since: MonotonicNs(from),
        };
        waits.add(&wait(0, 10, waker(12, b'a')));
        waits.add(&wait(20, 50, waker(13, b'a')));
        waits.add(&wait(60, 61, waker(13, b'b')));
        waits.add(&wait(70, 90, IntervalEnd::Open));
        waits.add(&Interval {
            state: State::Running,
            ..wait(90, 95, IntervalEnd::Open)
        });
        let totals = waits.totals().sorted();
        assert_eq!(totals.len(), 3, "{totals:?}");
        let by_a = totals.iter().find(|(_, total)| total.count == 2).unwrap().1;
        assert_eq!((by_a.ns, by_a.longest, by_a.longest_at.0), (40, 30, 50));
        assert_eq!(by_a.waker, Some(thread(13)));
        assert!(totals.iter().any(|(key, total)| {
            key.by == EndedBy::Nothing && (total.ns, total.waker) == (20, None)
        }));
    }
}
