//! Taking a stream's memory back when the stream has ended.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use tracer_common::area::{
    ENTERING_SLOTS, LEFT_FOR_GOOD, PROCESS_SLOTS, StreamControl, WINDOW_BYTES, WINDOW_SLOTS,
    chunk_state, stream_state, window,
};

use super::allowance::Allowance;
use crate::discover::find::Area;
use crate::discover::liveness;
use crate::discover::reader_windows::Claims;
use crate::emit::process;
use crate::emit::thread::own_tid;
use crate::layout::chunk_ref::{ChunkRef, Shape};
use crate::layout::identity::{entered, thread_of};
use crate::layout::mapping::{self, Parts};
use crate::layout::pool::{Pool, Windows};
use crate::system::pids::{own_pid, own_pid_namespace, process_exists};
use crate::system::thread;

/// Ends the streams of controllers that are gone, which could not do it themselves. Also gives back
/// the memory of streams that had ended while threads were still in their pools, and the slots of
/// controllers that were killed amid taking or freeing one.
pub(super) fn reclaim(
    area: &Area,
    parts: Parts<'_>,
    abandoned: impl Fn(&Area, &StreamControl) -> Option<u32>,
) {
    for (index, control) in parts.streams() {
        if let Some(generation) = abandoned(area, control) {
            end(area, parts, (index, control), generation);
            continue;
        }
        let word = control.state.load(Acquire);
        let is_left =
            || is_claimer_gone(area, word) && take_over(area, parts, (index, control), word);
        if word == stream_state::ENDING || is_left() {
            let allowance = Allowance::begin_for_left(area);
            finish(area, parts, (index, control), &allowance);
        }
    }
}

/// Returns the word of a slot that this thread claims.
pub(super) fn claimed(area: &Area) -> u32 {
    let own = area.is_in_own_namespace().then(own_tid);
    stream_state::claimed(own.map_or(0, i32::unsigned_abs))
}

/// Tells whether the word of a slot names a thread that claimed it, and has ended for certain.
fn is_claimer_gone(area: &Area, word: u32) -> bool {
    let tid = stream_state::claimer(word).and_then(|tid| i32::try_from(tid).ok());
    area.is_in_own_namespace() && tid.is_some_and(liveness::has_thread_ended)
}

/// Makes the slot that an ended thread had claimed that of a stream which has ended, unless another
/// process does.
fn take_over(
    area: &Area,
    parts: Parts<'_>,
    (index, control): (usize, &StreamControl),
    word: u32,
) -> bool {
    let is_claimed = move_state(control, word, claimed(area));
    if is_claimed {
        set_ending(parts, (index, control));
    }
    is_claimed
}

/// Ends the stream of this generation, unless that was done: from then on no trace point emits to
/// it. Its memory is given back, unless a thread is still in it. Then the next controller that
/// opens a stream in the area does that. No two streams have the same generation, so no process
/// ends another stream than it means to.
pub(super) fn end(
    area: &Area,
    parts: Parts<'_>,
    (index, control): (usize, &StreamControl),
    generation: u32,
) {
    let is_meant = || control.generation.load(Acquire) == generation;
    if !is_meant() || !move_state(control, stream_state::LIVE, claimed(area)) {
        return;
    }
    if !is_meant() {
        // It has ended, and another stream has taken its slot, which goes on.
        control.state.store(stream_state::LIVE, Release);
        return;
    }
    set_ending(parts, (index, control));
    finish(area, parts, (index, control), &Allowance::begin(area));
}

/// Ends the stream of a slot that this thread has claimed. Whenever the thread is killed, the next
/// one that claims the slot does the same.
fn set_ending(parts: Parts<'_>, (index, control): (usize, &StreamControl)) {
    let generation = control.generation.load(Acquire);
    if generation != 0 {
        control.ended_generation.store(generation, Relaxed);
    }
    control.generation.store(0, Release);
    parts.header().active.fetch_and(!(1_u32 << index), AcqRel);
    control.state.store(stream_state::ENDING, Release);
}

