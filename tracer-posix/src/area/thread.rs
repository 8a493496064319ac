//! This thread as an emitter: its rings, one for each stream and nesting level.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, compiler_fence};

use tracer_common::area::{
    NESTING_LEVELS, STREAM_SLOTS, StreamControl, emitters, ring_mode, ring_state,
};

use super::directory;
use super::errno::ErrnoKept;
use super::mapping::{Mapping, Parts};
use super::process;
use super::ring::{Producer, Ring};
use super::tls;

/// What a thread knows of one stream at one nesting level.
pub(super) enum Lane {
    /// Not looked at in this generation of the slot.
    Unknown,
    /// The stream does not trace this process.
    NotTraced,
    /// No ring could be had: every event is counted as refused.
    NoRing,
    /// Emits here.
    Open(Producer<'static>),
}

/// A lane and the generation of the slot that it is good for.
pub(super) struct LaneSlot {
    pub(super) generation: u32,
    pub(super) lane: Lane,
}

/// A thread's own memory: reached through one thread-local pointer, never by another thread.
pub(super) struct ThreadState {
    /// How many emissions of this thread are under way, one interrupting the other.
    pub(super) nesting: Cell<usize>,
    /// Offset of the kernel's `struct rseq` from the thread pointer; 0 when there is none.
    pub(super) rseq_offset: isize,
    tid: i32,
    lanes: [[LaneSlot; STREAM_SLOTS]; NESTING_LEVELS],
}

/// Key whose destructor runs when a thread ends; `u32::MAX` before it was made.
static ENDING: AtomicU32 = AtomicU32::new(u32::MAX);

/// Makes the key, before the first thread registers.
#[inline]
pub(super) fn prepare() {
    let mut key = 0;
    // SAFETY: `key` is a valid place; the destructor has the signature that is asked for.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        ENDING.store(key, Relaxed);
    }
    tls::prepare();
}

#[cold]
fn register() -> Option<NonNull<ThreadState>> {
    let _errno = ErrnoKept::new();
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<ThreadState>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return None;
    }
    let place = NonNull::new(memory.cast::<ThreadState>())?;
    let state = ThreadState {
        nesting: Cell::new(0),
        rseq_offset: tls::rseq_offset(),
        tid: own_tid(),
        lanes: std::array::from_fn(|_| {
            std::array::from_fn(|_| LaneSlot {
                generation: 0,
                lane: Lane::Unknown,
            })
        }),
    };
    // SAFETY: the mapping is page aligned, as large as the type, and ours alone.
    unsafe { place.write(state) };
    tls::set(place.as_ptr());
    let key = ENDING.load(Relaxed);
    if key != u32::MAX {
        // SAFETY: the key was made in `prepare`. Keys made as early as that need no allocation.
        unsafe { libc::pthread_setspecific(key, place.as_ptr().cast()) };
    }
    Some(place)
}

/// In a forked child: the rings belong to the parent's thread. Its state's memory is left behind,
/// a copy-on-write page.
pub(super) fn forget() {
    tls::set(std::ptr::null_mut());
    let key = ENDING.load(Relaxed);
    if key != u32::MAX {
        // SAFETY: the key was made in `prepare`.
        unsafe { libc::pthread_setspecific(key, std::ptr::null()) };
    }
}

/// An emission of this thread that is under way. A handler that interrupts it and emits too gets the next level, and with it
/// rings of its own.
pub(super) struct Nested {
    state: NonNull<ThreadState>,
    level: usize,
}

impl Nested {
    /// Enters an emission; `None` when the thread cannot be registered.
    #[inline(always)]
    pub(super) fn enter() -> Option<Self> {
        let state = NonNull::new(tls::get()).or_else(register)?;
        let level = nesting(state).get();
        Some(Self::enter_at(state, level))
    }

    /// Enters an emission if the thread is registered and this interrupts no other one of it.
    #[inline(always)]
    pub(super) fn enter_outermost() -> Option<Self> {
        let state = NonNull::new(tls::get())?;
        (nesting(state).get() == 0).then(|| Self::enter_at(state, 0))
    }

