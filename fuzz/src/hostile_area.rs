//! An area that another process writes into: what a controller reads there, and what a program
//! emits there. The bytes are orders of eight bytes each: write this there, read, emit.
//!
//! For the fuzz targets `area_read` and `area_emit`, and for the tests that run the same with
//! orders that are always the same.

#![allow(dead_code, reason = "each target uses its part of this")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracer_area::{Area, AreaSource, RingMode, StreamRequest, monotonic_now};
use tracer_common::area::{
    AreaHeader, CHAIN_SLOTS, CHAINS_OFFSET, ChainEntry, ChunkHeader, DATA_OFFSET, ENTERING_OFFSET,
    ENTERING_SLOTS, MAGIC, MIN_CHUNK_BYTES, NAME_BUCKETS, NAME_BUCKETS_OFFSET, NAME_SLOTS,
    NAMES_OFFSET, NameEntry, PROCESS_SLOTS, PROCESSES_OFFSET, ProcessEntry, STREAM_WINDOWS_OFFSET,
    STREAMS_OFFSET, StreamControl, VERSION, WINDOW_BYTES, WINDOW_SLOTS, WINDOWS_OFFSET,
    chunk_state, window,
};
use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};
use tracer_posix::emit::UserEvent;

/// Windows that orders reach.
const WINDOWS: usize = 8;
const REACH: usize = DATA_OFFSET + WINDOWS * WINDOW_BYTES;
const CHUNK: usize = MIN_CHUNK_BYTES as usize;
const IN_WINDOW: usize = WINDOW_BYTES / CHUNK;
/// Orders that are carried out: more would only take longer.
const MOST_ORDERS: usize = 512;
/// Windows that an order makes up: each takes the reader a mapping, and so the fuzzer time.
const MOST_WINDOWS: usize = 64;
/// Events that are emitted.
const MOST_EVENTS: usize = 2000;
/// Where a pool is spoilt, an event can take a millisecond, and many of them would only take
/// longer.
const LONG: Duration = Duration::from_micros(100);
/// Most events that take long in one order.
const MOST_LONG: usize = 16;
/// Turn of a thread: this process has one area, and its user is alone.
static TURN: Mutex<()> = Mutex::new(());
/// Bytes of the stream.
const BYTES: usize = 64 << 10;
/// The offset of the generation in a stream's control words.
const GENERATION: usize = 4;

/// Memory of an area, as its other side has it.
struct Memory {
    base: *mut u8,
}

impl Memory {
    fn new(file: &impl AsRawFd) -> Self {
        // SAFETY: asks for a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                REACH,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        Self { base: base.cast() }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: mapped as long as this lives, page aligned, and only reached by atomics.
        let words = unsafe { std::slice::from_raw_parts(self.base.cast(), REACH / 4) };
        &words[(offset / 4).min(REACH / 4 - 1)]
    }

    fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as above.
        let words = unsafe { std::slice::from_raw_parts(self.base.cast(), REACH / 8) };
        &words[(offset / 8).min(REACH / 8 - 1)]
    }

    fn generation(&self) -> u32 {
        self.word(STREAMS_OFFSET + GENERATION).load(Relaxed)
    }

    /// Says that something has changed, so that a reader looks at all chunks again.
    fn note_change(&self) {
        let changes = STREAMS_OFFSET + std::mem::offset_of!(StreamControl, changes);
        self.long(changes).fetch_add(1, Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing of it is borrowed any more.
        unsafe { libc::munmap(self.base.cast(), REACH) };
    }
}

/// An order as it is written down.
#[derive(Clone, Copy)]
struct Order<'a>(&'a [u8]);

