//! Values that the events of one packet have in common. A value is written once; later events refer
//! to it by its index.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::COMM_BYTES;

use tracer_engine::event::EventHeader;

/// A thread, as a packet describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub pid: i32,
    pub tid: i32,
    pub thread_id: u64,
    pub comm: Comm,
}

impl Thread {
    /// Tells whether this is the thread of an event, and has this name.
    #[inline]
    pub fn is(&self, header: &EventHeader, comm: &[u8]) -> bool {
        let name = comm.get(..COMM_BYTES).unwrap_or(comm);
        self.tid == header.tid
            && self.pid == header.pid
            && self.thread_id == header.thread_id
            && self.comm.as_bytes() == name
    }
}

/// Name of a thread, of at most as many bytes as the kernel stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Comm {
    bytes: [u8; COMM_BYTES],
    length: u8,
}

impl Comm {
    /// Returns the start of `name`; no thread's name is longer.
    pub fn truncated_from(name: &[u8]) -> Self {
        let mut bytes = [0; COMM_BYTES];
        let mut length = 0_u8;
        for (stored, given) in bytes.iter_mut().zip(name) {
            *stored = *given;
            length = length.saturating_add(1);
        }
        Self { bytes, length }
    }

    /// Returns the name.
    pub fn as_bytes(&self) -> &[u8] {
        let length = usize::from(self.length);
        self.bytes.get(..length).unwrap_or_default()
    }
}

/// State of a thread after the events of a packet so far. The encoding of the events that follow
/// depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastSeen {
    /// CPU of its last event that named one.
    pub cpu: Option<u32>,
    /// When it got a CPU last.
    got_cpu: Option<u64>,
}

impl LastSeen {
    /// Updates the state with an event of the thread.
    #[inline]
    pub fn follow(&mut self, event_type: EventTypeId, time: u64) {
        if event_type == EventTypeId::SWITCH_IN {
            self.got_cpu = Some(time);
        }
    }

    /// Returns how long it has had its CPU at `time`, if that is known.
    #[inline]
    pub fn ran_until(&self, time: u64) -> Option<u64> {
        time.checked_sub(self.got_cpu?)
    }
}

/// Trace point of an event: the event type, and the address in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Site {
    pub event_type: EventTypeId,
    pub program_address: u64,
}

/// Values in order of their first use, each once.
#[derive(Debug)]
pub(super) struct Dictionary<T> {
    entries: Vec<T>,
    by_hash: HashTable<u32>,
    hasher: RandomState,
    last: u32,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            by_hash: HashTable::new(),
            hasher: RandomState::default(),
            last: 0,
        }
    }
}

/// The index of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The entry was there.
    Known(u32),
    /// The entry is new: its index is the number of entries before it.
    New(u32),
}

impl Entry {
    /// Returns the index.
    pub fn index(self) -> u32 {
        match self {
            Self::Known(index) | Self::New(index) => index,
        }
    }
}

impl<T: Copy + Eq + Hash> Dictionary<T> {
    /// Returns the index of `thing`; adds it if it is not there.
    #[inline]
    pub fn enter(&mut self, thing: &T) -> Entry {
        // Consecutive events mostly have the same thread and site.
        if self.last() == Some(thing) {
            return Entry::Known(self.last);
        }
        let hash = self.hasher.hash_one(thing);
        let entries = &self.entries;
        let known = self
            .by_hash
            .find(hash, |&index| at(entries, index) == Some(thing));
        if let Some(&index) = known {
            self.last = index;
            return Entry::Known(index);
        }
        self.last = next_index(entries.len());
        self.entries.push(*thing);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_hash.insert_unique(hash, self.last, |&index| {
            at(entries, index).map_or(0, |entry| hasher.hash_one(entry))
        });
        Entry::New(self.last)
    }

    /// Returns the value that was entered last.
    #[inline]
    pub fn last(&self) -> Option<&T> {
        at(&self.entries, self.last)
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.by_hash.clear();
        self.last = 0;
    }
}

/// Runs of bytes in a buffer that grows, each once.
#[derive(Debug, Default)]
pub(super) struct DataDictionary {
    /// Start and length in the buffer.
    spans: Vec<(u32, u32)>,
    by_hash: HashTable<u32>,
    hasher: RandomState,
}

impl DataDictionary {
    /// Returns the index of `data`. The data of known entries lies in `buffer`; the caller appends
    /// new data to it and reports its position by [`note_span`](Self::note_span).
    pub fn enter(&mut self, data: &[u8], buffer: &[u8]) -> Entry {
        let hash = self.hasher.hash_one(data);
        let spans = &self.spans;
        let known = self
            .by_hash
            .find(hash, |&index| span(spans, buffer, index) == data);
        if let Some(&index) = known {
            return Entry::Known(index);
        }
        let index = next_index(spans.len());
        let hasher = &self.hasher;
        self.by_hash.insert_unique(hash, index, |&index| {
            hasher.hash_one(span(spans, buffer, index))
        });
        Entry::New(index)
    }

    /// Notes the position in the buffer of the data that was added last.
    pub fn note_span(&mut self, start: usize, length: usize) {
        // A packet's length fits into 32 bits.
        let narrow = |value| u32::try_from(value).unwrap_or(u32::MAX);
        self.spans.push((narrow(start), narrow(length)));
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.by_hash.clear();
    }
}

fn at<T>(entries: &[T], index: u32) -> Option<&T> {
    entries.get(usize::try_from(index).ok()?)
}

fn next_index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn span<'a>(spans: &[(u32, u32)], buffer: &'a [u8], index: u32) -> &'a [u8] {
    at(spans, index)
        .and_then(|&(start, length)| {
            let rest = buffer.get(usize::try_from(start).ok()?..)?;
            rest.get(..usize::try_from(length).ok()?)
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_have_indices_in_order_of_their_first_use() {
        let mut dictionary = Dictionary::default();

        let entries = [7, 7, 9, 7, 8, 9].map(|thing| dictionary.enter(&thing));

        assert_eq!(
            entries,
            [
                Entry::New(0),
                Entry::Known(0),
                Entry::New(1),
                Entry::Known(0),
                Entry::New(2),
                Entry::Known(1),
            ]
        );
    }

    #[test]
    fn a_cleared_dictionary_knows_nothing() {
        let mut dictionary = Dictionary::default();
        dictionary.enter(&7);

        dictionary.clear();

        assert_eq!(dictionary.enter(&7), Entry::New(0));
    }

    #[test]
    fn a_thousand_runs_of_bytes_keep_their_indices() {
        let mut dictionary = DataDictionary::default();
        let mut buffer = Vec::new();
        for round in 0..2 {
            for nth in 0..1000_u32 {
                let data = nth.to_le_bytes();
                match dictionary.enter(&data, &buffer) {
                    Entry::New(index) => {
                        assert_eq!((round, index), (0, nth));
                        dictionary.note_span(buffer.len(), data.len());
                        buffer.extend_from_slice(&data);
                    }
                    Entry::Known(index) => assert_eq!((round, index), (1, nth)),
                }
            }
        }
    }

    #[test]
    fn a_name_is_truncated_where_the_kernel_truncates_it() {
        assert_eq!(Comm::truncated_from(&[b'x'; 40]).as_bytes(), [b'x'; 16]);
        assert_eq!(Comm::truncated_from(b"").as_bytes(), b"");
    }
}