    #[inline(always)]
    fn enter_at(state: NonNull<ThreadState>, level: usize) -> Self {
        nesting(state).set(level + 1);
        // Nothing of the emission happens before a handler would see that it has begun.
        compiler_fence(SeqCst);
        Self { state, level }
    }

    /// How many emissions of this thread this one has interrupted.
    #[inline(always)]
    pub(super) fn level(&self) -> usize {
        self.level
    }

    /// Where the kernel's `struct rseq` of this thread is.
    #[inline(always)]
    pub(super) fn rseq_offset(&self) -> isize {
        // SAFETY: the thread's own state; the field never changes.
        unsafe { (*self.state.as_ptr()).rseq_offset }
    }

    /// What this thread knows of a stream, at this level and in the stream's present generation.
    #[inline(always)]
    pub(super) fn lane(
        &mut self,
        parts: Parts<'static>,
        (slot, control): (u32, &StreamControl),
    ) -> Option<&mut LaneSlot> {
        // SAFETY: the thread's own state; the field never changes.
        let tid = unsafe { (*self.state.as_ptr()).tid };
        let level = self.level;
        let (slot, place) = self.place(slot)?;
        let generation = control.generation.load(Acquire);
        if generation == 0 {
            // The stream has ended since we saw it run: no ring is made for it.
            return None;
        }
        if place.generation != generation {
            renew(place, parts, (slot, control), (level, tid), generation);
        }
        Some(place)
    }

    /// As [`lane`](Self::lane), if the thread has met the stream before. (The generation of a stream that has
    /// ended is 0, which is that of no lane but the unknown.)
    #[inline(always)]
    pub(super) fn lane_if_known(
        &mut self,
        slot: u32,
        control: &StreamControl,
    ) -> Option<&mut LaneSlot> {
        let (_slot, place) = self.place(slot)?;
        let generation = control.generation.load(Acquire);
        (place.generation == generation).then_some(place)
    }

    #[inline(always)]
    fn place(&mut self, slot: u32) -> Option<(usize, &mut LaneSlot)> {
        let slot = usize::try_from(slot)
            .ok()
            .filter(|&slot| slot < STREAM_SLOTS)?;
        if self.level >= NESTING_LEVELS {
            return None;
        }
        // SAFETY: both indices were checked.
        let place = unsafe { &raw mut (*self.state.as_ptr()).lanes[self.level][slot] };
        // SAFETY: each level of a thread has lanes of its own, so nobody else refers to this one,
        // a handler that interrupts us included.
        Some((slot, unsafe { &mut *place }))
    }
}

impl Drop for Nested {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        nesting(self.state).set(self.level);
    }
}

/// How many emissions of a thread are under way.
#[inline(always)]
fn nesting<'a>(state: NonNull<ThreadState>) -> &'a Cell<usize> {
    // SAFETY: the thread's own state, which lives until the thread ends. Only this field is
    // borrowed, and as shared: a handler may look at it at any moment.
    unsafe { &(*state.as_ptr()).nesting }
}

#[cold]
fn renew(
    place: &mut LaneSlot,
    parts: Parts<'static>,
    (slot, control): (usize, &StreamControl),
    (level, tid): (usize, i32),
    generation: u32,
) {
    let _errno = ErrnoKept::new();
    close(place);
    place.lane = if process::is_traced_by(slot, control, generation) {
        process::share_over_exec(parts);
        match open(parts, (slot, control), (level, tid), generation) {
            Some(producer) => Lane::Open(producer),
            None => Lane::NoRing,
        }
    } else {
        Lane::NotTraced
    };
    place.generation = generation;
}

