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

    /// Has a child concern those that its parent concerns.
    pub fn inherit(&mut self, child: i32, parent: i32) {
        for id in self.by_pid.get(&parent).cloned().unwrap_or_default() {
            self.add(child, id);
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
    fn a_child_concerns_whom_its_parent_does_until_none_knows_it() {
        let [one, other] = [SubscriptionId::numbered(1), SubscriptionId::numbered(2)];
        let mut concerned = Concerned::default();
        concerned.add(1, one);
        concerned.add(1, other);
        concerned.add(1, one);
        for child in 2..=5000 {
            concerned.inherit(child, child - 1);
            assert_eq!(concerned.with(child), [one, other]);
        }
        assert_eq!(concerned.with(5001), []);
        concerned.tidy(|pid, id| pid <= 10 && id == other);
        assert_eq!(concerned.with(10), [other]);
        assert_eq!(concerned.with(11), []);
        // There are few now: none of them is looked at.
        concerned.tidy(|_, _| false);
        assert_eq!(concerned.with(10), [other]);
    }
}
