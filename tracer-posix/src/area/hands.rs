//! How a ring changes hands: its thread ends, the reader empties it, another thread takes it over;
//! or its stream is taken away.
//!
//! ```text
//!   FREE ──take──► CLAIMED ──► LIVE ──thread ends──► ENDED ──read to its end──► FREE
//!                               └──────────── stream taken away ─────────────────┘
//! ```

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use tracer_common::area::ring_state;

use super::atomics::RingEntry;
use super::ring::Consumer;

/// The state in a ring entry's word.
pub(super) fn state_of(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

/// The generation in a ring entry's word.
pub(super) fn generation_of(word: u64) -> u32 {
    u32::try_from(word >> 32).unwrap_or(0)
}

/// Whether a thread emits, or has emitted, into the ring with this word.
pub(super) fn is_readable(word: u64) -> bool {
    matches!(state_of(word), ring_state::LIVE | ring_state::ENDED)
}

/// Moves an entry from one state to another in the same generation; `false` where it has changed
/// hands or state meanwhile.
pub(super) fn change(entry: &RingEntry, generation: u32, from: u32, to: u32) -> bool {
    let (from, to) = (
        ring_state::word(generation, from),
        ring_state::word(generation, to),
    );
    entry
        .state
        .compare_exchange(from, to, AcqRel, Relaxed)
        .is_ok()
}

/// Takes a free ring with `wanted` bytes of data for a stream; `false` where it is not to be had.
pub(super) fn take(entry: &RingEntry, generation: u32, wanted: u32) -> bool {
    let word = entry.state.load(Acquire);
    let is_free = state_of(word) == ring_state::FREE;
    if !is_free || entry.data_bytes.load(Relaxed) != wanted {
        return false;
    }
    let mine = ring_state::word(generation, ring_state::CLAIMED);
    let taken = entry.state.compare_exchange(word, mine, AcqRel, Relaxed);
    if taken.is_ok() && generation_of(word) != generation {
        restart(entry, generation);
    }
    taken.is_ok()
}

/// A new ring, or one of another stream's, begins anew. One of the same stream's goes on: its reader counts.
pub(super) fn restart(entry: &RingEntry, generation: u32) {
    for position in [&entry.head, &entry.tail, &entry.consumed] {
        position.store(0, Relaxed);
    }
    for attempts in [&entry.begun, &entry.ended] {
        attempts.store(before_first(generation), Relaxed);
    }
}

/// The number before that of a ring's first attempt for a stream: each stream has numbers of its own.
///
/// A thread that finds its stream ended has marked its ring by then, and takes the mark back, and the ring
/// may be another's in the meantime. What it has written there is no number of the other's, and so is
/// taken for a mark that is set: until the other emits again, or as long as a reader is patient, the reader
/// vouches for nothing.
pub(super) fn before_first(generation: u32) -> u64 {
    u64::from(generation) << 32
}

/// The record that is being written, if one is: its number.
pub(super) fn under_way(entry: &RingEntry) -> Option<u64> {
    let begun = entry.begun.load(Acquire);
    (begun != entry.ended.load(Acquire)).then_some(begun)
}

/// Frees a ring whose stream has ended, unless its thread is between the marks of an emission. All
/// running threads have passed a barrier since the stream ended. `give_up` is called before others
/// can have the ring, and not when somebody was faster: then the ring may be another stream's by now.
pub(super) fn take_away(entry: &RingEntry, word: u64, give_up: impl FnOnce()) {
    if under_way(entry).is_some() {
        return;
    }
    let generation = generation_of(word);
    let mine = ring_state::word(generation, ring_state::CLAIMED);
    let taken = entry.state.compare_exchange(word, mine, AcqRel, Relaxed);
    if taken.is_ok() {
        give_up();
        change(entry, generation, ring_state::CLAIMED, ring_state::FREE);
    }
}

/// How a ring stood when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Stand {
    /// Its state and generation.
    word: u64,
    /// Attempts that were done then.
    pub(super) ended: u64,
    /// Up to where it could be read.
    pub(super) head: u64,
}

impl Stand {
    /// Looks at a ring that had `word` before: what an ended thread left is all there.
    pub(super) fn of(entry: &RingEntry, word: u64) -> Self {
        // Attempts first: what the head has beyond them is no loss.
        let ended = entry.ended.load(Acquire);
        Self {
            word,
            ended,
            head: entry.head.load(Acquire),
        }
    }

    /// After the ring was read up to this stand: where its thread is gone, another of the stream's
    /// can have it.
    pub(super) fn free_if_left(&self, entry: &RingEntry, consumer: &Consumer) {
        if state_of(self.word) == ring_state::ENDED && consumer.is_at(self.head) {
            let generation = generation_of(self.word);
            change(entry, generation, ring_state::ENDED, ring_state::FREE);
        }
    }
}
