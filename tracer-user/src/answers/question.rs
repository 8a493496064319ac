//! What is asked about spans and threads.

use tracer_engine::event::MonotonicNs;

use super::SpanSpec;

/// What is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// No span.
    Nothing,
    /// Spans: those that are named, or all pairs of event types whose names show it.
    Spans(Vec<SpanSpec>),
    /// What a thread did, from a moment on, until another, or all the time.
    Thread {
        /// The thread; `None`: the first that is seen, such as that of a command.
        tid: Option<i32>,
        /// From when on.
        from: Option<MonotonicNs>,
        /// Until when.
        until: Option<MonotonicNs>,
    },
}

/// Which spans are explained one by one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// The slowest so many.
    pub slowest: usize,
    /// So many of each kind, and not of all together.
    pub is_by_kind: bool,
    /// Only spans that took longer, in nanoseconds.
    pub longer_than: u64,
    /// Only spans that were open at this time.
    pub at: Option<MonotonicNs>,
    /// Whether the steps of each path are not kept one by one.
    pub is_without_segments: bool,
}
