//! The event types of one stream: identifiers and names.

use std::collections::HashMap;
use std::sync::Arc;

use tracer_common::event_type::{
    EVENT_ID_LIMIT, EventTypeId, FIRST_USER_EVENT, STREAM_EVENT_ID_LIMIT, UNNAMED_USEREVENT_NAME,
    predefined_event_type, system_event_type,
};

/// The event types of one stream. Names and identifiers are one to one.
#[derive(Clone, Debug, Default)]
pub struct EventTypes {
    ids: HashMap<Arc<[u8]>, EventTypeId>,
    /// Names, by the identifier minus that of the first named user type.
    names: Vec<Option<Arc<[u8]>>>,
    /// Identifiers of the named user types, in the order in which they were defined.
    defined: Vec<EventTypeId>,
}

/// The identifier of the first user type with a name.
const FIRST_NAMED: u32 = FIRST_USER_EVENT + 1;

impl EventTypes {
    /// Returns the identifier of the user event type `name`; defines it when it is new, as
    /// `preferred` where that identifier is free. A predefined name gives the predefined
    /// identifier. Where all are used up, here or where `preferred` comes from, this returns the
    /// type without a name of its own.
    ///
    /// A new type that cannot have a preferred identifier gets one from the last quarter of those
    /// that a set of event types has bits for; the others are left to other types. When that
    /// quarter is used up, it gets one [beyond](EVENT_ID_LIMIT) them.
    pub fn define_user(&mut self, name: &[u8], preferred: Option<EventTypeId>) -> EventTypeId {
        if let Some(predefined) = predefined_event_type(name) {
            return predefined;
        }
        if let Some(known) = self.ids.get(name) {
            return *known;
        }
        if preferred == Some(EventTypeId::UNNAMED_USEREVENT) {
            return EventTypeId::UNNAMED_USEREVENT;
        }
        // Processes hand out their identifiers from the first quarters first. A type that cannot
        // have the one that it prefers gets one from the end, where it collides with theirs last.
        let index = self
            .free_as(preferred)
            .or_else(|| {
                (in_sets() - in_sets() / 4..in_sets())
                    .rev()
                    .find(|&index| self.is_free(index))
            })
            .or_else(|| {
                Some(self.names.len().max(in_sets())).filter(|index| *index < index_limit())
            })
            .or_else(|| (0..index_limit()).rev().find(|&index| self.is_free(index)));
        match index {
            Some(index) => self.define_at(index, name),
            None => EventTypeId::UNNAMED_USEREVENT,
        }
    }

    /// Defines a type as [`define_user`](Self::define_user) does, after a caller has asked for it
    /// by its name: it has a bit in sets of event types as long as one is left.
    pub fn define_asked(&mut self, name: &[u8], preferred: Option<EventTypeId>) -> EventTypeId {
        let is_new = predefined_event_type(name).is_none() && self.id(name).is_none();
        let free = || (0..in_sets()).rev().find(|&index| self.is_free(index));
        let is_choosing = is_new
            && preferred != Some(EventTypeId::UNNAMED_USEREVENT)
            && self.free_as(preferred).is_none();
        match free().filter(|_| is_choosing) {
            Some(index) => self.define_at(index, name),
            None => self.define_user(name, preferred),
        }
    }

    /// Defines a type as [`define_user`](Self::define_user) does, where no event of it has come.
    /// `None` where it is new and cannot have the identifier that it prefers.
    pub fn define_listed(&mut self, name: &[u8], preferred: EventTypeId) -> Option<EventTypeId> {
        if let Some(predefined) = predefined_event_type(name) {
            return Some(predefined);
        }
        if let Some(known) = self.ids.get(name) {
            return Some(*known);
        }
        let index = self.free_as(Some(preferred))?;
        Some(self.define_at(index, name))
    }

    /// Becomes equal to `others`, of which these are an earlier state: takes the types that were
    /// defined there since, and shares their names. Takes all of them where these are no earlier
    /// state.
    pub fn catch_up(&mut self, others: &Self) {
        let is_before = self
            .defined
            .last()
            .is_none_or(|last| others.defined.get(self.defined.len() - 1) == Some(last));
        let new = others.defined.get(self.defined.len()..);
        let Some(new) = new.filter(|_| is_before) else {
            self.clone_from(others);
            return;
        };
        for id in new {
            let index = index_of(*id);
            if let Some(name) = index.and_then(|index| others.names.get(index)?.as_ref()) {
                self.insert(*id, Arc::clone(name));
            }
        }
    }

    fn free_as(&self, preferred: Option<EventTypeId>) -> Option<usize> {
        preferred
            .and_then(index_of)
            .filter(|&index| self.is_free(index))
    }

    fn define_at(&mut self, index: usize, name: &[u8]) -> EventTypeId {
        let id = EventTypeId(FIRST_NAMED + u32::try_from(index).unwrap_or(0));
        self.insert(id, name.into());
        id
    }

    /// Inserts a type that is not there yet.
    fn insert(&mut self, id: EventTypeId, name: Arc<[u8]>) {
        let Some(index) = index_of(id) else { return };
        if self.names.len() <= index {
            self.names.resize(index + 1, None);
        }
        if let Some(name_of_id) = self.names.get_mut(index) {
            *name_of_id = Some(Arc::clone(&name));
        }
        self.ids.insert(name, id);
        self.defined.push(id);
    }

