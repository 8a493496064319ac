//! Retained history of one thread, and sums over its intervals.

use std::collections::VecDeque;

use tracer_analysis::{Interval, IntervalEnd, Reason, State, Wait, Waker};
use tracer_engine::event::MonotonicNs;

/// Number of seconds that are shown side by side.
pub const MINUTE: usize = 60;

/// Limit of retained times of one thread: beyond it the newest are retained.
const MOST_TIMES: usize = 1 << 20;

/// History of a thread.
#[derive(Debug, Default)]
pub struct Lived {
    /// Sums since the first event.
    pub whole: Sum,
    /// Sums of the window; computed anew each time.
    pub lately: Sum,
    /// Time it ran in each second of the last minute, in nanoseconds.
    pub minute: VecDeque<u64>,
    /// Reason and waker of the last time that it was blocked.
    pub woken: Option<(Reason, Waker)>,
    /// Times at which it returned from system calls.
    pub calls: Times,
    /// Times at which it emitted user events.
    pub users: Times,
    /// Time of its first event.
    pub first: Option<MonotonicNs>,
    /// Time of its last event, or of what was found of it last.
    pub last: MonotonicNs,
}

impl Lived {
    /// Adds an interval of the thread.
    pub fn add(&mut self, interval: &Interval) {
        self.first.get_or_insert(interval.from);
        self.whole.add(interval, interval.from);
        if let (State::Blocked(reason), IntervalEnd::Woken(waker)) = (interval.state, interval.end)
        {
            self.woken = Some((reason.anywhere(), waker));
        }
    }

    /// Adds the time it ran in a second.
    pub fn add_second(&mut self, ran_ns: u64) {
        if self.minute.len() >= MINUTE {
            self.minute.pop_front();
        }
        self.minute.push_back(ran_ns);
    }
}

/// Recent times at which something happened.
#[derive(Debug, Default)]
pub struct Times {
    /// Total number.
    pub all: u64,
    lately: VecDeque<MonotonicNs>,
}

impl Times {
    /// Adds the time `at`. Times before `from` are no longer needed.
    pub fn add(&mut self, at: MonotonicNs, from: MonotonicNs) {
        self.all += 1;
        while self.lately.front().is_some_and(|first| *first <= from)
            || self.lately.len() >= MOST_TIMES
        {
            self.lately.pop_front();
        }
        self.lately.push_back(at);
    }

    /// Returns the number of times after `from`.
    #[must_use]
    pub fn since(&self, from: MonotonicNs) -> u64 {
        let before = self.lately.partition_point(|at| *at <= from);
        (self.lately.len() - before) as u64
    }
}

/// Times and counts of a thread in a window. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Time with a CPU.
    pub running: u64,
    /// Time in which it could run and waited for a CPU.
    pub runnable: u64,
    /// Time in which it waited for something else.
    pub blocked: u64,
    /// Time in which it was stopped.
    pub stopped: u64,
    /// Time in an unknown state.
    pub unknown: u64,
    /// Number of times it left its CPU.
    pub switches: u64,
    /// Number of times it got a CPU after it was made or woken.
    pub wakeups: u64,
    /// Longest wait for a CPU after it was made or woken.
    pub worst_wakeup: Option<u64>,
    /// Number of system calls that it returned from.
    pub calls: u64,
    /// Number of user events that it emitted.
    pub users: u64,
}

impl Sum {
    /// Adds the part of an interval after `from`. Its end is counted.
    pub fn add(&mut self, interval: &Interval, from: MonotonicNs) {
        let ns = interval.to.0.saturating_sub(interval.from.max(from).0);
        let total = match interval.state {
            State::Running => {
                self.switches += u64::from(interval.is_over());
                &mut self.running
            }
            State::Runnable(wait) => {
                if interval.is_over() && matches!(wait, Wait::New | Wait::Woken) {
                    self.wakeups += 1;
                    self.worst_wakeup = self.worst_wakeup.max(Some(interval.ns()));
                }
                &mut self.runnable
            }
            State::Blocked(_) => &mut self.blocked,
            State::Stopped => &mut self.stopped,
            State::Unknown => &mut self.unknown,
            State::Dead => return,
        };
        *total = total.saturating_add(ns);
    }

    /// Adds the sums of another thread.
    pub fn add_all(&mut self, other: &Self) {
        for (total, more) in [
            (&mut self.running, other.running),
            (&mut self.runnable, other.runnable),
            (&mut self.blocked, other.blocked),
            (&mut self.stopped, other.stopped),
            (&mut self.unknown, other.unknown),
            (&mut self.switches, other.switches),
            (&mut self.wakeups, other.wakeups),
            (&mut self.calls, other.calls),
            (&mut self.users, other.users),
        ] {
            *total = total.saturating_add(more);
        }
        self.worst_wakeup = self.worst_wakeup.max(other.worst_wakeup);
    }

    /// Returns the total time.
    #[must_use]
    pub fn all(&self) -> u64 {
        let parts = self.parts().into_iter();
        parts.map(|(_, ns)| ns).fold(0, u64::saturating_add)
    }

    /// Returns the times with their names.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("running", self.running),
            ("runnable", self.runnable),
            ("blocked", self.blocked),
            ("stopped", self.stopped),
            ("unknown", self.unknown),
        ]
    }
}