impl Order<'_> {
    fn what(self) -> u8 {
        self.0[0]
    }

    fn index(self) -> usize {
        usize::from(u16::from_le_bytes([self.0[1], self.0[2]]))
    }

    fn field(self) -> usize {
        usize::from(self.0[3])
    }

    fn operand(self) -> u32 {
        u32::from_le_bytes([self.0[5], self.0[6], self.0[7], 0])
    }

    /// Returns the value to write where `before` was.
    fn value(self, before: u32, generation: u32) -> u32 {
        match self.0[4] % 10 {
            0 => self.operand(),
            1 => 0,
            2 => u32::MAX - self.operand() % 4,
            3 => generation,
            4 => 1 << (self.operand() % 32),
            5 => before.wrapping_add(self.operand()),
            6 => before.wrapping_sub(self.operand()),
            7 => MIN_CHUNK_BYTES.wrapping_sub(self.operand() % 128),
            8 => std::process::id(),
            _ => before ^ self.operand(),
        }
    }

    /// Returns the offset of what it writes.
    fn offset(self) -> Option<usize> {
        let (index, field) = (self.index(), self.field());
        let chunk = index % (WINDOWS * IN_WINDOW);
        let window = DATA_OFFSET + chunk / IN_WINDOW * WINDOW_BYTES;
        let in_part = |offset: usize, slots: usize, bytes: usize| {
            offset + index % slots * bytes + field * 4 % bytes
        };
        Some(match self.what() % 16 {
            0 => field * 4 % size_of::<AreaHeader>(),
            1 => in_part(STREAMS_OFFSET, 1, size_of::<StreamControl>()),
            2 if index % 2 == 1 => in_part(NAME_BUCKETS_OFFSET, NAME_BUCKETS, 4),
            2 => in_part(NAMES_OFFSET, NAME_SLOTS, size_of::<NameEntry>()),
            3 => in_part(PROCESSES_OFFSET, PROCESS_SLOTS, size_of::<ProcessEntry>()),
            4 => in_part(WINDOWS_OFFSET, WINDOW_SLOTS, 8),
            5 => in_part(STREAM_WINDOWS_OFFSET, WINDOW_SLOTS, 4),
            6 => in_part(ENTERING_OFFSET, ENTERING_SLOTS, 8),
            7 => in_part(CHAINS_OFFSET, CHAIN_SLOTS, size_of::<ChainEntry>()),
            8 | 9 => {
                let header = chunk % IN_WINDOW * size_of::<ChunkHeader>();
                window + header + field * 4 % size_of::<ChunkHeader>()
            }
            // What a chunk begins with, and its first records.
            10 => window + chunk % IN_WINDOW * CHUNK + field * 4,
            _ => return None,
        })
    }
}

/// Carries out an order that writes, or makes up a state. `false`: it is one to read or to emit.
fn write(memory: &Memory, order: Order<'_>) -> bool {
    let generation = memory.generation();
    if let Some(offset) = order.offset() {
        let word = memory.word(offset);
        word.store(order.value(word.load(Relaxed), generation), Relaxed);
        return true;
    }
    let index = order.index();
    match order.what() % 16 {
        // A chunk that looks alive.
        11 => {
            let chunk = index % (WINDOWS * IN_WINDOW);
            let window = DATA_OFFSET + chunk / IN_WINDOW * WINDOW_BYTES;
            let turn = order.operand() % 4;
            let state = u32::from(order.0[4]) % 6;
            let word = chunk_state::word(generation, turn, state);
            let header = window + chunk % IN_WINDOW * size_of::<ChunkHeader>();
            memory.long(header).store(word, Relaxed);
            memory.note_change();
        }
        // Windows that the stream has, or says to have.
        12 => {
            for n in 0..index % MOST_WINDOWS {
                let plus_one = u32::try_from(n + 1).unwrap_or(0);
                let entry = memory.word(STREAM_WINDOWS_OFFSET + n * 4);
                entry.store(plus_one, Relaxed);
                let own = memory.long(WINDOWS_OFFSET + n * 8);
                own.store(window::word(generation), Relaxed);
            }
            let fresh = STREAMS_OFFSET + std::mem::offset_of!(StreamControl, fresh);
            memory.word(fresh).store(order.operand(), Relaxed);
            memory.note_change();
        }
        13 => memory.note_change(),
        _ => return false,
    }
    true
}

