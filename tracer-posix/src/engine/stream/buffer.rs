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
    data: Bytes,
    /// Bytes accounted for what is held.
    used: usize,
    /// Events held, gaps not counted.
    events: usize,
    /// The oldest entries that were shown to a reader who leaves them there.
    shown: Shown,
}

/// How far a reader who takes nothing away has come.
#[derive(Clone, Copy, Default)]
struct Shown {
    entries: usize,
    /// Bytes of data of these entries.
    data: usize,
}

impl Shown {
    /// The oldest entry goes; it had so much data.
    fn forget_oldest(&mut self, data_length: usize) {
        if self.entries > 0 {
            self.entries -= 1;
            self.data = self.data.saturating_sub(data_length);
        }
    }
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
        self.data.push(data);
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
                Entry::Gap(gap) => {
                    self.shown.forget_oldest(0);
                    since = since.or(Some(gap.since));
                }
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
                        self.push_gap_in_front(Gap { since });
                    }
                    return true;
                }
            }
        }
        if let Some(since) = since {
            self.push_gap_in_front(Gap { since });
        }
        false
    }

    fn push_gap_in_front(&mut self, gap: Gap) {
        self.entries.push_front(Entry::Gap(gap));
        if self.shown.entries > 0 {
            self.shown.entries += 1;
        }
    }

    /// Takes what is oldest. A gap is given out only when an event follows it.
    pub(super) fn pop(&mut self, data: &mut Vec<u8>) -> Option<Oldest> {
        if self.events == 0 {
            return None;
        }
        match self.entries.pop_front()? {
            Entry::Gap(gap) => {
                self.shown.forget_oldest(0);
                Some(Oldest::Gap(gap))
            }
            Entry::Event {
                header,
                data_length,
                is_accounted,
            } => {
                self.data.copy(0, data_length, data);
                self.forget(data_length, is_accounted);
                Some(Oldest::Event(header))
            }
        }
    }

    /// The oldest event that was not shown yet. It stays where it is.
    pub(super) fn show_next(&mut self, data: &mut Vec<u8>) -> Option<EventHeader> {
        while let Some(entry) = self.entries.get(self.shown.entries) {
            self.shown.entries += 1;
            if let Entry::Event {
                header,
                data_length,
                ..
            } = entry
            {
                self.data.copy(self.shown.data, *data_length, data);
                self.shown.data += data_length;
                return Some(*header);
            }
        }
        None
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
        self.data.forget(data_length);
        self.shown.forget_oldest(data_length);
        self.events -= 1;
        if is_accounted {
            self.used = self.used.saturating_sub(event_size(data_length));
        }
    }
}

/// A queue of bytes.
#[derive(Default)]
struct Bytes {
    queue: VecDeque<u8>,
    /// Bytes at the oldest end that are forgotten and not taken out yet.
    forgotten: usize,
}

impl Bytes {
    /// Forgotten bytes are taken out together: each time costs as much as reading an event.
    const TAKEN_OUT_AT: usize = 16 * 1024;

    fn push(&mut self, bytes: &[u8]) {
        self.queue.extend(bytes);
    }

    /// Forgets the oldest bytes.
    fn forget(&mut self, count: usize) {
        self.forgotten = self.forgotten.saturating_add(count).min(self.queue.len());
        if self.forgotten == self.queue.len() {
            self.queue.clear();
            self.forgotten = 0;
        } else if self.forgotten >= Self::TAKEN_OUT_AT {
            self.queue.drain(..self.forgotten);
            self.forgotten = 0;
        }
    }

    /// Puts so many bytes from `start` on into `to`, and nothing else. In pieces: a queue lies in memory
    /// in two parts.
    fn copy(&self, start: usize, length: usize, to: &mut Vec<u8>) {
        to.clear();
        let start = self.forgotten.saturating_add(start);
        let (first, second) = self.queue.as_slices();
        let of_first = first.get(start..).unwrap_or_default();
        let of_first = &of_first[..length.min(of_first.len())];
        to.extend_from_slice(of_first);
        let left = length - of_first.len();
        if left > 0 {
            let start = start.saturating_sub(first.len());
            let of_second = second.get(start..).unwrap_or_default();
            to.extend_from_slice(&of_second[..left.min(of_second.len())]);
        }
    }
}
