//! The event types of a log: looked up once, counted.

use tracer_common::event_type::{
    EventTypeId, STREAM_EVENT_ID_LIMIT, SystemEventType, system_event_type,
};
use tracer_engine::EventTypes;

use super::WantedEvents;

/// One event type.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name: any bytes.
    pub name: Box<[u8]>,
    /// Its row in the table of system event types.
    pub entry: Option<&'static SystemEventType>,
    /// Whether it was asked for.
    pub is_wanted: bool,
    /// Events of it so far that were asked for.
    pub count: u64,
}

/// The event types that have been seen, by id.
#[derive(Clone, Debug, Default)]
pub struct TypeTable {
    rows: Vec<Option<Row>>,
}

impl TypeTable {
    /// Returns the row of a type, where it has been [learnt](Self::learn).
    pub fn row_mut(&mut self, id: EventTypeId) -> Option<&mut Row> {
        self.rows.get_mut(index(id))?.as_mut()
    }

    /// Returns the row of a type, whose name is learnt from `types` where it is new.
    #[expect(clippy::indexing_slicing, reason = "there are as many rows by then")]
    pub fn learn(
        &mut self,
        id: EventTypeId,
        types: &EventTypes,
        wanted: &WantedEvents,
    ) -> &mut Row {
        let index = index(id);
        if self.rows.len() <= index {
            self.rows.resize(index + 1, None);
        }
        self.rows[index].get_or_insert_with(|| {
            let nameless = || format!("event_type_{}", id.0).into_bytes().into();
            let name: Box<[u8]> = types.name(id).map_or_else(nameless, Box::from);
            Row {
                is_wanted: wanted.has_type(id, &name),
                entry: system_event_type(id),
                name,
                count: 0,
            }
        })
    }

    /// Returns the id and row of every type that has been learnt, in order of their ids.
    pub fn rows(&self) -> impl Iterator<Item = (EventTypeId, &Row)> {
        (0..)
            .map(EventTypeId)
            .zip(&self.rows)
            .filter_map(|(id, row)| Some((id, row.as_ref()?)))
    }

    /// Returns the names and counts of the types of which events were asked for and came.
    #[must_use]
    pub fn counts(&self) -> Vec<(Vec<u8>, u64)> {
        self.rows()
            .filter(|(_, row)| row.count > 0)
            .map(|(_, row)| (row.name.to_vec(), row.count))
            .collect()
    }
}

/// Returns the index of a type's row. Ids come from a file: those that no log should have share one
/// row, so that there are never more than a log can have types.
fn index(id: EventTypeId) -> usize {
    usize::try_from(id.0.min(STREAM_EVENT_ID_LIMIT)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_without_a_name_gets_one() {
        let mut types = EventTypes::default();
        let named = types.define_user(b"request", None);
        let mut table = TypeTable::default();
        let wanted = WantedEvents::default();

        assert_eq!(&*table.learn(named, &types, &wanted).name, b"request");
        let unknown = EventTypeId(1000);
        assert_eq!(
            &*table.learn(unknown, &types, &wanted).name,
            b"event_type_1000"
        );
        assert_eq!(
            &*table.learn(EventTypeId::FORK, &types, &wanted).name,
            b"linux_trace_fork"
        );
    }

    #[test]
    fn an_id_that_no_log_has_takes_no_memory() {
        let mut table = TypeTable::default();
        let id = EventTypeId(u32::MAX);
        table.learn(id, &EventTypes::default(), &WantedEvents::default());
        table.row_mut(EventTypeId(u32::MAX - 1)).unwrap().count += 1;
        assert_eq!(table.counts(), [(b"event_type_4294967295".to_vec(), 1)]);
        assert!(table.rows.len() <= 1 << 17);
    }

    #[test]
    fn only_what_came_is_counted() {
        let mut table = TypeTable::default();
        for id in [EventTypeId::FORK, EventTypeId::EXIT] {
            table.learn(id, &EventTypes::default(), &WantedEvents::default());
        }
        table.row_mut(EventTypeId::EXIT).unwrap().count += 2;
        assert_eq!(table.counts(), [(b"linux_trace_exit".to_vec(), 2)]);
    }
}
