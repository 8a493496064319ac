//! One ring: a single thread writes it, a single controller reads it, and neither waits.
//!
//! # Why a merge of rings is as good as one buffer
//!
//! A stream of *S* bytes that overwrites its oldest events holds, at any time, the newest events
//! whose sizes add up to at most *S*. Of those, each thread emitted its own newest ones, and they
//! add up to at most *S* too. A ring of at least *S* bytes that overwrites its own oldest records
//! holds them all. So what a merge of all rings by time keeps of its newest *S* bytes is exactly
//! what one buffer would have held, and everything else was lost in both.
//!
//! A stream that keeps its oldest events holds those from its start on until *S* bytes are used.
//! Each thread's share is at most *S*, so a ring of *S* bytes that keeps its own oldest records
//! holds that share, and the merge cuts off what came later. (A record is never larger in a ring than the
//! size that a stream accounts for it.)

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use tracer_common::area::MAX_DATA_BYTES;
use tracer_common::event_type::EventTypeId;

use super::atomics::{AtomicU64, RingEntry, compiler_fence, fence};
use super::record::{self, Emission, HEAD, WORD, data_length, record_bytes, record_words};

/// A ring's words and its entry in the directory.
#[derive(Clone, Copy)]
pub(super) struct Ring<'a> {
    pub(super) entry: &'a RingEntry,
    /// A power of two of words, at least one.
    words: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// `None` unless `words` are a power of two of words.
    pub(super) fn new(entry: &'a RingEntry, words: &'a [AtomicU64]) -> Option<Self> {
        words
            .len()
            .is_power_of_two()
            .then_some(Self { entry, words })
    }

    /// Gives up this process's view of the words, which was a mapping of its own.
    pub(super) fn unmap(&self) {
        let start = self.words.as_ptr().cast_mut();
        // SAFETY: only called by the thread that mapped the words for itself, when it uses them no
        // more.
        unsafe { libc::munmap(start.cast(), size_of_val(self.words)) };
    }

    #[inline(always)]
    fn capacity(self) -> u64 {
        self.words.len() as u64 * WORD
    }

    /// The word at a position; positions beyond the end go on at the start.
    #[inline(always)]
    fn word(self, position: u64) -> &'a AtomicU64 {
        // SAFETY: the length is a power of two, so the masked index is below it.
        unsafe { self.words.get_unchecked(self.index(position)) }
    }

    /// The index of that word.
    #[inline(always)]
    fn index(self, position: u64) -> usize {
        (position / WORD) as usize & (self.words.len() - 1)
    }
}

/// The writing end. Positions are kept here, not in shared memory, which others can write.
pub(super) struct Producer<'a> {
    pub(super) ring: Ring<'a>,
    pub(super) keeps_oldest: bool,
    /// Most bytes of data that are kept of one event.
    pub(super) max_data: usize,
    attempts: u64,
    head: u64,
    tail: u64,
}

impl<'a> Producer<'a> {
    /// Goes on where the ring's former writer stopped.
    pub(super) fn new(ring: Ring<'a>, keeps_oldest: bool, max_data: u32) -> Self {
        let entry = ring.entry;
        let (head, tail) = (entry.head.load(Relaxed), entry.tail.load(Relaxed));
        Self {
            ring,
            keeps_oldest,
            max_data: usize::try_from(max_data.min(MAX_DATA_BYTES)).unwrap_or(0),
            attempts: entry.ended.load(Relaxed),
            head,
            tail,
        }
    }

    /// Marks that a record is being written. What comes after in the program is not done before:
    /// the reader's `membarrier` is the other half of this fence.
    #[inline(always)]
    pub(super) fn begin(&self) {
        self.ring
            .entry
            .begun
            .store(self.attempts.wrapping_add(1), Relaxed);
        compiler_fence(SeqCst);
    }

    /// Takes the mark back: nothing was attempted.
    #[inline(always)]
    pub(super) fn abandon(&self) {
        self.ring.entry.begun.store(self.attempts, Release);
    }

    /// Ends the attempt without a record: it counts as lost.
    #[inline(always)]
    pub(super) fn refuse(&mut self) {
        self.attempts = self.attempts.wrapping_add(1);
        self.ring.entry.ended.store(self.attempts, Release);
    }

    /// Writes a record, after [`begin`](Self::begin), or refuses it when there is no room.
    #[inline(always)]
    pub(super) fn record(&mut self, ticks: u64, emission: &Emission<'_>) {
        let bytes = record_bytes(emission.data.len() as u64);
        if !self.make_room(bytes) {
            self.refuse();
            return;
        }
        match self.place(emission.data.len()) {
            Some(place) => self.write(place, ticks, emission),
            None => self.write_around(ticks, emission),
        }
        self.publish(bytes);
    }

