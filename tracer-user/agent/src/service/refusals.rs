//! Refusals, and to which user: on the standard error, which is the journal of a service.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracer_text::say;

/// Lines in a stretch of time: any user can have the service refuse as often as it likes.
const MOST_LINES: u32 = 10;

/// That stretch.
const STRETCH: Duration = Duration::from_secs(10);

/// Reporter of refusals.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<Limit>>);

#[derive(Debug, Default)]
struct Limit {
    since: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Refusals {
    /// Makes one that counts, and says nothing for a while.
    pub fn unsaid() -> Self {
        let limit = Limit {
            since: Some(Instant::now()),
            said: MOST_LINES,
            unsaid: 0,
        };
        Self(Arc::new(Mutex::new(limit)))
    }

    /// Reports one, unless there were too many just before: those are counted.
    pub fn note(&self, user: u32, pid: i32, why: &str) {
        let lines = {
            let mut limit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            limit.lines(Instant::now(), || {
                format!("refused to process {pid} of user {user}: {why}")
            })
        };
        lines.iter().for_each(|line| say(line));
    }
}

impl Limit {
    /// Returns the lines to be said now.
    fn lines(&mut self, now: Instant, line: impl FnOnce() -> String) -> Vec<String> {
        let mut lines = Vec::new();
        if self.since.is_none_or(|since| now >= since + STRETCH) {
            if self.unsaid > 0 {
                lines.push(format!("{} more refusals were not reported", self.unsaid));
            }
            *self = Self {
                since: Some(now),
                said: 0,
                unsaid: 0,
            };
        }
        if self.said < MOST_LINES {
            self.said += 1;
            lines.push(line());
        } else {
            self.unsaid += 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_is_refused_all_the_time_does_not_fill_the_journal() {
        let mut limit = Limit::default();
        let start = Instant::now();
        let said: usize = (0..1000)
            .map(|_| limit.lines(start, || "refused".to_owned()).len())
            .sum();
        assert_eq!(said, 10);
        let later = limit.lines(start + STRETCH, || "refused".to_owned());
        assert_eq!(later, ["990 more refusals were not reported", "refused"]);
    }
}
