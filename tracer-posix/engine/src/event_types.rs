//! The event types of one stream: identifiers and names.

use std::collections::HashMap;

use tracer_common::event_type::{
    EVENT_ID_LIMIT, EventTypeId, FIRST_USER_EVENT, UNNAMED_USEREVENT_NAME, predefined_event_type,
    system_event_type,
};

/// The event types of one stream. Names and identifiers are one to one.
#[derive(Clone, Debug, Default)]
pub struct EventTypes {
    ids: HashMap<Vec<u8>, EventTypeId>,
    /// By identifier less that of the first named user type.
    names: Vec<Option<Vec<u8>>>,
}

/// The identifier of the first user type with a name.
const FIRST_NAMED: u32 = FIRST_USER_EVENT + 1;

impl EventTypes {
    /// The identifier of the user event type `name`; defines it when it is new, as `preferred`
    /// where that identifier is free. A predefined name gives the predefined identifier. When all
    /// are used up, here or where `preferred` comes from: the type without a name of its own.
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
        // Others count up from the first identifier: what cannot have the one that it prefers is
        // given one from the end, where it is in nobody's way for longest.
        let index = preferred
            .and_then(index_of)
            .filter(|&index| self.is_free(index))
            .or_else(|| (0..index_limit()).rev().find(|&index| self.is_free(index)));
        let Some(index) = index else {
            return EventTypeId::UNNAMED_USEREVENT;
        };
        if self.names.len() <= index {
            self.names.resize(index + 1, None);
        }
        let id = EventTypeId(FIRST_NAMED + u32::try_from(index).unwrap_or(0));
        if let Some(name_of_id) = self.names.get_mut(index) {
            *name_of_id = Some(name.to_vec());
        }
        self.ids.insert(name.to_vec(), id);
        id
    }

    /// The name of a type, system or user, as bytes without a terminating null.
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

    /// The first type with this identifier or a higher one.
    #[must_use]
    pub fn next_from(&self, id: EventTypeId) -> Option<EventTypeId> {
        (id.0..EVENT_ID_LIMIT)
            .map(EventTypeId)
            .find(|id| self.name(*id).is_some())
    }

    /// The identifier of the user type that has this name.
    #[must_use]
    pub fn id(&self, name: &[u8]) -> Option<EventTypeId> {
        self.ids.get(name).copied()
    }

    fn is_free(&self, index: usize) -> bool {
        self.names.get(index).is_none_or(Option::is_none)
    }
}

fn index_limit() -> usize {
    usize::try_from(EVENT_ID_LIMIT - FIRST_NAMED).unwrap_or(0)
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
    fn a_target_without_identifiers_left_gives_the_type_without_a_name() {
        let mut types = EventTypes::default();
        let known = types.define_user(b"known", Some(EventTypeId(300)));

        let late = types.define_user(b"late", Some(EventTypeId::UNNAMED_USEREVENT));

        assert_eq!(late, EventTypeId::UNNAMED_USEREVENT);
        let again = types.define_user(b"known", Some(EventTypeId::UNNAMED_USEREVENT));
        assert_eq!(again, known);
    }
}
