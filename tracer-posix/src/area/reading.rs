//! Reading a stream's chunks: which there are, how far each was read, and what is missing.
//!
//! A *round* takes the time, finds how far every chunk's records go, and reads up to there. It need not be read at once: a reader
//! takes portions, in each the lanes that are furthest behind first, so that it knows up to which time it has everything.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::abandoned::Abandoned;
use super::chunk::{Chunk, Cursor};
use super::chunk_reader::{ChunkCursor, LaneCursor, Reader};
use super::find::Area;
use super::identity::thread_of;
use super::links;
use super::names::own_pid;
use super::newest::{Newest, least_size};
use super::place::Place;
use super::pool::Pool;
use super::reader_windows::{AreaWindows, Claims};
use super::round::{Present, Round, Run, Stand, present};
use super::ticks::TickClock;
use super::type_numbers::TypeNumbers;
use crate::event::MonotonicNs;
use crate::source::{Batch, LossCause};

/// Bytes of records that are read of a lane before another one has its turn. Of each lane so much may wait for the others.
const TURN_BYTES: u64 = 4 << 10;

/// Bytes of records in a portion, beside a turn for each lane.
const PORTION_BYTES: u64 = 128 << 10;

/// Most bytes of records in a portion for the lanes' turns: a hostile process may claim as many lanes as there can be. Those that have
/// no turn in one portion are the first of the next.
const MOST_TURNS_BYTES: u64 = 8 << 20;

/// Bytes of records in a portion of so many lanes.
fn portion_bytes(lanes: usize) -> u64 {
    let lanes = u64::try_from(lanes).unwrap_or(u64::MAX);
    let turns = lanes.saturating_mul(TURN_BYTES).min(MOST_TURNS_BYTES);
    PORTION_BYTES.saturating_add(turns)
}

/// Most bytes of memory that it takes to read all of so many chunks of so many lanes, and to keep what they have. Records of the
/// least size take most: about ten times as much while their order is found out, and a quarter more once they are in the stream.
pub(super) fn memory_needed(chunks: usize, lanes: usize, chunk_bytes: usize) -> usize {
    let bytes = chunks.saturating_mul(chunk_bytes);
    let lanes = lanes.min(chunks);
    let portion = usize::try_from(portion_bytes(lanes)).unwrap_or(usize::MAX);
    let known = chunks.saturating_mul(size_of::<(ChunkCursor, LaneCursor, Stand)>() * 4);
    (bytes / 4 * 5)
        .saturating_add(bytes.min(portion).saturating_mul(10))
        .saturating_add(known)
}

/// How far one stream was read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) clock: TickClock,
    pub(super) types: TypeNumbers,
    /// Why events are missing that no chunk has any more.
    cause: LossCause,
    /// `StreamControl::changes` as of the last look at all chunks.
    changes: Option<u64>,
    /// The chunks with something to read as of then, or that may have it: by lane, in order.
    present: Vec<Present>,
    abandoned: Abandoned,
    /// What was read of each chunk, by its number.
    chunks: HashMap<u32, ChunkCursor>,
    lanes: HashMap<u32, LaneCursor>,
    /// How much the stream keeps of its newest events, if that is all that it wants.
    pub(super) keeps: Option<u64>,
    /// Nothing older than this can come, in ticks and as time, but for what the round still has to read.
    settled: u64,
    settled_time: MonotonicNs,
}

impl Reading {
    /// Has read nothing. What is missing is lost for `cause`.
    pub(super) fn new(clock: TickClock, cause: LossCause) -> Self {
        let now = clock.source().now();
        Self {
            settled: now,
            settled_time: clock.time_of(now),
            clock,
            types: TypeNumbers::default(),
            cause,
            changes: None,
            present: Vec::new(),
            abandoned: Abandoned::new(),
            chunks: HashMap::new(),
            lanes: HashMap::new(),
            keeps: None,
        }
    }

    /// Nothing older can come, but for what a round still has to read.
    pub(super) fn settled(&self) -> MonotonicNs {
        self.settled_time
    }

