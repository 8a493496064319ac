//! Frames of the CPython interpreter.
//!
//! The agent says of a process where its interpreter is, and which offsets the fields of that
//! version have. The frames of a thread are a list in its memory, which is followed here: the
//! program is not stopped, and nothing that it has there is believed beyond what is recorded. Each
//! step is a function of its own, so that the verifier walks it once.
//!
//! A function is recorded with its names and lines before the first frame in it ([`code`]), so
//! that logs of programs that have ended have them. Its mark is made of what these are, not only of
//! where it lies: its address may have another function later.

#![expect(clippy::cast_possible_truncation, reason = "words whose size is known")]

mod code;
mod mark;
mod thread;

use core::mem::offset_of;

use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_probe_read_kernel, bpf_probe_read_user,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, LruHashMap, PerCpuArray};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    BlockedPython, MOST_PYTHON_FRAMES, NO_FIELD, PYTHON_RECORD, PYTHON_WINDOW, PythonFrame,
    PythonLayout, PythonProcess, PythonRecord, RecordHeader, USUAL_PYTHON_FRAMES, stack_ends,
};

use crate::cpu::this_cpu;
use crate::gathered::bounded;
use crate::maps::count_ring_full;
use crate::offsets::{GUARDS, STACK_PYTHON_FRAMES};
use crate::pid::Pid;
use crate::record::{Wake, header, record_if_it_fits, reserve, submit_flags};
use crate::subject::Subject;

/// The interpreters of processes, by pid as the agent knows it. The agent sets the number of
/// entries, here and below, or leaves it at 1 where Python frames are not asked for.
#[map]
static PYTHON: HashMap<u32, PythonProcess> = HashMap::with_max_entries(1, 0);

/// The frames of threads that are blocked. One that finds no space costs an older one its entry.
#[map]
static BLOCKED_PYTHON: LruHashMap<u32, BlockedPython> = LruHashMap::with_max_entries(1, 0);

/// Empty entry that new ones are made from.
#[map]
static BLOCKED_PYTHON_EMPTY: Array<BlockedPython> = Array::with_max_entries(1, 0);

#[map]
static PYTHON_WALK: PerCpuArray<Walk> = PerCpuArray::with_max_entries(1, 0);

/// Bytes that are read of the state of a thread: it is that large at least.
const THREAD_BYTES: u32 = 192;

/// Bytes that are read at once of the frames of a thread, since 3.11: what calls a function lies
/// right below it, mostly.
const NEIGHBOURS: usize = 1024;

/// How far from a frame another one may be in the same piece of memory: since 3.11 frames are in
/// pieces of so many bytes.
const PIECE: u64 = 16384;

/// Smallest page. What is in the page of a frame, but before it, can be read as it can.
const PAGE: u64 = 4096;

/// Lowest address that anything may have: the kernel maps nothing below.
const LOWEST: u64 = 0x1000;

/// Files that are remembered while frames are found. A power of two.
const FILES: usize = 16;

/// Functions that are remembered while frames are found. A power of two.
const MARKS: usize = 32;

/// A function whose mark was made.
#[repr(C)]
struct MarkOfWalk {
    /// Its object.
    code: u64,
    /// The walk in which it was made: see [`Walk::number`].
    number: u64,
    mark: u64,
    reserved: u64,
}

