//! An area whose other side writes whatever it likes: the reader may see nonsense events of that
//! target, and nothing worse.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tracer_area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_common::area::{
    AreaHeader, CHAINS_OFFSET, ChainEntry, ChunkHeader, ChunkStart, DATA_OFFSET, FILTERS_OFFSET,
    MIN_CHUNK_BYTES, NAME_BUCKETS, NAME_BUCKETS_OFFSET, NAMES_OFFSET, PROCESSES_OFFSET,
    STREAM_WINDOWS_OFFSET, STREAMS_OFFSET, StreamControl, WINDOWS_OFFSET, chunk_state, name_state,
    window,
};
use tracer_engine::source::{Batch, BegunAnew, Control, Source};
use tracer_engine::{EventSet, EventTypes};

/// Bytes of the area that the hostile side writes: the fixed parts and some chunks.
const REACH: usize = DATA_OFFSET + (1 << 20);
/// Bytes of the stream.
const BYTES: u32 = 64 << 10;
/// Chunks that the hostile side makes up.
const CHUNKS: usize = 8;
/// Where the stream's control words are: it is the first one.
const CONTROL: usize = STREAMS_OFFSET;

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
                area.file().unwrap().as_raw_fd(),
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

    /// Returns a number of the kind that breaks arithmetic, or one that is nearly right.
    fn odd(&mut self) -> u64 {
        let random = self.random();
        match random % 7 {
            0 => 0,
            1 => u64::MAX,
            2 => random,
            3 => random % u64::from(BYTES),
            4 => DATA_OFFSET as u64 + random % 4096 * 4096,
            5 => u64::from(BYTES),
            _ => 1 << (random % 64),
        }
    }

    /// Returns where the header of a chunk is, and the chunk: the first one is taken by the
    /// headers.
    fn chunk(index: usize) -> (usize, usize) {
        let at = index + 1;
        (
            DATA_OFFSET + at * size_of::<ChunkHeader>(),
            DATA_OFFSET + at * MIN_CHUNK_BYTES as usize,
        )
    }

    /// Gives the stream its first window, with some chunks in it.
    fn give_window(&self, generation: u32) {
        self.set(WINDOWS_OFFSET, window::word(generation));
        self.set(STREAM_WINDOWS_OFFSET, 1);
        let fresh = CONTROL + offset_of!(StreamControl, fresh);
        self.set_half(fresh, u32::try_from(CHUNKS).unwrap());
        self.note_change();
    }

    fn note_change(&self) {
        let changes = CONTROL + offset_of!(StreamControl, changes);
        self.set(changes, self.get(changes) + 1);
    }

    fn set_half(&self, offset: usize, value: u32) {
        let word = self.get(offset / 8 * 8);
        let shift = offset % 8 * 8;
        let others = word & !(u64::from(u32::MAX) << shift);
        self.set(offset / 8 * 8, others | u64::from(value) << shift);
    }

    /// Makes a chunk look alive, and everything else in it odd.
    fn forge_chunk(&mut self, index: usize, generation: u32) {
        let (header, chunk) = Self::chunk(index);
        for offset in (0..size_of::<ChunkHeader>()).step_by(8) {
            let value = self.odd();
            self.set(header + offset, value);
        }
        for offset in (0..size_of::<ChunkStart>()).step_by(8) {
            let value = self.odd();
            self.set(chunk + offset, value);
        }
        let states = [
            chunk_state::OPEN,
            chunk_state::ENDED,
            chunk_state::CLOSED,
            chunk_state::CLAIMED,
        ];
        let turn = u32::try_from(self.random() % 3).unwrap();
        let state = chunk_state::word(generation, turn, states[index % 4]);
        self.set(header + offset_of!(ChunkHeader, state), state);
        if self.random().is_multiple_of(2) {
            // A mark that does not stop the reader, and a head that is within the chunk.
            let events = self.random() % 100;
            let head = (events << 32) | (self.random() % u64::from(MIN_CHUNK_BYTES));
            self.set(header + offset_of!(ChunkHeader, begun), head);
            self.set(chunk + offset_of!(ChunkStart, head), head);
        }
    }

    /// Opens a chunk that has no events, of a thread of this process.
    fn open_chunk(&self, generation: u32) -> OpenChunk {
        self.give_window(generation);
        let (header, chunk) = Self::chunk(0);
        let open = chunk_state::word(generation, 1, chunk_state::OPEN);
        self.set(header + offset_of!(ChunkHeader, state), open);
        let own = u64::from(std::process::id());
        let opened = OpenChunk {
            thread: header + offset_of!(ChunkHeader, thread),
            begun: header + offset_of!(ChunkHeader, begun),
            restartable: header + offset_of!(ChunkHeader, restartable),
            own: own << 32 | own,
        };
        self.set(opened.thread, opened.own);
        self.set(opened.begun, 64);
        self.set(chunk + offset_of!(ChunkStart, head), 64);
        opened
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

/// Where the words of a chunk's header are.
struct OpenChunk {
    thread: usize,
    begun: usize,
    restartable: usize,
    /// The word of its thread.
    own: u64,
}

/// Makes a reader of an area that no process emits into, and the other side of it.
fn reader_and_hostile() -> (AreaSource, Hostile, u32) {
    let area = Area::for_command().unwrap();
    let hostile = Hostile::new(&area);
    let request = StreamRequest {
        target: None,
        inherit: true,
        is_only_source: false,
        bytes: BYTES as usize,
        mode: RingMode::OverwriteOldest,
        max_data: 64,
        lease: Some(Duration::from_secs(1)),
    };
    let mut source = AreaSource::open(area, &request).unwrap();
    source.control(&control(true));
    let generation_at = CONTROL + offset_of!(StreamControl, generation) / 8 * 8;
    // The generation is the upper half of its word.
    let generation = u32::try_from(hostile.get(generation_at) >> 32).unwrap();
    assert_eq!(offset_of!(StreamControl, generation) % 8, 4);
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
    let OpenChunk {
        thread, begun, own, ..
    } = hostile.open_chunk(generation);

    let idle = collect();
    assert!(collect() > idle, "no thread is amid an emission");
    let mut tries = 0;
    let held = loop {
        tries += 1;
        let begin = Instant::now();
        hostile.set(begun, 88);
        let (held, next) = (collect(), collect());
        // A reader that got no processor for as long as its timeout has given up.
        if begin.elapsed() < Duration::from_millis(100) || tries == 5 {
            assert_eq!(next, held, "a thread is");
            break held;
        }
        hostile.set(begun, 64);
        collect();
    };
    hostile.set(begun, 64);
    assert!(collect() > held, "no thread is any more");
    // A thread that has ended emits nothing any more.
    hostile.set(begun, 88);
    hostile.set(thread, u64::from(i32::MAX.unsigned_abs()) << 32 | 1);
    let held = collect();
    assert!(collect() > held, "it was waited for");
    hostile.set(thread, own);
    hostile.set(begun, 96);
    let begin = Instant::now();
    let held = collect();
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
fn a_thread_that_has_begun_anew_holds_the_watermark_up_no_more() {
    let (mut source, hostile, generation) = reader_and_hostile();
    let (mut types, mut events, mut data, mut losses) =
        (EventTypes::default(), Vec::new(), Vec::new(), Vec::new());
    let mut collect = |source: &mut AreaSource| {
        let batch = &mut Batch::new(&mut types, &mut events, &mut data, &mut losses);
        source.collect(batch)
    };
    let chunk = hostile.open_chunk(generation);
    let pid = std::process::id().cast_signed();
    // Later than any look is as late as the look.
    let begun = |pid| BegunAnew {
        pid,
        ticks: u64::MAX,
    };
    collect(&mut source);
    for (whose, is_restartable, goes_on) in [(1, 1, false), (pid, 0, false), (pid, 1, true)] {
        let mut tries = 0;
        loop {
            tries += 1;
            hostile.set(chunk.begun, 64);
            hostile.set_half(chunk.restartable, is_restartable);
            source.note_begun_anew(begun(whose));
            let before = collect(&mut source);
            let begin = Instant::now();
            hostile.set(chunk.begun, 88);
            let after = collect(&mut source);
            // A reader that had no processor for as long as it waits has given up.
            if begin.elapsed() < Duration::from_millis(100) || tries == 5 {
                assert_eq!(after > before, goes_on, "{whose} {is_restartable}");
                break;
            }
        }
    }
    let has_all_before = |ticks| source.has_all_before(BegunAnew { pid, ticks });
    assert!(has_all_before(0) && !has_all_before(u64::MAX));
}

/// Chunks that were never written are not looked into: what is not there would have to be made.
#[test]
fn windows_that_are_claimed_and_never_written_cost_no_memory() {
    const WINDOWS: usize = 256;
    let (mut source, hostile, generation) = reader_and_hostile();
    for index in 0..WINDOWS {
        hostile.set(WINDOWS_OFFSET + index * 8, window::word(generation));
        let entry = STREAM_WINDOWS_OFFSET + index * 4;
        hostile.set_half(entry, u32::try_from(index + 1).unwrap());
    }
    let fresh = CONTROL + offset_of!(StreamControl, fresh);
    hostile.set_half(fresh, u32::MAX);
    hostile.note_change();
    let (mut types, mut events, mut data, mut losses) =
        (EventTypes::default(), Vec::new(), Vec::new(), Vec::new());
    source.collect(&mut Batch::new(
        &mut types,
        &mut events,
        &mut data,
        &mut losses,
    ));

    let file = source.area().file().unwrap().try_clone_to_owned().unwrap();
    let blocks = std::fs::File::from(file).metadata().unwrap().blocks();
    // The headers of each window are allocated.
    assert!(blocks * 512 < 20 << 20, "{} KiB", blocks / 2);
}

#[test]
fn names_that_lead_in_circles_or_nowhere_hold_no_reader_up() {
    let (mut source, hostile, _) = reader_and_hostile();
    let ready_then_itself = 1 << 32 | u64::from(name_state::READY);
    for first in [1, u64::from(u32::MAX)] {
        hostile.set(NAMES_OFFSET, ready_then_itself);
        for bucket in (0..NAME_BUCKETS).step_by(2) {
            hostile.set(NAME_BUCKETS_OFFSET + bucket * 4, first << 32 | first);
        }
        let refused = source.area().names_refused();
        let begin = Instant::now();
        for index in 0..20 {
            let name = format!("name {index}");
            assert_eq!(source.define_event_type(name.as_bytes()), None);
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "held up");
        assert_eq!(source.area().names_refused(), refused + 20, "counted");
    }
}

#[test]
fn a_count_of_names_beyond_all_is_a_full_table() {
    let (mut source, hostile, _) = reader_and_hostile();
    // Chains and names that are handed out.
    hostile.set(
        std::mem::offset_of!(AreaHeader, chain_count) / 8 * 8,
        u64::MAX,
    );
    hostile.set(
        std::mem::offset_of!(AreaHeader, name_count) / 8 * 8,
        u64::MAX,
    );

    assert_eq!(source.define_event_type(b"mine"), None);
    let mut listed = 0;
    source.event_types(&mut |_, _| {
        listed += 1;
        None
    });
    assert_eq!((listed, source.area().names_refused()), (0, 1));
}

#[test]
fn whatever_a_target_writes_the_reader_goes_on() {
    let (mut source, mut hostile, generation) = reader_and_hostile();
    let (mut types, mut events, mut data, mut losses) =
        (EventTypes::default(), Vec::new(), Vec::new(), Vec::new());
    let (mut found, mut last) = (0, None);
    let begin = Instant::now();
    for round in 0..400_u32 {
        hostile.give_window(generation);
        for index in 0..CHUNKS {
            hostile.forge_chunk(index, generation);
        }
        hostile.scribble(NAMES_OFFSET..NAMES_OFFSET + 4096, 50);
        hostile.scribble(NAME_BUCKETS_OFFSET..NAMES_OFFSET, 50);
        hostile.scribble(DATA_OFFSET + MIN_CHUNK_BYTES as usize..REACH, 20_000);
        hostile.scribble(
            CHAINS_OFFSET..CHAINS_OFFSET + 100 * size_of::<ChainEntry>(),
            20,
        );
        // The counts of windows, chains and names, and the time at which the area was made.
        hostile.scribble(16..56, 3);
        if round % 3 == 0 {
            hostile.scribble(CONTROL..PROCESSES_OFFSET, 5);
            hostile.scribble(FILTERS_OFFSET..NAME_BUCKETS_OFFSET, 5);
            hostile.scribble(STREAM_WINDOWS_OFFSET..STREAM_WINDOWS_OFFSET + 64, 5);
            hostile.scribble(WINDOWS_OFFSET..WINDOWS_OFFSET + 64, 5);
        }
        if round % 7 == 0 {
            let generation_at = CONTROL + offset_of!(StreamControl, generation);
            hostile.set_half(generation_at, generation);
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
        // Many forged events lie before the position up to which the stream claims to be
        // overwritten: they are lost, and the count of these is forged too.
        found += events.len() + usize::from(losses.iter().any(|loss| loss.count > 0));
        if round % 10 == 0 {
            source.control(&control(round % 20 == 0));
        }
    }
    drop(source);
    assert!(found > 0, "some of the nonsense looks like events");
    assert!(begin.elapsed() < Duration::from_secs(60), "held up");
}
