//! Reading a stream's chunks: which there are, how far each was read, and what is missing.
//!
//! A *round* takes the time, finds how far every chunk's records go, and reads up to there. It need
//! not be read at once: a reader takes portions, in each the chains that are furthest behind first,
//! so that it knows up to which time it has everything.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::abandoned::Abandoned;
use super::bounds::Bounds;
use super::chains::ChainCursors;
use super::chunk_reader::{ChainCursor, ChunkCursor, Reader};
use super::round::{ChunkSnapshot, Present, Round, Run};
use super::slice::Slice;
use super::stranded::Stranded;
use super::type_ids::TypeIds;
use crate::discover::find::Area;
use crate::discover::reader_windows::AreaWindows;
use crate::layout::chunk_ref::ChunkRef;
use crate::layout::gate;
use crate::layout::identity::thread_of;
use crate::layout::pool::Pool;
use crate::layout::ticks::TickClock;
use crate::system::pids::own_pid;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{Batch, BegunAnew, LossCause};

/// Bytes of records that are read of a chain before another chain has its turn. Of each chain so
/// much may wait for the other chains.
const TURN_BYTES: u64 = 4 << 10;

/// Bytes of records in a portion, beside a turn for each chain.
const PORTION_BYTES: u64 = 128 << 10;

/// Most bytes of records in a portion for the chains' turns: a hostile process may claim as many
/// chains as there can be. Those that have no turn in one portion are the first of the next.
const MOST_TURNS_BYTES: u64 = 8 << 20;

/// Returns the number of bytes of records in a portion of so many chains.
fn portion_bytes(chains: usize) -> u64 {
    let chains = u64::try_from(chains).unwrap_or(u64::MAX);
    let turns = chains.saturating_mul(TURN_BYTES).min(MOST_TURNS_BYTES);
    PORTION_BYTES.saturating_add(turns)
}

/// Returns the most bytes of memory that it takes to read all of `chunks` chunks of `chains`
/// chains, and to keep their events. Records of the least size take most: about ten times their
/// bytes while their order is found out, and a quarter more than their bytes once they are in the
/// stream.
pub(super) fn memory_needed(chunks: usize, chains: usize, chunk_bytes: usize) -> usize {
    let bytes = chunks.saturating_mul(chunk_bytes);
    let chains = chains.min(chunks);
    let portion = usize::try_from(portion_bytes(chains)).unwrap_or(usize::MAX);
    let known = chunks.saturating_mul(size_of::<(ChunkCursor, ChainCursor, ChunkSnapshot)>() * 4);
    (bytes / 4 * 5)
        .saturating_add(bytes.min(portion).saturating_mul(10))
        .saturating_add(known)
}

/// How far one stream was read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) clock: TickClock,
    pub(super) types: TypeIds,
    /// Cause of the loss of events that no chunk has any more.
    pub(super) cause: LossCause,
    /// `StreamControl::changes` as of the last look at all chunks.
    pub(super) changes: Option<u64>,
    /// The chunks that had something to read at that look, or may have had it: by chain, in order.
    pub(super) present: Vec<Present>,
    pub(super) abandoned: Abandoned,
    pub(super) stranded: Stranded,
    /// Progress of reading in each chunk, by the chunk's ordinal.
    pub(super) chunks: HashMap<u32, ChunkCursor>,
    pub(super) chains: ChainCursors,
    pub(super) bounds: Bounds,
    /// The last moment at which the emissions of a process have begun anew. That holds for threads
    /// whose [emissions](crate::emit) are restartable sequences.
    pub(super) begun_anew: Option<BegunAnew>,
    /// How often a thread was found that was amid an emission for long.
    pub(super) waits: Cell<u64>,
    /// How much the stream keeps of its newest events, if that is all that it wants.
    pub(super) keeps: Option<u64>,
    /// Time, in ticks, before which nothing new can come. The round may still have older events to
    /// read.
    pub(super) settled: u64,
    /// Time of [`settled`](Self::settled) by the kernel's clock.
    pub(super) settled_time: MonotonicNs,
}

impl Reading {
    /// Makes the state of a stream of which nothing was read. Events that are missing are lost for
    /// `cause`.
    pub(super) fn new(clock: TickClock, cause: LossCause) -> Self {
        let now = clock.source().now();
        let overwrites = cause == LossCause::ThreadRingOverwritten;
        let bounds = Bounds::new(overwrites, clock.time_of(now));
        Self {
            settled: now,
            settled_time: clock.time_of(now),
            clock,
            types: TypeIds::default(),
            cause,
            changes: None,
            present: Vec::new(),
            abandoned: Abandoned::new(),
            stranded: Stranded::new(),
            chunks: HashMap::new(),
            chains: ChainCursors::default(),
            bounds,
            begun_anew: None,
            waits: Cell::default(),
            keeps: None,
        }
    }

    /// Returns the time before which nothing new can come. A round may still have older events to
    /// read.
    pub(super) fn settled(&self) -> MonotonicNs {
        self.settled_time
    }

