//! Totals of what threads did.

use std::collections::BTreeMap;

use tracer_engine::event::MonotonicNs;

use crate::durations::Durations;
use crate::rows::TotalsByKey;
use crate::state::{FunctionId, GroupId, Interval, LockId, ObjectId, Reason, State, Thread, Wait};

/// CPUs: more than any machine has.
pub const MOST_CPUS: usize = 16_384;

/// Totals of a thread. Times are in nanoseconds; their sum is the time that it was there.
#[derive(Clone, Debug, Default)]
pub struct ThreadTotal {
    /// It had a CPU.
    pub running: u64,
    /// It could run, and waited for a CPU.
    pub runnable: u64,
    /// It waited for something else.
    pub blocked: u64,
    /// That time by what it was in.
    pub blocked_in: Vec<(Reason, u64)>,
    /// Of that time what was in functions that are known.
    pub blocked_at: Vec<(Reason, u64)>,
    /// It was stopped.
    pub stopped: u64,
    /// Times that it was.
    pub stops: u64,
    /// It is not known what it did.
    pub unknown: u64,
    /// Times that it had to give way.
    pub preempted: u64,
    /// Of the time that it was runnable: throttled, by its control group or for want of a budget.
    pub throttled: u64,
    /// That time by the control group whose time was used up.
    pub throttled_by: Vec<(GroupId, u64)>,
    /// Times that it got another CPU than it had before.
    pub migrations: u64,
    /// The CPU that it had last.
    last_cpu: Option<u32>,
    /// Its waits for a CPU that ended with one.
    pub waits: Durations,
    /// When the longest of them ended.
    pub longest_wait_at: MonotonicNs,
    /// How long it waited for a CPU after it was made or woken.
    pub wakeups: Durations,
}

/// Functions in which the waits of a row are told apart.
const MOST_FUNCTIONS: usize = 256;

/// Control groups by which the time is told apart that a row was throttled.
const MOST_GROUPS: usize = 256;

/// Threads whose tids other threads have now: beyond these, both are one row.
const MOST_BEFORE: usize = 65_536;

/// A thread that had its tid before another one.
#[derive(Clone, Debug)]
pub struct Before {
    /// Its ids.
    pub thread: Thread,
    /// Its name.
    pub name: Vec<u8>,
    /// Its times.
    pub total: ThreadTotal,
}

/// Totals of all threads.
#[derive(Debug, Default)]
pub struct ThreadTotals {
    threads: TotalsByKey<Thread, ThreadTotal>,
    before: Vec<Before>,
    cpus: BTreeMap<u32, u64>,
    wakeups: Durations,
}

impl ThreadTotals {
    /// Adds an interval.
    pub fn add(&mut self, interval: &Interval) {
        self.add_within(interval, MonotonicNs(0), MonotonicNs(u64::MAX));
    }

    /// Adds what of an interval lies between two moments. A wait for a CPU is one of those in
    /// between, with all of its length, where it ends there.
    pub fn add_within(&mut self, interval: &Interval, from: MonotonicNs, until: MonotonicNs) {
        let (begin, end) = (interval.from.max(from), interval.to.min(until));
        let is_in_between = begin < end || (from <= interval.to && interval.to <= until);
        if !is_in_between {
            return;
        }
        let total = self.threads.get_or_insert(interval.thread);
        let ns = end.0.saturating_sub(begin.0);
        match interval.state {
            State::Running => {
                total.running = total.running.saturating_add(ns);
                if let Some(cpu) = interval.cpu {
                    total.is_on(cpu);
                    if self.cpus.len() < MOST_CPUS || self.cpus.contains_key(&cpu) {
                        let used = self.cpus.entry(cpu).or_default();
                        *used = used.saturating_add(ns);
                    }
                }
            }
            State::Runnable(wait) => {
                total.runnable = total.runnable.saturating_add(ns);
                total.add_throttling(wait, ns);
                if interval.is_over() && from <= interval.to && interval.to <= until {
                    total.add_wait(wait, interval.ns(), interval.to);
                    if matches!(wait, Wait::New | Wait::Woken) {
                        self.wakeups.add(interval.ns());
                    }
                }
            }
            State::Blocked(reason) => {
                total.add_blocked(reason, ns);
                total.add_blocked_at(reason, ns);
            }
            State::Stopped => {
                total.stopped = total.stopped.saturating_add(ns);
                total.stops += 1;
            }
            State::Unknown => total.unknown = total.unknown.saturating_add(ns),
            State::Dead => {}
        }
    }

