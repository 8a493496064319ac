//! Where the interpreter has the frames of a thread.
//!
//! The interpreter has a list of its threads, each with the `pthread_t` that the kernel knows too.
//! The state of a thread that was found once is remembered: it is still the thread's if it is in
//! the list, where each state knows the one before.
//!
//! Before 3.13 a state says which thread has made it. Where there are several interpreters another
//! thread may run it: of 3.10 to 3.12 the state has an address in the stack of the one that does.
//! Of 3.8 and 3.9 nothing says so, and what may be run by another thread is not known.

use core::mem::offset_of;

use aya_ebpf::macros::map;
use aya_ebpf::maps::LruHashMap;

use tracer_common::kernel::{NO_FIELD, PythonLayout, PythonProcess, stack_ends};

use super::{LOWEST, Space, THREAD_BYTES, Walk, word_of_program};

/// The states of threads, by tid.
#[map]
static PYTHON_THREADS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(1, 0);

/// Bytes that are read of an interpreter, from where it has the next one.
const INTERPRETER_BYTES: u32 = 96;

/// States of threads that are looked at for one, in all interpreters of a process.
const MOST_STATES: u32 = 256;

/// Returns the innermost frame of the thread that runs; 0 where it runs no Python, or that is not
/// known.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn python_frame_of(tid: u32, thread_id: u64) -> u64 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    if thread_id == 0 {
        walk.set(offset_of!(Walk, ends), stack_ends::INTERPRETER.into());
        return 0;
    }
    for word in [
        offset_of!(Walk, states),
        offset_of!(Walk, frame),
        offset_of!(Walk, c_frame),
        offset_of!(Walk, doubts),
    ] {
        walk.set(word, 0);
    }
    let runtime = walk.get(offset_of!(Walk, process) + offset_of!(PythonProcess, runtime));
    let of_runtime = walk.field(offset_of!(PythonLayout, interpreters));
    let interpreter = word_of_program(runtime.wrapping_add(of_runtime.into()));
    walk.set(offset_of!(Walk, interpreter), interpreter);
    if interpreter < LOWEST {
        return 0;
    }
    // Both are near each other.
    let of_next = walk.field(offset_of!(PythonLayout, interpreter_next));
    let of_threads = walk.field(offset_of!(PythonLayout, interpreter_threads));
    if !walk.read(interpreter.wrapping_add(of_next.into()), INTERPRETER_BYTES) {
        return 0;
    }
    let is_alone = walk.word(0) == 0;
    let first = walk.word(of_threads.wrapping_sub(of_next));
    if is_alone && is_remembered(walk, (tid, thread_id), first) {
        return walk.get(offset_of!(Walk, frame));
    }
    if is_alone {
        return search(walk, (tid, thread_id), (true, first));
    }
    if has_makers(walk) && walk.field(offset_of!(PythonLayout, thread_c_frame)) != NO_FIELD {
        find_python_neighbours(first, thread_id);
        walk.set(offset_of!(Walk, interpreter), interpreter);
    }
    walk.set(offset_of!(Walk, doubts), doubt::SEVERAL);
    search(walk, (tid, thread_id), (false, first))
}

/// Tells whether the states of this version say which thread has made them, and not which one runs
/// them.
#[inline(always)]
fn has_makers(walk: Space) -> bool {
    super::minor(walk) < 13
}

/// Finds between which other threads' stacks that of the thread is: the C library has what a
/// `pthread_t` is the address of at the beginning of the stack, but for the first thread, whose
/// stack is above all of them.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn find_python_neighbours(first: u64, thread_id: u64) -> i32 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    walk.set(offset_of!(Walk, below), 0);
    walk.set(offset_of!(Walk, highest), thread_id);
    let mut state = first;
    let mut steps = 0;
    while steps < MOST_STATES {
        steps += 1;
        if state == 0 {
            state = next_interpreter(walk);
            if state == 0 {
                break;
            }
        }
        state = note_python_neighbour(walk, state, thread_id);
    }
    0
}

/// Notes where the stack of a state's maker is: the next state.
#[inline(always)]
fn note_python_neighbour(walk: Space, state: u64, thread_id: u64) -> u64 {
    if !walk.read(state, THREAD_BYTES) {
        return 0;
    }
    let other = walk.word(walk.field(offset_of!(PythonLayout, thread_id)));
    if other < thread_id && other > walk.get(offset_of!(Walk, below)) {
        walk.set(offset_of!(Walk, below), other);
    }
    if other > walk.get(offset_of!(Walk, highest)) {
        walk.set(offset_of!(Walk, highest), other);
    }
    walk.word(walk.field(offset_of!(PythonLayout, thread_next)))
}

