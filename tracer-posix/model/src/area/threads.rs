//! The two sides of a chunk, as the library has them around it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use loom::sync::atomic::AtomicU32;
use tracer_common::area::chunk_state;
use tracer_common::event_type::EventTypeId;

use crate::layout::atomics::{AtomicU64, barrier, fence};
use crate::layout::chunk::{Chunk, Cursor, Found, Head, Moment, Refusal};
use crate::layout::record::Emission;

/// A chunk for two records of one word of data: its beginning (8 words), 2 × 4 words, and the last
/// word.
const WORDS: usize = 17;

/// An area with one chunk and two streams.
pub(super) struct Shared {
    state: AtomicU64,
    begun: AtomicU64,
    /// Events of the chain before the chunk, and those refused in it.
    first: AtomicU64,
    refused: AtomicU64,
    words: Vec<AtomicU64>,
    clock: AtomicU64,
    /// The generations of the streams, 1 and 2, each in its slot; 0 once the stream has ended.
    slots: [AtomicU32; 2],
}

impl Shared {
    /// Makes the chunk, open for the first stream.
    pub(super) fn new() -> Self {
        let shared = Self {
            state: AtomicU64::new(chunk_state::word(1, 1, chunk_state::OPEN)),
            begun: AtomicU64::new(0),
            first: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            clock: AtomicU64::new(1),
            slots: [AtomicU32::new(1), AtomicU32::new(2)],
        };
        shared.chunk().clear(0, 0);
        shared
    }

    fn chunk(&self) -> Chunk<'_> {
        match Chunk::new(&self.words, &self.begun) {
            Some(chunk) => chunk,
            None => panic!("it has words"),
        }
    }

    fn ticks(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }
}

/// A thread with the chunk.
pub(super) struct Writer<'a> {
    shared: &'a Shared,
    slot: &'a AtomicU32,
    generation: u32,
    tid: u64,
    /// Events of the stream, those refused included.
    pub(super) attempts: u64,
}

/// The answers that an emission gets on its way (`emitter::ThisMoment`).
struct Now<'a> {
    shared: &'a Shared,
    slot: &'a AtomicU32,
    generation: u32,
}

impl Moment for Now<'_> {
    fn is_current(&self) -> bool {
        self.slot.load(Relaxed) == self.generation
    }

    fn ticks(&self) -> u64 {
        self.shared.ticks()
    }

    fn accepts(&self, _ticks: u64) -> bool {
        true
    }

    fn cpu_plus_one(&self) -> u16 {
        0
    }
}

impl<'a> Writer<'a> {
    /// Returns the thread to which the chunk belongs already.
    pub(super) fn for_owner(shared: &'a Shared, tid: u64) -> Self {
        Self {
            shared,
            slot: &shared.slots[0],
            generation: 1,
            tid,
            attempts: 0,
        }
    }

    /// Takes the chunk if it is free (`Pool::claim`, `Pool::begin`). The events that were in it are
    /// `before` the new ones in their chain.
    pub(super) fn take(shared: &'a Shared, generation: u32, tid: u64) -> Option<Self> {
        let word = shared.state.load(Acquire);
        let is_own = chunk_state::generation_of(word) == generation;
        let is_free = matches!(
            chunk_state::state_of(word),
            chunk_state::UNUSED | chunk_state::CLOSED
        );
        if !is_free {
            return None;
        }
        let turn = chunk_state::turn_of(word) + 1;
        let claimed = chunk_state::word(generation, turn, chunk_state::CLAIMED);
        shared
            .state
            .compare_exchange(word, claimed, AcqRel, Relaxed)
            .ok()?;
        fence(Release);
        let before = shared.first.load(Relaxed)
            + shared.chunk().head().events()
            + shared.refused.load(Relaxed);
        shared.first.store(if is_own { before } else { 0 }, Relaxed);
        shared.refused.store(0, Relaxed);
        shared.chunk().clear(0, 0);
        let open = chunk_state::word(generation, turn, chunk_state::OPEN);
        shared.state.store(open, Release);
        Some(Self {
            slot: if generation == 1 {
                &shared.slots[0]
            } else {
                &shared.slots[1]
            },
            generation,
            ..Self::for_owner(shared, tid)
        })
    }

    /// Emits as a trace point does (`emitter::emit_to_stream`). The record's data says whose it is,
    /// and when it was written.
    pub(super) fn emit(&mut self) {
        let now = Now {
            shared: self.shared,
            slot: self.slot,
            generation: self.generation,
        };
        let data = (self.attempts << 8 | self.tid).to_ne_bytes();
        let emission = Emission {
            event_type: EventTypeId(300),
            number: 2,
            address: 0,
            data: &data,
            is_truncated: false,
        };
        match self.shared.chunk().write(&emission, &now) {
            Ok(()) => self.attempts += 1,
            Err(Refusal::NoSpace) => {
                self.attempts += 1;
                self.shared.refused.fetch_add(1, Relaxed);
            }
            Err(Refusal::Stale | Refusal::NotAccepted) => {}
        }
    }

