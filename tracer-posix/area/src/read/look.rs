//! Finding what there is to be read, a slice at a time.
//!
//! A hostile process may have written a page of each of thousands of windows, over and over: to
//! look at all of them takes a tenth of a second. A reader that reads other areas as well does not
//! do that in one go.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use super::bounds::Spared;
use super::chunk_reader::ChunkCursor;
use super::newest::{Newest, least_size};
use super::reading::Reading;
use super::round::{ChunkSnapshot, Round, Run, present};
use super::slice::Slice;
use crate::discover::find::Area;
use crate::discover::reader_windows::{AreaWindows, Claims};
use crate::layout::chunk::Cursor;
use crate::layout::links;
use crate::layout::pool::Pool;
use tracer_engine::sort;

/// How long it may take to find out whether chunks have been abandoned.
const LEAVING: Duration = Duration::from_millis(5);

/// A look at a stream's chunks, as of one moment, that was begun.
#[derive(Debug)]
pub(super) struct Look {
    /// The moment, in ticks, after which every thread has passed a barrier.
    now: u64,
    /// Whether the kernel has made every emission of this process begin anew since that moment.
    has_restarted: bool,
    stage: Stage,
    /// The round, as found so far.
    round: Round,
    /// The run of the chain at hand, as found so far.
    run: Option<Run>,
    settled: u64,
}

#[derive(Debug)]
enum Stage {
    /// Search for the chunks that have something to read.
    Chunks {
        /// How often the pool had changed when the search began.
        changes: u64,
        /// Number of the stream's windows that were looked into.
        windows: usize,
        claims: Claims,
    },
    /// Search for how far the chunks go.
    Snapshots {
        /// Number of chunks that were looked into.
        chunks: usize,
    },
}

impl Look {
    pub(super) fn into_round(mut self) -> Round {
        self.round.chains.extend(self.run.take().map(Reverse));
        self.round
    }
}

impl Reading {
    /// Begins to find all that is there to be read. Every thread has passed a barrier after `now`,
    /// which is in ticks. `has_restarted` says whether the kernel has made every emission of this
    /// process begin anew since then.
    pub(super) fn begin_look(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        now: u64,
        has_restarted: bool,
        slice: &Slice,
    ) -> Look {
        let now_ms = self.clock.time_of(now).0 / 1_000_000;
        let namespace = || self.abandoned.namespace();
        self.stranded.recover(pool, namespace, now_ms, slice);
        let consumed = last_closing(pool).map(|closing| closing.wrapping_add(1));
        let (stage, closed) = self.begin_stage(pool);
        Look {
            now,
            has_restarted,
            stage,
            round: Round {
                chains: BinaryHeap::new(),
                closed,
                consumed,
                bytes: 0,
                now,
                cut: None,
            },
            run: None,
            settled: now,
        }
    }

    /// Returns how the look begins: the chunks have to be found only if others are open or closed
    /// than at the last look. Also returns the chains' counts as of now.
    fn begin_stage(&mut self, pool: &Pool<'_, AreaWindows<'_>>) -> (Stage, Vec<(u32, u64)>) {
        if self.changes == Some(pool.control.changes.load(Acquire)) {
            self.present.retain(|present| !present.is_closed);
            return (Stage::Snapshots { chunks: 0 }, Vec::new());
        }
        let chains = pool.parts.header().chain_count.load(Acquire);
        let closed = (0..chains)
            .map_while(|index| Some((index, pool.parts.chain(index)?)))
            .filter(|(_, chain)| chain.generation.load(Acquire) == pool.generation)
            .map(|(index, chain)| (index, chain.closed.load(Acquire)))
            .collect();
        // A chunk that is opened from now on is left for the next round, since this look may have
        // passed the one before it in its chain. Chunks that count as closed above were opened
        // before.
        let changes = pool.control.changes.load(Acquire);
        self.changes = None;
        self.present.clear();
        let stage = Stage::Chunks {
            changes,
            windows: 0,
            claims: Claims::default(),
        };
        (stage, closed)
    }

