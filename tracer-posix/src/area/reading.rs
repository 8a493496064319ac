//! Reading a stream's chunks: which there are, how far each was read, and what is missing.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

use tracer_common::area::{IDENTITY_RECORD, chunk_state};

use super::chunk::{Cursor, Found, Head, UntrustedRecord};
use super::find::Area;
use super::mapping::Parts;
use super::names::own_pid;
use super::pool::{Identity, Place, Pool, thread_of};
use super::reader_windows::AreaWindows;
use super::ticks::TickClock;
use super::type_numbers::TypeNumbers;
use crate::event::{EventHeader, MonotonicNs, Truncation};
use crate::source::{Batch, Loss, LossCause};

/// How long a thread amid an emission holds the watermark up, where it cannot be made to begin anew. A thread that was
/// stopped there must not hold the whole stream up; an emission takes nanoseconds.
const PATIENCE: Duration = Duration::from_millis(200);

/// Looks at a thread's mark before it is left for the next round.
const LOOKS: usize = 200;

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
    /// What was read of each chunk, by its number.
    chunks: HashMap<u32, ChunkCursor>,
    lanes: HashMap<u32, LaneCursor>,
}

/// A chunk as it was found.
#[derive(Clone, Copy, Debug)]
struct Present {
    ordinal: u32,
    /// Its state word but for the state.
    turn: u64,
    is_closed: bool,
    lane: u32,
    /// Events of the lane before it.
    first: u64,
}

/// Where the reading of one chunk is.
#[derive(Debug)]
struct ChunkCursor {
    turn: u64,
    cursor: Cursor,
    /// Events that were read or given up.
    events: u64,
    /// Refused events that were told.
    refused: u64,
    identity: Identity,
    /// The mark that was found set, and since when.
    stuck: Option<(Head, Instant)>,
}

/// Where the reading of one lane is.
#[derive(Debug)]
struct LaneCursor {
    /// Events that were read or told to be lost.
    accounted: u64,
    last_time: MonotonicNs,
}

/// A chunk as it stood when the round began, and how far it may be read.
pub(super) struct Round<'a> {
    present: Present,
    place: Place<'a>,
    head: Head,
    /// Events refused there by then.
    refused: u64,
}

impl Reading {
    /// Has read nothing. What is missing is lost for `cause`.
    pub(super) fn new(clock: TickClock, cause: LossCause) -> Self {
        Self {
            clock,
            types: TypeNumbers::default(),
            cause,
            changes: None,
            present: Vec::new(),
            chunks: HashMap::new(),
            lanes: HashMap::new(),
        }
    }

    /// Finds the chunks that may have something to read, if others are open or closed than at the last look. Returns
    /// the lanes' counts as of then.
    pub(super) fn look_at_chunks(&mut self, pool: &Pool<'_, AreaWindows<'_>>) -> Vec<(u32, u64)> {
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
        for place in pool.places() {
            if let Some(present) = present(pool.generation, changes, &place)
                && !(present.is_closed && self.was_read(&place, present))
            {
                self.present.push(present);
            }
        }
        self.present
            .sort_unstable_by_key(|present| (present.lane, present.first));
        closed
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

    /// How far each chunk may be read, and whether nothing older than the round's beginning can still come.
    pub(super) fn rounds<'a>(
        &mut self,
        pool: &Pool<'a, AreaWindows<'a>>,
        area: &Area,
        has_restarted: bool,
    ) -> (Vec<Round<'a>>, bool) {
        let mut is_complete = true;
        let mut rounds = Vec::with_capacity(self.present.len());
        for present in &self.present {
            let Some(place) = pool.place(present.ordinal) else {
                continue;
            };
            let Some(chunk) = place.chunk() else { continue };
            let known = self
                .chunks
                .entry(present.ordinal)
                .and_modify(|known| {
                    if known.turn != present.turn {
                        *known = ChunkCursor::new(present.turn);
                    }
                })
                .or_insert_with(|| ChunkCursor::new(present.turn));
            let thread = thread_of(place.header.thread.load(Relaxed));
            let is_restarted = has_restarted
                && thread.0 == own_pid()
                && place.header.restartable.load(Relaxed) == 1;
            if !is_restarted && !present.is_closed {
                is_complete &= known.is_settled(|| chunk.under_way(), || area.has_ended(thread));
            }
            // Refused events first: what the head has beyond them is no loss.
            let refused = place.header.refused.load(Acquire);
            rounds.push(Round {
                present: *present,
                place,
                head: chunk.head(),
                refused,
            });
        }
        (rounds, is_complete)
    }

