//! Cost of reading another process's area, beside its events.

use std::time::{Duration, Instant};

use super::slot::StreamRequest;
use crate::layout::chunk_ref::Shape;

/// Time for which other sources wait for an area in any case. The area of a program that only emits
/// is read within milliseconds, if the machine is not too busy.
const TIMEOUT: Duration = Duration::from_millis(250);

/// Steps in a round beside those that the stream's size asks for. They suffice for the chunks of
/// some thousand threads.
const SPARE: u64 = 64;

/// How often each window may be mapped in a round.
const TIMES: u64 = 4;

/// Cost of a round of reading beside its events: windows that the reader maps, and threads that it
/// waits for. A hostile process may say that there are thousands of each.
#[derive(Debug)]
pub(super) struct Effort {
    since: Instant,
    /// Number of steps before the round.
    before: u64,
    /// Number of steps that the round may take.
    usual: u64,
}

impl Effort {
    /// Makes the bounds of a stream by what its controller asked for, and not by what its area
    /// says.
    pub(super) fn new(request: &StreamRequest) -> Self {
        let max_data = u32::try_from(request.max_data).unwrap_or(u32::MAX);
        let shape = Shape::new(Shape::for_data(max_data));
        let windows = shape.map_or(0, |shape| {
            let chunks = shape.for_size(request.bytes, max_data);
            shape.window_and_index(chunks).0 + 1
        });
        let windows = u64::try_from(windows).unwrap_or(u64::MAX);
        Self {
            since: Instant::now(),
            before: 0,
            usual: windows.saturating_mul(TIMES).saturating_add(SPARE),
        }
    }

    /// Begins a round after so many steps.
    pub(super) fn begin(&mut self, steps: u64) {
        self.since = Instant::now();
        self.before = steps;
    }

    /// Tells whether other sources need not wait for the round any more: it takes long, and not for
    /// its events.
    pub(super) fn is_too_much(&self, steps: u64) -> bool {
        steps.wrapping_sub(self.before) > self.usual && self.since.elapsed() > TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::slot::RingMode;

    #[test]
    fn what_takes_long_for_its_size_is_not_waited_for() {
        let mut effort = Effort::new(&StreamRequest {
            target: None,
            inherit: true,
            is_only_source: false,
            bytes: 64 << 20,
            mode: RingMode::OverwriteOldest,
            max_data: 64,
            lease: None,
        });
        // 64 MiB are in 17 windows or so.
        assert!((100..200).contains(&effort.usual), "{}", effort.usual);
        effort.begin(1000);
        assert!(!effort.is_too_much(5000), "not so soon");
        effort.since -= 2 * TIMEOUT;
        assert!(!effort.is_too_much(1100), "a busy machine");
        assert!(effort.is_too_much(5000));
        effort.begin(5000);
        assert!(!effort.is_too_much(5000));
    }
}
