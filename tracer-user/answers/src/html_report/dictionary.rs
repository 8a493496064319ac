//! Values that columns refer to by index.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Limit of the entries of a dictionary: nothing is shown of the values beyond it.
const MOST_ENTRIES: usize = 65_536;

/// Values that columns refer to by index, in the order in which they came.
#[derive(Debug)]
pub struct Dictionary<T> {
    index: HashMap<T, u32, RandomState>,
    entries: Vec<T>,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Self {
            index: HashMap::default(),
            entries: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Dictionary<T> {
    /// Returns the index of a value, which is added where it is new; `None` where there are too
    /// many.
    pub fn index(&mut self, value: &T) -> Option<u32> {
        if let Some(index) = self.index.get(value) {
            return Some(*index);
        }
        if self.entries.len() >= MOST_ENTRIES {
            return None;
        }
        let index = u32::try_from(self.entries.len()).ok()?;
        self.index.insert(value.clone(), index);
        self.entries.push(value.clone());
        Some(index)
    }

    /// Returns the values, in order.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_ends_somewhere() {
        let mut dictionary = Dictionary::default();
        for value in 0..100_000_u32 {
            let expected = (value < 65_536).then_some(value);
            assert_eq!(dictionary.index(&value), expected);
        }
        assert_eq!(dictionary.index(&7), Some(7));
    }
}
