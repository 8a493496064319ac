//! Retained history of one thread.

use std::collections::VecDeque;

use tracer_analysis::{Interval, IntervalEnd, Reason, State, Waker};
use tracer_engine::event::MonotonicNs;

use super::sum::Sum;

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
