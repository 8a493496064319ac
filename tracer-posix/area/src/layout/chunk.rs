//! One chunk: a single thread writes it, a single controller reads it, and neither waits.
//!
//! A chunk begins with its *head*: where its records end. Records lie side by side and never go on
//! in another chunk. A record is there when the head has moved past it: one store, which also
//! counts the record. The *mark*, in the chunk's header, says where the records will end after the
//! one that is being written.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        reason = "another process may write anything"
    )
)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use tracer_common::area::type_number;
use tracer_common::event_type::EventTypeId;

use super::atomics::{AtomicU64, compiler_fence};
use super::identity::IDENTITY_TAKES;
use super::record::{self, Emission, HEAD, WORD, data_length, record_bytes};

/// Index of the head, and of the chunk's ordinal.
const HEAD_WORD: usize = 0;
const ORDINAL_WORD: usize = 1;
const OPENED_WORD: usize = 2;
const HOME_WORD: usize = 3;
const NAMED_WORD: usize = 4;
const CLOSED_AT_WORD: usize = 5;
/// Where the first record starts, in bytes.
pub(super) const FIRST_RECORD: u64 = 64;

/// Where a chunk's records end, and how many events there are: what its head word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(pub(crate) u64);

impl Head {
    /// The head of a chunk without records.
    pub(crate) const EMPTY: Self = Self(FIRST_RECORD);

    /// Returns where the records end, in bytes from the chunk's beginning.
    #[inline(always)]
    pub(crate) fn offset(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    /// Returns the number of events of the chunk.
    #[inline(always)]
    pub(crate) fn events(self) -> u64 {
        self.0 >> 32
    }

    /// Returns the head after one more event of so many bytes.
    #[inline(always)]
    fn after_event(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(1 << 32).wrapping_add(bytes))
    }
}

/// A chunk's words, and its mark.
#[derive(Clone, Copy)]
pub(crate) struct Chunk<'a> {
    words: &'a [AtomicU64],
    begun: &'a AtomicU64,
}

/// Why no record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The chunk is full.
    NoSpace,
    /// The stream has ended.
    Stale,
    /// The stream's gate is shut.
    NotAccepted,
}

/// Questions that an emission asks on its way.
pub(crate) trait Moment {
    /// Tells whether the stream still is the one that the chunk was opened for. Asked when the mark
    /// is set.
    fn is_current(&self) -> bool;
    /// Returns the time now, in ticks, not taken before what precedes it in the program is done.
    fn ticks(&self) -> u64;
    /// Tells whether the stream takes events at this time.
    fn accepts(&self, ticks: u64) -> bool;
    /// Returns the CPU plus one, or 0 where it is not known.
    fn cpu_plus_one(&self) -> u16;
}

impl<'a> Chunk<'a> {
    /// `words` are those of the whole chunk.
    pub(crate) fn new(words: &'a [AtomicU64], begun: &'a AtomicU64) -> Option<Self> {
        (size_of_val(words) as u64 > FIRST_RECORD).then_some(Self { words, begun })
    }

