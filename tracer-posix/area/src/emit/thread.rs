//! This thread as an emitter: what it knows of each stream, and the chunk that it has there.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, compiler_fence};

use tracer_common::area::{LEFT_FOR_GOOD, STREAM_SLOTS, StreamControl, chunk_state, emitters};

use super::emitter;
use super::in_hand::{Change, InHand};
use super::process;
use super::tls;
use super::windows::{self, ChangeWindows};
use crate::layout::chunk::Chunk;
use crate::layout::chunk_ref::{ChunkRef, Shape};
use crate::layout::identity::Identity;
use crate::layout::mapping::Parts;
use crate::layout::pool::{Pool, Windows as _};
use crate::layout::ticks::TickSource;
use crate::system::errno;

/// A thread's role in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Not known yet.
    Unknown,
    /// The stream does not trace this process.
    NotTraced,
    /// The thread emits.
    Emitter,
}

/// A thread's state for one stream slot, and its chunk there. A handler may use and change it at
/// any moment, so each of its words is right by itself.
#[repr(C)]
pub(super) struct PerStream {
    /// Where the thread's chunk begins; null while it has none. The chunk belongs to the code that
    /// takes it out by a swap.
    pub(super) chunk: AtomicPtr<u8>,
    /// The stream's control words. Set before `generation`.
    pub(super) control: Cell<*const StreamControl>,
    /// Bytes of a chunk that records can lie in.
    pub(super) limit: Cell<u64>,
    /// Number of bits by which the offset of a chunk in its window is shifted right to give the
    /// offset of its header.
    pub(super) header_shift: Cell<u64>,
    /// The generation of the slot for which the other fields hold.
    pub(super) generation: Cell<u32>,
    /// Most bytes of data that are recorded of one event.
    pub(super) max_data: Cell<usize>,
    pub(super) role: Cell<Role>,
}

impl PerStream {
    /// Returns the shape of the stream's chunks; `None` where it is not known yet.
    fn shape(&self) -> Option<Shape> {
        Shape::new(u32::try_from(self.limit.get() + 8).ok()?)
    }
}

/// A thread's own memory: reached through one thread-local pointer, never by another thread.
pub(crate) struct ThreadState {
    /// The structure that the C library has registered for this thread with the kernel; null where
    /// it has not.
    pub(super) rseq: *mut u8,
    /// Where the stack was when an emission began that cannot be restarted; 0 while there is no
    /// such emission.
    busy: Cell<usize>,
    /// Slots in whose chunks an emission may have left a mark without a record, with a bit each.
    pub(super) marked: Cell<u32>,
    tid: Cell<i32>,
    pub(super) streams: [PerStream; STREAM_SLOTS],
    in_hand: InHand,
}

/// Key whose destructor runs when a thread ends; `u32::MAX` until it is made.
static ENDING: AtomicU32 = AtomicU32::new(u32::MAX);

/// Makes the key, before the first thread registers.
#[inline]
pub(super) fn prepare() {
    let mut key = 0;
    // SAFETY: `key` may be written to; the destructor has the signature that is asked for.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        ENDING.store(key, Relaxed);
    }
    tls::prepare();
}

/// Returns this thread's memory, if it has emitted before.
#[inline(always)]
pub(super) fn known() -> Option<&'static ThreadState> {
    // SAFETY: the thread's own, which it has until it ends; all that changes in it is cells and
    // atomics.
    NonNull::new(tls::get().cast::<ThreadState>()).map(|state| unsafe { state.as_ref() })
}

/// Makes memory for a thread that has none. Also returns whether the thread is ending: then no
/// destructor gives the memory back, and the caller [does](end_now).
#[cold]
pub(super) fn register() -> Option<(&'static ThreadState, bool)> {
    let before = errno::get();
    let state = make();
    errno::set(before);
    state
}

/// Ends a thread that was ending when it registered, after it has done what it registered for.
#[cold]
pub(super) fn end_now(state: &'static ThreadState) {
    let before = errno::get();
    end(std::ptr::from_ref(state).cast_mut().cast());
    errno::set(before);
}