    /// Notes that a thread has ended: what is held of it gets small.
    pub fn end(&mut self, thread: Thread) {
        if let Some(total) = self.threads.get_mut(thread) {
            total.seal();
        }
    }

    /// Notes that a thread is made: the one that had its ids before was called `name`.
    pub fn begin(&mut self, thread: Thread, name: &[u8]) {
        if self.before.len() >= MOST_BEFORE {
            return;
        }
        if let Some(mut total) = self.threads.take(thread) {
            total.seal();
            let name = name.to_vec();
            self.before.push(Before {
                thread,
                name,
                total,
            });
        }
    }

    /// Returns the threads whose ids other threads have now.
    #[must_use]
    pub fn before(&self) -> &[Before] {
        &self.before
    }

    /// Returns the totals by thread: those whose ids other threads have now, and all others.
    #[must_use]
    pub fn into_threads(self) -> (Vec<Before>, Vec<(Thread, ThreadTotal)>) {
        (self.before, self.threads.into_sorted())
    }

    /// Returns the totals by thread.
    #[must_use]
    pub fn threads(&self) -> &TotalsByKey<Thread, ThreadTotal> {
        &self.threads
    }

    /// Returns how long each CPU was used by these threads, in nanoseconds, in order.
    #[must_use]
    pub fn cpus(&self) -> Vec<(u32, u64)> {
        self.cpus.iter().map(|(cpu, ns)| (*cpu, *ns)).collect()
    }

    /// Returns how long all threads waited for a CPU after they were made or woken.
    #[must_use]
    pub fn wakeups(&self) -> &Durations {
        &self.wakeups
    }
}

impl ThreadTotal {
    fn seal(&mut self) {
        self.waits.seal();
        self.wakeups.seal();
        self.blocked_in.shrink_to_fit();
        self.blocked_at.shrink_to_fit();
        self.throttled_by.shrink_to_fit();
    }

    fn is_on(&mut self, cpu: u32) {
        let is_other = self.last_cpu.is_some_and(|last| last != cpu);
        self.migrations += u64::from(is_other);
        self.last_cpu = Some(cpu);
    }

    fn add_wait(&mut self, wait: Wait, ns: u64, at: MonotonicNs) {
        if ns > self.waits.longest() {
            self.longest_wait_at = at;
        }
        self.waits.add(ns);
        match wait {
            Wait::New | Wait::Woken => self.wakeups.add(ns),
            Wait::Preempted | Wait::Outranked => self.preempted += 1,
            Wait::Yielded
            | Wait::Unsaid
            | Wait::Throttled(_)
            | Wait::OutOfBudget
            | Wait::OutOfRealTime => {}
        }
    }

    /// Adds a part of a wait, over or not, in which the thread was not allowed to run.
    fn add_throttling(&mut self, wait: Wait, ns: u64) {
        if !wait.is_throttled() {
            return;
        }
        self.throttled = self.throttled.saturating_add(ns);
        if let Wait::Throttled(group) = wait {
            self.add_throttled(group, ns);
        }
    }

    fn add_throttled(&mut self, group: GroupId, ns: u64) {
        // A thread is in few groups in its time.
        let mut known = self.throttled_by.iter_mut();
        if let Some((_, total)) = known.find(|(known, _)| *known == group) {
            *total = total.saturating_add(ns);
        } else if self.throttled_by.len() < MOST_GROUPS {
            self.throttled_by.push((group, ns));
        }
    }

    /// Adds a wait in a function, if that is known.
    fn add_blocked_at(&mut self, reason: Reason, ns: u64) {
        if reason.function == FunctionId::NONE {
            return;
        }
        let reason = Reason {
            lock: LockId::NONE,
            object: ObjectId::NONE,
            ..reason
        };
        let mut known = self.blocked_at.iter_mut();
        if let Some((_, total)) = known.find(|(known, _)| *known == reason) {
            *total = total.saturating_add(ns);
        } else if self.blocked_at.len() < MOST_FUNCTIONS {
            self.blocked_at.push((reason, ns));
        }
    }

    /// Returns the functions in which it waited for this reason, the longest first.
    #[must_use]
    pub fn functions_of(&self, reason: Reason) -> Vec<(FunctionId, u64)> {
        let all = self.blocked_at.iter();
        let of_it = all.filter(|(at, _)| at.anywhere() == reason);
        let mut of_it: Vec<_> = of_it.map(|(at, ns)| (at.function, *ns)).collect();
        of_it.sort_by_key(|(function, ns)| (std::cmp::Reverse(*ns), *function));
        of_it
    }

