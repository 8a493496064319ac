//! Time that one user has taken from others, and that counts for a while.

use std::time::{Duration, Instant};

/// Time that was taken. It counts for `COUNTS_FOR` times as long: who takes time again and again
/// has so little of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent<const COUNTS_FOR: u32> {
    time: Duration,
    as_of: Option<Instant>,
}

impl<const COUNTS_FOR: u32> Spent<COUNTS_FOR> {
    /// Returns how much of it still counts.
    #[must_use]
    pub fn at(self, now: Instant) -> Duration {
        let since = self.as_of.map(|then| now.saturating_duration_since(then));
        self.time
            .saturating_sub(since.unwrap_or_default() / COUNTS_FOR)
    }

    /// Adds time that was taken, up to now.
    pub fn add(&mut self, time: Duration, now: Instant) {
        self.time = self.at(now) + time;
        self.as_of = Some(now);
    }
}
