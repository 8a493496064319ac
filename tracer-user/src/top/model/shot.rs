//! What is shown: all that is known at a moment.

use std::sync::Arc;

use tracer_analysis::{Interval, Task, Thread, Waker};
use tracer_engine::event::MonotonicNs;

use super::sum::Sum;
use crate::answers::Split;
use crate::answers::words::task;

/// Which time is summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// The last so many nanoseconds, at most ten seconds of them.
    Last(u64),
    /// All since the first event.
    #[default]
    All,
}

impl Window {
    /// The same, but not less than so many nanoseconds.
    #[must_use]
    pub fn at_least(self, ns: u64) -> Self {
        match self {
            Self::Last(window) => Self::Last(window.max(ns)),
            Self::All => Self::All,
        }
    }
}

/// All that is known at a moment. What is called `name` is for people: whatever bytes it had, they
/// are harmless.
#[derive(Clone, Debug, Default)]
pub struct Shot {
    /// When that is: since the start of the log, or, live, since the first event, in nanoseconds.
    pub at: u64,
    /// Which time is summed up,
    pub window: Window,
    /// and how much that is so far, in nanoseconds.
    pub span: u64,
    /// The threads, in no order.
    pub threads: Vec<ThreadRow>,
    /// Threads beyond those of which nothing is shown, as there are too many.
    pub has_others: bool,
    /// The spans, by kind.
    pub spans: Vec<SpanRow>,
    /// What was lost so far.
    pub losses: Losses,
    /// Whether requests to disks are among the events: of these the kernel may not report an end.
    pub has_requests: bool,
    /// When events were lost last, in nanoseconds before this moment.
    pub lost_ago: Option<u64>,
    /// Events in that time.
    pub events: u64,
    /// What is unknown because no such events were recorded.
    pub missing: Option<&'static str>,
    /// Whether switches, and wake-ups, were recorded.
    pub has: (bool, bool),
    /// The thread that is opened.
    pub opened: Option<Opened>,
    /// Whether no more events will come.
    pub has_ended: bool,
}

/// A thread that is opened.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// Which one.
    pub thread: Thread,
    /// What it is called.
    pub name: String,
    /// Command line of its process; empty where that is not known.
    pub command: String,
    /// From when on its timeline is shown,
    pub from: MonotonicNs,
    /// and until when.
    pub to: MonotonicNs,
    /// From when on times are shown.
    pub start: MonotonicNs,
    /// What it did, in order of time.
    pub track: Vec<Interval>,
    /// When it had events, and whether those were user events.
    pub ticks: Vec<(MonotonicNs, bool)>,
    /// Its events as `read` shows them: the newest.
    pub lines: Vec<Arc<str>>,
}

/// Events that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events that the trace lost, as `stat` counts them.
    pub lost: u64,
    /// Those that the kernel did not report.
    pub not_reported: u64,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadRow {
    /// Which one.
    pub thread: Thread,
    /// What it is called,
    pub name: String,
    /// and the bytes of that.
    pub comm: Vec<u8>,
    /// What its process is called; empty where that is not known.
    pub process: String,
    /// Command line of its process; empty where that is not known.
    pub command: String,
    /// What it did in that time.
    pub sum: Sum,
    /// How long it ran in each second of the last minute, in nanoseconds.
    pub minute: Vec<u64>,
    /// What it does since when.
    pub current: Option<Interval>,
    /// Whom it waits for.
    pub waits_for: Option<WaitsFor>,
}

/// Whom a thread waits for, as far as that can be known before it has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The thread that has had the CPU that it waits for, and whether that is all that had it:
    /// others may have come between whose switches are not traced.
    Behind(Task, bool),
    /// Who woke it when it was last blocked in the same.
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

/// Spans of one kind.
#[derive(Clone, Debug, Default)]
pub struct SpanRow {
    /// What they are called,
    pub name: String,
    /// and the bytes of that.
    pub kind: Vec<u8>,
    /// How many ended in the time that is looked at.
    pub count: u64,
    /// How long they took together, in nanoseconds.
    pub total: u64,
    /// How long half of them took at most.
    pub p50: Option<u64>,
    /// How long 99 in a hundred took at most.
    pub p99: Option<u64>,
    /// The longest.
    pub longest: Option<u64>,
    /// Where their time went.
    pub split: Split,
    /// How long they took on average in each second of the last minute, in nanoseconds.
    pub trend: Vec<u64>,
    /// The slowest.
    pub slowest: Option<SlowSpan>,
}

/// A span that is explained.
#[derive(Clone, Debug)]
pub struct SlowSpan {
    /// When it began, as times are shown.
    pub at: MonotonicNs,
    /// How long it took, in nanoseconds.
    pub ns: u64,
    /// Of which thread it is one,
    pub thread: Thread,
    /// and what that was called.
    pub comm: Vec<u8>,
    /// Its critical path, as JSON has it,
    pub parts: serde_json::Value,
    /// and in the lines that `why` has of it.
    pub lines: Vec<String>,
}
