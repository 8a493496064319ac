//! The time that a controller takes to give the memory of ended streams back, in areas of other processes.
//!
//! It is the emitting program's memory. A hostile program may say that a stream has thousands of windows, in each of thousands of areas: a tracer that is told
//! to end has no time for all of those. What is left is given back by whoever opens a stream in the area next.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::find::Area;

/// For one stream in any case.
const LEAST: Duration = Duration::from_millis(2);

/// For all streams in areas of one user, beside that: what a thousand streams of 16 MiB take.
const OF_USER: Duration = Duration::from_millis(500);

/// What was taken so far, of each user.
static TAKEN: Mutex<Option<HashMap<u32, Duration>>> = Mutex::new(None);

/// The time for one stream.
pub(super) struct Allowance {
    /// `None`: it is an area of this process's own.
    of_other: Option<OfOther>,
}

struct OfOther {
    owner: u32,
    begin: Instant,
    end: Instant,
}

impl Allowance {
    /// From now on.
    pub(super) fn begin(area: &Area) -> Self {
        let of_other = (!area.is_own()).then(|| {
            let (owner, begin) = (area.owner(), Instant::now());
            let taken = with_taken(|taken| taken.get(&owner).copied().unwrap_or_default());
            Self::of(owner, begin, taken)
        });
        Self { of_other }
    }

    fn of(owner: u32, begin: Instant, taken: Duration) -> OfOther {
        let end = begin + OF_USER.saturating_sub(taken).max(LEAST);
        OfOther { owner, begin, end }
    }

    pub(super) fn is_spent(&self) -> bool {
        let of_other = self.of_other.as_ref();
        of_other.is_some_and(|of_other| Instant::now() >= of_other.end)
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        if let Some(OfOther { owner, begin, .. }) = self.of_other {
            with_taken(|taken| *taken.entry(owner).or_default() += begin.elapsed());
        }
    }
}

fn with_taken<T>(look: impl FnOnce(&mut HashMap<u32, Duration>) -> T) -> T {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    look(taken.get_or_insert_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_taken_all_gets_the_least() {
        let now = Instant::now();
        let left = |taken| Allowance::of(7, now, taken).end - now;
        assert_eq!(left(Duration::ZERO), OF_USER);
        assert_eq!(left(OF_USER / 2), OF_USER / 2);
        assert_eq!(left(2 * OF_USER), LEAST);
    }
}