    /// As [`record`](Self::record), where the [`place`](Self::place) for it was found before.
    #[inline(always)]
    pub(super) fn record_at(&mut self, place: &[AtomicU64], ticks: u64, emission: &Emission<'_>) {
        let bytes = size_of_val(place) as u64;
        if !self.make_room(bytes) {
            self.refuse();
            return;
        }
        self.write(place, ticks, emission);
        self.publish(bytes);
    }

    /// Where the next record goes if it has this much data; `None` if it would go on at the ring's
    /// start.
    #[inline(always)]
    pub(super) fn place(&self, data_length: usize) -> Option<&'a [AtomicU64]> {
        let start = self.ring.index(self.head);
        self.ring
            .words
            .get(start..start + record_words(data_length))
    }

    /// Ends the attempt: a record of so many bytes stands there.
    #[inline(always)]
    fn publish(&mut self, bytes: u64) {
        let (attempts, head) = (self.attempts.wrapping_add(1), self.head.wrapping_add(bytes));
        let entry = self.ring.entry;
        (self.attempts, self.head) = (attempts, head);
        entry.head.store(head, Release);
        entry.ended.store(attempts, Release);
    }

    #[inline(always)]
    fn make_room(&mut self, bytes: u64) -> bool {
        let capacity = self.ring.capacity();
        if self.keeps_oldest {
            let untrusted_consumed = self.ring.entry.consumed.load(Acquire);
            let held = self.head.wrapping_sub(untrusted_consumed);
            // A position that the reader cannot have reached counts as nothing read.
            return held <= capacity && capacity - held >= bytes;
        }
        // Where the oldest record may begin that can stay.
        let least = self.head.wrapping_add(bytes).wrapping_sub(capacity);
        if is_before(self.tail, least) {
            if bytes > capacity {
                return false;
            }
            self.drop_oldest(least);
        }
        true
    }

    /// Moves the tail past whole records, to `least` at least: nearly always past one.
    #[inline(always)]
    fn drop_oldest(&mut self, least: u64) {
        let mut tail = self.tail;
        while is_before(tail, least) {
            let untrusted = self.ring.word(tail.wrapping_add(2 * WORD)).load(Relaxed);
            tail = tail.wrapping_add(record_bytes(data_length(untrusted)));
        }
        if is_before(self.head, tail) {
            // Only another process that shares the area can have put nonsense there.
            tail = self.head;
        }
        self.tail = tail;
        self.ring.entry.tail.store(tail, Relaxed);
        // The reader must see the new tail before it can see any of the words that follow.
        fence(Release);
    }

    #[inline(always)]
    fn write(&self, place: &[AtomicU64], ticks: u64, emission: &Emission<'_>) {
        let head = emission.head(ticks, self.attempts.wrapping_add(1));
        if let [first, second, third, data @ ..] = place {
            first.store(head[0], Relaxed);
            second.store(head[1], Relaxed);
            third.store(head[2], Relaxed);
            record::put_data(data, emission.data);
        }
    }

    #[cold]
    fn write_around(&self, ticks: u64, emission: &Emission<'_>) {
        let head = emission.head(ticks, self.attempts.wrapping_add(1));
        let mut places = (0..).map(|word| self.ring.word(self.head.wrapping_add(word * WORD)));
        for (word, place) in head.into_iter().zip(&mut places) {
            place.store(word, Relaxed);
        }
        record::put_data_around(places, emission.data);
    }
}

/// A record as it was read, its numbers not yet checked against anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UntrustedRecord {
    pub(super) ticks: u64,
    pub(super) address: u64,
    pub(super) cpu: Option<u32>,
    pub(super) event_type: EventTypeId,
    pub(super) is_cut: bool,
    /// Attempts before this one that left no record, since the last record that was read.
    pub(super) lost_before: u64,
}

/// What [`Consumer::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A record; its data was appended to the vector.
    Record(UntrustedRecord),
    /// Nothing more up to the limit.
    Nothing,
    /// What stands there is no record: all up to the head was given up.
    Damage,
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Consumer {
    position: u64,
    /// Attempts accounted for: read or counted as lost.
    attempts: u64,
}

impl Consumer {
    /// Starts with the oldest record that the ring holds, and the attempt after number `attempts`.
    pub(super) fn new(attempts: u64) -> Self {
        Self {
            position: 0,
            attempts,
        }
    }

