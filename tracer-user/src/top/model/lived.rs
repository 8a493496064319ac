//! What is held of one thread.

use std::collections::VecDeque;

use tracer_analysis::{End, Interval, Reason, State, Waker};
use tracer_engine::event::MonotonicNs;

use super::sum::Sum;

/// Seconds that are shown side by side.
pub const MINUTE: usize = 60;

/// Moments that are held of one thread: of more, the newest.
const MOST_TIMES: usize = 1 << 20;

/// A thread.
#[derive(Debug, Default)]
pub struct Lived {
    /// What it did since the first event.
    pub whole: Sum,
    /// What it did in the time that is looked at; added up anew each time.
    pub lately: Sum,
    /// How long it ran in each second of the last minute, in nanoseconds.
    pub minute: VecDeque<u64>,
    /// How it last came out of being blocked.
    pub woken: Option<(Reason, Waker)>,
    /// When it returned from system calls.
    pub calls: Times,
    /// When it emitted user events.
    pub users: Times,
    /// When it was first seen.
    pub first: Option<MonotonicNs>,
}

impl Lived {
    /// Adds what it did.
    pub fn add(&mut self, interval: &Interval) {
        self.first.get_or_insert(interval.from);
        self.whole.add(interval, interval.from);
        if let (State::Blocked(reason), End::Woken(waker)) = (interval.state, interval.end) {
            self.woken = Some((reason.anywhere(), waker));
        }
    }

    /// Adds a second.
    pub fn add_second(&mut self, ran_ns: u64) {
        if self.minute.len() >= MINUTE {
            self.minute.pop_front();
        }
        self.minute.push_back(ran_ns);
    }
}

/// When something happened lately.
#[derive(Debug, Default)]
pub struct Times {
    /// How often in all.
    pub all: u64,
    lately: VecDeque<MonotonicNs>,
}

impl Times {
    /// It happens now; nobody will ask for what was before `from`.
    pub fn add(&mut self, at: MonotonicNs, from: MonotonicNs) {
        self.all += 1;
        while self.lately.front().is_some_and(|first| *first <= from)
            || self.lately.len() >= MOST_TIMES
        {
            self.lately.pop_front();
        }
        self.lately.push_back(at);
    }

    /// How often after `from`.
    #[must_use]
    pub fn since(&self, from: MonotonicNs) -> u64 {
        let before = self.lately.partition_point(|at| *at <= from);
        (self.lately.len() - before) as u64
    }
}