/// Frees the slot of a stream that has ended, if no thread can be in its memory any more.
fn finish(
    area: &Area,
    parts: Parts<'_>,
    (index, control): (usize, &StreamControl),
    allowance: &Allowance,
) {
    if allowance.is_spent() || !move_state(control, stream_state::ENDING, claimed(area)) {
        return;
    }
    let generation = control.ended_generation.load(Relaxed);
    if generation == 0 {
        // There was no stream here yet.
        control.state.store(stream_state::FREE, Release);
        return;
    }
    // A mark or an entry that a thread has set before this is seen; a thread that sets one later
    // sees that the stream has ended.
    thread::membarrier();
    let has_restarted = area.is_own() && process::restart_emissions();
    let ended = Ended {
        area,
        parts,
        index,
        control,
        generation,
        has_restarted,
    };
    if ended.is_in_use(allowance) || !release_memory(area, parts, generation, allowance) {
        control.state.store(stream_state::ENDING, Release);
        return;
    }
    ended.free();
    control.state.store(stream_state::FREE, Release);
}

/// Changes the state of a slot, if it is `from`.
pub(super) fn move_state(control: &StreamControl, from: u32, to: u32) -> bool {
    control
        .state
        .compare_exchange(from, to, AcqRel, Relaxed)
        .is_ok()
}

/// Gives the memory of a stream's windows back to the machine, as far as there is time for it.
/// Returns whether that is all. Where this process may not do that, the next stream gets the memory
/// as it is.
fn release_memory(area: &Area, parts: Parts<'_>, generation: u32, allowance: &Allowance) -> bool {
    if !area.may_be_released() {
        return !allowance.is_spent();
    }
    let prepared = prepared_windows(area, parts, generation, allowance);
    for index in windows_of(parts, generation).filter(|index| *index >= prepared) {
        if allowance.is_spent() {
            return false;
        }
        if let Some(base) = area.windows().base(index) {
            mapping::release(base, WINDOW_BYTES);
        }
    }
    !allowance.is_spent()
}

/// Returns how many of the first windows hold their memory: those that living processes have
/// prepared, so that their threads emit without a page fault. Free windows that only ended
/// processes had prepared go with the memory of the stream of this generation.
fn prepared_windows(
    area: &Area,
    parts: Parts<'_>,
    generation: u32,
    allowance: &Allowance,
) -> usize {
    let windows = &parts.header().prepared;
    let most = u32::try_from(WINDOW_SLOTS).unwrap_or(u32::MAX);
    let said = windows.load(Acquire).min(most);
    let most_of_living = || {
        let entries = (0..PROCESS_SLOTS).filter_map(|index| parts.process(index));
        entries
            .map(|entry| (entry.pid.load(Acquire), entry.prepared.load(Relaxed)))
            .filter(|(pid, prepared)| {
                *prepared > 0 && (allowance.is_spent() || !has_process_ended(area, *pid))
            })
            .fold(0, |most, (_, prepared)| prepared.max(most))
    };
    let count = |windows: u32| usize::try_from(windows).unwrap_or(WINDOW_SLOTS);
    if said == 0 || most_of_living() >= said {
        return count(said);
    }
    // A process that prepares itself meanwhile writes its entry before it raises the count.
    windows.store(0, SeqCst);
    let held = most_of_living();
    windows.fetch_max(held, SeqCst);
    for word in (count(held)..count(said)).filter_map(|index| parts.window(index)) {
        // A free window becomes the stream's.
        let _others = word.compare_exchange(0, window::word(generation), AcqRel, Relaxed);
    }
    let used = &parts.header().window_count;
    used.fetch_max(said, Release);
    count(held)
}

/// Tells whether a process that the area names has ended for certain. The end of its first thread
/// alone does not count.
fn has_process_ended(area: &Area, pid: i32) -> bool {
    pid == 0 || pid > 0 && area.is_in_own_namespace() && !process_exists(pid)
}

