//! Events that are there to be read of a stream at one moment.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use tracer_common::area::chunk_state;

use super::bounds::Spared;
use crate::layout::chunk::Head;
use crate::layout::chunk_ref::ChunkRef;
use tracer_engine::event::MonotonicNs;

/// A chunk as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    pub(super) ordinal: u32,
    /// Its state word but for the state.
    pub(super) turn: u64,
    pub(super) is_closed: bool,
    pub(super) chain: u32,
    /// Number of events of the chain before this chunk.
    pub(super) first: u64,
    /// Where its records ended then.
    pub(super) head: Head,
    /// Number of events refused there.
    pub(super) refused: u64,
    /// Its position among the closed chunks.
    pub(super) closing: u64,
    /// When it was closed, in ticks, if it is closed.
    pub(super) closed_at: u64,
    /// Time of its first event, in ticks, where that is known.
    pub(super) first_time: Option<u64>,
}

/// Chunks that are there to be read as of one moment.
#[derive(Debug)]
pub(super) struct Round {
    /// The chains with something to read, the one that is furthest behind first.
    pub(super) chains: BinaryHeap<Reverse<Run>>,
    /// Each chain, and how many of its events were in closed chunks by then.
    pub(super) closed: Vec<(u32, u64)>,
    /// Bound of the chunks that are read once the round is: all with a lower
    /// [`closing`](tracer_common::area::ChunkHeader::closing).
    pub(super) consumed: Option<u64>,
    /// Bytes of records that the round began with.
    pub(super) bytes: u64,
    /// Time, in ticks, up to which the round has found everything.
    pub(super) now: u64,
    /// Set where events were found missing. It has the bounds of events that the round does not
    /// read, since the stream would keep none of them.
    pub(super) cut: Option<Spared>,
}

/// Chunks to be read of one chain.
#[derive(Debug)]
pub(super) struct Run {
    /// Time before which nothing comes from the chain any more.
    pub(super) time: MonotonicNs,
    pub(super) chain: u32,
    pub(super) chunks: VecDeque<ChunkSnapshot>,
}

/// A chunk as it is when a round begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkSnapshot {
    pub(super) present: Present,
    pub(super) head: Head,
    /// Number of events refused there by then.
    pub(super) refused: u64,
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Run {}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.chain).cmp(&(other.time, other.chain))
    }
}

impl Round {
    /// Tells whether all of it was read.
    pub(super) fn is_read(&self) -> bool {
        self.chains.is_empty()
    }

    /// Returns a time that is not later than any event that is still unread.
    pub(super) fn until(&self) -> Option<MonotonicNs> {
        self.chains.peek().map(|Reverse(run)| run.time)
    }

    /// Returns a bound of the chunks that were read: these are all with a lower `closing`.
    pub(super) fn consumed(&self) -> Option<u64> {
        let unread = self
            .chains
            .iter()
            .filter_map(|Reverse(run)| run.chunks.front());
        let of_unread = unread
            .filter(|snapshot| snapshot.present.is_closed)
            .map(|snapshot| snapshot.present.closing);
        let least = of_unread.min().unwrap_or(u64::MAX);
        self.consumed.map(|consumed| consumed.min(least))
    }
}

/// Returns a chunk as it is found, if it has something to read or may have it, and if it was opened
/// when the pool had changed less often than `changes`. `is_there` says whether the chunk was ever
/// written to.
pub(super) fn present(
    generation: u32,
    changes: u64,
    chunk_ref: &ChunkRef<'_>,
    is_there: impl FnOnce() -> bool,
) -> Option<Present> {
    let word = chunk_ref.header.state.load(Acquire);
    let state = chunk_state::state_of(word);
    let is_readable = matches!(
        state,
        chunk_state::OPEN | chunk_state::ENDED | chunk_state::CLOSED
    );
    let is_own = chunk_state::generation_of(word) == generation;
    // A chunk that was never written to is not looked into: the look would make its memory, and a
    // hostile process may claim gigabytes.
    if !(is_readable && is_own && is_there()) {
        return None;
    }
    let chunk = chunk_ref.chunk()?;
    let is_old_enough = chunk.opened() < changes;
    // The refused events are read before the head: events that come in between are no loss.
    let refused = chunk_ref.header.refused.load(Acquire);
    let found = Present {
        ordinal: chunk_ref.ordinal,
        turn: turn(word),
        is_closed: state == chunk_state::CLOSED,
        chain: chunk_ref.header.chain.load(Relaxed),
        first: chunk_ref.header.first.load(Relaxed),
        head: chunk.head(),
        refused,
        closing: chunk_ref.header.closing.load(Relaxed),
        closed_at: chunk.untrusted_closed_at(),
        first_time: chunk.untrusted_first_time(),
    };
    // If the chunk was opened anew meanwhile, its state is another one.
    fence(Acquire);
    let is_same = turn(chunk_ref.header.state.load(Relaxed)) == turn(word);
    (is_old_enough && is_same).then_some(found)
}

/// Returns a chunk's state word without the state.
pub(super) fn turn(word: u64) -> u64 {
    word & !0xff
}
