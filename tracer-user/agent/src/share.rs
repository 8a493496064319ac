//! Limits per user of a resource that all users share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// A resource that all users share, and of which each holder has a part.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Mutex<Shares>>);

impl Pool {
    /// Makes one of which nothing is given.
    pub fn new(most: Most) -> Self {
        Self(Arc::new(Mutex::new(Shares::new(most))))
    }

    /// Returns the limits.
    pub fn most(&self) -> Most {
        self.lock().most()
    }

    /// Returns a part of a user's with nothing in it.
    pub fn part_of(&self, user: u32) -> PoolPart {
        PoolPart {
            pool: self.clone(),
            user,
            amount: 0,
        }
    }

    /// Gives a user a part of this size, or nothing where that would be too much.
    pub fn take(&self, user: u32, amount: u64) -> Option<PoolPart> {
        let mut part = self.part_of(user);
        part.grow(amount).then_some(part)
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// PoolPart of a resource that one holder has. It is given back as this is dropped.
#[derive(Debug)]
pub struct PoolPart {
    pool: Pool,
    user: u32,
    amount: u64,
}

impl PoolPart {
    /// Takes more. Returns whether that is not too much.
    #[must_use]
    pub fn grow(&mut self, by: u64) -> bool {
        let is_given = self.pool.lock().take(self.user, by);
        if is_given {
            self.amount += by;
        }
        is_given
    }

    /// Gives some of it back.
    pub fn shrink(&mut self, by: u64) {
        let by = by.min(self.amount);
        self.amount -= by;
        self.pool.lock().give_back(self.user, by);
    }

    /// Gives back what is beyond this amount.
    pub fn shrink_to(&mut self, amount: u64) {
        self.shrink(self.amount.saturating_sub(amount));
    }

    /// Hands some of it on to another holder.
    pub fn split_off(&mut self, amount: u64) -> Self {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Self {
            pool: self.pool.clone(),
            user: self.user,
            amount,
        }
    }
}

impl Drop for PoolPart {
    fn drop(&mut self) {
        self.shrink(self.amount);
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

    #[test]
    fn what_a_holder_has_is_given_back_with_it_and_only_once() {
        let pool = Pool::new(MOST);
        let mut queue = pool.part_of(1);
        assert!(queue.grow(4) && !queue.grow(1) && pool.take(1, 1).is_none());
        let mut answer = queue.split_off(3);
        assert!(!queue.grow(1));
        answer.shrink_to(2);
        assert!(queue.grow(1) && !queue.grow(1));
        drop(queue);
        let other = pool.take(1, 2).unwrap();
        assert!(pool.take(1, 1).is_none());
        // No more than there is.
        answer.shrink(9);
        drop((answer, other));
        assert!(pool.lock().of_users.is_empty() && pool.lock().all == 0);
    }
}