fn make() -> Option<(&'static ThreadState, bool)> {
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
    let state_at = NonNull::new(memory.cast::<ThreadState>())?;
    let state = ThreadState {
        rseq: tls::registered_rseq(),
        busy: Cell::new(0),
        marked: Cell::new(0),
        tid: Cell::new(own_tid()),
        streams: std::array::from_fn(|_| PerStream {
            chunk: AtomicPtr::new(std::ptr::null_mut()),
            control: Cell::new(std::ptr::null()),
            limit: Cell::new(0),
            header_shift: Cell::new(0),
            generation: Cell::new(0),
            max_data: Cell::new(0),
            role: Cell::new(Role::Unknown),
        }),
        in_hand: InHand::default(),
    };
    // SAFETY: the mapping is page aligned, as large as the type, and not shared yet.
    unsafe { state_at.write(state) };
    if !tls::set_if_null(state_at.as_ptr().cast()) {
        // A handler came in between.
        // SAFETY: just mapped, and not used yet.
        unsafe { libc::munmap(memory, size_of::<ThreadState>()) };
        return known().map(|others| (others, false));
    }
    if tls::is_ending() {
        return known().map(|state| (state, true));
    }
    let key = ENDING.load(Relaxed);
    if key != u32::MAX {
        // SAFETY: the key was made in `prepare`. Keys made as early as that need no allocation.
        unsafe { libc::pthread_setspecific(key, state_at.as_ptr().cast()) };
    }
    known().map(|state| (state, false))
}

/// Makes this thread, the one of a forked child, forget the chunks and changes of the parent's
/// thread, whose state it has a copy of. It keeps the state itself: a handler that has made the
/// child amid an emission returns to code that uses it.
pub(super) fn begin_in_child() {
    tls::set_tid(0);
    let Some(state) = known() else { return };
    state.part_from_parent();
    state.tid.set(own_tid());
    state.marked.set(0);
    state.busy.set(0);
    state.in_hand.forget();
    for per_stream in &state.streams {
        per_stream.generation.set(0);
        per_stream.role.set(Role::Unknown);
        per_stream.chunk.store(std::ptr::null_mut(), Relaxed);
    }
}

/// Makes the thread forget that it has ever emitted.
fn forget() {
    tls::set(std::ptr::null_mut());
    tls::set_tid(0);
    let key = ENDING.load(Relaxed);
    if key != u32::MAX {
        // SAFETY: the key was made in `prepare`.
        unsafe { libc::pthread_setspecific(key, std::ptr::null()) };
    }
}

impl ThreadState {
    pub(super) fn identity(&self) -> Identity {
        Identity {
            pid: process::pid(),
            tid: self.tid.get(),
            thread_id: tls::thread_id(),
            home: process::home(),
        }
    }

    /// Has this thread, which is that of a forked child, write into memory of its own where code to
    /// which a handler returns writes into the chunks of the parent's thread.
    fn part_from_parent(&self) {
        for (slot, old, new) in self.in_hand.chunks() {
            let per_stream = self.streams.get(slot);
            for base in [old, new].into_iter().flatten() {
                if windows::make_private(base)
                    && let Some(shape) = per_stream.and_then(PerStream::shape)
                {
                    // So it is no chunk of a chain, and in no state.
                    shape.chunk_at(base).header.chain.store(u32::MAX, Relaxed);
                }
            }
        }
        if self.busy.get() != 0 {
            let chunks = self.streams.iter().map(|one| one.chunk.load(Relaxed));
            for base in chunks.filter_map(NonNull::new) {
                windows::make_private(base);
            }
        }
    }

    /// Tells whether the kernel makes this thread begin an interrupted emission again. The sequence
    /// can read the cycle counter only.
    #[inline(always)]
    pub(super) fn is_restartable(&self) -> bool {
        !self.rseq.is_null() && process::tick_source() == TickSource::CycleCounter
    }

