//! Subscriptions that the events of a process may concern.
//!
//! There may be hundreds of subscriptions and hundreds of thousands of events a second, each of one
//! process: only those that know the process look at it.

use std::collections::HashMap;

use super::hub::SubscriptionId;

/// Fewest processes for which it is worth while to look for what can be forgotten.
const FEW: usize = 1024;

/// Subscriptions by process. It may have more than those that know the process by now.
#[derive(Debug, Default)]
pub struct Concerned {
    by_pid: HashMap<i32, Vec<SubscriptionId>>,
    /// Number of processes after the last tidying.
    tidied: usize,
}

impl Concerned {
    /// Adds a subscription that has a process from now on.
    pub fn add(&mut self, pid: i32, id: SubscriptionId) {
        let ids = self.by_pid.entry(pid).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }

    /// Removes a subscription that has ended, and knew a process.
    pub fn remove(&mut self, pid: i32, id: SubscriptionId) {
        if let Some(ids) = self.by_pid.get_mut(&pid) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_pid.remove(&pid);
            }
        }
    }

    /// Has a new child concern those that know it, of those that its parent or another process of
    /// its pid concerned.
    pub fn inherit(&mut self, child: i32, parent: i32, knows: impl Fn(SubscriptionId) -> bool) {
        let parents = self.with(parent).to_vec();
        let mut ids = self.by_pid.remove(&child).unwrap_or_default();
        ids.retain(|id| knows(*id));
        for id in parents {
            if !ids.contains(&id) && knows(id) {
                ids.push(id);
            }
        }
        if !ids.is_empty() {
            self.by_pid.insert(child, ids);
        }
    }

    /// Returns the subscriptions that may know a process.
    pub fn with(&self, pid: i32) -> &[SubscriptionId] {
        self.by_pid.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Forgets those that do not know a process any more, where there may be many.
    pub fn tidy(&mut self, knows: impl Fn(i32, SubscriptionId) -> bool) {
        if self.by_pid.len() <= FEW + 2 * self.tidied {
            return;
        }
        self.by_pid.retain(|pid, ids| {
            ids.retain(|id| knows(*pid, *id));
            !ids.is_empty()
        });
        self.tidied = self.by_pid.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_concerns_those_that_know_it_until_they_do_not_or_have_ended() {
        let [one, other] = [SubscriptionId::numbered(1), SubscriptionId::numbered(2)];
        let mut concerned = Concerned::default();
        concerned.add(1, one);
        concerned.add(1, other);
        concerned.add(1, one);
        assert_eq!(concerned.with(1), [one, other]);
        for child in 2..=5000 {
            concerned.inherit(child, child - 1, |_| true);
            assert_eq!(concerned.with(child), [one, other]);
        }
        // Another process has the pid, and another parent.
        concerned.inherit(7, 5001, |id| id == one);
        assert_eq!(concerned.with(7), [one]);
        concerned.inherit(7, 6, |id| id == other);
        assert_eq!(concerned.with(7), [other]);
        concerned.inherit(7, 6, |_| false);
        assert_eq!(concerned.with(7), []);
        concerned.remove(6, one);
        assert_eq!(concerned.with(6), [other]);
        concerned.remove(6, other);
        assert_eq!(concerned.with(6), []);
        concerned.tidy(|pid, id| pid <= 10 && id == other);
        assert_eq!(concerned.with(10), [other]);
        assert_eq!(concerned.with(11), []);
        // There are few now: none of them is looked at.
        concerned.tidy(|_, _| false);
        assert_eq!(concerned.with(10), [other]);
    }
}
