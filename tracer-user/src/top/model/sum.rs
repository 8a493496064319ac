//! What intervals of one thread sum up to.

use tracer_analysis::{Interval, State, Wait};
use tracer_engine::event::MonotonicNs;

/// What a thread did in some time. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
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
    /// Times that it left its CPU.
    pub switches: u64,
    /// Times that it got a CPU after it was made or woken.
    pub wakeups: u64,
    /// The longest that it waited for one then.
    pub worst_wakeup: Option<u64>,
    /// System calls that it returned from.
    pub calls: u64,
    /// User events that it emitted.
    pub users: u64,
}

impl Sum {
    /// Adds what of an interval was after `from`. What happened at its end is counted.
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

    /// Adds what another thread did.
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

    /// All of the time.
    #[must_use]
    pub fn all(&self) -> u64 {
        let parts = self.parts().into_iter();
        parts.map(|(_, ns)| ns).fold(0, u64::saturating_add)
    }

    /// The times, with what they are called.
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