fn request() -> StreamRequest {
    StreamRequest {
        target: None,
        inherit: true,
        is_only_source: false,
        bytes: BYTES,
        mode: RingMode::OverwriteOldest,
        max_data: 64,
        lease: None,
    }
}

/// Returns a stream that reads this area, and runs.
fn stream(area: Area) -> ActiveStream {
    let source = AreaSource::open(area, &request()).expect("a slot");
    let mut stream = ActiveStream::new(StreamFullPolicy::Loop, BYTES, monotonic_now);
    stream.add_source(Box::new(source));
    stream.start(Origin::NONE);
    stream
}

/// Reads what there is, and looks at it.
fn read_all(stream: &mut ActiveStream, last: &mut u64) {
    let watermark = stream.sync();
    assert!(watermark.0 >= *last, "the watermark went back");
    *last = watermark.0;
    let _ = stream.memory_needed();
    while let Some(event) = stream.next_event() {
        assert!(event.data.len() <= usize::from(u16::MAX));
        assert!(event.header.time.0 < u64::MAX / 2, "a time that is to come");
    }
}

/// A word of an area that is not zero: where, and what.
type Written = (usize, u64);

/// Returns the words of an area in which some threads have emitted, as far as emissions have
/// written them.
fn example() -> &'static [Written] {
    static EXAMPLE: OnceLock<Vec<Written>> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = stream(Area::own().expect("an area"));
        let events = ["one", "two", "three"].map(|name| UserEvent::open(name).expect("a name"));
        let emit = move |count: usize| {
            for index in 0..count {
                events[index % 3].emit(&[7; 64][..index % 65]);
            }
        };
        emit(300);
        std::thread::spawn(move || emit(20)).join().expect("emits");
        std::thread::spawn(move || emit(500)).join().expect("emits");
        let memory = Memory::new(&own_file());
        let generation = memory.generation();
        let of_fixed = NAMES_OFFSET..DATA_OFFSET + 8 * CHUNK;
        let of_pool = STREAMS_OFFSET + std::mem::offset_of!(StreamControl, writers)
            ..STREAMS_OFFSET + size_of::<StreamControl>();
        let words = of_pool.chain(of_fixed).step_by(8);
        let written = words.map(|offset| (offset, memory.long(offset).load(Relaxed)));
        let written: Vec<Written> = written.filter(|(_, value)| *value != 0).collect();
        assert_eq!(memory.generation(), generation);
        stream.end();
        // As a stream has it that is the first of its area.
        written
            .into_iter()
            .map(|(offset, value)| (offset, as_of_first(offset, value, generation)))
            .collect()
    })
}

/// Returns a word with the generation of the first stream instead of this one's.
fn as_of_first(offset: usize, value: u64, generation: u32) -> u64 {
    let (high, low) = (value >> 32, value & u64::from(u32::MAX));
    let is_high = (WINDOWS_OFFSET..STREAM_WINDOWS_OFFSET).contains(&offset)
        || (DATA_OFFSET..DATA_OFFSET + CHUNK).contains(&offset) && offset.is_multiple_of(64);
    let is_low = (CHAINS_OFFSET..DATA_OFFSET).contains(&offset)
        && (offset - CHAINS_OFFSET).is_multiple_of(size_of::<ChainEntry>());
    match u64::from(generation) {
        own if is_high && high == own => 1 << 32 | low,
        own if is_low && low == own => high << 32 | 1,
        _ => value,
    }
}

