//! A stream's pool of chunks: taking one, closing it, leaving it to the next thread.
//!
//! # Why chunks are as good as one buffer
//!
//! A stream of *S* bytes that overwrites its oldest events holds, at any time, its newest *S* bytes. The pool has to hold
//! them too, whoever emitted them; the merge by time then keeps exactly what one buffer would have kept.
//!
//! Let a chunk have room for *U* bytes of records at least, and let there be *T* open chunks: a thread has one at most. When
//! there is no other chunk to be had, the one that was *closed first* is taken again: *X*. Every other full chunk was closed
//! after *X*. Of those, a writer has at most one that holds anything older than the closing of *X*: the one that it had open at
//! that moment. So of *F* full chunks beside *X*, at least *F* − *T* were filled after *X* was closed, and *X* holds nothing of the
//! newest *S* bytes if (*F* − *T*)·*U* ≥ *S*. With *T* open chunks, *X*, and the one chunk that the queue of closed chunks
//! never gives away (the one closed last, [`links::Queue`](super::links::Queue)), *S*/*U* + 2*T* + 2 chunks are enough.
//!
//! A stream that keeps its oldest events refuses when that many chunks are in use and nobody has read one of them: then at
//! least *S* bytes lie in full chunks, all of them older than the event, and the stream, which has room for *S*, would have
//! refused it too. The merge cuts off what is too much.
//!
//! A record never takes more room in a chunk than the size that a stream accounts for it; the record that names a new
//! writer included.
//!
//! # What is counted
//!
//! Chunks that follow each other are a *lane*: each says how many events of its lane came before it. A lane goes on in the
//! next chunk of its writer, or, where a thread has ended, with the thread that continues its chunk; and its count
//! stays when it has no chunk. So whatever is overwritten before it was read leaves a gap in the numbers.
//!
//! # Who is in the way
//!
//! All of it is lock-free: a thread that is stopped or killed anywhere here holds nobody up. What it held is found out by its
//! entry ([`Entered`]): as long as one is set by a thread that lives, the stream's memory is given to nobody else.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use tracer_common::area::{
    ChunkHeader, ENTERING_SLOTS, IDENTITY_BYTES, IDENTITY_RECORD, LANE_SLOTS, MAX_CHUNK_BYTES,
    MIN_CHUNK_BYTES, RECORD_HEADER_BYTES, StreamControl, WINDOW_BYTES, WINDOW_SLOTS, chunk_state,
    pool_mode, window,
};
use tracer_common::event_type::EventTypeId;

use super::chunk::{Chunk, FIRST_RECORD};
use super::links::{Links, Queue, Stack};
use super::mapping::Parts;
use super::record::record_bytes;

/// Where windows are mapped.
pub(super) trait Windows: Copy {
    /// How many there are in the area's file.
    fn count(&self) -> usize;
    /// Where one is mapped; maps it where that has to be done.
    fn base(&self, index: usize) -> Option<NonNull<u8>>;
}

/// How a stream's windows are cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) chunk_bytes: usize,
    /// Chunks at the start of a window that its headers take the place of.
    reserved: usize,
    /// Chunks of a window that records lie in.
    in_window: usize,
}

impl Shape {
    /// `None` where no chunk has so many bytes.
    pub(super) fn new(untrusted_chunk_bytes: u32) -> Option<Self> {
        let is_size = untrusted_chunk_bytes.is_power_of_two()
            && (MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&untrusted_chunk_bytes);
        let chunk_bytes = usize::try_from(untrusted_chunk_bytes)
            .ok()
            .filter(|_| is_size)?;
        let all = WINDOW_BYTES / chunk_bytes;
        let reserved = (all * size_of::<ChunkHeader>()).div_ceil(chunk_bytes);
        Some(Self {
            chunk_bytes,
            reserved,
            in_window: all - reserved,
        })
    }

    /// The chunks of a stream whose largest event has so much data.
    pub(super) fn for_data(max_data: u32) -> u32 {
        let largest = u32::try_from(record_bytes(max_data.into())).unwrap_or(MAX_CHUNK_BYTES);
        largest
            .saturating_mul(4)
            .next_power_of_two()
            .clamp(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES)
    }

    /// Chunks that a stream's size asks for, beside those of its writers: see above.
    pub(super) fn for_size(self, stream_bytes: usize, max_data: u32) -> u32 {
        let lost_at_the_end = usize::try_from(record_bytes(max_data.into())).unwrap_or(0);
        let beginning = usize::try_from(FIRST_RECORD).unwrap_or(0) + IDENTITY_TAKES;
        let used = self.chunk_bytes - beginning - lost_at_the_end.min(self.chunk_bytes / 2);
        u32::try_from(stream_bytes.div_ceil(used.max(1)) + 2).unwrap_or(u32::MAX)
    }