    #[expect(clippy::indexing_slicing, reason = "the length was looked at in `new`")]
    fn head_word(self) -> &'a AtomicU64 {
        &self.words[HEAD_WORD]
    }

    /// Returns the number of bytes of the chunk that records can lie in, its beginning included.
    /// The last word is never used, so that an offset is always within the chunk.
    fn limit(self) -> u64 {
        (size_of_val(self.words) as u64).wrapping_sub(WORD)
    }

    /// Returns the chunk's ordinal, as the chunk says itself.
    pub(super) fn untrusted_ordinal(self) -> u32 {
        let word = self.words.get(ORDINAL_WORD);
        word.and_then(|word| u32::try_from(word.load(Relaxed)).ok())
            .unwrap_or(u32::MAX)
    }

    /// Returns how often the pool had changed when the chunk was opened.
    pub(crate) fn opened(self) -> u64 {
        let word = self.words.get(OPENED_WORD);
        word.map_or(u64::MAX, |word| word.load(Relaxed))
    }

    /// Returns where the chunk's thread is at home, and how often the pool had changed when the
    /// thread was named, as the thread says itself.
    pub(crate) fn untrusted_home(self) -> (u64, u64) {
        let word = |index: usize| self.words.get(index).map_or(0, |word| word.load(Relaxed));
        (word(HOME_WORD), word(NAMED_WORD))
    }

    /// Notes where the chunk's thread is at home, and how often the pool had changed.
    pub(super) fn set_home(self, home: u64, changes: u64) {
        for (index, value) in [(HOME_WORD, home), (NAMED_WORD, changes)] {
            if let Some(word) = self.words.get(index) {
                word.store(value, Relaxed);
            }
        }
    }

    /// Notes when the chunk was closed, in ticks.
    pub(super) fn set_closed_at(self, ticks: u64) {
        if let Some(word) = self.words.get(CLOSED_AT_WORD) {
            word.store(ticks, Relaxed);
        }
    }

    /// Returns when the chunk was closed, in ticks, as the chunk says itself.
    pub(crate) fn untrusted_closed_at(self) -> u64 {
        let word = self.words.get(CLOSED_AT_WORD);
        word.map_or(0, |word| word.load(Relaxed))
    }

    /// Returns the time of the chunk's first event, in ticks, as the chunk says itself. `None`
    /// where it names none.
    pub(crate) fn untrusted_first_time(self) -> Option<u64> {
        let first = FIRST_RECORD.checked_add(u64::try_from(IDENTITY_TAKES).ok()?)?;
        let [time] = self.words_at(first, WORD)? else {
            return None;
        };
        let time = time.load(Relaxed);
        (self.head().offset() > first && time > 0).then_some(time)
    }

    /// Makes this the chunk with this ordinal, without records. No other thread may read or write
    /// it now.
    pub(crate) fn clear(self, ordinal: u32, opened: u64) {
        if let Some(word) = self.words.get(OPENED_WORD) {
            word.store(opened, Relaxed);
        }
        if let Some(word) = self.words.get(ORDINAL_WORD) {
            word.store(ordinal.into(), Relaxed);
        }
        self.begun.store(Head::EMPTY.0, Relaxed);
        self.head_word().store(Head::EMPTY.0, Relaxed);
    }

    /// Returns where the chunk's records end.
    #[inline(always)]
    pub(crate) fn head(self) -> Head {
        Head(self.head_word().load(Acquire))
    }

    /// Returns the head as it will be after the record that is being written, if one is.
    pub(crate) fn under_way(self) -> Option<Head> {
        let begun = Head(self.begun.load(Acquire));
        (begun != self.head()).then_some(begun)
    }

    /// Tells whether there is space for an event with so much data after the others.
    pub(super) fn has_space(self, data_length: usize) -> bool {
        self.head()
            .offset()
            .saturating_add(record_bytes(data_length as u64))
            <= self.limit()
    }

    /// Takes back the mark of a refused emission. Only the chunk's thread calls this, and not amid
    /// an emission. A handler that emits in between leaves another head.
    pub(crate) fn take_mark_back(self) {
        loop {
            let head = self.head();
            self.begun.store(head.0, Release);
            compiler_fence(SeqCst);
            if self.head() == head {
                return;
            }
        }
    }

    /// Takes back a mark that the chunk's thread has left behind without a record.
    pub(super) fn abandon(self) {
        self.begun.store(self.head().0, Release);
    }

    /// Writes an event, and marks that it does.
    pub(crate) fn write(
        self,
        emission: &Emission<'_>,
        moment: &impl Moment,
    ) -> Result<(), Refusal> {
        let bytes = record_bytes(emission.data.len() as u64);
        // Another process may have written the head; the slices below are of this chunk all the
        // same.
        let untrusted = Head(self.head_word().load(Relaxed));
        if untrusted.offset().wrapping_add(bytes) > self.limit() {
            return Err(Refusal::NoSpace);
        }
        let Some([time, second, third, data @ ..]) = self.words_at(untrusted.offset(), bytes)
        else {
            return Err(Refusal::NoSpace);
        };
        let after = untrusted.after_event(bytes);
        self.begun.store(after.0, Relaxed);
        // The compiler moves nothing that follows before this fence. The reader's `membarrier` is
        // its other half.
        compiler_fence(SeqCst);
        if !moment.is_current() {
            // The chunk may be another stream's by now, and its mark too.
            return Err(Refusal::Stale);
        }
        let cpu = record::cpu_bits(moment.cpu_plus_one());
        second.store(emission.second_word() | cpu, Relaxed);
        third.store(emission.third_word(), Relaxed);
        record::put_data(data, emission.data);
        let ticks = moment.ticks();
        if !moment.accepts(ticks) {
            self.begun.store(untrusted.0, Release);
            return Err(Refusal::NotAccepted);
        }
        time.store(ticks, Relaxed);
        self.head_word().store(after.0, Release);
        compiler_fence(SeqCst);
        Ok(())
    }

    /// Writes a record that is no event. Only the chunk's thread calls this, while none of its
    /// events is under way.
    pub(super) fn write_identity(self, event_type: EventTypeId, data: &[u8]) -> bool {
        let head = self.head();
        let bytes = record_bytes(data.len() as u64);
        if head.offset().wrapping_add(bytes) > self.limit() {
            return false;
        }
        let Some([time, second, third, words @ ..]) = self.words_at(head.offset(), bytes) else {
            return false;
        };
        let emission = Emission {
            event_type,
            number: type_number::NONE,
            address: 0,
            data,
            is_truncated: false,
        };
        time.store(0, Relaxed);
        second.store(0, Relaxed);
        third.store(emission.third_word(), Relaxed);
        record::put_data(words, data);
        let after = head.0.wrapping_add(bytes);
        self.begun.store(after, Relaxed);
        self.head_word().store(after, Release);
        true
    }

    #[inline(always)]
    fn words_at(self, offset: u64, bytes: u64) -> Option<&'a [AtomicU64]> {
        let start = usize::try_from(offset / WORD).ok()?;
        self.words
            .get(start..start.wrapping_add(usize::try_from(bytes / WORD).ok()?))
    }
}

