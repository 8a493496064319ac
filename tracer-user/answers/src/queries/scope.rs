//! Questions about spans and threads, and the part of a trace that is asked about.

use tracer_analysis::Thread;
use tracer_engine::event::MonotonicNs;

use super::SpanSpec;

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

/// Question.
#[derive(Clone, Debug)]
pub enum Question {
    /// No span.
    Nothing,
    /// Spans: those that are named, or all pairs of event types whose names show it.
    Spans(Vec<SpanSpec>),
    /// Spans of a trace of OpenTelemetry, for which threads work; `None`: of all traces.
    Trace(Option<[u8; 16]>),
    /// Activity of a thread, from a moment on, until another, or all the time.
    Thread {
        /// The thread; `None`: the first that is seen, such as that of a command.
        tid: Option<i32>,
        /// Start of the time asked about.
        from: Option<MonotonicNs>,
        /// End of the time asked about.
        until: Option<MonotonicNs>,
    },
}

/// Spans that are explained one by one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanChoice {
    /// Number of the slowest spans that are explained.
    pub slowest: usize,
    /// Whether the slowest are chosen of each kind, and not of all together.
    pub is_by_kind: bool,
    /// Duration that the spans exceed, in nanoseconds.
    pub longer_than: u64,
    /// Time at which the spans were open.
    pub at: Option<MonotonicNs>,
    /// Whether the steps of each path are not retained one by one.
    pub is_without_segments: bool,
}