    /// Returns this thread's state for a stream, in the stream's present generation; `None` where
    /// the stream has ended.
    pub(super) fn per_stream(
        &self,
        parts: Parts<'static>,
        slot: usize,
        control: &'static StreamControl,
    ) -> Option<&PerStream> {
        let per_stream = self.streams.get(slot)?;
        let generation = control.generation.load(Acquire);
        if generation == 0 {
            return None;
        }
        if per_stream.generation.get() != generation {
            self.renew(per_stream, parts, (slot, control), generation);
        }
        Some(per_stream)
    }

    #[cold]
    fn renew(
        &self,
        per_stream: &PerStream,
        parts: Parts<'static>,
        (slot, control): (usize, &'static StreamControl),
        generation: u32,
    ) {
        // A chunk of the stream that was in this slot before is of no use. But a handler may have
        // run since the generation was looked at: then this is the chunk that it has just got.
        let left = per_stream.chunk.swap(std::ptr::null_mut(), AcqRel);
        if let Some(left) = NonNull::new(left) {
            if per_stream.generation.get() == generation {
                self.leave(per_stream, parts, slot, left);
                return;
            }
            self.take_mark_back_in(per_stream, left);
        }
        let shape = Shape::new(control.chunk_bytes.load(Relaxed));
        let is_traced = process::is_traced_by(slot, control, generation);
        let role = if is_traced && shape.is_some() && process::learn_clock(parts).is_some() {
            if process::prepared() == 0 {
                let before = errno::get();
                process::share_over_exec(parts);
                errno::set(before);
            }
            process::learn_namespace(control);
            note_emitter(control);
            Role::Emitter
        } else {
            Role::NotTraced
        };
        if let Some(shape) = shape {
            let bytes = shape.chunk_bytes as u64;
            per_stream.limit.set(bytes - 8);
            per_stream
                .header_shift
                .set(u64::from(bytes.trailing_zeros()) - 6);
        }
        let max_data = control
            .max_data
            .load(Relaxed)
            .min(tracer_common::area::MAX_DATA_BYTES);
        per_stream
            .max_data
            .set(usize::try_from(max_data).unwrap_or(0));
        per_stream.control.set(control);
        per_stream.role.set(role);
        compiler_fence(SeqCst);
        per_stream.generation.set(generation);
    }

    /// Gives the thread a chunk with space for an event with so much data, if it is still the one
    /// of its process. `false` where none is available: the event was counted as refused.
    ///
    /// In a child that a handler has made meanwhile the chunk is the parent's thread's: the child
    /// gives it up untouched, and looks for its own streams.
    #[cold]
    pub(super) fn refill(
        &self,
        per_stream: &PerStream,
        parts: Parts<'static>,
        (slot, control): (usize, &'static StreamControl),
        data_length: usize,
    ) -> bool {
        let Some(pool) = self.pool(per_stream, parts, slot) else {
            return false;
        };
        if pool.generation == 0 {
            return true;
        }
        let identity = self.identity();
        let changed = self.change(&pool, parts, |change| {
            change.set_old(per_stream.chunk.load(Relaxed));
            // From here on a handler cannot reach the old chunk.
            let old = NonNull::new(per_stream.chunk.swap(std::ptr::null_mut(), AcqRel))
                .map(|base| pool.shape.chunk_at(base));
            let new = pool.open(
                identity,
                self.is_restartable(),
                data_length,
                old.as_ref(),
                |chunk_ref| change.set_new(chunk_ref.base),
            );
            if new.is_none() && !pool.windows.is_left() {
                match &old {
                    Some(old) => old.header.refused.fetch_add(1, Relaxed),
                    None => control.refused_no_chunk.fetch_add(1, Relaxed),
                };
                emitter::shut_where_nothing_is_overwritten(control);
            }
            let chunk_ref = new.as_ref().or(old.as_ref());
            if let Some(chunk_ref) = chunk_ref {
                self.install(per_stream, &pool, chunk_ref);
            }
            (new.is_some(), chunk_ref.map(|chunk_ref| chunk_ref.base))
        });
        if pool.windows.is_left() {
            // Another chunk is the child's own, which its handler has got.
            if let Some((_, Some(parents))) = changed {
                let (parents, none) = (parents.as_ptr(), std::ptr::null_mut());
                let chunk = &per_stream.chunk;
                let _ = chunk.compare_exchange(parents, none, AcqRel, Relaxed);
            }
            return true;
        }
        if changed.is_none() && control.generation.load(Acquire) == per_stream.generation.get() {
            control.refused_no_chunk.fetch_add(1, Relaxed);
            emitter::shut_where_nothing_is_overwritten(control);
        }
        changed.is_some_and(|(is_there, _)| is_there)
    }

    /// Changes a pool; `None` where the stream has ended, or too many threads change it.
    fn change<R>(
        &self,
        pool: &Pool<'static, ChangeWindows>,
        parts: Parts<'static>,
        act: impl FnOnce(&Change) -> R,
    ) -> Option<R> {
        let here = stack_pointer();
        self.give_up_left(here, parts);
        let unknown = Change::default();
        let change = self.in_hand.begin(here, pool.slot).unwrap_or(&unknown);
        let entered = pool.enter(self.identity(), |entry| change.set_entry(entry));
        let result = entered.map(|entered| {
            let result = act(change);
            // In a child that a handler has made meanwhile the entry is the parent's.
            if !pool.windows.is_left() {
                entered.leave();
            }
            result
        });
        change.end();
        result
    }

    /// Gives up the changes that this thread has begun and will never end: see
    /// [`in_hand`](super::in_hand). The stream's reader puts chunks and chains that are in no list
    /// where they belong.
    fn give_up_left(&self, here: usize, parts: Parts<'static>) {
        while let Some(left) = self.in_hand.take_left(here) {
            // SAFETY: null, or in the area's fixed parts, which stay mapped.
            if let Some(entry) = unsafe { left.entry.as_ref() } {
                let own = self.identity().entry_word();
                let thread = &entry.thread;
                // The thread may have left the entry in the usual way just before.
                let _ = thread.compare_exchange(own, LEFT_FOR_GOOD, AcqRel, Relaxed);
            }
            let Some(per_stream) = self.streams.get(left.slot) else {
                continue;
            };
            left.chunks
                .into_iter()
                .filter_map(NonNull::new)
                .filter(|base| self.has_left_open(per_stream, parts, left.slot, *base))
                .for_each(|base| self.leave(per_stream, parts, left.slot, base));
        }
    }

    /// Tells whether a chunk is open in this thread's name, though the thread holds it nowhere.
    fn has_left_open(
        &self,
        per_stream: &PerStream,
        parts: Parts<'static>,
        slot: usize,
        base: NonNull<u8>,
    ) -> bool {
        let Some(pool) = self.pool(per_stream, parts, slot) else {
            return false;
        };
        let header = pool.shape.chunk_at(base).header;
        let state = header.state.load(Acquire);
        chunk_state::state_of(state) == chunk_state::OPEN
            && chunk_state::generation_of(state) == pool.generation
            && header.thread.load(Acquire) == self.identity().thread_word()
            && per_stream.chunk.load(Relaxed) != base.as_ptr()
            && !self.in_hand.has(base)
    }

    /// Makes the chunk the thread's from now on, unless a handler has got the thread another one
    /// meanwhile.
    fn install(
        &self,
        per_stream: &PerStream,
        pool: &Pool<'static, ChangeWindows>,
        chunk_ref: &ChunkRef<'static>,
    ) {
        let (none, base) = (std::ptr::null_mut(), chunk_ref.base.as_ptr());
        if per_stream
            .chunk
            .compare_exchange(none, base, AcqRel, Acquire)
            .is_err()
        {
            pool.end(chunk_ref);
        }
    }

    /// Returns the thread's chunk of a stream.
    pub(super) fn chunk(&self, per_stream: &PerStream) -> Option<Chunk<'static>> {
        let base = NonNull::new(per_stream.chunk.load(Relaxed))?;
        per_stream.shape()?.chunk_at(base).chunk()
    }

    /// Notes that an emission may have left a mark in the thread's chunk of the stream in this
    /// slot.
    #[inline(always)]
    pub(super) fn note_mark(&self, slot: usize) {
        self.marked.set(self.marked.get() | 1 << slot);
    }

    /// Takes back marks that emissions have left without a record. The stream has ended meanwhile,
    /// or does not want the event any more: without this, its memory would count as in use until
    /// the thread ends.
    #[cold]
    pub(super) fn take_marks_back(&self) {
        let mut left = self.marked.replace(0);
        while left != 0 {
            let slot = usize::try_from(left.trailing_zeros()).unwrap_or(0);
            left &= left - 1;
            if let Some(per_stream) = self.streams.get(slot)
                && let Some(base) = NonNull::new(per_stream.chunk.load(Relaxed))
            {
                self.take_mark_back_in(per_stream, base);
            }
        }
    }

    /// Takes the mark in a chunk of the thread back. The memory of a stream that has ended stays
    /// that stream's while it has the mark; where the mark came too late for that, it may be
    /// another thread's by now, and is left alone.
    fn take_mark_back_in(&self, per_stream: &PerStream, base: NonNull<u8>) {
        let Some(shape) = per_stream.shape() else {
            return;
        };
        let chunk_ref = shape.chunk_at(base);
        let state = chunk_ref.header.state.load(Acquire);
        let is_own = chunk_state::state_of(state) == chunk_state::OPEN
            && chunk_state::generation_of(state) == per_stream.generation.get()
            && chunk_ref.header.thread.load(Acquire) == self.identity().thread_word();
        if is_own && let Some(chunk) = chunk_ref.chunk() {
            chunk.take_mark_back();
        }
    }

    /// Notes in the thread's chunk that readers have to look at its mark from now on.
    #[cold]
    pub(super) fn mark_is_needed(&self, per_stream: &PerStream) {
        if let Some(base) = NonNull::new(per_stream.chunk.load(Relaxed))
            && let Some(shape) = per_stream.shape()
        {
            shape.chunk_at(base).header.restartable.store(0, SeqCst);
        }
    }

    /// Counts a refused event in the thread's chunk.
    #[cold]
    pub(super) fn count_refused_in_chunk(
        &self,
        per_stream: &PerStream,
        parts: Parts<'static>,
        slot: usize,
    ) {
        if let Some(base) = NonNull::new(per_stream.chunk.load(Relaxed))
            && let Some(pool) = self.pool(per_stream, parts, slot)
        {
            self.change(&pool, parts, |_| {
                let header = pool.shape.chunk_at(base).header;
                header.refused.fetch_add(1, Relaxed);
            });
        }
    }

    /// Begins an emission that cannot be restarted when it is interrupted; `None` while this thread
    /// is within another such emission, which a handler has interrupted.
    ///
    /// An emission that a handler has left for good (`siglongjmp()`) does not count: the stack is
    /// no longer as deep as it was there.
    pub(super) fn begin_marked(&self) -> Option<usize> {
        let here = stack_pointer();
        let busy = self.busy.get();
        if busy != 0 && is_within(here, busy) {
            return None;
        }
        self.busy.set(here);
        compiler_fence(SeqCst);
        Some(here)
    }

    /// Ends the emission that [`begin_marked`](Self::begin_marked) began.
    pub(super) fn end_marked(&self, busy: usize) {
        compiler_fence(SeqCst);
        if self.busy.get() == busy {
            self.busy.set(0);
        }
    }

    /// Leaves a chunk of the stream to any thread that needs one.
    fn leave(&self, per_stream: &PerStream, parts: Parts<'static>, slot: usize, base: NonNull<u8>) {
        if let Some(pool) = self.pool(per_stream, parts, slot) {
            self.change(&pool, parts, |change| {
                change.set_old(base.as_ptr());
                pool.end(&pool.shape.chunk_at(base));
            });
        }
    }

    fn pool(
        &self,
        per_stream: &PerStream,
        parts: Parts<'static>,
        slot: usize,
    ) -> Option<Pool<'static, ChangeWindows>> {
        // Before the generation is looked at: a child's is none.
        let windows = ChangeWindows::new();
        Some(Pool {
            parts,
            slot,
            control: parts.stream(slot)?,
            generation: per_stream.generation.get(),
            shape: per_stream.shape()?,
            windows,
        })
    }
}

