//! An area whose other side writes whatever it likes: the reader may see nonsense events of that
//! target, and nothing worse.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tracer_common::area::{
    AreaHeader, DATA_OFFSET, NAME_SLOTS, NAMES_OFFSET, NameEntry, RINGS_OFFSET, RingEntry,
    STREAMS_OFFSET, StreamControl, name_state, ring_state,
};
use tracer_common::event_type::EventTypeId;
use tracer_posix::area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_posix::engine::{EventSet, EventTypes};
use tracer_posix::source::{Batch, Control, Source};

/// Bytes of the area that the hostile side writes: the fixed parts and some ring data.
const REACH: usize = DATA_OFFSET + (1 << 20);
const RING_BYTES: u32 = 64 << 10;

/// The area as its other side has it.
struct Hostile {
    words: &'static [AtomicU64],
    random: u64,
}

impl Hostile {
    fn new(area: &Area) -> Self {
        // SAFETY: asks for a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                REACH,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                area.as_fd().as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        // SAFETY: mapped as long as the test runs, page aligned, and only reached by atomics.
        let words = unsafe { std::slice::from_raw_parts(base.cast(), REACH / 8) };
        Self {
            words,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn set(&self, offset: usize, value: u64) {
        self.words[offset / 8].store(value, Relaxed);
    }

    fn get(&self, offset: usize) -> u64 {
        self.words[offset / 8].load(Relaxed)
    }

    /// A number of the kind that breaks arithmetic, or one that is nearly right.
    fn odd(&mut self) -> u64 {
        let random = self.random();
        match random % 7 {
            0 => 0,
            1 => u64::MAX,
            2 => random,
            3 => random % u64::from(RING_BYTES),
            4 => DATA_OFFSET as u64 + random % 4096 * 4096,
            5 => u64::from(RING_BYTES),
            _ => 1 << (random % 64),
        }
    }

    /// Makes ring `index` look alive, and everything else in it odd.
    fn forge_ring(&mut self, index: usize, generation: u32) {
        let entry = RINGS_OFFSET + index * size_of::<RingEntry>();
        for offset in (0..size_of::<RingEntry>()).step_by(8) {
            let value = self.odd();
            self.set(entry + offset, value);
        }
        let state = [ring_state::LIVE, ring_state::ENDED][index % 2];
        let at = std::mem::offset_of!(RingEntry, state);
        self.set(entry + at, ring_state::word(generation, state));
        if self.random().is_multiple_of(2) {
            // Data that can be mapped, and marks that let the reader through.
            let data = DATA_OFFSET as u64 + (index % 16) as u64 * u64::from(RING_BYTES);
            self.set(entry + std::mem::offset_of!(RingEntry, data_offset), data);
            let ended = (u64::from(generation) << 32) + self.random() % 100;
            self.set(entry + std::mem::offset_of!(RingEntry, begun), ended);
            self.set(entry + std::mem::offset_of!(RingEntry, ended), ended);
            let head = self.random() % u64::from(RING_BYTES) * 2;
            self.set(entry + std::mem::offset_of!(RingEntry, head), head);
            self.set(entry + std::mem::offset_of!(RingEntry, tail), 0);
        }
    }

    fn scribble(&mut self, range: std::ops::Range<usize>, words: usize) {
        for _ in 0..words {
            let span = (range.end - range.start) as u64;
            let offset = range.start + usize::try_from(self.random() % span).unwrap();
            let value = self.odd();
            self.set(offset & !7, value);
        }
    }
}

/// A reader of an area that nobody emits into, and the other side of it.
fn reader_and_hostile() -> (AreaSource, Hostile, u32) {
    let area = Area::for_command().unwrap();
    let hostile = Hostile::new(&area);
    let request = StreamRequest {
        target: None,
        inherit: true,
        is_only_source: false,
        ring_bytes: RING_BYTES as usize,
        mode: RingMode::OverwriteOldest,
        max_data: 64,
        lease: Some(Duration::from_secs(1)),
    };
    let mut source = AreaSource::open(area, &request).unwrap();
    source.control(&control(true));
    let generation_at = STREAMS_OFFSET + std::mem::offset_of!(StreamControl, generation) / 8 * 8;
    // The generation is the upper half of its word.
    let generation = u32::try_from(hostile.get(generation_at) >> 32).unwrap();
    assert_eq!(std::mem::offset_of!(StreamControl, generation) % 8, 4);
    (source, hostile, generation)
}

fn control(running: bool) -> Control {
    Control {
        running,
        filter: EventSet::EMPTY,
    }
}

#[test]
fn a_thread_amid_an_emission_holds_the_watermark_up_and_not_for_ever() {
    let (mut source, hostile, generation) = reader_and_hostile();
    let (mut types, mut events, mut data, mut losses) =
        (EventTypes::default(), Vec::new(), Vec::new(), Vec::new());
    let mut collect = || {
        let batch = &mut Batch::new(&mut types, &mut events, &mut data, &mut losses);
        source.collect(batch)
    };
    let at = |offset| RINGS_OFFSET + offset;
    let state = ring_state::word(generation, ring_state::LIVE);
    hostile.set(at(std::mem::offset_of!(RingEntry, state)), state);
    let data_offset = at(std::mem::offset_of!(RingEntry, data_offset));
    hostile.set(data_offset, DATA_OFFSET as u64);
    let ring_count = std::mem::offset_of!(AreaHeader, ring_count);
    hostile.set(ring_count / 8 * 8, hostile.get(ring_count / 8 * 8) | 1);
    let begun = at(std::mem::offset_of!(RingEntry, begun));
    let ended = at(std::mem::offset_of!(RingEntry, ended));

    let idle = collect();
    assert!(collect() > idle, "nobody is amid an emission");
    hostile.set(begun, 1);
    let held = collect();
    assert_eq!(collect(), held, "somebody is");
    hostile.set(ended, 1);
    assert!(collect() > held, "nobody is any more");
    hostile.set(begun, 2);
    let held = collect();
    let begin = Instant::now();
    while collect() == held {
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "held up for ever"
        );
    }
    assert!(
        begin.elapsed() > Duration::from_millis(100),
        "not waited for"
    );
}

#[test]
fn names_that_are_claimed_and_never_written_hold_nobody_up() {
    let (source, hostile, _) = reader_and_hostile();
    for index in 0..NAME_SLOTS - 1 {
        let entry = NAMES_OFFSET + index * size_of::<NameEntry>();
        // State and writer share a word: claimed, by a process that lives.
        let claimed = u64::from(std::process::id()) << 32 | u64::from(name_state::CLAIMED);
        hostile.set(entry, claimed);
    }
    let begin = Instant::now();
    let id = source.area().define_name(b"mine").unwrap();

    assert!(begin.elapsed() < Duration::from_secs(10), "held up");
    assert_ne!(id, EventTypeId::UNNAMED_USEREVENT, "one entry is free");
    assert_eq!(source.area().define_name(b"mine").unwrap(), id);
}

#[test]
fn whatever_a_target_writes_the_reader_goes_on() {
    let (mut source, mut hostile, generation) = reader_and_hostile();
    let (mut types, mut events, mut data, mut losses) =
        (EventTypes::default(), Vec::new(), Vec::new(), Vec::new());
    let (mut seen, mut last) = (0, None);
    let begin = Instant::now();
    for round in 0..400_u32 {
        for index in 0..8 {
            hostile.forge_ring(index, generation);
        }
        hostile.scribble(NAMES_OFFSET..RINGS_OFFSET, 50);
        hostile.scribble(DATA_OFFSET..REACH, 20_000);
        // How many rings and names there are, where the data ends, when the area was made.
        hostile.scribble(16..56, 3);
        if round % 3 == 0 {
            hostile.scribble(STREAMS_OFFSET..NAMES_OFFSET, 5);
        }
        events.clear();
        data.clear();
        losses.clear();
        let watermark = source.collect(&mut Batch::new(
            &mut types,
            &mut events,
            &mut data,
            &mut losses,
        ));
        assert!(last <= Some(watermark), "the watermark went back");
        last = Some(watermark);
        for event in &events {
            assert!(event.data(&data).len() <= usize::from(u16::MAX));
            assert!(event.header.time.0 < u64::MAX / 2, "a time that is to come");
        }
        seen += events.len();
        if round % 10 == 0 {
            source.control(&control(round % 20 == 0));
        }
    }
    drop(source);
    assert!(seen > 0, "some of the nonsense looks like events");
    assert!(begin.elapsed() < Duration::from_secs(60), "held up");
}
