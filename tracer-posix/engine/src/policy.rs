//! The policies that attributes choose. The standard names every value, so the enums are closed.

/// Policy of a full trace stream for the next event (`stream-full-policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StreamFullPolicy {
    /// The oldest events make space.
    Loop,
    /// The stream stops, and starts again when it has been emptied.
    UntilFull,
    /// As `UntilFull`, with regular flushes to the log.
    Flush,
}

/// Policy of a full trace log for the next event (`log-full-policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LogFullPolicy {
    /// The oldest events make space.
    Loop,
    /// Events flushed from then on are discarded.
    UntilFull,
    /// The log has no limit.
    Append,
}

/// Whether children of the target are traced into the same stream (`inheritance`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Inheritance {
    /// Children are not traced.
    CloseForChild,
    /// Children are traced from their first instruction on.
    Inherited,
}