    /// Continues a look. Returns whether it is done.
    pub(super) fn go_on_looking(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        area: &Area,
        look: &mut Look,
        slice: &Slice,
    ) -> bool {
        if let Stage::Chunks {
            changes,
            windows,
            claims,
        } = &mut look.stage
        {
            if !self.find_chunks(pool, *changes, windows, claims, slice) {
                return false;
            }
            self.changes = Some(*changes);
            if self.lacks_ends(&look.round.closed) {
                look.round.cut = Some(Spared::NOTHING);
            }
            if let Some(keeps) = self.keeps
                && let Some(spared) = self.pass_overwritten(pool, keeps)
            {
                look.round.cut = Some(spared);
            }
            sort::by_key(&mut self.present, |present| (present.chain, present.first));
            let open = self.present.iter().filter(|present| !present.is_closed);
            let open = open.map(|present| present.ordinal);
            let slice = Slice::begin_with(&pool.windows, LEAVING);
            self.abandoned.leave_to_others(pool, open, &slice);
            look.stage = Stage::Snapshots { chunks: 0 };
        }
        if !self.take_snapshots(pool, area, look, slice) {
            return false;
        }
        // All that is read now was stamped before this anchor, and so lies between two anchors.
        self.clock.advance();
        let settled = if self.is_overtaken(pool) {
            look.now
        } else {
            look.settled
        };
        if settled > self.settled {
            self.settled = settled;
            self.settled_time = self.settled_time.max(self.clock.time_of(settled));
        }
        true
    }

    /// Tells whether threads that go on emitting have written events over that had to wait for an
    /// emission under way. What was found this time would have the same fate: it waits for no
    /// emission, and one that ends with an older time counts as late. (A restartable one that has
    /// lost its CPU takes a later time.)
    fn is_overtaken(&self, pool: &Pool<'_, AreaWindows<'_>>) -> bool {
        let is_running = pool.parts.header().active.load(Acquire) & 1_u32 << pool.slot != 0;
        is_running
            && self.bounds.overwrites()
            && pool.control.lost_until.load(Acquire) > self.settled
    }

    /// Finds the chunks that may have something to read, in as many windows as there is time for.
    /// Returns whether those are all.
    fn find_chunks(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        changes: u64,
        windows: &mut usize,
        claims: &mut Claims,
        slice: &Slice,
    ) -> bool {
        for of_window in pool.chunks_by_window(*windows) {
            for chunk_ref in of_window.into_iter().flatten() {
                // A thread that emits writes to a chunk before its header says so.
                let is_there = || {
                    self.chunks.contains_key(&chunk_ref.ordinal)
                        || claims.is_true(&pool.windows, &chunk_ref)
                };
                if let Some(present) = present(pool.generation, changes, &chunk_ref, is_there)
                    && !(present.is_closed && self.was_read(present))
                {
                    self.present.push(present);
                }
            }
            *windows += 1;
            if slice.is_spent() {
                return false;
            }
        }
        true
    }

    /// Finds how far the chunks go, as many chunks as there is time for. Returns whether those are
    /// all.
    fn take_snapshots(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        area: &Area,
        look: &mut Look,
        slice: &Slice,
    ) -> bool {
        let Stage::Snapshots { chunks } = &mut look.stage else {
            return true;
        };
        while let Some(present) = self.present.get(*chunks).copied() {
            *chunks += 1;
            let found = pool.chunk_ref(present.ordinal).and_then(|chunk_ref| {
                self.snapshot(present, &chunk_ref, area, look.now, look.has_restarted)
            });
            if let Some((snapshot, left)) = found {
                look.settled = look.settled.min(self.settled_in(present.ordinal));
                if let Some(left) = left
                    && let Some(chain) = self.chains.follow(present.chain, self.settled_time)
                {
                    look.round.bytes = look.round.bytes.saturating_add(left);
                    let run = look.run.take_if(|run| run.chain != present.chain);
                    look.round.chains.extend(run.map(Reverse));
                    let time = chain.last_time;
                    look.run
                        .get_or_insert_with(|| Run {
                            time,
                            chain: present.chain,
                            chunks: VecDeque::new(),
                        })
                        .chunks
                        .push_back(snapshot);
                }
            }
            if slice.is_spent() && *chunks < self.present.len() {
                return false;
            }
        }
        true
    }