/// Reads an area in which others write. The first byte says whether it begins with events that were
/// emitted.
pub fn area_read(bytes: &[u8]) {
    let Some((how, orders)) = bytes.split_first() else {
        return;
    };
    let example = example();
    let area = Area::for_command().expect("an area");
    let memory = Memory::new(&area.file().expect("a file"));
    let mut stream = stream(area);
    if how & 1 == 0 {
        for (offset, value) in example {
            memory.long(*offset).store(*value, Relaxed);
        }
        let chains = std::mem::offset_of!(AreaHeader, chain_count);
        memory.word(chains).store(3, Relaxed);
    }
    memory.note_change();
    let mut last = 0;
    for order in orders.chunks_exact(8).take(MOST_ORDERS).map(Order) {
        if write(&memory, order) {
            continue;
        }
        match order.index() % 4 {
            0 => {
                stream.define_event_type(&order.0[3..]);
            }
            1 => stream.learn_event_types(),
            _ => read_all(&mut stream, &mut last),
        }
    }
    read_all(&mut stream, &mut last);
}

/// Returns this process's area.
fn own_file() -> OwnedFd {
    let folder = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    let paths = folder.map(|entry| entry.expect("a descriptor").path());
    let is_area = |path: &std::path::PathBuf| {
        std::fs::read_link(path)
            .is_ok_and(|link| link.as_os_str() == "/memfd:posix_trace_area (deleted)")
    };
    // It may be one by which nothing can be mapped, and is opened anew.
    let mut options = File::options();
    options.read(true).write(true);
    let opened = paths
        .filter(is_area)
        .find_map(|path| options.open(path).ok());
    opened.expect("an area of our own").into()
}

/// Makes this process's area what a new one is, but for the streams' generations, which go on.
fn empty(file: &impl AsFd, memory: &Memory) {
    static NEXT: AtomicU32 = AtomicU32::new(0x4000_0000);
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let descriptor = file.as_fd().as_raw_fd();
    let end = i64::try_from(DATA_OFFSET + WINDOW_SLOTS * WINDOW_BYTES).expect("an offset");
    // SAFETY: takes no pointers.
    assert_eq!(unsafe { libc::fallocate(descriptor, hole, 0, end) }, 0);
    let header = |offset: usize, value: u32| memory.word(offset).store(value, Relaxed);
    let generation = NEXT.fetch_add(1, Relaxed);
    header(std::mem::offset_of!(AreaHeader, generations), generation);
    header(std::mem::offset_of!(AreaHeader, version), VERSION);
    memory.long(0).store(MAGIC, Relaxed);
}

/// Emits so many events, but of those that take long not all.
fn emit(count: usize, mut one: impl FnMut(usize)) {
    let mut long = 0;
    for index in 0..count {
        let start = Instant::now();
        one(index);
        long += usize::from(start.elapsed() > LONG);
        if long == MOST_LONG {
            return;
        }
    }
}

/// Emits into an area in which others write, and reads it.
pub fn area_emit(bytes: &[u8]) {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let file = FILE.get_or_init(|| {
        // It is made before its file is looked for.
        let _made = Area::own().expect("an area");
        own_file()
    });
    let memory = Memory::new(file);
    empty(file, &memory);
    let mut stream = stream(Area::own().expect("an area"));
    let unnamed = UserEvent::open("posix_trace_unnamed_userevent").expect("a name");
    let mut event = unnamed;
    let mut left = MOST_EVENTS;
    let mut last = 0;
    for order in bytes.chunks_exact(8).take(MOST_ORDERS).map(Order) {
        if order.what() % 16 < 14 && order.what() < 128 {
            write(&memory, order);
            continue;
        }
        let count = order.field().min(left);
        left -= count;
        match order.index() % 8 {
            0 => read_all(&mut stream, &mut last),
            1 => {
                let name: String = order.0[3..]
                    .iter()
                    .map(|byte| char::from(byte % 128))
                    .collect();
                event = UserEvent::open(&name).unwrap_or(unnamed);
            }
            2 => {
                let work = move || emit(count, |_| event.emit(b"another thread"));
                std::thread::spawn(work).join().expect("emits");
            }
            _ => {
                let data = [7; 64];
                emit(count + 1, |index| event.emit(&data[..index % 65]));
            }
        }
    }
    read_all(&mut stream, &mut last);
    stream.end();
}
