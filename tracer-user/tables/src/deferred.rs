//! Data of events that is rendered after their rows were made: by whichever thread has time for it.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::HashMap;
use foldhash::fast::FixedState;
use tracer_common::event_type::{EventTypeId, system_event_type};
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use tracer_event::event_view::EventView;
use tracer_output::report::push_data;

use super::batch::{BatchColumn, ColumnValues};
use super::names::TextValues;

/// Names of event types, by type.
type TypeNames = HashMap<EventTypeId, Box<[u8]>>;

/// Data of the events of a batch.
#[derive(Debug)]
pub struct Deferred {
    /// Index of the column that it is rendered into.
    data: usize,
    /// Index of the column with the data as it was recorded, where that was chosen.
    raw: Option<usize>,
    /// Data as it was recorded, where that is no column.
    own: TextValues,
    types: Vec<(EventTypeId, Truncation)>,
    names: Arc<TypeNames>,
    /// Type that was looked up last.
    last: Option<EventTypeId>,
    /// Events that were rendered.
    rendered: usize,
    /// Events that were rendered last, by a hash of their data: much of it comes again and again.
    known: Vec<Option<usize>>,
}

/// Events whose data is looked for again: a power of two.
const MOST_KNOWN: usize = 2048;

impl Deferred {
    /// Begins, with the columns.
    pub fn new(data: usize, raw: Option<usize>) -> Self {
        Self {
            data,
            raw,
            own: TextValues::default(),
            types: Vec::new(),
            names: Arc::default(),
            last: None,
            rendered: 0,
            known: Vec::new(),
        }
    }

    /// Begins that of the next batch.
    pub fn next(&mut self) -> Self {
        Self {
            own: TextValues::as_large_as(&self.own),
            types: Vec::with_capacity(self.types.len()),
            names: Arc::clone(&self.names),
            ..Self::new(self.data, self.raw)
        }
    }

    /// Notes the data of an event. Returns its length.
    pub fn note(&mut self, view: &EventView<'_>) -> usize {
        let header = &view.event.header;
        let of = header.event_type;
        if self.last != Some(of) {
            self.last = Some(of);
            if !self.names.contains_key(&of) {
                Arc::make_mut(&mut self.names).insert(of, view.name.into());
            }
        }
        self.types.push((of, header.truncation));
        if self.raw.is_none() {
            self.own.push(|out| out.extend_from_slice(view.event.data));
        }
        view.event.data.len()
    }

    /// Renders the data of up to `most` more events; false once there are none.
    pub fn render(&mut self, columns: &mut [BatchColumn], most: usize) -> bool {
        let Some(column) = columns.get_mut(self.data) else {
            return false;
        };
        // It is taken out while others are looked at.
        let ColumnValues::TextValues(mut data) =
            std::mem::replace(&mut column.values, ColumnValues::Nothing)
        else {
            return false;
        };
        let raw = self.raw.and_then(|raw| columns.get(raw));
        let raw = match raw.map(|raw| &raw.values) {
            Some(ColumnValues::TextValues(raw)) => raw,
            _ => &self.own,
        };
        let from = self.rendered;
        self.known.resize(MOST_KNOWN, None);
        let events = self.types.iter().enumerate().skip(from).take(most);
        for (index, (of, truncation)) in events {
            self.rendered += 1;
            let mut no_slot = None;
            let slot = slot_of(*of, raw.get(index));
            let slot = self.known.get_mut(slot).unwrap_or(&mut no_slot);
            let is_same = |other: &usize| {
                self.types.get(*other) == Some(&(*of, *truncation))
                    && raw.get(*other) == raw.get(index)
            };
            if let Some(same) = slot.filter(is_same) {
                data.push_again(same);
                continue;
            }
            *slot = Some(index);
            let view = EventView {
                entry: system_event_type(*of),
                name: self.names.get(of).map_or(&[], |name| &**name),
                ..EventView::bare(event(*of, *truncation, raw.get(index)), b"")
            };
            data.push(|out| push_data(out, &view));
        }
        if let Some(column) = columns.get_mut(self.data) {
            column.values = ColumnValues::TextValues(data);
        }
        self.rendered < self.types.len()
    }
}

/// Returns the place of what is known of data like this.
fn slot_of(of: EventTypeId, data: &[u8]) -> usize {
    let hash = FixedState::with_seed(of.0.into()).hash_one(data);
    usize::try_from(hash).unwrap_or_default() % MOST_KNOWN
}

/// Returns an event of which only the data matters.
fn event(event_type: EventTypeId, truncation: Truncation, data: &[u8]) -> Event<'_> {
    Event {
        header: EventHeader {
            time: MonotonicNs(0),
            event_type,
            pid: 0,
            tid: 0,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation,
        },
        data,
    }
}