    /// Adds a wait, in whichever function that was.
    fn add_blocked(&mut self, reason: Reason, ns: u64) {
        let reason = reason.anywhere();
        self.blocked = self.blocked.saturating_add(ns);
        // A thread blocks in few different calls, in most of the time in one.
        match self
            .blocked_in
            .iter_mut()
            .find(|(known, _)| *known == reason)
        {
            Some((_, total)) => *total = total.saturating_add(ns),
            None => self.blocked_in.push((reason, ns)),
        }
    }

    /// Adds what another thread did.
    pub fn add_all(&mut self, other: &Self) {
        for (sum, part) in [
            (&mut self.running, other.running),
            (&mut self.runnable, other.runnable),
            (&mut self.stopped, other.stopped),
            (&mut self.stops, other.stops),
            (&mut self.unknown, other.unknown),
            (&mut self.preempted, other.preempted),
            (&mut self.throttled, other.throttled),
            (&mut self.migrations, other.migrations),
        ] {
            *sum = sum.saturating_add(part);
        }
        for (group, ns) in &other.throttled_by {
            self.add_throttled(*group, *ns);
        }
        for (reason, ns) in &other.blocked_at {
            self.add_blocked_at(*reason, *ns);
        }
        for (reason, ns) in &other.blocked_in {
            self.add_blocked(*reason, *ns);
        }
        if other.waits.longest() > self.waits.longest() {
            self.longest_wait_at = other.longest_wait_at;
        }
        self.waits.add_all(&other.waits);
        self.wakeups.add_all(&other.wakeups);
    }

    /// Returns the control groups by which it was throttled, the longest first.
    #[must_use]
    pub fn throttled_by_longest(&self) -> Vec<(GroupId, u64)> {
        let mut by = self.throttled_by.clone();
        by.sort_by_key(|(group, ns)| (std::cmp::Reverse(*ns), *group));
        by
    }

    /// Returns all of its time.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::IntervalEnd;
    use crate::story::thread;

    const THREAD: Thread = Thread { pid: 1, tid: 2 };

    fn interval(state: State, from: u64, to: u64) -> Interval {
        Interval {
            thread: THREAD,
            state,
            from: MonotonicNs(from),
            to: MonotonicNs(to),
            end: IntervalEnd::Unsaid,
            cpu: Some(0),
            waits_since: MonotonicNs(from),
        }
    }

    #[test]
    fn parts_of_the_time_add_up_to_all_of_it() {
        let intervals = [
            interval(State::Runnable(Wait::Woken), 10, 20),
            interval(State::Running, 20, 50),
            interval(State::Runnable(Wait::Preempted), 50, 90),
            interval(State::Running, 90, 100),
        ];
        let within = |from, until| {
            let mut totals = ThreadTotals::default();
            for one in &intervals {
                totals.add_within(one, MonotonicNs(from), MonotonicNs(until));
            }
            let mut all = ThreadTotal::default();
            for (_, total) in totals.threads().sorted() {
                all.add_all(total);
            }
            all
        };
        let (before, after, all) = (within(0, 60), within(61, 200), within(0, 200));
        assert_eq!((before.running, before.runnable), (30, 20));
        assert_eq!((after.running, after.runnable), (10, 29));
        // A wait is one of the part that it ends in, whole.
        assert_eq!((before.waits.count(), after.waits.longest()), (1, 40));
        assert_eq!((all.all(), all.waits.count(), all.preempted), (90, 2, 1));
        assert_eq!(within(101, 200).all(), 0);
        let mut sum = before;
        sum.add_all(&after);
        assert_eq!((sum.waits.total(), sum.longest_wait_at.0), (50, 90));
    }

    #[test]
    fn who_has_the_ids_of_one_that_has_ended_is_another_one() {
        let mut totals = ThreadTotals::default();
        for (nth, name) in [b"first", b"other"].into_iter().enumerate() {
            let from = 1000 * nth as u64;
            if nth > 0 {
                totals.begin(thread(7), b"first");
            }
            totals.add(&Interval {
                thread: thread(7),
                state: State::Running,
                from: MonotonicNs(from),
                to: MonotonicNs(from + 100 * (nth as u64 + 1)),
                end: IntervalEnd::Unsaid,
                cpu: None,
                waits_since: MonotonicNs(from),
            });
            totals.end(thread(7));
            assert_eq!(totals.before().len(), nth, "{name:?}");
        }
        let [before] = totals.before() else {
            panic!("{totals:?}");
        };
        assert_eq!(
            (&before.name[..], before.total.running),
            (&b"first"[..], 100)
        );
        let [(_, now)] = totals.threads().sorted()[..] else {
            panic!("{totals:?}");
        };
        assert_eq!(now.running, 200);
    }
}