/// Tells whether an address is in the stack of the thread that runs, see
/// [`find_python_neighbours`].
#[inline(always)]
fn is_in_own_stack(walk: Space, address: u64, thread_id: u64) -> bool {
    let by = walk.get(offset_of!(Walk, by));
    let is_first = by >> 32 == by & 0xffff_ffff;
    let is_above_all = address > walk.get(offset_of!(Walk, highest));
    (address < thread_id && address > walk.get(offset_of!(Walk, below)))
        || (is_first && is_above_all)
}

/// Findings that make it doubtful which thread runs a state: bits of [`Walk::doubts`].
mod doubt {
    /// There are several interpreters.
    pub const SEVERAL: u64 = 1;
    /// A state that the thread has made is run elsewhere.
    pub const ELSEWHERE: u64 = 2;
    /// A state of another thread is run.
    pub const OTHER: u64 = 4;
    /// A state of another thread is run that is alone in its interpreter, which is not the first
    /// one: by its maker, or by any thread that calls it.
    pub const OTHER_CALLED: u64 = 8;
    /// One that the thread has made is run, and is alone in such an interpreter.
    pub const OWN_CALLED: u64 = 16;
}

/// Looks for the thread in all interpreters.
#[inline(always)]
fn search(walk: Space, (tid, thread_id): (u32, u64), (is_alone, first): (bool, u64)) -> u64 {
    let mut state = first;
    let mut found = 0;
    let mut steps = 0;
    while steps < MOST_STATES {
        steps += 1;
        if state == 0 {
            state = next_interpreter(walk);
            if state == 0 {
                break;
            }
        }
        let before = walk.get(offset_of!(Walk, states));
        let next = look_at_python_thread(state, thread_id);
        if walk.get(offset_of!(Walk, states)) != before {
            found = state;
            // A thread has one state in an interpreter.
            if is_alone {
                break;
            }
        }
        state = next;
    }
    let states = walk.get(offset_of!(Walk, states));
    let is_unknown = (states == 0 && steps == MOST_STATES) || is_doubtful(walk);
    if is_unknown || walk.get(offset_of!(Walk, c_frame)) == u64::MAX {
        walk.set(offset_of!(Walk, ends), stack_ends::INTERPRETER.into());
        return 0;
    }
    if is_alone && found != 0 {
        let _ = PYTHON_THREADS.insert(tid, found, 0);
    }
    walk.get(offset_of!(Walk, frame))
}

/// Tells whether it is not known which thread runs what was found.
#[inline(always)]
fn is_doubtful(walk: Space) -> bool {
    let doubts = walk.get(offset_of!(Walk, doubts));
    let has = |doubt| doubts & doubt != 0;
    if walk.get(offset_of!(Walk, frame)) == 0 {
        return has(doubt::ELSEWHERE);
    }
    has(doubt::OTHER_CALLED) || (has(doubt::OWN_CALLED) && has(doubt::OTHER))
}

#[inline(always)]
fn first_thread_of(walk: Space) -> u64 {
    let interpreter = walk.get(offset_of!(Walk, interpreter));
    let at = walk.field(offset_of!(PythonLayout, interpreter_threads));
    word_of_program(interpreter.wrapping_add(at.into()))
}

/// Returns the first thread of the next interpreter; 0 where there is none.
#[inline(always)]
fn next_interpreter(walk: Space) -> u64 {
    let interpreter = walk.get(offset_of!(Walk, interpreter));
    let at = walk.field(offset_of!(PythonLayout, interpreter_next));
    let next = word_of_program(interpreter.wrapping_add(at.into()));
    walk.set(offset_of!(Walk, interpreter), next);
    if next < LOWEST {
        return 0;
    }
    first_thread_of(walk)
}

