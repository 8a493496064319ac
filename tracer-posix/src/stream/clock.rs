//! From the clock that orders events to the one that people see.

use tracer_area::{monotonic_now, realtime_now};
use tracer_engine::event::{MonotonicNs, RealtimeNs};

/// Turns event times into `CLOCK_REALTIME`. Within one stream they never decrease, though the
/// realtime clock may be set back.
#[derive(Debug)]
pub(crate) struct RealtimeClock {
    /// Realtime less monotonic, in nanoseconds.
    offset: i64,
    last: RealtimeNs,
}

impl RealtimeClock {
    pub(crate) fn new() -> Self {
        Self {
            offset: offset_now(),
            last: RealtimeNs(0),
        }
    }

    /// Looks at both clocks again.
    pub(crate) fn look(&mut self) {
        self.offset = offset_now();
    }

    pub(crate) fn time(&mut self, time: MonotonicNs) -> RealtimeNs {
        self.last = self
            .last
            .max(RealtimeNs(time.0.saturating_add_signed(self.offset)));
        self.last
    }
}

fn offset_now() -> i64 {
    let before = monotonic_now().0;
    let realtime = realtime_now().0;
    let after = monotonic_now().0;
    let monotonic = before + (after - before) / 2;
    i64::try_from(realtime).unwrap_or(0) - i64::try_from(monotonic).unwrap_or(0)
}