    /// Which of the stream's windows a chunk is in, and where.
    fn place(self, ordinal: u32) -> (usize, usize) {
        let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
        (
            ordinal / self.in_window,
            self.reserved + ordinal % self.in_window,
        )
    }
}

impl Shape {
    /// The chunk at an address that was a [`Place::base`] of a pool of this shape: a window lies where its address is a multiple of its size.
    pub(super) fn place_at<'a>(self, base: NonNull<u8>) -> Place<'a> {
        let inside = base.addr().get() % WINDOW_BYTES;
        let index = inside / self.chunk_bytes;
        // SAFETY: the window begins there.
        let window = unsafe { base.sub(inside) };
        let mut place = self.place_within(u32::MAX, window, index);
        place.ordinal = place.chunk().map_or(u32::MAX, Chunk::untrusted_ordinal);
        place
    }

    fn place_within<'a>(self, ordinal: u32, window: NonNull<u8>, index: usize) -> Place<'a> {
        // SAFETY: a window has as many headers at its start as it has chunks.
        let header = unsafe { window.add(index * size_of::<ChunkHeader>()) }.cast::<ChunkHeader>();
        Place {
            ordinal,
            // SAFETY: mapped for as long as the windows are, aligned, and made of atomics.
            header: unsafe { header.as_ref() },
            // SAFETY: the index is that of a chunk of the window.
            base: unsafe { window.add(index * self.chunk_bytes) },
            bytes: self.chunk_bytes,
        }
    }
}

/// A chunk of a stream: its number there, its header, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) ordinal: u32,
    pub(super) header: &'a ChunkHeader,
    pub(super) base: NonNull<u8>,
    bytes: usize,
}

impl<'a> Place<'a> {
    /// What is in it.
    pub(super) fn chunk(&self) -> Option<Chunk<'a>> {
        let words = self.base.as_ptr().cast::<AtomicU64>();
        // SAFETY: the chunk lies within a window, which stays mapped as long as the header can be borrowed, is page
        // aligned, and is only reached by atomics.
        let words =
            unsafe { std::slice::from_raw_parts(words, self.bytes / size_of::<AtomicU64>()) };
        Chunk::new(words, &self.header.begun)
    }

    /// Events of its lane up to its end, those refused included.
    fn events_of_lane(&self) -> u64 {
        let events = self.chunk().map_or(0, |chunk| chunk.head().events());
        let refused = self.header.refused.load(Relaxed);
        let first = self.header.first.load(Relaxed);
        first.wrapping_add(events).wrapping_add(refused)
    }

    /// Changes its state, if that is what it is.
    fn change(&self, generation: u32, from: u32, to: u32) -> bool {
        let word = self.header.state.load(Acquire);
        let turn = chunk_state::turn_of(word);
        let (from, to) = (
            chunk_state::word(generation, turn, from),
            chunk_state::word(generation, turn, to),
        );
        let state = &self.header.state;
        state.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }
}

/// Who emits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) thread_id: u64,
}

impl Identity {
    fn to_bytes(self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        bytes[..4].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.tid.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.thread_id.to_ne_bytes());
        bytes
    }

    /// What [`IDENTITY_RECORD`] has as its data.
    pub(super) fn from_bytes(untrusted: &[u8]) -> Option<Self> {
        let (pid, rest) = untrusted.split_first_chunk()?;
        let (tid, rest) = rest.split_first_chunk()?;
        Some(Self {
            pid: i32::from_ne_bytes(*pid),
            tid: i32::from_ne_bytes(*tid),
            thread_id: u64::from_ne_bytes(*rest.first_chunk()?),
        })
    }

    /// The process and the thread as one word.
    pub(super) fn thread_word(self) -> u64 {
        u64::from(self.pid.unsigned_abs()) << 32 | u64::from(self.tid.unsigned_abs())
    }
}

/// How many lanes or ended chunks a thread looks at until it has one: as many as there are threads that may take them from it. A hostile
/// process may take all, or put others there, for ever.
const AT_ONCE: usize = ENTERING_SLOTS;

/// Bytes of the record that names a new writer.
const IDENTITY_TAKES: usize = IDENTITY_BYTES + RECORD_HEADER_BYTES;

