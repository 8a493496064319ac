//! Limits per user of a resource that all users share.

use std::collections::HashMap;

/// Limits on something.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Limit for one user; root has the same.
    pub a_user: u64,
    /// Limit for all users but root together, so that something is left for root.
    pub all_but_root: u64,
    /// Limit for all.
    pub all: u64,
}

/// Amount of a resource that each user has.
#[derive(Debug)]
pub struct Shares {
    most: Most,
    of_users: HashMap<u32, u64>,
    all: u64,
}

impl Shares {
    /// Starts with nothing given to any user.
    pub fn new(most: Most) -> Self {
        Self {
            most,
            of_users: HashMap::new(),
            all: 0,
        }
    }

    /// Returns the limits.
    pub fn most(&self) -> Most {
        self.most
    }

    /// Gives `amount` to a user, or nothing where that would be too much.
    #[must_use]
    pub fn take(&mut self, user: u32, amount: u64) -> bool {
        let of_user = self.count_of_user(user).saturating_add(amount);
        let all = self.all.saturating_add(amount);
        let of_others = all - self.count_of_user(0);
        let fits = of_user <= self.most.a_user
            && all <= self.most.all
            && (user == 0 || of_others <= self.most.all_but_root);
        if fits {
            self.of_users.insert(user, of_user);
            self.all = all;
        }
        fits
    }

    /// Takes back `amount` that was given to a user.
    pub fn give_back(&mut self, user: u32, amount: u64) {
        self.all = self.all.saturating_sub(amount);
        let left = self.count_of_user(user).saturating_sub(amount);
        if left == 0 {
            self.of_users.remove(&user);
        } else {
            self.of_users.insert(user, left);
        }
    }

    fn count_of_user(&self, user: u32) -> u64 {
        self.of_users.get(&user).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most {
        a_user: 4,
        all_but_root: 6,
        all: 8,
    };

    #[test]
    fn a_user_gets_no_more_than_a_share_and_root_finds_something_left() {
        let mut shares = Shares::new(MOST);
        assert!(shares.take(1, 4) && !shares.take(1, 1));
        assert!(shares.take(2, 2) && !shares.take(2, 1) && !shares.take(3, 1));
        assert!(shares.take(0, 2) && !shares.take(0, 1));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut shares = Shares::new(MOST);
        assert!(shares.take(0, 4));
        assert!(shares.take(1, 4) && !shares.take(2, 1));
        shares.give_back(1, 3);
        assert!(shares.take(2, 3) && !shares.take(2, 1));
        shares.give_back(0, 4);
        shares.give_back(1, 1);
        shares.give_back(2, 3);
        assert!(shares.of_users.is_empty() && shares.all == 0);
    }
}
