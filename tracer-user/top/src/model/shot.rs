//! Snapshot that is shown: everything known at a moment.

use std::sync::Arc;

use tracer_analysis::{Interval, Task, Thread, Waker};
use tracer_engine::event::MonotonicNs;

use super::lived::Sum;
use tracer_answers::queries::Split;
use tracer_answers::queries::words::task;

/// Window of time that is summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// Last nanoseconds, at most ten seconds of them.
    Last(u64),
    /// Everything since the first event.
    #[default]
    All,
}

impl Window {
    /// Returns this window, made at least this many nanoseconds long.
    #[must_use]
    pub fn at_least(self, ns: u64) -> Self {
        match self {
            Self::Last(window) => Self::Last(window.max(ns)),
            Self::All => Self::All,
        }
    }
}

/// Everything known at a moment. Fields called `name` are for people: they are harmless, whatever
/// bytes the original had.
#[derive(Clone, Debug, Default)]
pub struct Shot {
    /// Time of the moment in nanoseconds: since the start of the log or, live, since the first
    /// event.
    pub at: u64,
    /// Window of time that is summed up.
    pub window: Window,
    /// Length of the window so far, in nanoseconds.
    pub span: u64,
    /// Threads, in no order.
    pub threads: Vec<ThreadRow>,
    /// Whether there are more threads, which are not shown because they are too many.
    pub has_others: bool,
    /// Spans, by kind.
    pub spans: Vec<SpanRow>,
    /// Events lost so far.
    pub losses: ShownLosses,
    /// Whether requests to disks are among the events: the kernel may report no end of those.
    pub has_requests: bool,
    /// Time since the last loss, in nanoseconds.
    pub lost_ago: Option<u64>,
    /// Number of events in the window.
    pub events: u64,
    /// Facts that are unknown because the events for them were not recorded.
    pub missing: Option<&'static str>,
    /// Whether switches, and wake-ups, were recorded.
    pub has: (bool, bool),
    /// Opened thread.
    pub opened: Option<Opened>,
    /// Whether no more events will come.
    pub has_ended: bool,
}

/// Details of an opened thread.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// Thread.
    pub thread: Thread,
    /// Name of the thread.
    pub name: String,
    /// Command line of its process; empty where that is unknown.
    pub command: String,
    /// Start of its timeline.
    pub from: MonotonicNs,
    /// End of its timeline.
    pub to: MonotonicNs,
    /// Start of the times that are shown.
    pub start: MonotonicNs,
    /// Intervals of the thread, in order of time.
    pub track: Vec<Interval>,
    /// Times of its events, each with whether it was a user event.
    pub ticks: Vec<(MonotonicNs, bool)>,
    /// Newest of its events, as `read` shows them.
    pub lines: Vec<Arc<str>>,
}

/// Numbers of missing events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownLosses {
    /// Events that the trace lost, as `stat` counts them.
    pub lost: u64,
    /// Events that the kernel did not report.
    pub not_reported: u64,
}

/// Row of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadRow {
    /// Thread.
    pub thread: Thread,
    /// Name of the thread.
    pub name: String,
    /// Bytes of its name.
    pub comm: Vec<u8>,
    /// Name of its process; empty where that is unknown.
    pub process: String,
    /// Command line of its process; empty where that is unknown.
    pub command: String,
    /// Sums over the window.
    pub sum: Sum,
    /// Time it ran in each second of the last minute, in nanoseconds.
    pub minute: Vec<u64>,
    /// Current state, with its beginning.
    pub current: Option<Interval>,
    /// Control group by which it is throttled.
    pub group: Option<Arc<str>>,
    /// Task or waker that it waits for.
    pub waits_for: Option<WaitsFor>,
}

/// Cause of a thread's wait, as far as that can be known before the wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Thread that has had the CPU that this one waits for, and whether it was the only one: others
    /// whose switches are not traced may have come between.
    Behind(Task, bool),
    /// Waker that ended its last wait of the same kind.
    LastWokenBy(Waker),
}

impl std::fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Behind(who, true) => write!(f, "behind {}", task(who)),
            Self::Behind(who, false) => write!(f, "behind {}, or others", task(who)),
            Self::LastWokenBy(waker) => {
                f.write_str("last woken by ")?;
                match waker {
                    Waker::Unknown => f.write_str("an unknown waker"),
                    Waker::Thread(who) => f.write_str(&task(who)),
                    Waker::Interrupt => f.write_str("an interrupt"),
                    Waker::SoftInterrupt => f.write_str("a soft interrupt"),
                    Waker::Timer => f.write_str("a timer"),
                }
            }
        }
    }
}

/// Row of the spans of one kind.
#[derive(Clone, Debug, Default)]
pub struct SpanRow {
    /// Name of the spans.
    pub name: String,
    /// Bytes of the name.
    pub kind: Vec<u8>,
    /// Number of spans that ended in the window.
    pub count: u64,
    /// Total time they took, in nanoseconds.
    pub total: u64,
    /// Median of the time they took.
    pub p50: Option<u64>,
    /// 99th percentile of the time they took.
    pub p99: Option<u64>,
    /// Longest time that one took.
    pub longest: Option<u64>,
    /// Split of their time by cause.
    pub split: Split,
    /// Average time they took in each second of the last minute, in nanoseconds.
    pub trend: Vec<u64>,
    /// Slowest span.
    pub slowest: Option<SlowSpan>,
}

/// Span that is explained.
#[derive(Clone, Debug)]
pub struct SlowSpan {
    /// Time of its beginning, as times are shown.
    pub at: MonotonicNs,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Thread of the span.
    pub thread: Thread,
    /// Bytes of the thread's name.
    pub comm: Vec<u8>,
    /// Critical path, as in JSON.
    pub parts: serde_json::Value,
    /// Critical path, in the lines of `why`.
    pub lines: Vec<String>,
}
