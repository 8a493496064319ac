//! The two sides of a ring, as the library has them around it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::atomic::AtomicU32;
use tracer_common::area::{MAX_DATA_BYTES, ring_state};
use tracer_common::event_type::EventTypeId;

use super::atomics::{AtomicU64, RingEntry, barrier};
use super::hands::{self, Stand};
use super::record::Emission;
use super::ring::{Consumer, Found, Producer, Ring};

/// Room for two records of one word of data.
const WORDS: usize = 8;
/// The same in bytes.
pub(super) const BYTES: u32 = 64;

/// An area with one ring and two streams.
pub(super) struct Shared {
    pub(super) entry: RingEntry,
    words: Vec<AtomicU64>,
    clock: AtomicU64,
    /// The generations of the streams, 1 and 2, each in its slot; 0 once the stream has ended.
    slots: [AtomicU32; 2],
}

impl Shared {
    /// The ring is `tid`'s, for the first stream.
    pub(super) fn new(tid: i32) -> Self {
        Self {
            entry: RingEntry::live(1, tid, BYTES),
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            clock: AtomicU64::new(1),
            slots: [AtomicU32::new(1), AtomicU32::new(2)],
        }
    }

    fn ring(&self) -> Ring<'_> {
        match Ring::new(&self.entry, &self.words) {
            Some(ring) => ring,
            None => panic!("eight words are a power of two"),
        }
    }

    fn ticks(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }
}

/// A thread with a ring.
pub(super) struct Writer<'a> {
    shared: &'a Shared,
    producer: Producer<'a>,
    slot: &'a AtomicU32,
    generation: u32,
    tid: i32,
    /// Attempts that were made for the stream, those refused included.
    pub(super) attempts: u64,
}

impl<'a> Writer<'a> {
    /// The thread to which the ring belongs already.
    pub(super) fn of(shared: &'a Shared, keeps_oldest: bool, tid: i32) -> Self {
        Self {
            shared,
            producer: Producer::new(shared.ring(), keeps_oldest, MAX_DATA_BYTES),
            slot: &shared.slots[0],
            generation: 1,
            tid,
            attempts: 0,
        }
    }

    /// A thread that looks for a free ring (`thread::open`).
    pub(super) fn take(shared: &'a Shared, generation: u32, tid: i32) -> Option<Self> {
        if !hands::take(&shared.entry, generation, BYTES) {
            return None;
        }
        shared.entry.tid.store(tid, Relaxed);
        let writer = Self {
            slot: if generation == 1 {
                &shared.slots[0]
            } else {
                &shared.slots[1]
            },
            generation,
            ..Self::of(shared, false, tid)
        };
        let live = ring_state::word(generation, ring_state::LIVE);
        shared.entry.state.store(live, Release);
        Some(writer)
    }

    /// A trace point (`emitter::emit_to_stream`). The record's data says whose it is.
    pub(super) fn emit(&mut self) {
        self.producer.begin();
        if self.slot.load(Relaxed) != self.generation {
            self.producer.abandon();
            return;
        }
        self.attempts += 1;
        let ticks = self.shared.ticks();
        let data = (ticks << 8 | u64::from(self.tid.unsigned_abs())).to_ne_bytes();
        let emission = Emission {
            event_type: EventTypeId(300),
            address: 0,
            cpu_plus_one: 0,
            data: &data,
            is_cut: false,
        };
        match self.producer.place(data.len()) {
            Some(place) => self.producer.record_at(place, ticks, &emission),
            None => self.producer.record(ticks, &emission),
        }
    }

    /// The thread ends (`thread::close`).
    pub(super) fn end(self) {
        let (live, ended) = (ring_state::LIVE, ring_state::ENDED);
        hands::change(&self.shared.entry, self.generation, live, ended);
    }
}

/// The first stream is ended (`slot::end`, `slot::free_rings`).
pub(super) fn take_stream_away(shared: &Shared) {
    shared.slots[0].store(0, Release);
    let word = shared.entry.state.load(Acquire);
    if hands::is_readable(word) && hands::generation_of(word) == 1 {
        barrier();
        hands::take_away(&shared.entry, word, || {
            // A hole is punched: it reads as zeros.
            for word in &shared.words {
                word.store(0, Relaxed);
            }
        });
    }
}

/// A controller's reading of one stream, and the laws of what it finds.
pub(super) struct Reader {
    consumer: Consumer,
    generation: u32,
    last: u64,
    watermark: u64,
    /// Records that were read.
    pub(super) records: u64,
    /// Attempts that left none.
    pub(super) lost: u64,
}

impl Reader {
    /// Has read nothing.
    pub(super) fn new(generation: u32) -> Self {
        Self {
            consumer: Consumer::new(hands::before_first(generation)),
            generation,
            last: 0,
            watermark: 0,
            records: 0,
            lost: 0,
        }
    }

    /// One round (`AreaSource::collect`): each record is whole, newer than the one before and than
    /// the last watermark, and its thread's own.
    pub(super) fn round(&mut self, shared: &Shared) {
        let entry = &shared.entry;
        let now = shared.ticks();
        barrier();
        let word = entry.state.load(Acquire);
        if hands::generation_of(word) != self.generation || !hands::is_readable(word) {
            return;
        }
        let is_settled = hands::under_way(entry).is_none();
        let stand = Stand::of(entry, word);
        let tid = u64::from(entry.tid.load(Relaxed).unsigned_abs());
        let mut data = Vec::new();
        loop {
            data.clear();
            match self.consumer.next(shared.ring(), stand.head, &mut data) {
                Found::Record(record) => {
                    assert_eq!(
                        data,
                        (record.ticks << 8 | tid).to_ne_bytes(),
                        "torn, or another's"
                    );
                    assert!(record.ticks > self.last, "out of order");
                    assert!(record.ticks > self.watermark, "older than was vouched for");
                    self.last = record.ticks;
                    self.records += 1;
                    self.lost += record.lost_before;
                }
                Found::Nothing => break,
                Found::Damage => panic!("nobody damaged the ring"),
            }
        }
        self.lost += self.consumer.lost_at_end(stand.ended);
        self.consumer.publish(shared.ring());
        stand.free_if_left(entry, &self.consumer);
        if is_settled {
            self.watermark = now;
        }
    }
}
