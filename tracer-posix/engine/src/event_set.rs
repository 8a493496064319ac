//! Sets of event types (`trace_event_set_t`).

use tracer_common::event_type::{
    EVENT_ID_LIMIT, EVENT_SET_WORDS, EventTypeId, FIRST_USER_EVENT, SYSTEM_EVENT_TYPES,
};

use crate::sizes::SET_BYTES;

/// A set of event types: one bit for each identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct EventSet {
    words: [u64; EVENT_SET_WORDS],
}

/// Contents of a new set, for [`EventSet::filled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// System types that are independent of a process (`POSIX_TRACE_WOPID_EVENTS`).
    WithoutProcess,
    /// All system types, the standard's and this implementation's (`POSIX_TRACE_SYSTEM_EVENTS`).
    System,
    /// Every possible type (`POSIX_TRACE_ALL_EVENTS`).
    All,
}

impl EventSet {
    /// The set without members.
    pub const EMPTY: Self = Self {
        words: [0; EVENT_SET_WORDS],
    };

    /// Returns the set with these bits: identifier *n* is bit *n* % 64 of word *n* / 64.
    #[must_use]
    pub const fn from_words(words: [u64; EVENT_SET_WORDS]) -> Self {
        Self { words }
    }

    /// Returns its bits: identifier *n* is bit *n* % 64 of word *n* / 64.
    #[must_use]
    pub const fn words(&self) -> &[u64; EVENT_SET_WORDS] {
        &self.words
    }

    /// Returns the set of one of the kinds that the standard names. User types that are defined
    /// later are in `All` already.
    #[must_use]
    pub fn filled(kind: SetKind) -> Self {
        let mut set = Self::EMPTY;
        match kind {
            SetKind::WithoutProcess => SYSTEM_EVENT_TYPES
                .iter()
                .filter(|entry| !entry.has_process)
                .for_each(|entry| set.insert(entry.id)),
            SetKind::System => (0..FIRST_USER_EVENT).for_each(|id| set.insert(EventTypeId(id))),
            SetKind::All => set.words = [u64::MAX; EVENT_SET_WORDS],
        }
        set
    }

    /// Puts a type in. An identifier that a set has no bit for is ignored.
    pub fn insert(&mut self, id: EventTypeId) {
        if let Some((word, bit)) = self.word_and_bit(id) {
            *word |= bit;
        }
    }

    /// Takes a type out. An identifier that a set has no bit for is ignored.
    pub fn remove(&mut self, id: EventTypeId) {
        if let Some((word, bit)) = self.word_and_bit(id) {
            *word &= !bit;
        }
    }

    /// Tells whether a type is in the set. A stream's type that a set has no bit for is in it where
    /// the user type without a name of its own is.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: EventTypeId) -> bool {
        let id = if id.0 < EVENT_ID_LIMIT {
            id
        } else {
            EventTypeId::UNNAMED_USEREVENT
        };
        let word = self.words.get((id.0 / 64) as usize);
        word.is_some_and(|word| word & Self::bit(id) != 0)
    }

    /// Tells whether the set has every user type that is not in `others`, including types that are
    /// not defined yet.
    #[must_use]
    pub fn holds_all_but(&self, others: &Self) -> bool {
        let both = self.union(others);
        (FIRST_USER_EVENT..EVENT_ID_LIMIT).all(|id| both.contains(EventTypeId(id)))
    }

    /// Returns the types that are in this set, in `other`, or in both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combined(other, |mine, others| mine | others)
    }

    /// Returns the types that are in this set and in `other`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combined(other, |mine, others| mine & others)
    }

    /// Returns the types that are in this set and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combined(other, |mine, others| mine & !others)
    }

    /// Returns its members in order of identifier.
    pub fn iter(&self) -> impl Iterator<Item = EventTypeId> + '_ {
        (0..EVENT_ID_LIMIT)
            .map(EventTypeId)
            .filter(|id| self.contains(*id))
    }

    /// Returns the set as event data: the bytes of its words in the machine's order.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; SET_BYTES] {
        let mut bytes = [0; SET_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Returns the set that event data carries, or `None` where the data is too short.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (bytes, _) = bytes.split_at_checked(SET_BYTES)?;
        let mut set = Self::EMPTY;
        for (word, bytes) in set.words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().ok()?);
        }
        Some(set)
    }

    fn combined(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut set = *self;
        for (mine, others) in set.words.iter_mut().zip(other.words) {
            *mine = combine(*mine, others);
        }
        set
    }

    fn word_and_bit(&mut self, id: EventTypeId) -> Option<(&mut u64, u64)> {
        let word = self.words.get_mut((id.0 / 64) as usize)?;
        Some((word, Self::bit(id)))
    }

    const fn bit(id: EventTypeId) -> u64 {
        1 << (id.0 % 64)
    }
}

impl Default for EventSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl FromIterator<EventTypeId> for EventSet {
    fn from_iter<I: IntoIterator<Item = EventTypeId>>(ids: I) -> Self {
        let mut set = Self::EMPTY;
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_and_removing_twice_is_as_once() {
        let mut set = EventSet::EMPTY;
        set.insert(EventTypeId::FORK);
        set.insert(EventTypeId::FORK);
        assert!(set.contains(EventTypeId::FORK));
        assert_eq!(set.iter().count(), 1);

        set.remove(EventTypeId::FORK);
        set.remove(EventTypeId::FORK);
        assert_eq!(set, EventSet::EMPTY);
    }

    #[test]
    fn an_identifier_beyond_all_goes_with_the_type_without_a_name() {
        let beyond = EventTypeId(EVENT_ID_LIMIT);
        let mut set = EventSet::EMPTY;
        set.insert(beyond);
        assert!(!set.contains(beyond) && set == EventSet::EMPTY);

        set.insert(EventTypeId::UNNAMED_USEREVENT);
        assert!(set.contains(beyond) && set.contains(EventTypeId(u32::MAX)));
    }

    #[test]
    fn the_system_set_holds_every_system_type_and_no_user_type() {
        let set = EventSet::filled(SetKind::System);

        assert!(
            SYSTEM_EVENT_TYPES
                .iter()
                .all(|entry| set.contains(entry.id))
        );
        assert!(!set.contains(EventTypeId::UNNAMED_USEREVENT));
    }

    #[test]
    fn all_holds_user_types_that_are_not_defined_yet() {
        let set = EventSet::filled(SetKind::All);

        assert!(set.contains(EventTypeId(EVENT_ID_LIMIT - 1)));
        assert!(set.holds_all_but(&EventSet::EMPTY));
    }

    #[test]
    fn types_without_a_process_are_system_types() {
        let set = EventSet::filled(SetKind::WithoutProcess);

        // What the trace system reports of its own accord, and what CPUs do for no process.
        assert_eq!(set.iter().count(), 5 + 6);
        assert!(set.contains(EventTypeId::OVERFLOW) && set.contains(EventTypeId::IDLE_EXIT));
        assert!(!set.contains(EventTypeId::FAULT_KERNEL));
        assert_eq!(
            set.difference(&EventSet::filled(SetKind::System)),
            EventSet::EMPTY
        );
        assert!(!set.contains(EventTypeId::START));
    }

    #[test]
    fn a_set_comes_out_of_event_data_as_it_went_in() {
        let set: EventSet = [EventTypeId::START, EventTypeId(777)].into_iter().collect();

        assert_eq!(EventSet::from_bytes(&set.to_bytes()), Some(set));
        assert_eq!(EventSet::from_bytes(&[0; SET_BYTES - 1]), None);
    }
}
