//! Reading a stream's chunks: which there are, how far each was read, and what is missing.
//!
//! A *round* takes the time, finds how far every chunk's records go, and reads up to there. It need not be read at once: a reader
//! takes portions, in each the lanes that are furthest behind first, so that it knows up to which time it has everything.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

use tracer_common::area::{IDENTITY_RECORD, chunk_state};

use super::chunk::{Cursor, Found, Head, UntrustedRecord};
use super::find::Area;
use super::links;
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

/// Bytes of records that are read of a lane before another one has its turn. Of each lane so much may wait for the others.
const TURN_BYTES: u64 = 4 << 10;

/// Bytes of records in a portion, beside a turn for each lane.
const PORTION_BYTES: u64 = 512 << 10;

/// Most bytes of memory that it takes to read all of so many chunks, and to keep what they have. Records of the least size
/// take most: about ten times as much while their order is found out, and a quarter more once they are in the stream.
pub(super) fn memory_needed(chunks: usize, chunk_bytes: usize) -> usize {
    let bytes = chunks.saturating_mul(chunk_bytes);
    let turns = chunks.saturating_mul(usize::try_from(TURN_BYTES).unwrap_or(0));
    let portion = usize::try_from(PORTION_BYTES)
        .unwrap_or(0)
        .saturating_add(turns);
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
    /// What was read of each chunk, by its number.
    chunks: HashMap<u32, ChunkCursor>,
    lanes: HashMap<u32, LaneCursor>,
    /// Nothing older than this can come, in ticks and as time, but for what the round still has to read.
    settled: u64,
    settled_time: MonotonicNs,
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
    /// Nothing older than this can come from it, in ticks.
    settled: u64,
    /// The mark that was found set, and since when.
    stuck: Option<Stuck>,
}

/// A mark that was found set.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    begun: Head,
    since: Instant,
    /// The time of the round that has found it.
    round: u64,
}

/// Where the reading of one lane is.
#[derive(Debug)]
struct LaneCursor {
    /// Events that were read or told to be lost.
    accounted: u64,
    last_time: MonotonicNs,
}

/// What is there to be read as of one moment.
#[derive(Debug)]
pub(super) struct Round {
    /// The lanes with something to read, the one that is furthest behind first.
    lanes: BinaryHeap<Reverse<Run>>,
    /// What was closed by then: of each lane, how many events.
    closed: Vec<(u32, u64)>,
    /// All chunks with a lower [`closing`](tracer_common::area::ChunkHeader::closing) were read when the round is.
    consumed: Option<u64>,
    /// Bytes of records that it began with.
    pub(super) bytes: u64,
}

/// What there is of one lane.
#[derive(Debug)]
struct Run {
    /// Nothing older comes from it.
    time: MonotonicNs,
    lane: u32,
    chunks: VecDeque<Stand>,
}

/// A chunk as it stands when a round begins.
#[derive(Clone, Copy, Debug)]
struct Stand {
    present: Present,
    head: Head,
    /// Events refused there by then.
    refused: u64,
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
        (self.time, self.lane).cmp(&(other.time, other.lane))
    }
}

impl Round {
    /// Whether all of it was read.
    pub(super) fn is_read(&self) -> bool {
        self.lanes.is_empty()
    }

    /// What is not read yet is not older than this.
    pub(super) fn until(&self) -> Option<MonotonicNs> {
        self.lanes.peek().map(|Reverse(run)| run.time)
    }

    /// The chunks that were read: all with a lower `closing`.
    pub(super) fn consumed(&self, pool: &Pool<'_, AreaWindows<'_>>) -> Option<u64> {
        let unread = self
            .lanes
            .iter()
            .filter_map(|Reverse(run)| run.chunks.front());
        let of_unread = unread
            .filter(|stand| stand.present.is_closed)
            .filter_map(|stand| pool.place(stand.present.ordinal))
            .map(|place| place.header.closing.load(Acquire));
        let least = of_unread.min().unwrap_or(u64::MAX);
        self.consumed.map(|consumed| consumed.min(least))
    }
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
            chunks: HashMap::new(),
            lanes: HashMap::new(),
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