/// Frames as they are found on this CPU.
#[repr(C)]
struct Walk {
    /// The thread whose frames they are. Another one on this CPU may come between.
    by: u64,
    process: PythonProcess,
    /// Why they end.
    ends: u64,
    /// How many there are.
    count: u64,
    /// Findings about the thread: how many states of it, the frame of one, and where C has it.
    states: u64,
    frame: u64,
    c_frame: u64,
    /// The interpreter whose threads are looked at.
    interpreter: u64,
    /// Where there are several: what is doubtful about whose the states are, the highest
    /// `pthread_t` below the thread's own, and the highest one.
    doubts: u64,
    below: u64,
    highest: u64,
    /// The function whose mark is made, and the one that is recorded: there is no space on the
    /// stack for all of them.
    marked: Marked,
    told: Told,
    /// Files of the functions before, each with what was made of it: as the program does not go on
    /// meanwhile, they are the same still.
    files: [[u64; 2]; FILES],
    /// Word that is mixed with the mark of each function to find out whether it was recorded: see
    /// [`code::begin`].
    told_for: u64,
    /// Number of this walk, of those on this CPU.
    number: u64,
    /// Whether there are functions in it that were not recorded.
    is_new: u64,
    /// Whether the mark of the last frame needs more than its function's numbers.
    is_open: u64,
    /// The version of the interpreter's interned texts; 0: not known.
    interned: u64,
    /// Where the frames begin that were read at once, how many bytes that are, and the frame for
    /// which memory was read last.
    neighbours: u64,
    neighbour_bytes: u64,
    last: u64,
    /// Functions of walks.
    marks: [MarkOfWalk; MARKS],
    /// Bytes that were read last.
    window: [u8; PYTHON_WINDOW + 8],
    /// Frames that were read at once; behind them one that was read alone.
    read: [u8; NEIGHBOURS + PYTHON_WINDOW + 8],
    /// The objects of the functions.
    codes: [u64; MOST_PYTHON_FRAMES],
    frames: [PythonFrame; MOST_PYTHON_FRAMES],
}

/// The frames of this CPU.
#[derive(Clone, Copy)]
struct Space(*mut u8);

impl Space {
    #[inline(always)]
    fn current() -> Option<Self> {
        Some(Self(PYTHON_WALK.get_ptr_mut(0)?.cast()))
    }

    #[inline(always)]
    fn at(self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }

    #[inline(always)]
    fn get(self, offset: usize) -> u64 {
        // SAFETY: inside the entry: the callers name one of its words.
        unsafe { self.at(offset).cast::<u64>().read_volatile() }
    }

    #[inline(always)]
    fn set(self, offset: usize, value: u64) {
        // SAFETY: as above.
        unsafe { self.at(offset).cast::<u64>().write_volatile(value) };
    }

    /// Returns the offset of a field.
    #[inline(always)]
    fn field(self, of: usize) -> u16 {
        let at = offset_of!(Walk, process) + offset_of!(PythonProcess, layout) + of;
        // SAFETY: inside the entry.
        unsafe { self.at(at).cast::<u16>().read_volatile() }
    }

    /// Tells whether the frames are those of the thread that runs.
    #[inline(always)]
    fn is_own(self) -> bool {
        self.get(offset_of!(Walk, by)) == thread()
    }

    /// Reads so many bytes of the program's memory: false where they are not there.
    #[inline(always)]
    fn read(self, address: u64, bytes: u32) -> bool {
        self.read_to(
            offset_of!(Walk, window),
            address,
            bytes.into(),
            PYTHON_WINDOW,
        )
    }

    /// Reads so many bytes, `most` at most, to an offset.
    #[inline(always)]
    fn read_to(self, offset: usize, address: u64, bytes: u64, most: usize) -> bool {
        let to = self.at(offset);
        let bytes = bounded(bytes, most as u64) as u32;
        // SAFETY: the helper writes so many bytes, for which there is space, and checks the
        // address.
        address >= LOWEST
            && unsafe { bpf_probe_read_user(to.cast(), bytes, address as *const _) } == 0
    }

    /// Returns a word that was read.
    #[inline(always)]
    fn word(self, offset: u16) -> u64 {
        self.get(offset_of!(Walk, window) + (offset as usize & (PYTHON_WINDOW - 8)))
    }

    /// Returns half a word that was read.
    #[inline(always)]
    fn half(self, offset: u16) -> u32 {
        let at = offset_of!(Walk, window) + (offset as usize & (PYTHON_WINDOW - 4));
        // SAFETY: inside the entry.
        unsafe { self.at(at).cast::<u32>().read_volatile() }
    }

    /// Returns where a frame was read to: see [`Walk::read`].
    #[inline(always)]
    fn frame(self, place: u64) -> Frame {
        let place = bounded(place, NEIGHBOURS as u64) as usize;
        Frame(self.at(offset_of!(Walk, read) + place))
    }
}

