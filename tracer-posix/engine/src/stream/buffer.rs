//! The events that a stream holds, counted in bytes as the standard's size attributes count them.
//!
//! They take less memory than they count for: they lie packed in blocks, each of which is given
//! back once it was read.

use std::collections::VecDeque;

use super::packed::{self, Entry, MOST_HEAD, Remembered};
use crate::event::{EventHeader, MonotonicNs};
use crate::sizes::event_size;

/// A point in the sequence where events are missing. Takes no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// When the first of them was generated, as closely as is known.
    pub(super) since: MonotonicNs,
}

/// The oldest entry of the buffer, as it was taken out.
pub(super) enum Oldest {
    /// An event; its data was put into the caller's vector.
    Event(EventHeader),
    /// A gap, with events after it.
    Gap(Gap),
}

/// A queue of events with their data.
#[derive(Default)]
pub(super) struct Buffer {
    /// A gap before all that the blocks hold.
    gap_in_front: Option<Gap>,
    blocks: Blocks,
    /// Whether what was added last is a gap.
    ends_with_gap: bool,
    /// Bytes accounted for what is held.
    used: usize,
    /// Events held, gaps not counted.
    events: usize,
    /// Where the oldest entry is.
    read: Cursor,
    /// How far a reader that takes nothing away has come.
    shown: Cursor,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("used", &self.used)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Buffer {
    /// Makes an empty buffer.
    #[inline(never)]
    pub(super) fn on_heap() -> Box<Self> {
        Box::default()
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn events(&self) -> usize {
        self.events
    }

    /// Adds an event at the newest end. One that is not accounted takes none of the stream's space.
    pub(super) fn push(&mut self, header: &EventHeader, data: &[u8], is_accounted: bool) {
        self.blocks.push(MOST_HEAD + data.len(), |known, block| {
            known.pack(header, data, is_accounted, block);
        });
        self.ends_with_gap = false;
        self.events += 1;
        if is_accounted {
            self.used = self.used.saturating_add(event_size(data.len()));
        }
    }

    /// Adds a gap at the newest end; one that follows a gap is part of it.
    pub(super) fn push_gap(&mut self, gap: Gap) {
        if self.ends_with_gap {
            return;
        }
        self.ends_with_gap = true;
        if self.is_empty() {
            self.gap_in_front = Some(gap);
        } else {
            self.blocks.push(MOST_HEAD, |_known, block| {
                Remembered::pack_gap(gap.since, block);
            });
        }
    }

    /// Tells whether the blocks hold no event and no gap.
    fn is_empty(&self) -> bool {
        self.read == self.blocks.end()
    }

    /// Takes the oldest event away to make space, and leaves a gap instead. `false` when there
    /// is none.
    pub(super) fn overwrite_oldest(&mut self) -> bool {
        if self.events == 0 {
            return false;
        }
        let mut since = self.gap_in_front.map(|gap| gap.since);
        let mut is_taken = false;
        while !self.is_empty() && (!is_taken || self.read.is_at_gap(&self.blocks)) {
            let Some((entry, _data)) = self.read.next(&self.blocks) else {
                break;
            };
            since = since.or(Some(entry.time()));
            if let Entry::Event(event) = entry {
                is_taken = true;
                self.forget(event.data_length, event.is_accounted);
            }
        }
        self.blocks.forget_before(self.read.block);
        self.gap_in_front = since.map(|since| Gap { since });
        self.ends_with_gap |= self.is_empty();
        true
    }

    /// Takes out the oldest entry. A gap is given out only when an event follows it.
    #[inline(always)]
    pub(super) fn pop(&mut self, data: &mut Vec<u8>) -> Option<Oldest> {
        if self.events == 0 {
            return None;
        }
        if let Some(gap) = self.gap_in_front.take() {
            return Some(Oldest::Gap(gap));
        }
        let (entry, of_event) = self.read.next(&self.blocks)?;
        let oldest = match entry {
            Entry::Gap(since) => Oldest::Gap(Gap { since }),
            Entry::Event(event) => {
                data.clear();
                data.extend_from_slice(of_event);
                self.forget(event.data_length, event.is_accounted);
                Oldest::Event(event.header)
            }
        };
        self.blocks.forget_before(self.read.block);
        Some(oldest)
    }

    /// Returns the oldest event that was not shown yet. It stays where it is.
    pub(super) fn show_next(&mut self, data: &mut Vec<u8>) -> Option<EventHeader> {
        if self.shown < self.read {
            self.shown = self.read.clone();
        }
        while let Some((entry, of_event)) = self.shown.next(&self.blocks) {
            if let Entry::Event(event) = entry {
                data.clear();
                data.extend_from_slice(of_event);
                return Some(event.header);
            }
        }
        None
    }

    /// Returns the time of the oldest event.
    pub(super) fn oldest_time(&self) -> Option<MonotonicNs> {
        let mut at = self.read.clone();
        loop {
            if let (Entry::Event(event), _data) = at.next(&self.blocks)? {
                return Some(event.header.time);
            }
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget(&mut self, data_length: usize, is_accounted: bool) {
        self.events -= 1;
        if is_accounted {
            self.used = self.used.saturating_sub(event_size(data_length));
        }
    }
}

/// A position between two entries.
#[derive(Clone, Default)]
struct Cursor {
    /// The block's index, counted from the first that there ever was.
    block: u64,
    offset: usize,
    /// The threads that the block describes before this position.
    known: Remembered,
}

impl PartialEq for Cursor {
    fn eq(&self, other: &Self) -> bool {
        self.position() == other.position()
    }
}

impl PartialOrd for Cursor {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.position().partial_cmp(&other.position())
    }
}

impl PartialEq<(u64, usize)> for Cursor {
    fn eq(&self, other: &(u64, usize)) -> bool {
        self.position() == *other
    }
}

impl Cursor {
    fn position(&self) -> (u64, usize) {
        (self.block, self.offset)
    }

    /// Returns the next entry, which it passes, and an event's data.
    #[inline(always)]
    fn next<'a>(&mut self, blocks: &'a Blocks) -> Option<(Entry, &'a [u8])> {
        let mut bytes = blocks.from(self.position())?;
        if bytes.is_empty() {
            self.go_to_next_block(blocks);
            bytes = blocks.from(self.position())?;
        }
        let entry = self.known.unpack(bytes)?;
        let passed = bytes.get(..entry.bytes())?;
        self.offset += passed.len();
        let data = match &entry {
            Entry::Event(event) => passed.get(event.head..).unwrap_or_default(),
            Entry::Gap(_) => &[],
        };
        Some((entry, data))
    }

    fn is_at_gap(&mut self, blocks: &Blocks) -> bool {
        self.go_to_next_block(blocks);
        blocks.from(self.position()).is_some_and(packed::is_gap)
    }

    /// Goes to the next block, where this is at the end of a block that others follow.
    #[cold]
    fn go_to_next_block(&mut self, blocks: &Blocks) {
        if blocks.from(self.position()).is_some_and(<[u8]>::is_empty)
            && blocks.from((self.block + 1, 0)).is_some()
        {
            self.block += 1;
            self.offset = 0;
            self.known.clear();
        }
    }
}

/// A queue of packed entries.
#[derive(Default)]
struct Blocks {
    blocks: VecDeque<Vec<u8>>,
    /// The index of the first one.
    first: u64,
    /// The threads that the last one describes.
    known: Remembered,
    /// A block that was read, to be used for the next one.
    spare: Option<Vec<u8>>,
}

impl Blocks {
    /// Bytes of a block: so many that little is left free at its end, and so few that a small
    /// stream takes little.
    const BLOCK: usize = 32 * 1024;

    /// Returns where the next entry will be, if it has space there.
    fn end(&self) -> (u64, usize) {
        let before_last = u64::try_from(self.blocks.len().saturating_sub(1)).unwrap_or(0);
        (
            self.first + before_last,
            self.blocks.back().map_or(0, Vec::len),
        )
    }

    /// Appends an entry of at most `bytes` bytes.
    #[inline]
    fn push(&mut self, bytes: usize, pack: impl FnOnce(&mut Remembered, &mut Vec<u8>)) {
        let has_space = |block: &Vec<u8>| block.capacity() - block.len() >= bytes;
        if !self.blocks.back().is_some_and(has_space) {
            self.begin_block(bytes);
        }
        if let Some(block) = self.blocks.back_mut() {
            pack(&mut self.known, block);
        }
    }

    #[cold]
    fn begin_block(&mut self, bytes: usize) {
        let spare = self.spare.take().filter(|block| block.capacity() >= bytes);
        let block = spare.unwrap_or_else(|| Vec::with_capacity(bytes.max(Self::BLOCK)));
        self.blocks.push_back(block);
        self.known.clear();
    }

    /// Gives back the blocks before this one.
    #[inline]
    fn forget_before(&mut self, block: u64) {
        while self.first < block
            && let Some(mut read) = self.blocks.pop_front()
        {
            self.first += 1;
            if read.capacity() <= 2 * Self::BLOCK {
                read.clear();
                self.spare = Some(read);
            }
        }
    }

    /// Returns the bytes from a position to the end of its block.
    #[inline(always)]
    fn from(&self, (block, offset): (u64, usize)) -> Option<&[u8]> {
        let index = usize::try_from(block.checked_sub(self.first)?).ok()?;
        self.blocks.get(index)?.get(offset..)
    }
}
