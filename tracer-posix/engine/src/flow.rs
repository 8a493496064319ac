//! How a stream's events come: a reader that has taken all of them may know when the next is due.

use std::time::Duration;

use crate::event::MonotonicNs;

/// The times of the last two events that a reader was given.
///
/// While events come, the reader looks for them from time to time, so that no emission has to wake
/// it: that costs the emitting thread a system call, and a thousand times what the event does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    last: MonotonicNs,
    gap_ns: u64,
}

/// Time after an event for which more are looked for.
const FLOWS_NS: u64 = 25_000_000;
/// Shortest time between two looks: less than what it costs to be woken is not gained.
const SHORTEST_NS: u64 = 100_000;
/// Longest time between two looks, and so the longest that an event waits.
const LONGEST_NS: u64 = 1_000_000;

impl Flow {
    /// Notes an event of this time, which the reader is given.
    #[inline]
    pub fn came(&mut self, time: MonotonicNs) {
        self.gap_ns = time.0.saturating_sub(self.last.0);
        self.last = time;
    }

    /// Returns for how long the reader sleeps before it looks again; `None` where it sleeps until
    /// it is woken, since no event has come for a while.
    #[must_use]
    pub fn nap(&self, now: MonotonicNs) -> Option<Duration> {
        let passed = now.0.saturating_sub(self.last.0);
        let half = passed.max(self.gap_ns.min(FLOWS_NS)) / 2;
        let nap = Duration::from_nanos(half.clamp(SHORTEST_NS, LONGEST_NS));
        (self.last.0 > 0 && passed < FLOWS_NS).then_some(nap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn flow(times: &[u64]) -> Flow {
        let mut flow = Flow::default();
        for time in times {
            flow.came(MonotonicNs(*time));
        }
        flow
    }

    #[test]
    fn who_was_given_nothing_yet_or_not_lately_is_woken() {
        assert_eq!(Flow::default().nap(MonotonicNs(5)), None);
        let flow = flow(&[1000 * US]);
        assert!(flow.nap(MonotonicNs(1000 * US + FLOWS_NS - 1)).is_some());
        assert_eq!(flow.nap(MonotonicNs(1000 * US + FLOWS_NS)), None);
    }

    #[test]
    fn looks_are_as_far_apart_as_events_and_no_further_than_a_millisecond() {
        let nap = |times: &[u64], now| {
            let nap = flow(times).nap(MonotonicNs(now)).unwrap();
            u64::try_from(nap.as_nanos()).unwrap()
        };
        assert_eq!(nap(&[1_000_000, 1_000_500], 1_000_600), SHORTEST_NS);
        assert_eq!(nap(&[US, 1001 * US], 1002 * US), 500 * US);
        assert_eq!(nap(&[US, 1001 * US], 2501 * US), 750 * US);
        assert_eq!(nap(&[US, 20_001 * US], 20_002 * US), LONGEST_NS);
        // A clock of another CPU may be a little behind.
        assert_eq!(nap(&[1000 * US, 1001 * US], 900 * US), SHORTEST_NS);
    }
}
