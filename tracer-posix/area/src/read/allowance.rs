//! The time that a controller takes to give the memory of ended streams back, in areas of other
//! processes.
//!
//! The memory is that of the emitting program. A hostile program may say that a stream has
//! thousands of windows, in each of thousands of areas: a tracer that is asked to end has no time
//! for all of those. The next process that opens a stream in the area gives back what is left.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::discover::find::Area;
use crate::emit::lock::PiLock;

/// Allowance of one stream whose user has used up the user's allowance.
const LEAST: Duration = Duration::from_millis(2);

/// Allowance of all streams in areas of one user: the time that some hundred streams of 16 MiB
/// take.
const OF_USER: Duration = Duration::from_millis(100);

/// Allowance of all streams of all users.
const OF_ALL: Duration = Duration::from_millis(200);

/// Factor by which time taken counts for longer than it took: a user who ends streams all the time
/// gets a tenth of all time for that.
const COUNTS_FOR: u32 = 10;

/// Time that one user has taken from others. It counts for `COUNTS_FOR` times as long, so that a
/// user who takes time again and again gets little.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent<const COUNTS_FOR: u32> {
    time: Duration,
    as_of: Option<Instant>,
}

impl<const COUNTS_FOR: u32> Spent<COUNTS_FOR> {
    /// Returns how much of the time taken still counts.
    #[must_use]
    pub fn at(self, now: Instant) -> Duration {
        let since = self.as_of.map(|then| now.saturating_duration_since(then));
        self.time
            .saturating_sub(since.unwrap_or_default() / COUNTS_FOR)
    }

    /// Adds time that was taken, up to now.
    pub fn add(&mut self, time: Duration, now: Instant) {
        self.time = self.at(now) + time;
        self.as_of = Some(now);
    }
}

/// Time taken so far.
static TAKEN: PiLock<Option<Taken>> = PiLock::new(None);

#[derive(Default)]
struct Taken {
    by_all: Spent<COUNTS_FOR>,
    by_user: HashMap<u32, Spent<COUNTS_FOR>>,
}

impl Taken {
    /// Returns how long the next stream of this user may take.
    fn left(&self, owner: u32, now: Instant) -> Duration {
        let by_user = self.by_user.get(&owner).copied().unwrap_or_default();
        let of_user = OF_USER.saturating_sub(by_user.at(now)).max(LEAST);
        of_user.min(OF_ALL.saturating_sub(self.by_all.at(now)))
    }

    fn add(&mut self, owner: u32, time: Duration, now: Instant) {
        self.by_all.add(time, now);
        self.by_user.entry(owner).or_default().add(time, now);
        self.by_user.retain(|_, spent| !spent.at(now).is_zero());
    }
}

/// The time for one stream.
pub(super) struct Allowance {
    /// `None` for this process's own area.
    of_other: Option<OfOther>,
}

struct OfOther {
    owner: u32,
    begin: Instant,
    end: Instant,
}

impl Allowance {
    /// Begins the allowance of a stream that its own controller ends.
    pub(super) fn begin(area: &Area) -> Self {
        Self::of_at_least(area, Duration::ZERO)
    }

    /// Begins the allowance of a stream that was left to the area's next controller. It is never
    /// nothing: sooner or later all of the stream's memory has to be given back.
    pub(super) fn begin_for_left(area: &Area) -> Self {
        Self::of_at_least(area, LEAST)
    }

    fn of_at_least(area: &Area, least: Duration) -> Self {
        let of_other = (!area.is_own()).then(|| {
            let (owner, begin) = (area.owner(), Instant::now());
            let time = with_taken(|taken| taken.left(owner, begin));
            let end = begin + time.max(least);
            OfOther { owner, begin, end }
        });
        Self { of_other }
    }

    pub(super) fn is_spent(&self) -> bool {
        let of_other = self.of_other.as_ref();
        of_other.is_some_and(|of_other| Instant::now() >= of_other.end)
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        if let Some(OfOther { owner, begin, .. }) = self.of_other {
            let now = Instant::now();
            with_taken(|taken| taken.add(owner, now.saturating_duration_since(begin), now));
        }
    }
}

fn with_taken<T>(look: impl FnOnce(&mut Taken) -> T) -> T {
    match TAKEN.lock_unless_left() {
        Some(mut taken) => look(taken.get_or_insert_default()),
        // In a forked child in whose parent a thread had the lock, what was taken before is never
        // known.
        None => look(&mut Taken::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_taken_all_gets_the_least() {
        let now = Instant::now();
        let mut taken = Taken::default();
        assert_eq!(taken.left(7, now), OF_USER);
        taken.add(7, OF_USER / 4, now);
        assert_eq!(taken.left(7, now), OF_USER / 4 * 3);
        taken.add(7, OF_USER, now);
        assert_eq!(taken.left(7, now), LEAST);
        assert_eq!(taken.left(8, now), OF_ALL - OF_USER / 4 * 5, "another user");
    }

    #[test]
    fn all_users_together_do_not_hold_a_tracer_up() {
        let now = Instant::now();
        let mut taken = Taken::default();
        let mut in_all = Duration::ZERO;
        for stream in 0..10_000 {
            let time = taken.left(stream % 100, now);
            taken.add(stream % 100, time, now);
            in_all += time;
        }
        assert_eq!(in_all, OF_ALL);
    }

    #[test]
    fn what_was_taken_is_forgotten() {
        let now = Instant::now();
        let mut taken = Taken::default();
        taken.add(7, OF_ALL, now);
        assert_eq!(taken.left(7, now), Duration::ZERO);
        let later = now + OF_ALL * COUNTS_FOR;
        assert_eq!(taken.left(7, later), OF_USER);
        taken.add(8, LEAST, later);
        assert_eq!(taken.by_user.len(), 1);
    }
}