    /// Reads every chunk as far as the round goes. Whether that brought anything. `since` is the time of what comes first in a
    /// lane.
    pub(super) fn read(
        &mut self,
        parts: Parts<'_>,
        rounds: Vec<Round<'_>>,
        since: MonotonicNs,
        batch: &mut Batch<'_>,
    ) -> bool {
        let mut is_any = false;
        for round in rounds {
            let Some(known) = self.chunks.get_mut(&round.present.ordinal) else {
                continue;
            };
            let lane = self.lanes.entry(round.present.lane);
            let lane = lane.or_insert_with(|| LaneCursor::new(since));
            let mut reader = Reader {
                parts,
                clock: &self.clock,
                types: &mut self.types,
                cause: self.cause,
            };
            is_any |= reader.read(known, lane, &round, batch);
        }
        is_any
    }

    /// Tells what was overwritten at the end of lanes: in chunks that are not there any more.
    pub(super) fn account_up_to(
        &mut self,
        closed: &[(u32, u64)],
        since: MonotonicNs,
        batch: &mut Batch<'_>,
    ) {
        for (index, closed) in closed {
            let lane = self.lanes.entry(*index);
            let lane = lane.or_insert_with(|| LaneCursor::new(since));
            lane.account_up_to(*closed, self.cause, batch);
        }
    }
}

/// A chunk with something to read, or that may have it, if it was opened when the pool had changed less often than `changes`.
fn present(generation: u32, changes: u64, place: &Place<'_>) -> Option<Present> {
    let word = place.header.state.load(Acquire);
    let state = chunk_state::of(word);
    let is_readable = matches!(
        state,
        chunk_state::OPEN | chunk_state::ENDED | chunk_state::CLOSED
    );
    let is_own = chunk_state::generation_of(word) == generation;
    // What is not there is not looked into: that would make it, and a hostile process may claim gigabytes.
    if !(is_readable && is_own) {
        return None;
    }
    let is_old_enough = place.chunk()?.opened() < changes;
    let found = Present {
        ordinal: place.ordinal,
        turn: turn(word),
        is_closed: state == chunk_state::CLOSED,
        lane: place.header.lane.load(Relaxed),
        first: place.header.first.load(Relaxed),
    };
    // Had it been opened anew meanwhile, it would have another state.
    fence(Acquire);
    let is_same = turn(place.header.state.load(Relaxed)) == turn(word);
    (is_old_enough && is_same).then_some(found)
}

/// A chunk's state word without the state.
fn turn(word: u64) -> u64 {
    word & !0xff
}

impl LaneCursor {
    fn new(last_time: MonotonicNs) -> Self {
        Self {
            accounted: 0,
            last_time,
        }
    }

    /// All events of the lane up to this number were read, or are lost.
    fn account_up_to(&mut self, events: u64, cause: LossCause, batch: &mut Batch<'_>) {
        let lost = events.wrapping_sub(self.accounted);
        // A number that is less than what was accounted for already makes this "negative".
        if lost == 0 || lost > u64::MAX / 2 {
            return;
        }
        self.accounted = events;
        batch.lose(Loss {
            cause,
            count: lost,
            since: self.last_time,
        });
    }
}

impl ChunkCursor {
    fn new(turn: u64) -> Self {
        Self {
            turn,
            cursor: Cursor::START,
            events: 0,
            refused: 0,
            identity: Identity::default(),
            stuck: None,
        }
    }

    /// Whether nothing older than the round's beginning can still come from this chunk, or its thread
    /// has been amid a record for so long that it is not waited for, or is no more.
    fn is_settled(
        &mut self,
        under_way: impl Fn() -> Option<Head>,
        has_ended: impl Fn() -> bool,
    ) -> bool {
        for _ in 0..LOOKS {
            let Some(begun) = under_way() else {
                self.stuck = None;
                return true;
            };
            match self.stuck {
                // Another record than the one that was found under way: that one is done.
                Some((earlier, _)) if earlier != begun => self.stuck = None,
                Some((_, since)) if since.elapsed() > PATIENCE => return true,
                Some(_) => {}
                None => self.stuck = Some((begun, Instant::now())),
            }
            std::hint::spin_loop();
        }
        has_ended()
    }
}

