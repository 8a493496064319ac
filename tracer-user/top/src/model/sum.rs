//! Sums over the intervals of one thread.

use tracer_analysis::{Interval, State, Wait};
use tracer_engine::event::MonotonicNs;

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
