//! Event types of a trace: their names, which are shown, and how many events of each were.

use std::sync::Arc;

use tracer_common::event_type::{
    EventTypeId, FIRST_USER_EVENT, STREAM_EVENT_ID_LIMIT, SystemEventType, system_event_type,
};
use tracer_engine::EventTypes;
use tracer_event::selection::Selection;

/// One event type, looked up once.
#[derive(Clone, Debug, Default)]
pub struct TypeRow {
    /// Its name; `None` until it is known.
    name: Option<Arc<[u8]>>,
    /// Its entry in the table of system event types; `None` for a user event.
    pub entry: Option<&'static SystemEventType>,
    is_shown: bool,
    /// Events of it that were shown.
    pub count: u64,
}

impl TypeRow {
    /// Returns its name, or `?` until it is known.
    pub fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or(b"?")
    }
}

/// The types, a row for each identifier.
#[derive(Debug)]
pub struct TypeRows {
    rows: Vec<TypeRow>,
    /// Whether user events are shown that are not chosen by name.
    shows_user: bool,
}

impl TypeRows {
    /// Returns the rows of the system event types, of which those are shown that are selected.
    pub fn new(selection: &Selection) -> Self {
        let row = |id| {
            let id = EventTypeId(id);
            let entry = system_event_type(id);
            TypeRow {
                name: entry.map(|entry| entry.name.as_bytes().into()),
                entry,
                is_shown: selection.has(id),
                count: 0,
            }
        };
        Self {
            rows: (0..FIRST_USER_EVENT).map(row).collect(),
            shows_user: selection.has(EventTypeId::UNNAMED_USEREVENT),
        }
    }

    /// Shows events of this type too, whatever is selected.
    pub fn show(&mut self, id: EventTypeId) {
        if let Some(row) = self.row_mut(id) {
            row.is_shown = true;
        }
    }

    /// Tells whether events of a type are shown.
    pub fn shows(&self, id: EventTypeId) -> bool {
        self.row(id).map_or(self.shows_user, |row| row.is_shown)
    }

    /// Tells whether the name of a type is still to be [learnt](Self::learn_name).
    pub fn lacks_name(&self, id: EventTypeId) -> bool {
        self.row(id).is_none_or(|row| row.name.is_none())
    }

    /// Learns the name of a type from the stream.
    pub fn learn_name(&mut self, id: EventTypeId, types: &EventTypes) {
        let name = types.name(id).map(Arc::from);
        let nameless = || format!("event_type_{}", id.0).into_bytes().into();
        if let Some(row) = self.row_mut(id) {
            row.name = Some(name.unwrap_or_else(nameless));
        }
    }

    /// Returns name and number of events of each type that was shown.
    pub fn counts(&self) -> Vec<(Vec<u8>, u64)> {
        let counted = self.rows.iter().filter(|row| row.count > 0);
        counted
            .map(|row| (row.name().to_vec(), row.count))
            .collect()
    }

    /// Returns the row of a type.
    pub fn row(&self, id: EventTypeId) -> Option<&TypeRow> {
        self.rows.get(usize::try_from(id.0).ok()?)
    }

    /// Returns the row of a type; a user type has one from now on.
    pub fn row_mut(&mut self, id: EventTypeId) -> Option<&mut TypeRow> {
        let index = usize::try_from(id.0).ok()?;
        if self.rows.len() <= index && id.0 < STREAM_EVENT_ID_LIMIT {
            let shows_user = self.shows_user;
            self.rows.resize_with(index + 1, || TypeRow {
                name: None,
                entry: None,
                is_shown: shows_user,
                count: 0,
            });
        }
        self.rows.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_selected_types_are_shown() {
        let rows = TypeRows::new(&Selection::from_words(["fork"]).unwrap());
        assert!(rows.shows(EventTypeId::FORK));
        assert!(!rows.shows(EventTypeId::EXIT));
        assert!(!rows.shows(EventTypeId(FIRST_USER_EVENT)));
        assert!(!rows.shows(EventTypeId(u32::MAX)));
    }
}