    /// Returns the name of a type, system or user, as bytes without a terminating null.
    #[must_use]
    pub fn name(&self, id: EventTypeId) -> Option<&[u8]> {
        if id == EventTypeId::UNNAMED_USEREVENT {
            return Some(UNNAMED_USEREVENT_NAME.as_bytes());
        }
        match index_of(id) {
            Some(index) => self.names.get(index)?.as_deref(),
            None => system_event_type(id).map(|entry| entry.name.as_bytes()),
        }
    }

    /// Returns the first type with this identifier or a higher one.
    #[must_use]
    pub fn next_from(&self, id: EventTypeId) -> Option<EventTypeId> {
        let used = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        (id.0..FIRST_NAMED.saturating_add(used))
            .map(EventTypeId)
            .find(|id| self.name(*id).is_some())
    }

    /// Returns the identifier of the user type that has this name.
    #[must_use]
    pub fn id(&self, name: &[u8]) -> Option<EventTypeId> {
        self.ids.get(name).copied()
    }

    fn is_free(&self, index: usize) -> bool {
        self.names.get(index).is_none_or(Option::is_none)
    }
}

/// Returns the number of named user types that have a bit in a set of event types.
fn in_sets() -> usize {
    usize::try_from(EVENT_ID_LIMIT - FIRST_NAMED).unwrap_or(0)
}

fn index_limit() -> usize {
    usize::try_from(STREAM_EVENT_ID_LIMIT - FIRST_NAMED).unwrap_or(0)
}

fn index_of(id: EventTypeId) -> Option<usize> {
    let index = usize::try_from(id.0.checked_sub(FIRST_NAMED)?).ok()?;
    (index < index_limit()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predefined_name_is_never_a_users() {
        let mut types = EventTypes::default();

        assert_eq!(
            types.define_user(b"posix_trace_start", Some(EventTypeId(300))),
            EventTypeId::START
        );
        assert_eq!(
            types.define_user(b"linux_trace_fork", None),
            EventTypeId::FORK
        );
        assert_eq!(types.name(EventTypeId(300)), None);
    }

    #[test]
    fn a_type_that_prefers_nothing_leaves_most_to_others_and_goes_on_beyond_the_sets() {
        let mut types = EventTypes::default();
        let ids: Vec<EventTypeId> = (0..2000_u32)
            .map(|n| types.define_user(&n.to_be_bytes(), None))
            .collect();

        assert!(
            ids.iter()
                .all(|id| id.0 > 1024 && types.name(*id).is_some())
        );
        assert_eq!(ids[0], EventTypeId(EVENT_ID_LIMIT - 1));
        assert_eq!(ids[255], EventTypeId(EVENT_ID_LIMIT));
        let first = EventTypeId(FIRST_NAMED);
        assert_eq!(types.define_user(b"ours", Some(first)), first);
        assert_eq!(types.define_listed(b"not ours", first), None);
        let asked = types.define_asked(b"asked", None);
        assert_eq!(asked, EventTypeId(1024));
        assert_eq!(types.next_from(EventTypeId(0)).map(|id| id.0), Some(1));
        let last = ids.iter().max().copied();
        assert_eq!(last.and_then(|last| types.next_from(last)), last);
    }

    #[test]
    fn when_all_are_used_up_a_name_gives_the_type_without_one() {
        let mut types = EventTypes::default();
        let count = (0_u32..)
            .take_while(|n| {
                types.define_user(&n.to_be_bytes(), Some(EventTypeId(FIRST_NAMED + n)))
                    != EventTypeId::UNNAMED_USEREVENT
            })
            .count();

        assert_eq!(count, index_limit());
        assert_eq!(types.define_listed(b"x", EventTypeId(300)), None);
    }

    #[test]
    fn what_catches_up_is_equal() {
        let all = |types: &EventTypes| {
            let named = (0..STREAM_EVENT_ID_LIMIT).map(EventTypeId);
            let named = named.filter(|id| id.is_user());
            let names = named.filter_map(|id| Some((id, types.name(id)?.to_vec())));
            let names: Vec<_> = names.collect();
            let ids = names.iter().filter_map(|(_, name)| types.id(name));
            (ids.collect::<Vec<_>>(), names)
        };
        let (mut types, mut behind) = (EventTypes::default(), EventTypes::default());
        types.define_user(b"listed", Some(EventTypeId(300)));
        types.define_user(b"another", Some(EventTypeId(300)));
        behind.catch_up(&types);
        assert_eq!(all(&behind), all(&types));
        types.define_user(b"one more", Some(EventTypeId(290)));
        behind.catch_up(&types);
        behind.catch_up(&types);
        assert_eq!(all(&behind), all(&types));
        assert_eq!(behind.id(b"one more"), Some(EventTypeId(290)));
        assert_eq!(behind.defined, types.defined);
        assert_eq!(
            behind.define_user(b"its own", Some(EventTypeId(290))),
            types.define_user(b"of all", Some(EventTypeId(290)))
        );
        // They are the same stream's no more.
        let mut foreign = EventTypes::default();
        foreign.define_user(b"foreign", Some(EventTypeId(400)));
        behind.catch_up(&foreign);
        assert_eq!(all(&behind), all(&foreign));
    }

    #[test]
    fn a_target_without_identifiers_left_gives_the_type_without_a_name() {
        let mut types = EventTypes::default();
        let known = types.define_user(b"known", Some(EventTypeId(300)));

        let late = types.define_user(b"late", Some(EventTypeId::UNNAMED_USEREVENT));

        assert_eq!(late, EventTypeId::UNNAMED_USEREVENT);
        let again = types.define_user(b"known", Some(EventTypeId::UNNAMED_USEREVENT));
        assert_eq!(again, known);
    }
}
