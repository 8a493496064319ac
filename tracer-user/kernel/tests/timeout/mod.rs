//! Timeouts of tests.

use std::time::Duration;

/// Returns `time` multiplied by `TRACER_TEST_SLOWNESS`: emulated processors are slower than real
/// ones.
pub fn timeout(time: Duration) -> Duration {
    let slowness = std::env::var("TRACER_TEST_SLOWNESS").ok();
    time * slowness.and_then(|times| times.parse().ok()).unwrap_or(1)
}