/// What reading a chunk needs beside the chunk.
struct Reader<'a> {
    parts: Parts<'a>,
    clock: &'a TickClock,
    types: &'a mut TypeNumbers,
    cause: LossCause,
}

impl Reader<'_> {
    /// Reads a chunk as far as the round goes. Whether it brought anything.
    fn read(
        &mut self,
        known: &mut ChunkCursor,
        lane: &mut LaneCursor,
        round: &Round<'_>,
        batch: &mut Batch<'_>,
    ) -> bool {
        let Some(chunk) = round.place.chunk() else {
            return false;
        };
        let mark = batch.mark();
        let mut read = Read {
            cursor: known.cursor,
            identity: known.identity,
            last_time: lane.last_time,
            events: 0,
            damaged: 0,
        };
        let mut data = Vec::new();
        loop {
            data.clear();
            match read.cursor.next(chunk, round.head, &mut data) {
                Found::Record(record) => self.take(&record, &data, &mut read, batch),
                Found::Damage => read.damaged += 1,
                Found::Nothing => break,
            }
        }
        // Pairs with the fence in `Pool::claim`: had any of the words been written over, the chunk's state that we
        // read now would be another one.
        fence(Acquire);
        if turn(round.place.header.state.load(Relaxed)) != round.present.turn {
            // The next chunk of the lane tells how many are lost.
            batch.go_back(mark);
            return false;
        }
        if known.events == 0 && known.refused == 0 {
            lane.account_up_to(round.present.first, self.cause, batch);
        }
        let is_any = read.events > 0;
        self.account(known, lane, &read, round, batch);
        is_any
    }

    fn take(
        &mut self,
        record: &UntrustedRecord,
        data: &[u8],
        read: &mut Read,
        batch: &mut Batch<'_>,
    ) {
        if record.event_type.0 == IDENTITY_RECORD {
            if let Some(identity) = Identity::from_bytes(data) {
                read.identity = identity;
            }
            return;
        }
        read.events += 1;
        match self.header(record, &read.identity, batch) {
            Some(mut header) => {
                // Two readings of the counter without a fence may change places.
                header.time = header.time.max(read.last_time);
                read.last_time = header.time;
                batch.push(header, data);
            }
            None => read.damaged += 1,
        }
    }

    /// Notes what was read of a chunk, and tells what is missing there.
    fn account(
        &self,
        known: &mut ChunkCursor,
        lane: &mut LaneCursor,
        read: &Read,
        round: &Round<'_>,
        batch: &mut Batch<'_>,
    ) {
        let mut lose = |cause, count| {
            batch.lose(Loss {
                cause,
                count,
                since: read.last_time,
            });
        };
        lose(LossCause::Damaged, read.damaged);
        let refused = round.refused.wrapping_sub(known.refused);
        // What a target says of itself may be nonsense; that it takes events back is.
        let refused = if refused > u64::MAX / 2 { 0 } else { refused };
        lose(self.cause, refused);
        known.refused = known.refused.wrapping_add(refused);
        known.cursor = read.cursor;
        known.identity = read.identity;
        known.events += read.events;
        lane.last_time = read.last_time;
        lane.accounted = lane
            .accounted
            .wrapping_add(read.events)
            .wrapping_add(refused);
    }

    fn header(
        &mut self,
        record: &UntrustedRecord,
        identity: &Identity,
        batch: &mut Batch<'_>,
    ) -> Option<EventHeader> {
        let event_type = self.types.number(self.parts, record.event_type, batch)?;
        // The anchor was taken after the record was: a later time is one that nobody read.
        let time = self.clock.time_of(record.ticks).min(self.clock.newest());
        Some(EventHeader {
            time,
            event_type,
            pid: identity.pid,
            tid: identity.tid,
            cpu: record.cpu,
            thread_id: identity.thread_id,
            program_address: record.address,
            truncation: if record.is_cut {
                Truncation::Record
            } else {
                Truncation::None
            },
        })
    }
}

/// What reading a chunk has brought so far.
struct Read {
    cursor: Cursor,
    identity: Identity,
    last_time: MonotonicNs,
    events: u64,
    /// Records that say nonsense.
    damaged: u64,
}
