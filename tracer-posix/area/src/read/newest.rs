//! Chunks that need not be read: a stream that retains its newest events has no use for events that
//! newer ones would push out of it at once.
//!
//! The pool holds more than the stream, as each writer has a chunk open and events take more of the
//! stream's space than of a chunk's. Of the chunks that were closed, let *X* be any. All that is in
//! *X* is older than the closing of *X*. A chain has one open chunk at a time: of its chunks that
//! were closed after *X*, the first may have been open at that moment. The others, with the one
//! that is open now, hold only events that came later. So where those others, of all chains, hold
//! more than the stream keeps, nothing of *X* would be left in the stream, nor of the chunks that
//! were closed before *X*. Their events are lost as if the chunks had been overwritten: the next
//! chunk of the chain says how many they were.

use std::collections::HashMap;

use crate::layout::chunk::{Cursor, Head};
use crate::layout::record::HEAD;
use tracer_engine::sizes::EVENT_HEADER_BYTES;

/// Returns the least bytes that the unread events of a chunk take in a stream. A chunk that claims
/// more events than have space in it is not believed.
pub(super) fn least_size(head: Head, read: Cursor, events_read: u64) -> u64 {
    let have_space = read.bytes_before(head) / HEAD;
    let events = head.events().saturating_sub(events_read).min(have_space);
    events.saturating_mul(EVENT_HEADER_BYTES as u64)
}

/// The chunks of a pool, newest first.
pub(super) struct Newest {
    /// Bytes that the stream retains.
    keeps: u64,
    /// Bytes that are certain to be newer than the chunks that are still to come.
    newer: u64,
    /// Bytes in the oldest chunk so far of each chain. That chunk may have been open when the next
    /// chunk of another chain was closed.
    oldest: HashMap<u32, u64>,
}

impl Newest {
    /// Begins for a stream that retains `keeps` bytes. `open` has each chunk that is not closed:
    /// its chain, and the bytes in it.
    pub(super) fn new(keeps: u64, open: impl Iterator<Item = (u32, u64)>) -> Self {
        Self {
            keeps,
            newer: 0,
            oldest: open.collect(),
        }
    }

    /// Tells whether the next chunk, which was closed before all chunks so far and holds `bytes`
    /// bytes, need not be read.
    pub(super) fn is_overwritten(&mut self, chain: u32, bytes: u64) -> bool {
        // More, not as many: so the stream gets more than it keeps, and says that it is full.
        if self.newer > self.keeps {
            return true;
        }
        if let Some(newer) = self.oldest.insert(chain, bytes) {
            self.newer = self.newer.saturating_add(newer);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_open_does_not_count_as_newer() {
        let mut newest = Newest::new(100, [(1, 90)].into_iter());

        // Of chain 1: 90 in its open chunk, which were written after this one was closed.
        assert!(!newest.is_overwritten(1, 20));
        // Chain 2 had this one open then; 90 are newer.
        assert!(!newest.is_overwritten(2, 1_000));
        assert!(!newest.is_overwritten(2, 1_000));
        // 90 and 1,000.
        assert!(newest.is_overwritten(1, 20));
        assert!(newest.is_overwritten(3, 20), "and all that come after it");
    }

    #[test]
    fn no_thread_has_more_events_than_space_for_them() {
        let events = 1_000_000;
        let head = Head(events << 32 | (Head::EMPTY.offset() + 10 * HEAD));

        let least = least_size(head, Cursor::START, 0);

        assert_eq!(least, 10 * EVENT_HEADER_BYTES as u64);
    }

    #[test]
    fn what_was_read_counts_no_more() {
        let head = Head(7 << 32 | (Head::EMPTY.offset() + 100 * HEAD));

        assert_eq!(
            least_size(head, Cursor::START, 5),
            2 * EVENT_HEADER_BYTES as u64
        );
        assert_eq!(least_size(head, Cursor::START, 9), 0);
    }
}