/// Returns where this function's frame is.
#[inline(never)]
fn stack_pointer() -> usize {
    let local = 0_u8;
    std::hint::black_box(&raw const local).addr()
}

/// Tells whether the frame at `here` is that of a handler that has interrupted the one at `outer`:
/// it is deeper on the same stack, or on the stack for signals.
fn is_within(here: usize, outer: usize) -> bool {
    // SAFETY: integers and a pointer, for which zeros are valid.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: `stack` may be written to; the stack itself is not changed.
    let is_known = unsafe { libc::sigaltstack(std::ptr::null(), &raw mut stack) } == 0;
    let start = stack.ss_sp.addr();
    let lies_there = |address: usize| {
        is_known
            && stack.ss_flags & libc::SS_DISABLE == 0
            && (start..start.saturating_add(stack.ss_size)).contains(&address)
    };
    match (lies_there(here), lies_there(outer)) {
        (true, false) => true,
        (false, true) => false,
        _ => here < outer,
    }
}

/// Notes that one more thread emits, before it does. The thread that was the sole emitter until now
/// sees this note no later than anything that the new emitter emits or does afterwards.
fn note_emitter(control: &StreamControl) {
    let is_first = control
        .emitters
        .compare_exchange(emitters::NONE, emitters::ONE, SeqCst, SeqCst)
        .is_ok();
    if !is_first {
        control.emitters.store(emitters::MANY, SeqCst);
    }
}