    /// Reads the next record before `head`, and appends its data to `data`.
    pub(super) fn next(&mut self, ring: Ring<'_>, head: u64, data: &mut Vec<u8>) -> Found {
        let start = data.len();
        loop {
            let tail = ring.entry.tail.load(Acquire);
            if is_before(self.position, tail) {
                self.position = tail;
            }
            if !is_before(self.position, head) {
                return Found::Nothing;
            }
            let held = head.wrapping_sub(self.position);
            let words = [0, WORD, 2 * WORD]
                .map(|at| ring.word(self.position.wrapping_add(at)).load(Relaxed));
            let length = data_length(words[2]);
            let bytes = record_bytes(length);
            let is_plausible = held <= ring.capacity() && bytes <= held;
            if is_plausible {
                copy(ring, self.position.wrapping_add(HEAD), length, data);
            }
            // Pairs with the fence in `drop_oldest`: had any of the words been overwritten, the
            // tail that we read now would be past them.
            fence(Acquire);
            if is_before(self.position, ring.entry.tail.load(Relaxed)) {
                data.truncate(start);
                continue;
            }
            if !is_plausible {
                self.position = head;
                return Found::Damage;
            }
            self.position = self.position.wrapping_add(bytes);
            return Found::Record(self.understand(words));
        }
    }

    fn understand(&mut self, [ticks, place, what]: [u64; 3]) -> UntrustedRecord {
        // The record has the low half of its attempt's number; attempts only go up.
        let step = (what & 0xffff_ffff).wrapping_sub(self.attempts) & 0xffff_ffff;
        self.attempts = self.attempts.wrapping_add(step);
        let (event_type, is_cut) = record::event_type(what);
        let (address, cpu) = record::place(place);
        UntrustedRecord {
            ticks,
            address,
            cpu,
            event_type,
            is_cut,
            lost_before: step.saturating_sub(1),
        }
    }

    /// Attempts that left no record after the last one read. `ended` was read before the head up to
    /// which [`next`](Self::next) has read everything.
    pub(super) fn lost_at_end(&mut self, ended: u64) -> u64 {
        let lost = ended.wrapping_sub(self.attempts);
        // Attempts read beyond `ended` make this "negative".
        if lost > u64::MAX / 2 {
            return 0;
        }
        self.attempts = ended;
        lost
    }

    /// Tells the writer how far we are.
    pub(super) fn publish(&self, ring: Ring<'_>) {
        ring.entry.consumed.store(self.position, Release);
    }

    /// Whether all up to `head` was read.
    pub(super) fn is_at(&self, head: u64) -> bool {
        self.position == head
    }
}

/// Whether one position is before another, positions being free to wrap around.
#[inline(always)]
fn is_before(a: u64, b: u64) -> bool {
    b.wrapping_sub(a).cast_signed() > 0
}