/// Tells whether the state that was found for the thread before is its state still; looks at it
/// then.
#[inline(always)]
fn is_remembered(walk: Space, (tid, thread_id): (u32, u64), first: u64) -> bool {
    let Some(state) = PYTHON_THREADS.get_ptr(tid) else {
        return false;
    };
    // SAFETY: it points into the map.
    let state = unsafe { state.read_volatile() };
    // It is the first one, or the next one of the one before.
    if state != first {
        let next = walk.field(offset_of!(PythonLayout, thread_next));
        let before = word_of_program(state.wrapping_add(next.into()).wrapping_sub(8));
        if before == 0 || word_of_program(before.wrapping_add(next.into())) != state {
            return false;
        }
    }
    look_at_python_thread(state, thread_id);
    walk.get(offset_of!(Walk, states)) == 1
}

/// Tells whether a state is the thread's, where there are several interpreters, and notes what is
/// doubtful about that.
#[inline(always)]
fn is_run_here(
    walk: Space,
    (is_made_by, is_alone_in): (bool, bool),
    (frame, c_frame): (u64, u64),
    thread_id: u64,
) -> bool {
    if !has_makers(walk) || frame == 0 {
        return is_made_by;
    }
    let mut doubts = walk.get(offset_of!(Walk, doubts));
    let is_here;
    if c_frame != 0 {
        is_here = is_in_own_stack(walk, c_frame, thread_id);
        if is_made_by && !is_here {
            doubts |= doubt::ELSEWHERE;
        }
    } else {
        is_here = is_made_by;
        // The first interpreter is the last one of the list.
        let at = walk.field(offset_of!(PythonLayout, interpreter_next));
        let interpreter = walk.get(offset_of!(Walk, interpreter));
        let is_called = is_alone_in && word_of_program(interpreter.wrapping_add(at.into())) != 0;
        doubts |= match (is_made_by, is_called) {
            (true, true) => doubt::OWN_CALLED,
            (true, false) => 0,
            (false, true) => doubt::OTHER | doubt::OTHER_CALLED,
            (false, false) => doubt::OTHER,
        };
    }
    walk.set(offset_of!(Walk, doubts), doubts);
    is_here
}

/// Looks at the state of a thread, and notes its frame if it is the thread's that runs: the next
/// state.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn look_at_python_thread(state: u64, thread_id: u64) -> u64 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    if !walk.read(state, THREAD_BYTES) {
        return 0;
    }
    let next = walk.word(walk.field(offset_of!(PythonLayout, thread_next)));
    let interpreter = walk.word(walk.field(offset_of!(PythonLayout, thread_interpreter)));
    if interpreter != walk.get(offset_of!(Walk, interpreter)) {
        return next;
    }
    let is_made_by = walk.word(walk.field(offset_of!(PythonLayout, thread_id))) == thread_id;
    let is_alone = walk.get(offset_of!(Walk, doubts)) == 0;
    if is_alone && !is_made_by {
        return next;
    }
    let mut frame = walk.word(walk.field(offset_of!(PythonLayout, thread_frame)));
    let in_thread = walk.field(offset_of!(PythonLayout, thread_c_frame));
    let in_c_frame = walk.field(offset_of!(PythonLayout, c_frame));
    let mut c_frame = 0;
    if in_thread != NO_FIELD && frame != 0 {
        c_frame = walk.word(in_thread);
    }
    let has_previous = walk.word(
        walk.field(offset_of!(PythonLayout, thread_next))
            .wrapping_sub(8),
    ) != 0;
    if in_c_frame != NO_FIELD && frame != 0 {
        frame = word_of_program(c_frame.wrapping_add(in_c_frame.into()));
    }
    if !is_alone {
        let is_alone_in = next == 0 && !has_previous;
        if !is_run_here(walk, (is_made_by, is_alone_in), (frame, c_frame), thread_id) {
            return next;
        }
    }
    let states = walk.get(offset_of!(Walk, states));
    walk.set(offset_of!(Walk, states), states + 1);
    if frame == 0 {
        return next;
    }
    let known = walk.get(offset_of!(Walk, frame));
    let known_c = walk.get(offset_of!(Walk, c_frame));
    if known != 0 && (c_frame == 0 || known_c == u64::MAX) {
        // Of two interpreters that the thread is in, it is not known which called the other one.
        walk.set(offset_of!(Walk, c_frame), u64::MAX);
    } else if known == 0 || c_frame < known_c {
        // The one that was called is further down the thread's stack.
        walk.set(offset_of!(Walk, frame), frame);
        walk.set(offset_of!(Walk, c_frame), c_frame);
    }
    next
}
