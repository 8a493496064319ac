//! Data of events, which is rendered after their rows were made: by whichever thread has time for
//! that.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::FixedState;
use tracer_common::event_type::{EventTypeId, STREAM_EVENT_ID_LIMIT, system_event_type};
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use tracer_event::event_view::EventView;
use tracer_output::report::push_data;

use super::names::{TextValues, ValuePlace};

/// Names of event types, by identifier.
type TypeNames = Vec<Option<Box<[u8]>>>;

/// Data of the events of a batch. Much of it comes again and again: it is held once, and rendered
/// once.
#[derive(Debug, Default)]
pub struct HeldData {
    /// Data as it was recorded, one after the other.
    raw: TextValues,
    /// Index of the data of each event among those that differ.
    of_events: Vec<u32>,
    different: Vec<OneData>,
    /// Data that came last, by a hash of it.
    known: Vec<u32>,
    /// Whether it is rendered.
    has_texts: bool,
    /// Texts of those that were rendered.
    texts: TextValues,
    names: Arc<TypeNames>,
}

/// Data that differs from other data.
#[derive(Clone, Copy, Debug)]
struct OneData {
    of: EventTypeId,
    truncation: Truncation,
    place: ValuePlace,
}

/// Data that is looked for again: a power of two.
const MOST_KNOWN: usize = 4096;

impl HeldData {
    /// Begins; `has_texts` says whether it is to be rendered.
    pub fn new(has_texts: bool) -> Self {
        Self {
            has_texts,
            ..Self::default()
        }
    }

    /// Takes the data so far, and begins that of the next batch.
    pub fn take(&mut self) -> Self {
        let next = Self {
            raw: TextValues::as_large_as(&self.raw),
            of_events: Vec::with_capacity(self.of_events.len()),
            different: Vec::with_capacity(self.different.len()),
            names: Arc::clone(&self.names),
            ..Self::new(self.has_texts)
        };
        std::mem::replace(self, next)
    }

    /// Notes the data of an event. Returns its length.
    pub fn note(&mut self, view: &EventView<'_>) -> usize {
        let header = &view.event.header;
        let (of, truncation, data) = (header.event_type, header.truncation, view.event.data);
        if !self.names.get(index_of(of)).is_some_and(Option::is_some) {
            let names = Arc::make_mut(&mut self.names);
            if names.len() <= index_of(of) {
                names.resize(index_of(of) + 1, None);
            }
            if let Some(name) = names.get_mut(index_of(of)) {
                *name = Some(view.name.into());
            }
        }
        if self.known.is_empty() {
            self.known.resize(MOST_KNOWN, u32::MAX);
        }
        let index = self.index(of, truncation, data);
        self.of_events.push(index);
        data.len()
    }

    /// Returns the index of data, which is held if it is new.
    fn index(&mut self, of: EventTypeId, truncation: Truncation, data: &[u8]) -> u32 {
        let slot = slot_of(of, data);
        let known = self.known.get(slot).copied().unwrap_or(u32::MAX);
        if let Some(one) = self.different.get(to_usize(known))
            && one.of == of
            && one.truncation == truncation
            && self.raw.at(one.place) == data
        {
            return known;
        }
        let place = self.raw.append(data);
        let index = u32::try_from(self.different.len()).unwrap_or(u32::MAX);
        self.different.push(OneData {
            of,
            truncation,
            place,
        });
        if let Some(known) = self.known.get_mut(slot) {
            *known = index;
        }
        index
    }

    /// Renders up to `most` more; false once there are none.
    pub fn render(&mut self, most: usize) -> bool {
        if !self.has_texts {
            return false;
        }
        let from = self.texts.count();
        for one in self.different.iter().skip(from).take(most) {
            let view = EventView {
                entry: system_event_type(one.of),
                name: name_of(&self.names, one.of),
                ..EventView::bare(event(one, self.raw.at(one.place)), b"")
            };
            self.texts.push(|out| push_data(out, &view));
        }
        self.texts.count() < self.different.len()
    }

    /// Returns the texts of all events, and their data as it was recorded.
    pub fn into_columns(mut self) -> (TextValues, TextValues) {
        self.raw.places = self.different.iter().map(|one| one.place).collect();
        drop(self.different);
        // Where all differ, each is that of the event with the same index.
        if self.of_events.len() != self.raw.places.len() {
            for texts in [&mut self.raw, &mut self.texts] {
                let place = |index: &u32| texts.places.get(to_usize(*index)).copied();
                let places = self.of_events.iter().map(place);
                texts.places = places.map(Option::unwrap_or_default).collect();
            }
        }
        (self.texts, self.raw)
    }
}

/// Returns the place of the name of a type.
fn index_of(of: EventTypeId) -> usize {
    to_usize(of.0.min(STREAM_EVENT_ID_LIMIT))
}

fn name_of(names: &TypeNames, of: EventTypeId) -> &[u8] {
    let name = names.get(index_of(of)).and_then(Option::as_deref);
    name.unwrap_or_default()
}

/// Returns the place of what is known of data like this.
fn slot_of(of: EventTypeId, data: &[u8]) -> usize {
    let hash = FixedState::with_seed(of.0.into()).hash_one(data);
    usize::try_from(hash).unwrap_or_default() % MOST_KNOWN
}

fn to_usize(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Returns an event of which only the data matters.
fn event<'a>(one: &OneData, data: &'a [u8]) -> Event<'a> {
    Event {
        header: EventHeader {
            time: MonotonicNs(0),
            event_type: one.of,
            pid: 0,
            tid: 0,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: one.truncation,
        },
        data,
    }
}
