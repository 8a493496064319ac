//! Intervals between attempts: they grow, and no two hosts have the same.

use std::time::Duration;

/// Shortest interval.
const LEAST: Duration = Duration::from_secs(1);

/// Attempts that failed, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures(u32);

impl Failures {
    /// Counts a failure, and returns how long to wait: at random from half to all of an interval
    /// that doubles, up to `most`. `chance` is from 0 to 1. Waited for on the monotonic clock.
    pub fn wait(&mut self, most: Duration, chance: f64) -> Duration {
        let interval = LEAST
            .saturating_mul(1_u32 << self.0.min(16))
            .min(most.max(LEAST));
        self.0 = self.0.saturating_add(1);
        interval.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// Notes a success.
    pub fn end(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let most = Duration::from_secs(300);
        let mut failures = Failures::default();
        let mut intervals = |chance| -> Vec<f64> {
            let mut next = || failures.wait(most, chance).as_secs_f64();
            let intervals = (0..12).map(|_| next()).collect();
            failures.end();
            intervals
        };
        let longest = intervals(1.0);
        assert_eq!(longest[..6], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        assert_eq!(longest[8..], [256.0, 300.0, 300.0, 300.0]);
        let shortest = intervals(0.0);
        assert!(longest.iter().zip(&shortest).all(|(a, b)| *b == a / 2.0));
        let mut many = Failures(u32::MAX);
        assert_eq!(many.wait(most, 1.0), most);
    }
}
