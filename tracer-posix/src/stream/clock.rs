//! From the clock that orders events to the one that people see.

use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_log::clocks_now;

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
            offset: clocks_now().realtime_offset(),
            last: RealtimeNs(0),
        }
    }

    /// Looks at both clocks again.
    pub(crate) fn look(&mut self) {
        self.offset = clocks_now().realtime_offset();
    }

    pub(crate) fn time(&mut self, time: MonotonicNs) -> RealtimeNs {
        self.last = self
            .last
            .max(RealtimeNs(time.0.saturating_add_signed(self.offset)));
        self.last
    }
}
