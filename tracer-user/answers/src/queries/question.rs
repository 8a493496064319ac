//! Questions about spans and threads.

use tracer_engine::event::MonotonicNs;

use super::SpanSpec;

/// Question.
#[derive(Clone, Debug)]
pub enum Question {
    /// No span.
    Nothing,
    /// Spans: those that are named, or all pairs of event types whose names show it.
    Spans(Vec<SpanSpec>),
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