/// Runs when a thread ends: its chunks are left to others.
extern "C" fn end(state: *mut libc::c_void) {
    let Some(memory) = NonNull::new(state.cast::<ThreadState>()) else {
        return;
    };
    // Handlers and destructors that run from here on find no state, register the thread anew, and
    // end it themselves: the key's destructor may not run once more.
    tls::set_ending();
    tls::set(std::ptr::null_mut());
    // SAFETY: the state was made by `register` for this thread, which alone uses it.
    let state = unsafe { memory.as_ref() };
    if let Some(parts) = process::parts_if_ready() {
        for (slot, per_stream) in state.streams.iter().enumerate() {
            if let Some(base) = NonNull::new(per_stream.chunk.swap(std::ptr::null_mut(), AcqRel)) {
                state.leave(per_stream, parts, slot, base);
            }
        }
    }
    // SAFETY: the mapping that `register` made; nothing refers to it any more.
    unsafe { libc::munmap(memory.as_ptr().cast(), size_of::<ThreadState>()) };
}

/// Runs when the program ends: the key's destructor does not run for the thread that ends it.
#[cfg(not(any(miri, tracer_recorder)))]
extern "C" fn on_exit() {
    let state = tls::get();
    if !state.is_null() {
        forget();
        end(state);
    }
}

#[cfg(not(any(miri, tracer_recorder)))]
#[used]
#[unsafe(link_section = ".fini_array")]
static ON_EXIT: extern "C" fn() = on_exit;

/// Returns the calling thread, by the kernel's identifier.
///
/// Makes the system call itself: Rust's standard library names `gettid()` as a function that may be
/// missing, and it is missing in a program without shared libraries in which no other code calls
/// it.
pub fn own_tid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    i32::try_from(tid).unwrap_or(0)
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
    fn a_thread_is_the_sole_emitter_until_a_second_one_emits() {
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
    fn no_thread_is_the_sole_emitter_in_a_stream_with_other_sources() {
        let control = control(emitters::MANY);
        note_emitter(&control);

        assert_eq!(control.emitters.load(Relaxed), emitters::MANY);
    }
}