/// A record as it was read, its values not yet checked against anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UntrustedRecord {
    pub(crate) ticks: u64,
    pub(crate) address: u64,
    pub(crate) cpu: Option<u32>,
    /// The identifier that its process has for the type.
    pub(crate) event_type: EventTypeId,
    /// The type's number in the area.
    pub(crate) number: u32,
    pub(crate) is_truncated: bool,
}

/// Result of [`Cursor::next`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A record; its data was appended to the vector.
    Record(UntrustedRecord),
    /// No more records up to the head.
    Nothing,
    /// Bytes that are no record: the cursor gave up all bytes up to the head.
    Damage,
}

/// How far a chunk was read, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

impl Cursor {
    /// Before the first record.
    pub(crate) const START: Self = Self(FIRST_RECORD);

    /// Tells whether all up to `head` was read.
    pub(crate) fn is_at(self, head: Head) -> bool {
        self.0 >= head.offset()
    }

    /// Returns the cursor of a chunk that was read up to `head`.
    pub(crate) fn at(head: Head) -> Self {
        Self(head.offset())
    }

    /// Returns the number of bytes from here to a later position.
    pub(crate) fn bytes_to(self, later: Self) -> u64 {
        later.0.saturating_sub(self.0)
    }

    /// Returns the number of bytes that are not read yet.
    pub(crate) fn bytes_before(self, head: Head) -> u64 {
        head.offset().saturating_sub(self.0)
    }

    /// Reads the next record before `head`, and appends its data to `data`.
    pub(crate) fn next(&mut self, chunk: Chunk<'_>, head: Head, data: &mut Vec<u8>) -> Found {
        let Some(left) = head.offset().checked_sub(self.0).filter(|left| *left > 0) else {
            return Found::Nothing;
        };
        if let Some(record) = self.record(chunk, left, data) {
            return Found::Record(record);
        }
        self.0 = head.offset();
        Found::Damage
    }

    fn record(
        &mut self,
        chunk: Chunk<'_>,
        left: u64,
        data: &mut Vec<u8>,
    ) -> Option<UntrustedRecord> {
        let [ticks, second, third] = chunk.words_at(self.0, HEAD)? else {
            return None;
        };
        let third = third.load(Relaxed);
        let length = data_length(third);
        let bytes = record_bytes(length);
        let words = chunk
            .words_at(self.0.wrapping_add(HEAD), bytes.wrapping_sub(HEAD))
            .filter(|_| bytes <= left)?;
        let end = data.len().saturating_add(usize::try_from(length).ok()?);
        for word in words {
            data.extend_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        data.truncate(end);
        let (event_type, is_truncated) = record::event_type(third);
        let (address, cpu) = record::address_and_cpu(second.load(Relaxed));
        self.0 = self.0.wrapping_add(bytes);
        Some(UntrustedRecord {
            ticks: ticks.load(Relaxed),
            address,
            cpu,
            event_type,
            number: record::number(third),
            is_truncated,
        })
    }
}
