//! Times after others.

use std::time::Duration;

use tracer_engine::event::MonotonicNs;

/// Returns the time `wait` after `time`.
pub fn later(time: MonotonicNs, wait: Duration) -> MonotonicNs {
    MonotonicNs(
        time.0
            .saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)),
    )
}