    /// Closes the chunk, which is full (`Pool::close`).
    pub(super) fn close(self) {
        let word = self.shared.state.load(Acquire);
        let closed = chunk_state::word(
            self.generation,
            chunk_state::turn_of(word),
            chunk_state::CLOSED,
        );
        let state = &self.shared.state;
        // Where the stream has ended the chunk may be another's.
        let _closed = state.compare_exchange(word, closed, AcqRel, Relaxed);
    }
}

/// Ends the first stream (`retire::end`, `retire::finish`); the chunk is free if no thread is in
/// it.
pub(super) fn take_stream_away(shared: &Shared) {
    shared.slots[0].store(0, Release);
    barrier();
    if shared.chunk().under_way().is_none() {
        for word in &shared.words {
            word.store(0, Relaxed);
        }
        shared.state.store(0, Release);
    }
}

/// A controller's reading of one stream, and the laws of what it finds.
pub(super) struct Reader {
    generation: u32,
    turn: u64,
    cursor: Cursor,
    refused: u64,
    accounted: u64,
    last: u64,
    watermark: u64,
    /// Records that were read.
    pub(super) records: u64,
    /// Events that left none.
    pub(super) lost: u64,
}

impl Reader {
    /// Makes a reader that has read nothing.
    pub(super) fn new(generation: u32) -> Self {
        Self {
            generation,
            turn: 0,
            cursor: Cursor::START,
            refused: 0,
            accounted: 0,
            last: 0,
            watermark: 0,
            records: 0,
            lost: 0,
        }
    }

    /// Reads one round (`AreaSource::collect`): each record is whole, newer than the one before and
    /// than the last watermark, and of one thread.
    pub(super) fn round(&mut self, shared: &Shared) {
        let now = shared.ticks();
        barrier();
        let word = shared.state.load(Acquire);
        let is_readable = matches!(
            chunk_state::state_of(word),
            chunk_state::OPEN | chunk_state::ENDED | chunk_state::CLOSED
        );
        if chunk_state::generation_of(word) != self.generation || !is_readable {
            return;
        }
        let is_closed = chunk_state::state_of(word) == chunk_state::CLOSED;
        let is_settled = is_closed || shared.chunk().under_way().is_none();
        let first = shared.first.load(Relaxed);
        let refused = shared.refused.load(Acquire);
        let head = shared.chunk().head();
        if let Some(read) = self.read(shared, word, head) {
            self.take(word, first, refused, &read);
        }
        if is_settled {
            self.watermark = now;
        }
    }

    /// Reads the chunk: times and data; none where it has another owner by now.
    fn read(
        &mut self,
        shared: &Shared,
        word: u64,
        head: Head,
    ) -> Option<(Vec<(u64, u64)>, Cursor)> {
        let mut cursor = if self.turn == word & !0xff {
            self.cursor
        } else {
            Cursor::START
        };
        let (mut found, mut data) = (Vec::new(), Vec::new());
        let mut is_damaged = false;
        loop {
            data.clear();
            match cursor.next(shared.chunk(), head, &mut data) {
                Found::Record(record) => {
                    let data = data.first_chunk().copied().unwrap_or_default();
                    found.push((record.ticks, u64::from_ne_bytes(data)));
                }
                Found::Nothing => break,
                Found::Damage => is_damaged = true,
            }
        }
        fence(Acquire);
        if shared.state.load(Relaxed) & !0xff != word & !0xff {
            return None;
        }
        assert!(!is_damaged, "no thread damaged the chunk");
        Some((found, cursor))
    }

    fn take(&mut self, word: u64, first: u64, refused: u64, read: &(Vec<(u64, u64)>, Cursor)) {
        if self.turn != word & !0xff {
            self.turn = word & !0xff;
            self.refused = 0;
            self.lost += first.saturating_sub(self.accounted);
            self.accounted = self.accounted.max(first);
        }
        for (ticks, data) in &read.0 {
            assert!(*ticks > self.last, "out of order");
            assert!(*ticks > self.watermark, "older than was vouched for");
            assert!(*data & 0xff > 0, "torn");
            self.last = *ticks;
            self.records += 1;
            self.accounted += 1;
        }
        self.cursor = read.1;
        let refused = refused - self.refused;
        self.refused += refused;
        self.lost += refused;
        self.accounted += refused;
    }
}