    /// Finds all that is there to be read. `now`, in ticks, was taken before every thread has passed a barrier; the kernel
    /// has made every emission of this process begin anew since, if `has_restarted`.
    pub(super) fn begin_round(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        area: &Area,
        now: u64,
        has_restarted: bool,
    ) -> Round {
        let consumed = last_closing(pool).map(|closing| closing.wrapping_add(1));
        let closed = self.look_at_chunks(pool);
        let mut round = Round {
            lanes: BinaryHeap::new(),
            closed,
            consumed,
            bytes: 0,
        };
        let mut settled = now;
        let mut run: Option<Run> = None;
        for present in std::mem::take(&mut self.present) {
            self.present.push(present);
            let Some(place) = pool.place(present.ordinal) else {
                continue;
            };
            let Some((stand, left)) = self.stand(present, &place, area, now, has_restarted) else {
                continue;
            };
            settled = settled.min(self.settled_in(present.ordinal));
            let Some(left) = left else { continue };
            round.bytes = round.bytes.saturating_add(left);
            if run.as_ref().is_some_and(|run| run.lane != present.lane) {
                round.lanes.extend(run.take().map(Reverse));
            }
            let lane = self.lanes.entry(present.lane);
            let time = lane.or_insert_with(|| LaneCursor::new(self.settled_time));
            let time = time.last_time;
            run.get_or_insert_with(|| Run {
                time,
                lane: present.lane,
                chunks: VecDeque::new(),
            })
            .chunks
            .push_back(stand);
        }
        round.lanes.extend(run.map(Reverse));
        // All that is read now was stamped before this anchor, and lies between two.
        self.clock.advance();
        if settled > self.settled {
            self.settled = settled;
            self.settled_time = self.settled_time.max(self.clock.time_of(settled));
        }
        round
    }

    /// Reads the next portion of a round. Whether it brought anything.
    pub(super) fn read_portion(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        round: &mut Round,
        batch: &mut Batch<'_>,
    ) -> bool {
        let mut left = portion_bytes(round.lanes.len());
        let mut is_any = false;
        while left > 0
            && let Some(Reverse(mut run)) = round.lanes.pop()
        {
            let turn = if round.lanes.is_empty() {
                left
            } else {
                TURN_BYTES
            };
            let read = self.read_turn(pool, &mut run, turn, batch);
            is_any |= read > 0;
            left = left.saturating_sub(read.max(1));
            if !run.chunks.is_empty() {
                round.lanes.push(Reverse(run));
            }
        }
        is_any
    }

    /// The round that was begun is given up: what it has not read is for the next one.
    pub(super) fn look_again(&mut self) {
        self.changes = None;
    }

    /// Finds the chunks that may have something to read, if others are open or closed than at the last look. Returns
    /// the lanes' counts as of then.
    fn look_at_chunks(&mut self, pool: &Pool<'_, AreaWindows<'_>>) -> Vec<(u32, u64)> {
        if self.changes == Some(pool.control.changes.load(Acquire)) {
            self.present.retain(|present| !present.is_closed);
            return Vec::new();
        }
        let lanes = pool.parts.header().lane_count.load(Acquire);
        let closed = (0..lanes)
            .map_while(|index| Some((index, pool.parts.lane(index)?)))
            .filter(|(_, lane)| lane.generation.load(Acquire) == pool.generation)
            .map(|(index, lane)| (index, lane.closed.load(Acquire)))
            .collect();
        // A chunk that is opened from now on is left for the next round: the one before it in its lane may have been
        // passed by. What is counted as closed was opened before.
        let changes = pool.control.changes.load(Acquire);
        self.changes = Some(changes);
        self.present.clear();
        let mut claims = Claims::default();
        for place in pool.places() {
            // Who emits writes to a chunk before it says so.
            let is_there = || {
                self.chunks.contains_key(&place.ordinal) || claims.is_true(&pool.windows, &place)
            };
            if let Some(present) = present(pool.generation, changes, &place, is_there)
                && !(present.is_closed && self.was_read(&place, present))
            {
                self.present.push(present);
            }
        }
        if let Some(keeps) = self.keeps {
            self.pass_overwritten(pool, keeps);
        }
        self.present
            .sort_unstable_by_key(|present| (present.lane, present.first));
        let open = self.present.iter().filter(|present| !present.is_closed);
        let open = open.map(|present| present.ordinal);
        self.abandoned.leave_to_others(pool, open);
        closed
    }