/// A frame that was read.
#[derive(Clone, Copy)]
struct Frame(*mut u8);

impl Frame {
    /// Returns a word of it.
    #[inline(always)]
    fn word(self, offset: u16) -> u64 {
        let at = self.0.wrapping_add(offset as usize & (PYTHON_WINDOW - 8));
        // SAFETY: inside the entry, which has a window behind each place.
        unsafe { at.cast::<u64>().read_volatile() }
    }

    /// Returns half a word of it.
    #[inline(always)]
    fn half(self, offset: u16) -> u32 {
        let at = self.0.wrapping_add(offset as usize & (PYTHON_WINDOW - 4));
        // SAFETY: as above.
        unsafe { at.cast::<u32>().read_volatile() }
    }
}

/// Returns the thread that runs.
#[inline(always)]
fn thread() -> u64 {
    // SAFETY: the helper takes no argument.
    unsafe { bpf_get_current_pid_tgid() }
}

/// Returns a word of the program's memory; 0 where it is not there.
#[inline(always)]
fn word_of_program(address: u64) -> u64 {
    let mut word = 0_u64;
    // SAFETY: the helper writes a word, and checks the address.
    let failed = unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, address as *const _) };
    if failed == 0 { word } else { 0 }
}

/// Tells whether Python frames are asked for: known when the program is loaded.
#[inline(always)]
pub fn is_asked() -> bool {
    STACK_PYTHON_FRAMES.load() != 0
}

/// Tells whether other processes say which process has an interpreter, and where: they hear of an
/// exec and of an end when both are over, so the programs have to forget the interpreter then.
#[inline(always)]
fn is_for_others() -> bool {
    is_asked() && GUARDS.load() != 0
}

/// Notes that a new process has the interpreter of the one that made it.
#[inline(always)]
pub fn inherit(parent: Pid, child: Pid) {
    if is_asked() {
        inherit_python(parent.shown(), child.shown());
    }
}

