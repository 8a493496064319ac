//! The part of a trace that is asked about.

use tracer_analysis::Thread;
use tracer_engine::event::MonotonicNs;

/// A time, and processes. All by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Start of the time asked about.
    pub from: MonotonicNs,
    /// End of the time asked about.
    pub until: MonotonicNs,
    /// Processes; empty for all.
    pub pids: Vec<i32>,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            from: MonotonicNs(0),
            until: MonotonicNs(u64::MAX),
            pids: Vec::new(),
        }
    }
}

impl Scope {
    /// Tells whether it is the whole trace.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Tells whether it has not all of the time.
    #[must_use]
    pub fn has_times(&self) -> bool {
        (self.from, self.until) != (MonotonicNs(0), MonotonicNs(u64::MAX))
    }

    /// Tells whether events at this time are asked about.
    #[must_use]
    pub fn has_time(&self, at: MonotonicNs) -> bool {
        self.from <= at && at <= self.until
    }

    /// Tells whether a process is asked about.
    #[must_use]
    pub fn has_process(&self, pid: i32) -> bool {
        self.pids.is_empty() || self.pids.contains(&pid)
    }

    /// Tells whether the activity of a thread at this time is asked about.
    #[must_use]
    pub fn has(&self, thread: Thread, at: MonotonicNs) -> bool {
        self.has_process(thread.pid) && self.has_time(at)
    }

    /// Returns the part of the time from `first` to `last` that is asked about, in nanoseconds.
    #[must_use]
    pub fn ns_of(&self, first: MonotonicNs, last: MonotonicNs) -> u64 {
        let (from, until) = (self.from.max(first), self.until.min(last));
        until.0.saturating_sub(from.0)
    }
}
