//! The newest events.

use std::collections::VecDeque;
use std::sync::Arc;

use tracer_engine::event::{Event, EventHeader, MonotonicNs};

/// Events of a block, at most.
const BLOCK_EVENTS: usize = 2048;

/// Bytes of a block's data: those of an event may go beyond.
const BLOCK_BYTES: usize = 192 << 10;

/// Bytes of data that most events have not.
const LARGE: usize = 1 << 10;

/// Bytes that all blocks take, about. Beyond them the oldest events give way.
const MOST_BYTES: usize = 256 << 20;

/// Events that follow each other. Each block has the same space, which is not moved as it fills: so
/// what is freed after a burst has no holes.
#[derive(Clone, Debug)]
pub struct Block {
    /// Headers, each with the end of its data and the end of its thread's name, in `bytes`.
    headers: Vec<(EventHeader, usize, usize)>,
    bytes: Vec<u8>,
}

impl Block {
    fn empty() -> Self {
        Self {
            headers: Vec::with_capacity(BLOCK_EVENTS),
            bytes: Vec::with_capacity(BLOCK_BYTES),
        }
    }

    fn is_full(&self) -> bool {
        self.headers.len() >= BLOCK_EVENTS || self.bytes.len() + LARGE > BLOCK_BYTES
    }

    /// Returns its events, with the names of their threads.
    pub fn events(&self) -> impl Iterator<Item = (Event<'_>, &[u8])> {
        let starts = std::iter::once(0).chain(self.headers.iter().map(|(.., end)| *end));
        let each = self.headers.iter().zip(starts);
        each.map(|((header, middle, end), start)| {
            let data = self.bytes.get(start..*middle).unwrap_or_default();
            let comm = self.bytes.get(*middle..*end).unwrap_or_default();
            let event = Event {
                header: *header,
                data,
            };
            (event, comm)
        })
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.headers.len() * size_of::<(EventHeader, usize, usize)>()
    }

    fn last(&self) -> Option<MonotonicNs> {
        self.headers.last().map(|(header, ..)| header.time)
    }
}

/// The newest events, as old as is asked for and a little older.
#[derive(Debug)]
pub struct Newest {
    keep_ns: u64,
    most_bytes: usize,
    full: VecDeque<Arc<Block>>,
    full_bytes: usize,
    open: Block,
    given_up: u64,
}

impl Newest {
    /// Holds the events of the last `keep_ns` nanoseconds.
    #[must_use]
    pub fn new(keep_ns: u64) -> Self {
        Self::within(keep_ns, MOST_BYTES)
    }

    /// Holds the newest events in about this count of bytes.
    #[must_use]
    pub fn within(keep_ns: u64, most_bytes: usize) -> Self {
        Self {
            keep_ns,
            most_bytes,
            full: VecDeque::new(),
            full_bytes: 0,
            open: Block::empty(),
            given_up: 0,
        }
    }

    /// Adds one. Returns whether it was the last of its block: blocks before the next one may give
    /// way.
    pub fn push(&mut self, event: &Event<'_>, comm: &[u8]) -> bool {
        let bytes = &mut self.open.bytes;
        bytes.extend_from_slice(event.data);
        let middle = bytes.len();
        bytes.extend_from_slice(comm);
        let end = bytes.len();
        self.open.headers.push((event.header, middle, end));
        if !self.open.is_full() {
            return false;
        }
        self.full_bytes += self.open.size();
        let full = std::mem::replace(&mut self.open, Block::empty());
        self.full.push_back(Arc::new(full));
        let oldest = event.header.time.0.saturating_sub(self.keep_ns);
        while let Some(first) = self.full.front() {
            let is_old = first.last().is_some_and(|last| last.0 < oldest);
            if !is_old && self.full_bytes <= self.most_bytes {
                break;
            }
            if !is_old {
                self.given_up += 1;
            }
            self.full_bytes = self.full_bytes.saturating_sub(first.size());
            self.full.pop_front();
        }
        true
    }

    /// Returns all blocks, in order.
    #[must_use]
    pub fn blocks(&self) -> Vec<Arc<Block>> {
        let open = Arc::new(self.open.clone());
        self.full.iter().cloned().chain([open]).collect()
    }

    /// Tells whether some gave way before they were as old as was asked for.
    #[must_use]
    pub fn is_shortened(&self) -> bool {
        self.given_up > 0
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::Truncation;

    use super::*;

    fn event(at: u64, data: &[u8]) -> Event<'_> {
        let header = EventHeader {
            time: MonotonicNs(at),
            event_type: EventTypeId::EXIT,
            pid: 1,
            tid: 1,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        Event { header, data }
    }

    fn times(newest: &Newest) -> Vec<u64> {
        let blocks = newest.blocks();
        let events = blocks.iter().flat_map(|block| block.events());
        events.map(|(event, _)| event.header.time.0).collect()
    }

    #[test]
    fn events_are_as_they_were_and_old_ones_give_way() {
        let mut newest = Newest::new(1000);
        for at in 0..100_000 {
            let data = u32::try_from(at).unwrap().to_ne_bytes();
            newest.push(&event(at, &data), if at % 2 == 0 { b"even" } else { b"" });
        }
        let times = times(&newest);
        let first = times[0];
        assert_eq!(times, (first..100_000).collect::<Vec<_>>());
        // By blocks.
        assert!((96_000..=99_000).contains(&first), "{first}");
        for block in newest.blocks() {
            for (event, comm) in block.events() {
                let at = u32::try_from(event.header.time.0).unwrap();
                assert_eq!(event.data, at.to_ne_bytes());
                assert_eq!(comm, if at % 2 == 0 { &b"even"[..] } else { b"" });
            }
        }
        assert!(!newest.is_shortened());
    }

    #[test]
    fn memory_is_bounded() {
        let mut newest = Newest::new(u64::MAX);
        let data = vec![7; 1 << 20];
        for at in 0..600 {
            newest.push(&event(at, &data), b"");
        }
        assert!(newest.full_bytes <= MOST_BYTES);
        assert!(newest.is_shortened());
    }
}
