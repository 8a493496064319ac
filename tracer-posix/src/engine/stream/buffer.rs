//! The events that a stream holds, counted in bytes as the standard's size attributes count them.

use std::collections::VecDeque;

use crate::engine::sizes::event_size;
use crate::event::{EventHeader, MonotonicNs};

/// A place in the sequence where events are missing. Takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// When the first of them was generated, as closely as is known.
    pub(super) since: MonotonicNs,
}

enum Entry {
    Event {
        header: EventHeader,
        data_length: usize,
        is_accounted: bool,
    },
    Gap(Gap),
}

/// What the oldest end of the buffer gave.
pub(super) enum Oldest {
    /// An event; its data was put into the caller's vector.
    Event(EventHeader),
    /// A gap, with events after it.
    Gap(Gap),
}

/// A queue of events with their data.
#[derive(Default)]
pub(super) struct Buffer {
    entries: VecDeque<Entry>,
    data: VecDeque<u8>,
    /// Bytes accounted for what is held.
    used: usize,
    /// Events held, gaps not counted.
    events: usize,
}

impl Buffer {
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn events(&self) -> usize {
        self.events
    }

    /// Adds an event at the newest end. One that is not accounted takes none of the stream's room.
    pub(super) fn push(&mut self, header: EventHeader, data: &[u8], is_accounted: bool) {
        self.entries.push_back(Entry::Event {
            header,
            data_length: data.len(),
            is_accounted,
        });
        self.data.extend(data);
        self.events += 1;
        if is_accounted {
            self.used = self.used.saturating_add(event_size(data.len()));
        }
    }

    /// Adds a gap at the newest end; one that follows a gap is part of it.
    pub(super) fn push_gap(&mut self, gap: Gap) {
        if !matches!(self.entries.back(), Some(Entry::Gap(_))) {
            self.entries.push_back(Entry::Gap(gap));
        }
    }

    /// Takes the oldest event away to make room, and leaves a gap in its place. `false` when there
    /// is none.
    pub(super) fn overwrite_oldest(&mut self) -> bool {
        let mut since: Option<MonotonicNs> = None;
        while let Some(entry) = self.entries.pop_front() {
            match entry {
                Entry::Gap(gap) => since = since.or(Some(gap.since)),
                Entry::Event {
                    header,
                    data_length,
                    is_accounted,
                } => {
                    self.forget(data_length, is_accounted);
                    let since = since.unwrap_or(header.time);
                    if let Some(Entry::Gap(next)) = self.entries.front_mut() {
                        next.since = since;
                    } else {
                        self.entries.push_front(Entry::Gap(Gap { since }));
                    }
                    return true;
                }
            }
        }
        if let Some(since) = since {
            self.entries.push_front(Entry::Gap(Gap { since }));
        }
        false
    }

    /// Takes what is oldest. A gap is given out only when an event follows it.
    pub(super) fn pop(&mut self, data: &mut Vec<u8>) -> Option<Oldest> {
        if self.events == 0 {
            return None;
        }
        match self.entries.pop_front()? {
            Entry::Gap(gap) => Some(Oldest::Gap(gap)),
            Entry::Event {
                header,
                data_length,
                is_accounted,
            } => {
                data.clear();
                data.extend(self.data.iter().take(data_length));
                self.forget(data_length, is_accounted);
                Some(Oldest::Event(header))
            }
        }
    }

    /// The time of the oldest event.
    pub(super) fn oldest_time(&self) -> Option<MonotonicNs> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Event { header, .. } => Some(header.time),
            Entry::Gap(_) => None,
        })
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget(&mut self, data_length: usize, is_accounted: bool) {
        self.data.drain(..data_length.min(self.data.len()));
        self.events -= 1;
        if is_accounted {
            self.used = self.used.saturating_sub(event_size(data_length));
        }
    }
}