fn open(
    parts: Parts<'static>,
    (slot, control): (usize, &StreamControl),
    (level, tid): (usize, i32),
    generation: u32,
) -> Option<Producer<'static>> {
    process::learn_clock(parts)?;
    note_emitter(control);
    let wanted = control.ring_bytes.load(Relaxed);
    let claimed = directory::claim(parts, generation, wanted)?;
    let words = map(claimed.data_offset, claimed.data_bytes);
    let Some(ring) = words.and_then(|words| Ring::new(claimed.entry, words)) else {
        directory::change(
            claimed.entry,
            generation,
            ring_state::CLAIMED,
            ring_state::FREE,
        );
        return None;
    };
    let entry = claimed.entry;
    entry.pid.store(process::pid(), Relaxed);
    entry.tid.store(tid, Relaxed);
    entry.thread_id.store(tls::thread_id(), Relaxed);
    let place = u32::try_from(slot | level << 16).unwrap_or(u32::MAX);
    entry.slot_level.store(place, Relaxed);
    let keeps_oldest = control.mode.load(Relaxed) == ring_mode::KEEP_OLDEST;
    let producer = Producer::new(ring, keeps_oldest, control.max_data.load(Relaxed));
    entry
        .state
        .store(ring_state::word(generation, ring_state::LIVE), Release);
    Some(producer)
}

/// Notes that one more ring emits, before it does. The thread that was alone until now sees it not
/// later than anything that this one emits or does afterwards.
fn note_emitter(control: &StreamControl) {
    let is_first = control
        .emitters
        .compare_exchange(emitters::NONE, emitters::ONE, SeqCst, SeqCst)
        .is_ok();
    if !is_first {
        control.emitters.store(emitters::MANY, SeqCst);
    }
}

/// Maps a ring's data, if the area's descriptor still is what it was.
fn map(offset: u64, bytes: u32) -> Option<&'static [std::sync::atomic::AtomicU64]> {
    let file = process::file()?;
    // SAFETY: `file()` has just found it open, and as the area's.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
    let mapping = Mapping::new(
        borrowed,
        usize::try_from(offset).ok()?,
        usize::try_from(bytes).ok()?,
    )
    .ok()?;
    // Another thread may have closed it and opened a file of its own in between: nothing was
    // written to that file yet, and nothing will be.
    (process::file() == Some(file)).then(|| mapping.leak())
}

/// Leaves a lane's ring to the reader. Where its stream has ended, the ring may be another's
/// already: then nothing is changed.
fn close(place: &mut LaneSlot) {
    if let Lane::Open(producer) = &place.lane {
        let entry = producer.ring.entry;
        if entry.state.load(Acquire) == ring_state::word(place.generation, ring_state::LIVE) {
            // The mark may be one that the ring's former thread has left (`hands::before_first`).
            producer.abandon();
        }
        directory::change(entry, place.generation, ring_state::LIVE, ring_state::ENDED);
        producer.ring.unmap();
    }
    place.lane = Lane::Unknown;
}

/// Runs when a thread ends: its rings are left to the reader.
extern "C" fn end(state: *mut libc::c_void) {
    let Some(place) = NonNull::new(state.cast::<ThreadState>()) else {
        return;
    };
    // Handlers that run from here on find no state and register the thread anew, which makes the
    // key's destructor run once more.
    tls::set(std::ptr::null_mut());
    // SAFETY: the state was made by `register` for this thread, which alone uses it, and no
    // emission is under way: a thread does not end inside one.
    let state = unsafe { &mut *place.as_ptr() };
    for place in state.lanes.iter_mut().flatten() {
        close(place);
    }
    // SAFETY: the mapping that `register` made; nothing refers to it any more.
    unsafe { libc::munmap(place.as_ptr().cast(), size_of::<ThreadState>()) };
}

fn own_tid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(emitters: u32) -> StreamControl {
        // SAFETY: all of it is atomics, for which zeros are valid.
        let control: StreamControl = unsafe { std::mem::zeroed() };
        control.emitters.store(emitters, Relaxed);
        control
    }

    #[test]
    fn a_thread_is_alone_until_a_second_ring_is_opened() {
        let control = control(emitters::NONE);
        let after = |_| {
            note_emitter(&control);
            control.emitters.load(Relaxed)
        };

        let [first, second, third] = [(), (), ()].map(after);
        assert_eq!(
            [first, second, third],
            [emitters::ONE, emitters::MANY, emitters::MANY]
        );
    }

    #[test]
    fn no_thread_is_alone_in_a_stream_with_other_sources() {
        let control = control(emitters::MANY);
        note_emitter(&control);

        assert_eq!(control.emitters.load(Relaxed), emitters::MANY);
    }
}