    /// Drops events that are not to be kept, as a look has found out, before any of its round are
    /// read.
    pub(super) fn keep_contiguous(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        round: &Round,
        batch: &mut Batch<'_>,
    ) {
        let Self { bounds, clock, .. } = self;
        if let Some(spared) = round.cut {
            bounds.cut(Some(spared), pool.control, clock, batch);
        }
        if let Some(since) = gate::shut_since(pool.control)
            && since <= round.now
        {
            bounds.shut(since, self.cause, clock, batch);
        }
    }

    /// Reads the next portion of a round. Returns whether it brought anything.
    pub(super) fn read_portion(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        round: &mut Round,
        batch: &mut Batch<'_>,
        slice: &Slice,
    ) -> bool {
        let mut left = portion_bytes(round.chains.len());
        let mut is_any = false;
        while left > 0
            && let Some(Reverse(mut run)) = round.chains.pop()
        {
            let turn = if round.chains.is_empty() {
                left
            } else {
                TURN_BYTES
            };
            let read = self.read_turn(pool, &mut run, turn, batch);
            is_any |= read > 0;
            left = left.saturating_sub(read.max(1));
            if !run.chunks.is_empty() {
                round.chains.push(Reverse(run));
            }
            if slice.is_spent() {
                break;
            }
        }
        is_any
    }

    /// Gives up the round that has begun: the next one reads what is left.
    pub(super) fn look_again(&mut self) {
        self.changes = None;
    }

    /// Tells whether all of a closed chunk was read.
    pub(super) fn was_read(&self, present: Present) -> bool {
        self.chunks.get(&present.ordinal).is_some_and(|known| {
            known.turn == present.turn
                && known.refused == present.refused
                && known.cursor.is_at(present.head)
        })
    }

    /// Returns how far a chunk may be read, if it is there, and how many bytes of records that is,
    /// if there is anything new.
    pub(super) fn snapshot(
        &mut self,
        present: Present,
        chunk_ref: &ChunkRef<'_>,
        area: &Area,
        now: u64,
        has_restarted: bool,
    ) -> Option<(ChunkSnapshot, Option<u64>)> {
        let chunk = chunk_ref.chunk()?;
        let settled = self.settled;
        let new = || ChunkCursor::new(present.turn, settled);
        let known = self.chunks.entry(present.ordinal).or_insert_with(new);
        if known.turn != present.turn {
            *known = new();
        }
        let thread = thread_of(chunk_ref.header.thread.load(Relaxed));
        let is_restartable = chunk_ref.header.restartable.load(Acquire) == 1;
        let is_restarted = has_restarted && thread.0 == own_pid() && is_restartable;
        if is_restarted || present.is_closed {
            known.settled = now;
        } else {
            // When the chunk's thread has begun anew, if that is news.
            let begun_anew = self
                .begun_anew
                .filter(|begun| begun.pid == thread.0 && is_restartable)
                .map(|begun| begun.ticks.min(now))
                .filter(|ticks| *ticks > known.settled);
            let waits = &self.waits;
            let has_ended = || {
                waits.set(waits.get().wrapping_add(1));
                begun_anew.is_none() && area.has_ended(thread)
            };
            known.settle(now, || chunk.under_way(), has_ended);
            known.settled = known.settled.max(begun_anew.unwrap_or(0));
        }
        // The refused events are read before the head: events that come in between are no loss.
        let refused = chunk_ref.header.refused.load(Acquire);
        let head = chunk.head();
        let is_new = !known.cursor.is_at(head) || known.refused != refused;
        let snapshot = ChunkSnapshot {
            present,
            head,
            refused,
        };
        Some((snapshot, is_new.then(|| known.cursor.bytes_before(head))))
    }

    pub(super) fn settled_in(&self, ordinal: u32) -> u64 {
        let known = self.chunks.get(&ordinal);
        known.map_or(self.settled, |known| known.settled)
    }

    /// Reads `bytes` bytes of a chain, or a little more. Returns how many it has read.
    fn read_turn(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        run: &mut Run,
        bytes: u64,
        batch: &mut Batch<'_>,
    ) -> u64 {
        let mut read = 0;
        let Some(chain) = self.chains.get_mut(run.chain) else {
            run.chunks.clear();
            return 0;
        };
        while read < bytes
            && let Some(snapshot) = run.chunks.front()
        {
            let mut reader = Reader {
                pool,
                clock: &self.clock,
                types: &mut self.types,
                cause: self.cause,
                bounds: &mut self.bounds,
            };
            let known = self.chunks.get_mut(&snapshot.present.ordinal);
            let Some(known) = known.filter(|known| known.turn == snapshot.present.turn) else {
                run.chunks.pop_front();
                continue;
            };
            let before = known.cursor;
            let is_there = reader.read(known, chain, snapshot, bytes - read, batch);
            read += before.bytes_to(known.cursor);
            if !is_there || known.cursor.is_at(snapshot.head) {
                run.chunks.pop_front();
            }
        }
        run.time = chain.last_time;
        read
    }

    /// Reports events that were overwritten at the end of chains: in chunks that are gone.
    pub(super) fn end_round(&mut self, round: &Round, batch: &mut Batch<'_>) {
        let since = self.settled();
        for (index, closed) in &round.closed {
            if let Some(chain) = self.chains.follow(*index, since) {
                chain.account_up_to(*closed, self.cause, batch);
            }
        }
    }
}
