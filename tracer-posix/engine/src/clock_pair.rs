//! From the clock that orders events to the one that people see.

use crate::event::{MonotonicNs, RealtimeNs};

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockPair {
    /// The moment on `CLOCK_MONOTONIC`.
    pub monotonic: MonotonicNs,
    /// The moment on `CLOCK_REALTIME`.
    pub realtime: RealtimeNs,
}

impl ClockPair {
    /// Reads both clocks at one moment.
    ///
    /// A thread that loses its processor between two clocks reads them far apart: so they are read
    /// several times, and the reading that took least counts.
    pub fn read(monotonic: impl Fn() -> MonotonicNs, realtime: impl Fn() -> RealtimeNs) -> Self {
        const READINGS: usize = 5;
        let read = || {
            let before = monotonic().0;
            let realtime = realtime();
            let width = monotonic().0.saturating_sub(before);
            let monotonic = MonotonicNs(before.saturating_add(width / 2));
            (
                width,
                Self {
                    monotonic,
                    realtime,
                },
            )
        };
        let mut best = read();
        for _ in 1..READINGS {
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }

    /// Returns the nanoseconds to add to a time on `CLOCK_MONOTONIC` to have it on
    /// `CLOCK_REALTIME`.
    #[must_use]
    pub fn realtime_offset(self) -> i64 {
        self.realtime.0.wrapping_sub(self.monotonic.0).cast_signed()
    }

    /// Returns the date of a time of the monotonic clock.
    #[must_use]
    pub fn date_of(self, time: MonotonicNs) -> RealtimeNs {
        RealtimeNs(time.0.saturating_add_signed(self.realtime_offset()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_reading_that_took_least_counts() {
        // When the monotonic clock is read; in the second reading alone nothing comes between.
        let times = [
            0, 900, 1_000, 1_010, 2_000, 2_900, 3_000, 3_900, 4_000, 4_900,
        ];
        let next = Cell::new(0);
        let monotonic = || MonotonicNs(times[next.replace(next.get() + 1)]);
        let realtime = || RealtimeNs(times[next.get() - 1] + 500_000);

        let pair = ClockPair::read(monotonic, realtime);

        assert_eq!(pair.monotonic, MonotonicNs(1_005));
        assert_eq!(pair.realtime, RealtimeNs(501_000));
        assert_eq!(pair.realtime_offset(), 499_995);
    }
}