/// One stream's pool, as one process sees it.
#[derive(Clone, Copy)]
pub(super) struct Pool<'a, W> {
    pub(super) parts: Parts<'a>,
    pub(super) slot: usize,
    pub(super) control: &'a StreamControl,
    pub(super) generation: u32,
    pub(super) shape: Shape,
    pub(super) windows: W,
}

/// A thread's entry that it changes a pool. Nothing is done when it is dropped: [`leave`](Self::leave) it.
pub(super) struct Entered<'a> {
    entry: &'a AtomicU64,
}

impl Entered<'_> {
    /// The thread is done.
    pub(super) fn leave(self) {
        self.entry.store(0, Release);
    }
}

/// The process and the thread that a word names.
pub(super) fn thread_of(word: u64) -> (i32, i32) {
    let half = |bits: u64| i32::try_from(bits & 0x7fff_ffff).unwrap_or(0);
    (half(word >> 32), half(word))
}

impl<'a, W: Windows> Pool<'a, W> {
    /// Notes that this thread is about to change the pool; `None` where the stream has ended, or too many
    /// threads do.
    pub(super) fn enter(&self, identity: Identity) -> Option<Entered<'a>> {
        let word = identity.thread_word();
        let first = usize::try_from(identity.tid.unsigned_abs()).unwrap_or(0);
        let entry = (0..ENTERING_SLOTS)
            .filter_map(|step| {
                self.parts
                    .entering(self.slot, (first + step) % ENTERING_SLOTS)
            })
            .map(|entry| &entry.thread)
            .find(|entry| entry.compare_exchange(0, word, SeqCst, Relaxed).is_ok())?;
        // Whoever ends the stream changes the generation, passes a barrier, and then looks at the entries.
        fence(SeqCst);
        let entered = Entered { entry };
        if self.control.generation.load(SeqCst) == self.generation {
            return Some(entered);
        }
        entered.leave();
        None
    }

    /// Where a chunk is. `None` where there is no such chunk, or it cannot be mapped.
    pub(super) fn place(&self, ordinal: u32) -> Option<Place<'a>> {
        let (window, index) = self.shape.place(ordinal);
        let entry = self.parts.stream_window(self.slot, window)?;
        let untrusted = usize::try_from(entry.load(Acquire)).ok()?.checked_sub(1)?;
        self.place_in(ordinal, untrusted, index)
    }

    /// Every chunk that was ever handed out.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'a>> {
        let fresh = self.control.fresh.load(Acquire);
        // In a stream that is no more than a slot, or a hostile one's, the list of windows ends before.
        (0..fresh).map_while(|ordinal| self.place(ordinal))
    }

    fn place_in(&self, ordinal: u32, window: usize, index: usize) -> Option<Place<'a>> {
        if window >= self.windows.count() {
            return None;
        }
        let base = self.windows.base(window)?;
        Some(self.shape.place_within(ordinal, base, index))
    }

    fn closed(&self) -> Queue<'a, Self> {
        Queue {
            oldest: &self.control.oldest,
            newest: &self.control.newest,
            links: *self,
        }
    }

    fn ended(&self) -> Stack<'a, Self> {
        Stack {
            top: &self.control.ended,
            links: *self,
        }
    }

    fn free_lanes(&self) -> Stack<'a, Lanes<'a>> {
        Stack {
            top: &self.control.free_lanes,
            links: Lanes(self.parts),
        }
    }

    /// Gives `identity` a chunk with room for an event with so much data; `old` is the one that it had. That one is
    /// closed; where there is no other to be had it is left as it is.
    pub(super) fn open(
        &self,
        identity: Identity,
        is_restartable: bool,
        data_length: usize,
        old: Option<&Place<'a>>,
    ) -> Option<Place<'a>> {
        if let Some(place) = self.take_ended(data_length) {
            if let Some(old) = old {
                let lane = self.close(old);
                self.put_lane_back(lane);
            }
            self.go_on(&place, identity, is_restartable);
            return Some(place);
        }
        let place = self.take_free()?;
        let (lane, first) = match old {
            Some(old) => {
                let lane = self.close(old);
                (lane, old.events_of_lane())
            }
            None => {
                let Some(lane) = self.take_lane() else {
                    self.put_back(&place);
                    return None;
                };
                let closed = self.parts.lane(lane).map(|lane| &lane.closed);
                (lane, closed.map_or(0, |closed| closed.load(Relaxed)))
            }
        };
        self.begin(&place, identity, is_restartable, (lane, first));
        Some(place)
    }

    /// Leaves a chunk to whoever needs one: its thread has ended, or has another one.
    pub(super) fn end(&self, place: &Place<'a>) {
        if let Some(chunk) = place.chunk() {
            // A mark that is set is of an emission that its thread has left for good.
            chunk.abandon();
        }
        if place.change(self.generation, chunk_state::OPEN, chunk_state::ENDED) {
            self.control.writers.fetch_sub(1, Relaxed);
            self.ended().push(place.ordinal);
            self.control.changes.fetch_add(1, Release);
        }
    }

    /// A chunk whose thread has ended, with room for an event and the name of its new thread. Those without are closed;
    /// where there are many, the rest of them by who comes next.
    fn take_ended(&self, data_length: usize) -> Option<Place<'a>> {
        for _ in 0..AT_ONCE {
            let place = self.place(self.ended().pop()?)?;
            if !place.change(self.generation, chunk_state::ENDED, chunk_state::OPEN) {
                continue;
            }
            self.control.writers.fetch_add(1, Relaxed);
            if place.chunk()?.has_room(data_length + IDENTITY_TAKES) {
                return Some(place);
            }
            let lane = self.close(&place);
            self.put_lane_back(lane);
        }
        None
    }

    /// A chunk that is nobody's: one that was read, one that was never used, or else, where the oldest may be overwritten,
    /// the one that was closed first.
    fn take_free(&self) -> Option<Place<'a>> {
        let consumed = self.control.consumed.load(Acquire);
        let was_read = self.closed().pop(|closing| closing < consumed);
        let overwrites = self.control.mode.load(Relaxed) == pool_mode::OVERWRITE_OLDEST;
        let ordinal = was_read.or_else(|| self.take_unused()).or_else(|| {
            overwrites
                .then(|| self.closed().pop(|_closing| true))
                .flatten()
        })?;
        let place = self.place(ordinal)?;
        self.claim(&place).then_some(place)
    }

    /// Makes a chunk this thread's that nobody else has. Whoever reads it finds out.
    fn claim(&self, place: &Place<'a>) -> bool {
        let state = &place.header.state;
        let word = state.load(Acquire);
        let is_own = chunk_state::generation_of(word) == self.generation;
        let is_free = !is_own
            || matches!(
                chunk_state::of(word),
                chunk_state::UNUSED | chunk_state::CLOSED
            );
        // In a window that was another stream's before, whatever it says is old.
        let turn = if is_own {
            chunk_state::turn_of(word).wrapping_add(1)
        } else {
            1
        };
        let claimed = chunk_state::word(self.generation, turn, chunk_state::CLAIMED);
        let is_claimed = is_free
            && state
                .compare_exchange(word, claimed, AcqRel, Relaxed)
                .is_ok();
        // Pairs with the fence of the reader, who looks at the state again after it has read.
        fence(Release);
        is_claimed
    }

    /// A chunk that was claimed goes back to those that are free.
    fn put_back(&self, place: &Place<'a>) {
        place.header.first.store(0, Relaxed);
        if let Some(chunk) = place.chunk() {
            chunk.clear(place.ordinal, 0);
        }
        if place.change(self.generation, chunk_state::CLAIMED, chunk_state::CLOSED) {
            self.closed().push(place.ordinal);
        }
    }

    /// A chunk that was never used, if the stream may have one more.
    fn take_unused(&self) -> Option<u32> {
        let control = self.control;
        let writers = control.writers.load(Relaxed).saturating_add(1);
        let most = control
            .chunks_for_size
            .load(Relaxed)
            .saturating_add(writers.saturating_mul(2));
        let may_have = |fresh: u32| (fresh < most).then(|| fresh.checked_add(1)).flatten();
        // Looked for before it is counted: where the area is used up, nothing is.
        let next = control.fresh.load(Acquire);
        may_have(next)?;
        self.provide_window(self.shape.place(next).0)?;
        let ordinal = control.fresh.fetch_update(AcqRel, Acquire, may_have).ok()?;
        self.provide_window(self.shape.place(ordinal).0)?;
        Some(ordinal)
    }

    /// Makes sure that the stream has its n-th window.
    fn provide_window(&self, n: usize) -> Option<()> {
        let entry = self.parts.stream_window(self.slot, n)?;
        if entry.load(Acquire) != 0 {
            return Some(());
        }
        let index = self.claim_window()?;
        let plus_one = u32::try_from(index + 1).ok()?;
        if entry
            .compare_exchange(0, plus_one, AcqRel, Acquire)
            .is_err()
            && let Some(word) = self.parts.window(index)
        {
            // Another thread was faster.
            word.store(0, Release);
        }
        Some(())
    }

    fn claim_window(&self) -> Option<usize> {
        let own = window::word(self.generation);
        let index = (0..self.windows.count().min(WINDOW_SLOTS)).find(|index| {
            self.parts.window(*index).is_some_and(|word| {
                word.load(Relaxed) == 0 && word.compare_exchange(0, own, AcqRel, Relaxed).is_ok()
            })
        })?;
        let count = &self.parts.header().window_count;
        count.fetch_max(u32::try_from(index + 1).unwrap_or(0), Release);
        Some(index)
    }

    /// A chunk that was claimed is this thread's from now on.
    fn begin(
        &self,
        place: &Place<'a>,
        identity: Identity,
        is_restartable: bool,
        (lane, first): (u32, u64),
    ) {
        let header = place.header;
        header.lane.store(lane, Relaxed);
        header.first.store(first, Relaxed);
        header.refused.store(0, Relaxed);
        header.restartable.store(is_restartable.into(), Relaxed);
        header.thread.store(identity.thread_word(), Relaxed);
        let opened = self.control.changes.fetch_add(1, AcqRel);
        if let Some(chunk) = place.chunk() {
            chunk.clear(place.ordinal, opened);
            chunk.write_identity(EventTypeId(IDENTITY_RECORD), &identity.to_bytes());
        }
        let turn = chunk_state::turn_of(header.state.load(Relaxed));
        let open = chunk_state::word(self.generation, turn, chunk_state::OPEN);
        header.state.store(open, Release);
        self.control.writers.fetch_add(1, Relaxed);
        self.control.changes.fetch_add(1, Release);
    }

    /// A chunk of an ended thread is this thread's from now on.
    fn go_on(&self, place: &Place<'a>, identity: Identity, is_restartable: bool) {
        let header = place.header;
        header.restartable.store(is_restartable.into(), Relaxed);
        header.thread.store(identity.thread_word(), Relaxed);
        if let Some(chunk) = place.chunk() {
            chunk.write_identity(EventTypeId(IDENTITY_RECORD), &identity.to_bytes());
        }
        self.control.changes.fetch_add(1, Release);
    }

    /// Closes a chunk of this thread's. Gives its lane back, which has none now.
    fn close(&self, place: &Place<'a>) -> u32 {
        let lane = place.header.lane.load(Relaxed);
        if let Some(lane) = self.parts.lane(lane) {
            lane.closed.store(place.events_of_lane(), Release);
        }
        if place.change(self.generation, chunk_state::OPEN, chunk_state::CLOSED) {
            self.control.writers.fetch_sub(1, Relaxed);
            self.closed().push(place.ordinal);
            self.control.changes.fetch_add(1, Release);
        }
        lane
    }

    fn take_lane(&self) -> Option<u32> {
        if let Some(lane) = self.free_lanes().pop() {
            return Some(lane);
        }
        let count = &self.parts.header().lane_count;
        // Those of streams that have ended are used again. One that was just counted is anybody's as well, until it is
        // taken.
        let used = count
            .load(Acquire)
            .min(u32::try_from(LANE_SLOTS).unwrap_or(0));
        let free = (0..used).find(|index| self.claim_lane(*index));
        if free.is_some() {
            return free;
        }
        let more = |count: u32| (usize::try_from(count).ok()? < LANE_SLOTS).then(|| count + 1);
        std::iter::from_fn(|| count.fetch_update(AcqRel, Acquire, more).ok())
            .take(AT_ONCE)
            .find(|index| self.claim_lane(*index))
    }

    fn claim_lane(&self, index: u32) -> bool {
        self.parts.lane(index).is_some_and(|lane| {
            lane.generation.load(Relaxed) == 0
                && lane
                    .generation
                    .compare_exchange(0, self.generation, AcqRel, Relaxed)
                    .is_ok()
        })
    }

    fn put_lane_back(&self, lane: u32) {
        self.free_lanes().push(lane);
    }
}

impl<W: Windows> Links for Pool<'_, W> {
    fn link(&self, number: u32) -> Option<&AtomicU64> {
        self.place(number).map(|place| &place.header.next)
    }

    fn order(&self, number: u32) -> Option<&AtomicU64> {
        self.place(number).map(|place| &place.header.closing)
    }
}

/// The lanes without a chunk.
struct Lanes<'a>(Parts<'a>);

impl Links for Lanes<'_> {
    fn link(&self, number: u32) -> Option<&AtomicU64> {
        self.0.lane(number).map(|lane| &lane.link)
    }

    /// Lanes are only stacked.
    fn order(&self, _number: u32) -> Option<&AtomicU64> {
        None
    }
}
