//! How long a test waits.

use std::time::Duration;

/// `time`, and so many times longer as `TRACER_TEST_SLOWNESS` says: a machine whose processors are
/// made in software is no measure of how long something may take.
pub fn timeout(time: Duration) -> Duration {
    let slowness = std::env::var("TRACER_TEST_SLOWNESS").ok();
    time * slowness.and_then(|times| times.parse().ok()).unwrap_or(1)
}
