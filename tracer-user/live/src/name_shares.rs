//! Limits on the names of event types that each user's trace areas may bring into the trace.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use tracer_area::NameShare;

use tracer_agent::{Most, Shares};

/// Names that other users' areas may bring. A trace has 65,279: the rest is for the tracer's own
/// user. The family of one area can have 32,766.
pub const MOST_NAMES: Most = Most {
    a_user: 24_000,
    all_but_root: 40_000,
    all: 40_000,
};

/// The names that the areas of all users have brought.
#[derive(Clone, Debug)]
pub struct NameShares {
    own_user: u32,
    taken: Arc<Mutex<Shares>>,
    unnamed: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

/// The names of one user's area.
#[derive(Debug)]
struct OfUser {
    user: u32,
    all: NameShares,
}

impl NameShares {
    /// Starts with no names from any process.
    pub fn new() -> Self {
        Self {
            // SAFETY: takes nothing and cannot fail.
            own_user: unsafe { libc::geteuid() },
            taken: Arc::new(Mutex::new(Shares::new(MOST_NAMES))),
            unnamed: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Returns the share of an area of this user.
    pub fn share_for(&self, user: u32) -> Box<dyn NameShare> {
        Box::new(OfUser {
            user,
            all: self.clone(),
        })
    }

    /// Returns the number of types shown without their names.
    pub fn unnamed(&self) -> u64 {
        self.unnamed.load(Relaxed)
    }

    /// Returns the number of names that programs were refused, since their areas had no space for
    /// them.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

impl NameShare for OfUser {
    fn take(&self) -> bool {
        let mut taken = self
            .all
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.user == self.all.own_user || taken.take(self.user, 1)
    }

    fn note_unnamed(&self) {
        self.all.unnamed.fetch_add(1, Relaxed);
    }

    fn note_refused(&self, untrusted_count: u64) {
        let add = |count: u64| Some(count.saturating_add(untrusted_count));
        let _ = self.all.refused.fetch_update(Relaxed, Relaxed, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_takes_no_name_that_others_need() {
        let shares = NameShares::new();
        let own = shares.own_user;
        let takes = |user: u32| {
            (0..70_000)
                .filter(|_| shares.share_for(user).take())
                .count()
        };
        assert_eq!(takes(own + 1), 24_000);
        assert_eq!(takes(own + 2), 16_000);
        assert_eq!(takes(own + 3), 0);
        assert_eq!(takes(own), 70_000, "the trace's own limit is for those");
    }
}