    /// Passes the closed chunks by of which the stream would keep nothing.
    fn pass_overwritten(&mut self, pool: &Pool<'_, AreaWindows<'_>>, keeps: u64) {
        let mut closed = Vec::new();
        let mut open = Vec::new();
        for present in &self.present {
            let Some(place) = pool.place(present.ordinal) else {
                continue;
            };
            let Some(head) = place.chunk().map(Chunk::head) else {
                continue;
            };
            let known = self.chunks.get(&present.ordinal);
            let known = known.filter(|known| known.turn == present.turn);
            let (read, events) =
                known.map_or((Cursor::START, 0), |known| (known.cursor, known.events));
            let bytes = least_size(head, read, events);
            if present.is_closed {
                let refused = place.header.refused.load(Relaxed);
                let stand = Stand {
                    present: *present,
                    head,
                    refused,
                };
                closed.push((place.header.closing.load(Acquire), stand, bytes));
            } else {
                open.push((present.lane, bytes));
            }
        }
        // Whoever closes a chunk puts it into the queue then: one that is not there yet has an old number. And one that is
        // taken out of it now is not read in any case.
        let Some(first) = pool.first_closing() else {
            return;
        };
        closed.retain(|(closing, ..)| *closing >= first);
        closed.sort_unstable_by_key(|(closing, ..)| Reverse(*closing));
        let mut newest = Newest::new(keeps, open.into_iter());
        let first = closed
            .iter()
            .position(|(_, stand, bytes)| newest.is_overwritten(stand.present.lane, *bytes));
        let overwritten = closed.split_off(first.unwrap_or(closed.len()));
        for (_, stand, _) in &overwritten {
            let passed = ChunkCursor {
                cursor: Cursor::at(stand.head),
                refused: stand.refused,
                ..ChunkCursor::new(stand.present.turn, self.settled)
            };
            self.chunks.insert(stand.present.ordinal, passed);
        }
        let ordinals = overwritten
            .iter()
            .map(|(_, stand, _)| stand.present.ordinal);
        let ordinals: HashSet<u32> = ordinals.collect();
        self.present
            .retain(|present| !ordinals.contains(&present.ordinal));
    }

    /// Whether all of a closed chunk was read.
    fn was_read(&self, place: &Place<'_>, present: Present) -> bool {
        self.chunks.get(&present.ordinal).is_some_and(|known| {
            known.turn == present.turn
                && known.refused == place.header.refused.load(Relaxed)
                && place
                    .chunk()
                    .is_some_and(|chunk| known.cursor.is_at(chunk.head()))
        })
    }

    /// How far a chunk may be read, if it is there, and how many bytes of records that are, if there is something.
    fn stand(
        &mut self,
        present: Present,
        place: &Place<'_>,
        area: &Area,
        now: u64,
        has_restarted: bool,
    ) -> Option<(Stand, Option<u64>)> {
        let chunk = place.chunk()?;
        let settled = self.settled;
        let new = || ChunkCursor::new(present.turn, settled);
        let known = self.chunks.entry(present.ordinal).or_insert_with(new);
        if known.turn != present.turn {
            *known = new();
        }
        let thread = thread_of(place.header.thread.load(Relaxed));
        let is_restarted =
            has_restarted && thread.0 == own_pid() && place.header.restartable.load(Relaxed) == 1;
        if is_restarted || present.is_closed {
            known.settled = now;
        } else {
            known.settle(now, || chunk.under_way(), || area.has_ended(thread));
        }
        // Refused events first: what the head has beyond them is no loss.
        let refused = place.header.refused.load(Acquire);
        let head = chunk.head();
        let is_new = !known.cursor.is_at(head) || known.refused != refused;
        let stand = Stand {
            present,
            head,
            refused,
        };
        Some((stand, is_new.then(|| known.cursor.bytes_before(head))))
    }

    fn settled_in(&self, ordinal: u32) -> u64 {
        let known = self.chunks.get(&ordinal);
        known.map_or(self.settled, |known| known.settled)
    }

    /// Reads so many bytes of a lane, or a little more. How many it has read.
    fn read_turn(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        run: &mut Run,
        bytes: u64,
        batch: &mut Batch<'_>,
    ) -> u64 {
        let mut read = 0;
        let Some(lane) = self.lanes.get_mut(&run.lane) else {
            run.chunks.clear();
            return 0;
        };
        while read < bytes
            && let Some(stand) = run.chunks.front()
        {
            let mut reader = Reader {
                pool,
                clock: &self.clock,
                types: &mut self.types,
                cause: self.cause,
            };
            let known = self.chunks.get_mut(&stand.present.ordinal);
            let Some(known) = known.filter(|known| known.turn == stand.present.turn) else {
                run.chunks.pop_front();
                continue;
            };
            let before = known.cursor;
            let is_there = reader.read(known, lane, stand, bytes - read, batch);
            read += before.bytes_to(known.cursor);
            if !is_there || known.cursor.is_at(stand.head) {
                run.chunks.pop_front();
            }
        }
        run.time = lane.last_time;
        read
    }

    /// Tells what was overwritten at the end of lanes: in chunks that are not there any more.
    pub(super) fn end_round(&mut self, round: &Round, batch: &mut Batch<'_>) {
        let since = self.settled();
        for (index, closed) in &round.closed {
            let lane = self.lanes.entry(*index);
            let lane = lane.or_insert_with(|| LaneCursor::new(since));
            lane.account_up_to(*closed, self.cause, batch);
        }
    }
}

/// The number of the chunk that was closed last, or of one before it.
fn last_closing(pool: &Pool<'_, AreaWindows<'_>>) -> Option<u64> {
    let newest = links::number_of(pool.control.newest.load(Acquire))?;
    Some(pool.place(newest)?.header.closing.load(Acquire))
}