    /// Tells whether the newest events of a chain are in no chunk any more. `closed` has for each
    /// chain how many events it had.
    fn lacks_ends(&self, closed: &[(u32, u64)]) -> bool {
        let mut ends: HashMap<u32, u64> = HashMap::new();
        for present in &self.present {
            let events = present.head.events().saturating_add(present.refused);
            let end = ends.entry(present.chain).or_default();
            *end = (*end).max(present.first.saturating_add(events));
        }
        closed.iter().any(|(chain, closed)| {
            let is_there = ends.get(chain).is_some_and(|end| end >= closed);
            !is_there && self.chains.missing_before(*chain, *closed) > 0
        })
    }

    /// Marks closed chunks of which the stream would keep nothing as read, so that no look reads
    /// them.
    fn pass_overwritten(&mut self, pool: &Pool<'_, AreaWindows<'_>>, keeps: u64) -> Option<Spared> {
        let mut closed = Vec::new();
        let mut open = Vec::new();
        for present in &self.present {
            let known = self.chunks.get(&present.ordinal);
            let known = known.filter(|known| known.turn == present.turn);
            let (read, events) =
                known.map_or((Cursor::START, 0), |known| (known.cursor, known.events));
            // An open chunk may have more by now. Then too few bytes count as newer than another
            // chunk, which is safe.
            let bytes = least_size(present.head, read, events);
            if present.is_closed {
                let snapshot = ChunkSnapshot {
                    present: *present,
                    head: present.head,
                    refused: present.refused,
                };
                closed.push((present.closing, snapshot, bytes));
            } else {
                open.push((present.chain, bytes));
            }
        }
        // A thread that closes a chunk puts it into the queue. A chunk that is not there yet has an
        // old `closing`. A chunk that a thread takes out of the queue now is not read in any case.
        let first = pool.first_closing()?;
        closed.retain(|(closing, ..)| *closing >= first);
        sort::by_key(&mut closed, |(closing, ..)| Reverse(*closing));
        let mut newest = Newest::new(keeps, open.into_iter());
        let first = closed
            .iter()
            .position(|(_, snapshot, bytes)| newest.is_overwritten(snapshot.present.chain, *bytes));
        let overwritten = closed.split_off(first.unwrap_or(closed.len()));
        for (_, snapshot, _) in &overwritten {
            let passed = ChunkCursor {
                cursor: Cursor::at(snapshot.head),
                refused: snapshot.refused,
                ..ChunkCursor::new(snapshot.present.turn, self.settled)
            };
            self.chunks.insert(snapshot.present.ordinal, passed);
        }
        let ordinals = overwritten
            .iter()
            .map(|(_, snapshot, _)| snapshot.present.ordinal);
        let ordinals: HashSet<u32> = ordinals.collect();
        self.present
            .retain(|present| !ordinals.contains(&present.ordinal));
        let spared = overwritten.iter().map(|(_, snapshot, _)| Spared {
            // A time that is too early, of a chunk that was read in part or that names no time,
            // does no harm: all before `Bounds::passed` is in the stream.
            since: snapshot.present.first_time.unwrap_or(0),
            until: snapshot.present.closed_at,
        });
        spared.reduce(Spared::and)
    }
}

/// Returns the `closing` of the chunk that was closed last, or of one before it.
fn last_closing(pool: &Pool<'_, AreaWindows<'_>>) -> Option<u64> {
    let newest = links::index_of(pool.control.newest.load(Acquire))?;
    Some(pool.chunk_ref(newest)?.header.closing.load(Acquire))
}