fn windows_of(parts: Parts<'_>, generation: u32) -> impl Iterator<Item = usize> {
    let untrusted = parts.header().window_count.load(Acquire);
    let count = usize::try_from(untrusted).unwrap_or(0).min(WINDOW_SLOTS);
    (0..count).filter(move |index| {
        let word = parts.window(*index).map(|word| word.load(Acquire));
        word == Some(window::word(generation))
    })
}

struct Ended<'a> {
    area: &'a Area,
    parts: Parts<'a>,
    index: usize,
    control: &'a StreamControl,
    generation: u32,
    /// Whether no thread of this process can still be amid a restartable emission.
    has_restarted: bool,
}

impl Ended<'_> {
    fn is_in_use(&self, allowance: &Allowance) -> bool {
        let own = own_pid_namespace();
        let in_pool = (0..ENTERING_SLOTS)
            .filter_map(|entry| self.parts.entering(self.index, entry))
            .map(|entry| entry.thread.load(Acquire))
            .filter(|word| *word != 0)
            .any(|word| allowance.is_spent() || !self.has_left(word, own));
        in_pool || self.is_any_under_way(allowance)
    }

    /// Tells whether the thread of an entry has ended for certain. `own` is this process's pid
    /// namespace.
    fn has_left(&self, word: u64, own: u64) -> bool {
        let (namespace, tid) = entered(word);
        let is_own_namespace = match namespace {
            0 => self.area.is_in_own_namespace(),
            of => u64::from(of) == own,
        };
        word == LEFT_FOR_GOOD || is_own_namespace && liveness::has_thread_ended(tid)
    }

    /// Tells whether a thread may be writing a record; `true` also where there is no time to find
    /// out.
    fn is_any_under_way(&self, allowance: &Allowance) -> bool {
        let Some(shape) = Shape::new(self.control.chunk_bytes.load(Relaxed)) else {
            return false;
        };
        let pool = Pool {
            parts: self.parts,
            slot: self.index,
            control: self.control,
            generation: self.generation,
            shape,
            windows: self.area.windows(),
        };
        let mut claims = Claims::default();
        let mut is_under_way = |chunk_ref: ChunkRef<'_>| {
            let word = chunk_ref.header.state.load(Acquire);
            let is_open = chunk_state::generation_of(word) == self.generation
                && chunk_state::state_of(word) == chunk_state::OPEN;
            let thread = thread_of(chunk_ref.header.thread.load(Relaxed));
            let is_settled = self.has_restarted
                && chunk_ref.header.restartable.load(Relaxed) == 1
                && thread.0 == own_pid();
            is_open
                && !is_settled
                && claims.is_true(&pool.windows, &chunk_ref)
                && chunk_ref
                    .chunk()
                    .is_some_and(|chunk| chunk.under_way().is_some())
                && !self.area.has_ended(thread)
        };
        pool.chunks_by_window(0).any(|of_window| {
            allowance.is_spent() || of_window.into_iter().flatten().any(&mut is_under_way)
        })
    }

    /// Frees windows, chains and entries.
    fn free(&self) {
        // The last one first: those that are left are the first ones, however far this comes.
        let entries = (0..WINDOW_SLOTS).map_while(|n| self.parts.stream_window(self.index, n));
        let used = entries.take_while(|entry| entry.load(Relaxed) != 0);
        for n in (0..used.count()).rev() {
            if let Some(entry) = self.parts.stream_window(self.index, n) {
                entry.store(0, Relaxed);
            }
        }
        for index in windows_of(self.parts, self.generation) {
            if let Some(word) = self.parts.window(index) {
                word.store(0, Release);
            }
        }
        let chains = self.parts.header().chain_count.load(Acquire);
        for chain in (0..chains).map_while(|index| self.parts.chain(index)) {
            if chain.generation.load(Relaxed) == self.generation {
                chain.closed.store(0, Relaxed);
                chain.link.store(0, Relaxed);
                chain.generation.store(0, Release);
            }
        }
        for entry in (0..ENTERING_SLOTS).filter_map(|at| self.parts.entering(self.index, at)) {
            if entry.thread.load(Relaxed) != 0 {
                entry.thread.store(0, Relaxed);
            }
        }
    }
}
