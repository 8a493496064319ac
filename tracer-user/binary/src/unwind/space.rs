//! The code that a process has mapped, with what is known of how it calls.

use std::collections::BTreeMap;

use crate::stacks::Mapping;

/// Mappings of a process that are known.
const MOST_MAPPINGS: usize = 65_536;

/// A mapping of a process.
#[derive(Clone, Debug)]
pub struct SpaceMapping {
    /// The mapping.
    pub mapping: Mapping,
    /// Index among the [`Unwinder`](super::Unwinder)'s files, once that was looked up, with the
    /// generation in which it was.
    pub(super) file: Option<(u32, Option<u32>)>,
}

/// The code that a process has mapped, by address.
#[derive(Clone, Debug, Default)]
pub struct Space(BTreeMap<u64, SpaceMapping>);

impl Space {
    /// Notes a mapping, which replaces what was there; false where there are too many.
    pub fn map(&mut self, mapping: &Mapping) -> bool {
        let before = self.0.range(..mapping.end).rev();
        let over: Vec<u64> = before
            .take_while(|(_, one)| one.mapping.end > mapping.start)
            .map(|(start, _)| *start)
            .collect();
        for start in over {
            self.0.remove(&start);
        }
        if self.0.len() >= MOST_MAPPINGS {
            return false;
        }
        let mapped = SpaceMapping {
            mapping: mapping.clone(),
            file: None,
        };
        self.0.insert(mapping.start, mapped);
        true
    }

    /// Tells whether exactly this mapping is known.
    pub fn has(&self, mapping: &Mapping) -> bool {
        let known = self.0.get(&mapping.start);
        known.is_some_and(|known| known.mapping == *mapping)
    }

    /// Returns the mapping that has an address.
    pub fn find(&self, address: u64) -> Option<&SpaceMapping> {
        let (_, mapped) = self.0.range(..=address).next_back()?;
        (address < mapped.mapping.end).then_some(mapped)
    }

    /// Returns the mapping that has an address, mutable.
    pub(super) fn find_mut(&mut self, address: u64) -> Option<&mut SpaceMapping> {
        let (_, mapped) = self.0.range_mut(..=address).next_back()?;
        (address < mapped.mapping.end).then_some(mapped)
    }

    /// Returns all mappings.
    pub fn into_mappings(self) -> impl Iterator<Item = Mapping> {
        self.0.into_values().map(|mapped| mapped.mapping)
    }
}
