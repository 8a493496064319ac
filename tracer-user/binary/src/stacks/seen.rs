//! Addresses that were seen in stacks, and are named at the end of a log.

use std::collections::BTreeMap;

use super::names::Place;

/// Addresses that were seen, by process, address, and time since which they are in a mapping.
pub type SeenAddresses = BTreeMap<(i32, u64, u64), Seen>;

/// Address that was seen in stacks.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The mapping that it is in; `None` where that is unknown.
    pub place: Option<Place>,
    /// Whether a call returned to it: the function is that of the call before it.
    pub is_return: bool,
    /// Whether a thread was exactly there: it may be the first one of its function.
    pub is_exact: bool,
}

impl Seen {
    /// Returns the address in this mapping, seen for the first time.
    pub fn at(place: Place, is_return: bool) -> Self {
        Self {
            place: Some(place),
            is_return,
            is_exact: !is_return,
        }
    }

    /// Notes that it was seen once more, in this mapping, which is there since the same time.
    pub fn note(&mut self, (mapping, ..): &Place, is_return: bool) {
        self.is_return |= is_return;
        self.is_exact |= !is_return;
        let known = self.place.as_ref();
        if known.is_some_and(|(known, ..)| known.start != mapping.start) {
            self.place = None;
        }
    }

    /// Tells whether a call returned to this address, right behind its mapping.
    fn is_behind(&self, address: u64) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|(mapping, ..)| mapping.end == address)
    }
}

/// Leaves out the mappings of addresses to which a call returned at the end of one mapping, and at
/// which a thread was in the next one: a log has one name for an address at a time.
pub fn leave_out_unclear(seen: &mut SeenAddresses) {
    let behind = seen.iter().filter(|((_, at, _), one)| one.is_behind(*at));
    let behind: Vec<(i32, u64)> = behind.map(|((pid, at, _), _)| (*pid, *at)).collect();
    for (pid, address) in behind {
        let same = || (pid, address, 0)..=(pid, address, u64::MAX);
        let mut others = seen.range(same());
        if others.any(|(_, one)| one.place.is_some() && !one.is_behind(address)) {
            seen.range_mut(same()).for_each(|(_, one)| one.place = None);
        }
    }
}