    /// Reads the next portion of a round.
    pub(super) fn read_portion(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        round: &mut Round,
        batch: &mut Batch<'_>,
    ) -> bool {
        let lanes = u64::try_from(round.lanes.len()).unwrap_or(u64::MAX);
        let mut left = PORTION_BYTES.saturating_add(lanes.saturating_mul(TURN_BYTES));
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

/// A chunk with something to read, or that may have it, if it was opened when the pool had changed less often than `changes`.
fn present(generation: u32, changes: u64, place: &Place<'_>) -> Option<Present> {
    let word = place.header.state.load(Acquire);
    let state = chunk_state::of(word);
    let is_readable = matches!(
        state,
        chunk_state::OPEN | chunk_state::ENDED | chunk_state::CLOSED
    );
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
    let is_own = chunk_state::generation_of(word) == generation;
    (is_readable && is_own && is_old_enough && is_same).then_some(found)
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
    fn new(turn: u64, settled: u64) -> Self {
        Self {
            turn,
            cursor: Cursor::START,
            events: 0,
            refused: 0,
            identity: Identity::default(),
            settled,
            stuck: None,
        }
    }

    /// Finds out up to which time everything is in the chunk. A thread that has been amid a record for too long is not
    /// waited for, nor is one that is no more.
    fn settle(
        &mut self,
        now: u64,
        under_way: impl Fn() -> Option<Head>,
        has_ended: impl Fn() -> bool,
    ) {
        for _ in 0..LOOKS {
            let Some(begun) = under_way() else {
                self.stuck = None;
                self.settled = now;
                return;
            };
            match self.stuck {
                // Another record than the one that was found under way: it was begun after that round.
                Some(earlier) if earlier.begun != begun => {
                    self.settled = self.settled.max(earlier.round);
                    self.stuck = None;
                }
                Some(earlier) if earlier.since.elapsed() > PATIENCE => {
                    self.settled = now;
                    return;
                }
                Some(_) => {}
                None => {
                    self.stuck = Some(Stuck {
                        begun,
                        since: Instant::now(),
                        round: now,
                    });
                }
            }
            std::hint::spin_loop();
        }
        if has_ended() {
            self.settled = now;
        }
    }
}

/// What reading a chunk needs beside the chunk.
struct Reader<'a, 'b> {
    pool: &'a Pool<'b, AreaWindows<'b>>,
    clock: &'a TickClock,
    types: &'a mut TypeNumbers,
    cause: LossCause,
}

impl Reader<'_, '_> {
    /// Reads so many bytes of a chunk, or a little more, but not further than it stands. `false` if it is not there any more.
    fn read(
        &mut self,
        known: &mut ChunkCursor,
        lane: &mut LaneCursor,
        stand: &Stand,
        bytes: u64,
        batch: &mut Batch<'_>,
    ) -> bool {
        let Some(place) = self.pool.place(stand.present.ordinal) else {
            return false;
        };
        let Some(chunk) = place.chunk() else {
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
        while known.cursor.bytes_to(read.cursor) < bytes {
            data.clear();
            match read.cursor.next(chunk, stand.head, &mut data) {
                Found::Record(record) => self.take(&record, &data, &mut read, batch),
                Found::Damage => read.damaged += 1,
                Found::Nothing => break,
            }
        }
        // Pairs with the fence in `Pool::claim`: had any of the words been written over, the chunk's state that we
        // read now would be another one.
        fence(Acquire);
        if turn(place.header.state.load(Relaxed)) != stand.present.turn {
            // The next chunk of the lane tells how many are lost.
            batch.go_back(mark);
            return false;
        }
        if known.events == 0 && known.refused == 0 {
            lane.account_up_to(stand.present.first, self.cause, batch);
        }
        self.account(known, lane, &read, stand, batch);
        true
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
        stand: &Stand,
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
        let refused = stand.refused.wrapping_sub(known.refused);
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
        let event_type = self
            .types
            .number(self.pool.parts, record.event_type, batch)?;
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

/// The number of the chunk that was closed last, or of one before it.
fn last_closing(pool: &Pool<'_, AreaWindows<'_>>) -> Option<u64> {
    let newest = links::number_of(pool.control.newest.load(Acquire))?;
    Some(pool.place(newest)?.header.closing.load(Acquire))
}
