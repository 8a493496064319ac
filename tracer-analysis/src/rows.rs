//! Totals by key, of which a log may have too many.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Keys that are counted each for itself.
const MOST_ROWS: usize = 65_536;

/// Totals by key. What keys beyond the first 65,536 have is added up.
#[derive(Debug)]
pub struct TotalsByKey<K, V> {
    rows: HashMap<K, V, RandomState>,
    others: Option<V>,
}

impl<K, V> Default for TotalsByKey<K, V> {
    fn default() -> Self {
        Self {
            rows: HashMap::default(),
            others: None,
        }
    }
}

impl<K: Copy + Eq + Hash + Ord, V: Default> TotalsByKey<K, V> {
    /// Returns the total that `key` is counted in.
    pub fn get_or_insert(&mut self, key: K) -> &mut V {
        if self.rows.len() < MOST_ROWS || self.rows.contains_key(&key) {
            self.rows.entry(key).or_default()
        } else {
            self.others.get_or_insert_default()
        }
    }

    /// Returns the sum of all keys that are not counted each for itself.
    pub(crate) fn others_mut(&mut self) -> &mut V {
        self.others.get_or_insert_default()
    }

    /// Returns the total of a key that is counted for itself.
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.rows.get_mut(&key)
    }

    /// Takes the total of a key that is counted for itself out.
    pub(crate) fn take(&mut self, key: K) -> Option<V> {
        self.rows.remove(&key)
    }

    /// Returns the totals of all keys that are counted each for itself, in any order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.rows.iter_mut().map(|(key, one)| (*key, one))
    }

    /// Returns the totals, in order of their keys.
    #[must_use]
    pub fn sorted(&self) -> Vec<(K, &V)> {
        let mut sorted: Vec<_> = self.rows.iter().map(|(key, one)| (*key, one)).collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        sorted
    }

    /// Gives the totals away, in order of their keys.
    #[must_use]
    pub fn into_sorted(self) -> Vec<(K, V)> {
        let mut sorted: Vec<_> = self.rows.into_iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        sorted
    }

    /// Returns the sum of all keys that are not counted each for itself; `None` without any.
    #[must_use]
    pub fn others(&self) -> Option<&V> {
        self.others.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_many_is_added_up_and_nothing_is_left_out() {
        let mut rows: TotalsByKey<usize, u64> = TotalsByKey::default();
        for key in 0..MOST_ROWS + 10 {
            *rows.get_or_insert(key) += 1;
        }
        assert_eq!(rows.sorted().len(), MOST_ROWS);
        assert_eq!(rows.others(), Some(&10));
        // Those that are known are still counted for themselves.
        *rows.get_or_insert(7) += 1;
        assert_eq!((rows.sorted()[7], rows.others()), ((7, &2), Some(&10)));
    }
}