fn copy(ring: Ring<'_>, from: u64, length: u64, data: &mut Vec<u8>) {
    let end = data.len() + usize::try_from(length).unwrap_or(0);
    for word in 0..length.div_ceil(WORD) {
        let word = ring.word(from.wrapping_add(word * WORD)).load(Relaxed);
        data.extend_from_slice(&word.to_ne_bytes());
    }
    data.truncate(end);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicI32, AtomicU32};

    use proptest::prelude::*;

    use super::*;

    fn entry() -> RingEntry {
        RingEntry {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            thread_id: AtomicU64::new(0),
            data_offset: AtomicU64::new(0),
            state: AtomicU64::new(0),
            data_bytes: AtomicU32::new(0),
            slot_level: AtomicU32::new(0),
            consumed: AtomicU64::new(0),
            pid: AtomicI32::new(0),
            tid: AtomicI32::new(0),
        }
    }

    fn words(bytes: usize) -> Vec<AtomicU64> {
        (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
    }

    fn emission(data: &[u8]) -> Emission<'_> {
        Emission {
            event_type: EventTypeId(300),
            address: 0x7fff_1234_5678,
            cpu_plus_one: 4,
            data,
            is_cut: false,
        }
    }

    /// Reads all that is there: the records' times and data, and how many were lost.
    fn read(consumer: &mut Consumer, ring: Ring<'_>) -> (Vec<(u64, Vec<u8>)>, u64) {
        let (mut records, mut lost) = (Vec::new(), 0);
        let ended = ring.entry.ended.load(Acquire);
        let head = ring.entry.head.load(Acquire);
        let mut data = Vec::new();
        loop {
            data.clear();
            match consumer.next(ring, head, &mut data) {
                Found::Record(record) => {
                    lost += record.lost_before;
                    records.push((record.ticks, data.clone()));
                }
                Found::Nothing => break,
                Found::Damage => panic!("nobody damaged the ring"),
            }
        }
        lost += consumer.lost_at_end(ended);
        consumer.publish(ring);
        (records, lost)
    }

    #[test]
    fn a_record_comes_out_as_it_went_in() {
        let (entry, words) = (entry(), words(4096));
        let ring = Ring::new(&entry, &words).unwrap();
        let mut producer = Producer::new(ring, false, MAX_DATA_BYTES);
        producer.begin();
        producer.record(
            77,
            &Emission {
                is_cut: true,
                ..emission(b"thirteen byte")
            },
        );

        let mut data = Vec::new();
        let found = Consumer::new(0).next(ring, entry.head.load(Acquire), &mut data);

        assert_eq!(
            found,
            Found::Record(UntrustedRecord {
                ticks: 77,
                address: 0x7fff_1234_5678,
                cpu: Some(3),
                event_type: EventTypeId(300),
                is_cut: true,
                lost_before: 0,
            })
        );
        assert_eq!(data, b"thirteen byte");
    }

    #[test]
    fn a_ring_that_keeps_its_oldest_takes_more_once_it_was_read() {
        let (entry, words) = (entry(), words(64));
        let ring = Ring::new(&entry, &words).unwrap();
        let (mut producer, mut consumer) =
            (Producer::new(ring, true, MAX_DATA_BYTES), Consumer::new(0));
        for ticks in 0..5 {
            producer.record(ticks, &emission(b""));
        }

        assert_eq!(
            read(&mut consumer, ring),
            (vec![(0, vec![]), (1, vec![])], 3)
        );
        producer.record(5, &emission(b""));
        assert_eq!(read(&mut consumer, ring), (vec![(5, vec![])], 0));
    }

    #[test]
    fn nonsense_in_a_ring_is_given_up_and_not_followed() {
        let (entry, words) = (entry(), words(4096));
        let ring = Ring::new(&entry, &words).unwrap();
        for word in &words {
            word.store(u64::MAX, Relaxed);
        }
        let mut consumer = Consumer::new(0);

        for head in [24, 4096, 1 << 40, u64::MAX] {
            let mut data = Vec::new();
            let found = consumer.next(ring, head, &mut data);
            assert!(matches!(found, Found::Damage | Found::Nothing), "{found:?}");
            assert!(data.is_empty());
        }
    }

    #[test]
    fn a_reader_beside_the_writer_sees_whole_records_and_misses_none_uncounted() {
        // Records so large that the writer is often overtaking while one is being copied.
        let (entry, words) = (entry(), words(1024));
        let ring = Ring::new(&entry, &words).unwrap();
        let total = if cfg!(miri) { 40 } else { 200_000 };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut producer = Producer::new(ring, false, MAX_DATA_BYTES);
                for ticks in 0..total {
                    // Every byte says which record it belongs to.
                    let length = usize::try_from(ticks % 461).unwrap();
                    let data = vec![u8::try_from(ticks % 251).unwrap(); length];
                    producer.begin();
                    producer.record(ticks, &emission(&data));
                }
            });
            let (mut consumer, mut seen, mut lost, mut last) = (Consumer::new(0), 0, 0, None);
            while seen + lost < total {
                let (records, gone) = read(&mut consumer, ring);
                for (ticks, data) in records {
                    assert!(last < Some(ticks));
                    last = Some(ticks);
                    assert_eq!(data.len() as u64, ticks % 461);
                    assert!(data.iter().all(|&byte| u64::from(byte) == ticks % 251));
                    seen += 1;
                }
                lost += gone;
            }
            assert_eq!(seen + lost, total);
        });
    }

    proptest! {
        /// What one thread recorded is what a plain list with a byte count would hold.
        #[test]
        fn a_ring_holds_what_a_list_would_hold(
            keeps_oldest: bool,
            ops in prop::collection::vec(prop::option::weighted(0.9, 0_usize..100), 0..if cfg!(miri) { 8 } else { 300 }),
        ) {
            let (entry, words) = (entry(), words(512));
            let ring = Ring::new(&entry, &words).unwrap();
            let (mut producer, mut consumer) = (Producer::new(ring, keeps_oldest, MAX_DATA_BYTES), Consumer::new(0));
            let (mut model, mut model_lost) = (Vec::<(u64, Vec<u8>)>::new(), 0);
            let bytes = |model: &[(u64, Vec<u8>)]| -> u64 {
                model.iter().map(|(_, data)| record_bytes(data.len() as u64)).sum()
            };
            for (ticks, op) in (0_u64..).zip(ops) {
                let Some(length) = op else {
                    prop_assert_eq!(read(&mut consumer, ring), (std::mem::take(&mut model), model_lost));
                    model_lost = 0;
                    // Read records take room in an overwriting ring, but they are no loss.
                    continue;
                };
                let byte = |at| u8::try_from((ticks + at) % 251).unwrap();
                let data: Vec<u8> = (0..length as u64).map(byte).collect();
                producer.begin();
                producer.record(ticks, &emission(&data));
                let size = record_bytes(length as u64);
                if keeps_oldest && bytes(&model) + size > 512 {
                    model_lost += 1;
                    continue;
                }
                model.push((ticks, data));
                while bytes(&model) > 512 {
                    model.remove(0);
                    model_lost += 1;
                }
            }
            prop_assert_eq!(read(&mut consumer, ring), (model, model_lost));
        }
    }
}