/// Notes that a process runs another program, or ends.
#[inline(always)]
pub fn is_replaced(pid: Pid) {
    if is_for_others() {
        let _ = PYTHON.remove(pid.shown());
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn inherit_python(parent: u32, child: u32) -> i32 {
    if let Some(process) = PYTHON.get_ptr(parent) {
        // SAFETY: it points into the map, from where the helper copies: no copy is on the stack.
        let process = unsafe { &*process };
        let _ = PYTHON.insert(child, process, 0);
    } else if is_for_others() {
        // The end of an earlier process of this pid may not have been seen.
        let _ = PYTHON.remove(child);
    }
    0
}

/// Records the Python frames of the running thread, `subject`, where its process has an
/// interpreter: before its stack, for the event whose record has this type.
#[inline(always)]
pub fn record(subject: &impl Subject, event_type: u32) {
    let found = find(subject);
    if found == 0 {
        return;
    }
    if (found as usize) <= USUAL_PYTHON_FRAMES + 1 {
        record_in::<USUAL_PYTHON_FRAMES>(subject, event_type, found);
    } else {
        record_in::<MOST_PYTHON_FRAMES>(subject, event_type, found);
    }
}

/// Finds the frames of the running thread, and records the functions that are new: how many frames
/// there are, and one more; 0 where the process has no interpreter.
#[inline(always)]
fn find(subject: &impl Subject) -> u32 {
    let (pid, tid) = (subject.pid().shown(), subject.tid().shown());
    let found = walk_python(pid, tid, subject.thread_id());
    if found > 1
        && let Some(walk) = Space::current()
        && walk.get(offset_of!(Walk, is_new)) != 0
    {
        code::tell_python_codes(pid, tid);
    }
    found
}

#[inline(always)]
fn record_in<const N: usize>(subject: &impl Subject, event_type: u32, found: u32) {
    let Some(walk) = Space::current() else {
        return;
    };
    let cpu = this_cpu();
    let Some((ring, mut space)) = reserve::<PythonRecord<N>>(cpu) else {
        count_ring_full(cpu, 1);
        return;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { aya_ebpf::helpers::bpf_ktime_get_ns() };
    let record = space.as_mut_ptr().cast::<u8>();
    let header = header(subject, EventTypeId(u32::from(PYTHON_RECORD)), time_ns, cpu);
    // SAFETY: it is where the record begins.
    unsafe { record.cast::<RecordHeader>().write(header) };
    let from = walk.at(offset_of!(Walk, frames));
    let to = record.wrapping_add(offset_of!(PythonRecord<N>, frames));
    let bytes = (N * size_of::<PythonFrame>()) as u32;
    // SAFETY: the helper writes that many bytes, which the record has; the entry has more.
    unsafe { bpf_probe_read_kernel(to.cast(), bytes, from.cast()) };
    let mut ends = walk.get(offset_of!(Walk, ends)) as u32;
    let minor = minor(walk);
    let mut count = found - 1;
    // Another thread has come between.
    if !walk.is_own() {
        (count, ends) = (0, stack_ends::INTERPRETER);
    }
    let words = record.wrapping_add(offset_of!(PythonRecord<N>, event_type));
    // SAFETY: inside the record: six words.
    unsafe {
        words
            .cast::<[u32; 6]>()
            .write([event_type, count, ends, minor, number(walk), 0])
    };
    space.submit(submit_flags(ring, time_ns));
}

#[inline(always)]
fn minor(walk: Space) -> u32 {
    let at = offset_of!(Walk, process) + offset_of!(PythonProcess, minor);
    // SAFETY: inside the entry.
    unsafe { walk.at(at).cast::<u32>().read_volatile() }
}

#[inline(always)]
fn number(walk: Space) -> u32 {
    let at = offset_of!(Walk, process) + offset_of!(PythonProcess, number);
    // SAFETY: inside the entry.
    unsafe { walk.at(at).cast::<u32>().read_volatile() }
}

/// Holds the frames of the running thread, which blocks.
#[inline(always)]
pub fn hold(thread: &impl Subject) {
    let Pid(tid) = thread.tid();
    let found = find(thread);
    let Some(entry) = entry(tid, found) else {
        return;
    };
    let entry = entry.cast::<u8>();
    let Some(walk) = Space::current() else {
        return;
    };
    let found = if walk.is_own() { found } else { 0 };
    let words = [
        found,
        walk.get(offset_of!(Walk, ends)) as u32,
        minor(walk),
        number(walk),
    ];
    // SAFETY: inside the entry, which is the running thread's: its first four words.
    unsafe { entry.cast::<[u32; 4]>().write_volatile(words) };
    let to = entry.wrapping_add(offset_of!(BlockedPython, frames));
    let from = walk.at(offset_of!(Walk, frames));
    let most = MOST_PYTHON_FRAMES * size_of::<PythonFrame>();
    if found > 1 {
        let bytes = u64::from(found - 1) * size_of::<PythonFrame>() as u64;
        let bytes = bounded(bytes, most as u64) as u32;
        // SAFETY: the helper writes that many bytes, which both have.
        unsafe { bpf_probe_read_kernel(to.cast(), bytes, from.cast()) };
    }
}

/// Returns the entry of a thread, which is made where there are frames to be held.
#[inline(always)]
fn entry(tid: u32, found: u32) -> Option<*mut BlockedPython> {
    if let Some(entry) = BLOCKED_PYTHON.get_ptr_mut(tid) {
        return Some(entry);
    }
    if found == 0 {
        return None;
    }
    let empty = BLOCKED_PYTHON_EMPTY.get(0)?;
    BLOCKED_PYTHON.insert(tid, empty, 0).ok()?;
    BLOCKED_PYTHON.get_ptr_mut(tid)
}

/// Records the frames that were held of `subject`, which gets a CPU now.
#[inline(always)]
pub fn record_blocked(subject: &impl Subject) {
    let Pid(tid) = subject.tid();
    let Some(entry) = BLOCKED_PYTHON.get_ptr(tid) else {
        return;
    };
    let entry = entry.cast::<u8>();
    // SAFETY: inside the entry: its first four words.
    let [found, ends, minor, number] = unsafe { entry.cast::<[u32; 4]>().read_volatile() };
    if found == 0 {
        return;
    }
    let event_type = EventTypeId::SWITCH_IN.0;
    let kind = EventTypeId(u32::from(PYTHON_RECORD));
    let is_recorded = record_if_it_fits::<PythonRecord<MOST_PYTHON_FRAMES>>(
        subject,
        kind,
        Wake::InTime,
        |space, header| {
            let record = space.as_mut_ptr().cast::<u8>();
            // SAFETY: it is where the record begins.
            unsafe { record.cast::<RecordHeader>().write(header) };
            let words = record.wrapping_add(offset_of!(PythonRecord<0>, event_type));
            // SAFETY: inside the record: six words.
            unsafe {
                words
                    .cast::<[u32; 6]>()
                    .write([event_type, found - 1, ends, minor, number, 0])
            };
            let to = record.wrapping_add(offset_of!(PythonRecord<0>, frames));
            let from = entry.wrapping_add(offset_of!(BlockedPython, frames));
            let bytes = (MOST_PYTHON_FRAMES * size_of::<PythonFrame>()) as u32;
            // SAFETY: the helper writes that many bytes, which both have.
            unsafe { bpf_probe_read_kernel(to.cast(), bytes, from.cast()) };
        },
    );
    if !is_recorded {
        count_ring_full(this_cpu(), 1);
    }
}

/// Forgets the frames of the thread that had the tid of a new thread before.
#[inline(always)]
pub fn forget(Pid(tid): Pid) {
    if is_asked() {
        let _ = BLOCKED_PYTHON.remove(tid);
    }
}

/// Facts of a function whose mark is made.
#[repr(C)]
struct Marked {
    /// Whether what was made of its numbers has its name.
    is_named: u64,
    /// The first words of its name.
    head: [u64; 4],
    lines: u64,
    name: u64,
    file: u64,
}

/// Facts of a function that is recorded.
#[repr(C)]
struct Told {
    mark: u64,
    first_line: u64,
    lines: u64,
    lines_size: u64,
    name: u64,
    file: u64,
}

/// Walks the frames of the thread that runs: see [`find`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn walk_python(pid: u32, tid: u32, thread_id: u64) -> u32 {
    let Some(process) = PYTHON.get_ptr(pid) else {
        return 0;
    };
    let Some(walk) = Space::current() else {
        return 0;
    };
    walk.set(offset_of!(Walk, by), thread());
    walk.set(offset_of!(Walk, count), 0);
    // Word by word: there is no space on the stack for all of it.
    let process = process.cast::<u64>();
    for word in 0..size_of::<PythonProcess>() / 8 {
        // SAFETY: it points into the map, to so many words.
        let value = unsafe { process.wrapping_add(word).read_volatile() };
        walk.set(offset_of!(Walk, process) + 8 * word, value);
    }
    if minor(walk) == 0 {
        walk.set(offset_of!(Walk, ends), stack_ends::INTERPRETER.into());
        return 1;
    }
    walk.set(offset_of!(Walk, ends), stack_ends::BEGINNING.into());
    walk.set(offset_of!(Walk, is_new), 0);
    let number = walk.get(offset_of!(Walk, number));
    walk.set(offset_of!(Walk, number), number.wrapping_add(1));
    for file in 0..FILES {
        walk.set(offset_of!(Walk, files) + file * 16, 0);
    }
    mark::note_interned(walk);
    code::begin(walk, pid);
    let mut at = thread::python_frame_of(tid, thread_id);
    walk.set(offset_of!(Walk, is_open), 0);
    walk.set(offset_of!(Walk, neighbour_bytes), 0);
    walk.set(offset_of!(Walk, last), at);
    let mut steps = 0;
    while steps < MOST_PYTHON_FRAMES {
        if at == 0 {
            break;
        }
        if steps as u32 >= STACK_PYTHON_FRAMES.load() {
            walk.set(offset_of!(Walk, ends), stack_ends::COUNT.into());
            break;
        }
        at = add_python_frame(at, steps as u64);
        if walk.get(offset_of!(Walk, is_open)) != 0 {
            mark::finish_python_mark(steps as u64);
        }
        steps += 1;
    }
    if steps == MOST_PYTHON_FRAMES && at != 0 {
        walk.set(offset_of!(Walk, ends), stack_ends::COUNT.into());
    }
    let count = walk
        .get(offset_of!(Walk, count))
        .min(MOST_PYTHON_FRAMES as u64);
    count as u32 + 1
}

/// Reads the frame at an address, with those below it that may be its callers, unless it was read
/// with another one: where in [`Walk::read`] it is; `None` where it is not there.
#[inline(always)]
fn read_frame(walk: Space, at: u64) -> Option<u64> {
    let bytes = u64::from(walk.field(offset_of!(PythonLayout, frame_bytes)));
    let first = walk.get(offset_of!(Walk, neighbours));
    let there = walk.get(offset_of!(Walk, neighbour_bytes));
    let place = at.wrapping_sub(first);
    if place < there && place + bytes <= there {
        return Some(place);
    }
    let last = walk.get(offset_of!(Walk, last));
    walk.set(offset_of!(Walk, last), at);
    let is_below = |other: u64| other.wrapping_sub(at) < PIECE;
    let has_neighbours = walk.field(offset_of!(PythonLayout, frame_owner)) != NO_FIELD;
    let offset = offset_of!(Walk, read);
    // One of a generator, or where C has called Python, is elsewhere: it leaves the others there.
    if !has_neighbours || !(is_below(last) || (there != 0 && is_below(first))) {
        let is_read = walk.read_to(offset + NEIGHBOURS, at, bytes, PYTHON_WINDOW);
        return is_read.then_some(NEIGHBOURS as u64);
    }
    let end = at.wrapping_add(bytes);
    let first = (at & !(PAGE - 1)).max(end.saturating_sub(NEIGHBOURS as u64));
    let bytes = end.wrapping_sub(first);
    walk.set(offset_of!(Walk, neighbour_bytes), 0);
    if !walk.read_to(offset, first, bytes, NEIGHBOURS) {
        return None;
    }
    walk.set(offset_of!(Walk, neighbours), first);
    walk.set(offset_of!(Walk, neighbour_bytes), bytes);
    Some(at.wrapping_sub(first))
}

/// Adds the frame at an address: where the next one is; 0 where there is none, or this is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_python_frame(at: u64, index: u64) -> u64 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    let Some(place) = read_frame(walk, at) else {
        walk.set(offset_of!(Walk, ends), stack_ends::MEMORY.into());
        return 0;
    };
    let frame = walk.frame(place);
    let previous = frame.word(walk.field(offset_of!(PythonLayout, frame_previous)));
    // Since 3.14 the lower bits say who counts the reference.
    let code = frame.word(walk.field(offset_of!(PythonLayout, frame_code))) & !7;
    let instruction = frame.word(walk.field(offset_of!(PythonLayout, frame_instruction)));
    let instruction = if walk.field(offset_of!(PythonLayout, code_instructions)) == NO_FIELD {
        instruction & 0xffff_ffff
    } else {
        instruction.wrapping_sub(code).min(i32::MAX as u64)
    };
    let owner_at = walk.field(offset_of!(PythonLayout, frame_owner));
    let owner = if owner_at == NO_FIELD {
        0
    } else {
        frame.half(owner_at)
    };
    let c_owner = walk.field(offset_of!(PythonLayout, c_owner));
    let is_of_c = c_owner != NO_FIELD
        && owner >> ((u32::from(owner_at) & 3) * 8) & 0xff >= u32::from(c_owner);
    let index = index as usize & (MOST_PYTHON_FRAMES - 1);
    let to = offset_of!(Walk, frames) + index * size_of::<PythonFrame>();
    // Before the mark is made: then they need no space on the stack.
    walk.set(to + 8, u64::from(owner) << 32 | instruction);
    walk.set(offset_of!(Walk, codes) + index * 8, code);
    let mark = if is_of_c {
        0
    } else {
        mark::python_mark(walk, code)
    };
    if mark == 0 && !is_of_c {
        walk.set(offset_of!(Walk, ends), stack_ends::DAMAGED.into());
        return 0;
    }
    walk.set(to, mark);
    walk.set(offset_of!(Walk, count), index as u64 + 1);
    previous
}
