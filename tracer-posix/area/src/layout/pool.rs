//! A stream's pool of chunks: taking one, closing it, leaving it to the next thread.
//!
//! # Why chunks are as good as one buffer
//!
//! A stream of *S* bytes that overwrites its oldest events holds, at any time, its newest *S*
//! bytes. The pool has to hold them too, whichever threads emitted them; the merge by time then
//! retains exactly what one buffer would have retained.
//!
//! Let a chunk hold *U* bytes of records at least, and let there be *T* open chunks: a thread has
//! one at most. (A thread that is about to have one counts too: it may lose the CPU with a chunk
//! that is neither open nor closed.) When no other chunk is available, a thread takes the one that
//! was *closed first* again: *X*. Every other full chunk was closed after *X*. Of those, each
//! writer has at most one that holds anything older than the closing of *X*: the one that it had
//! open at that moment. So of *F* full chunks beside *X*, at least *F* − *T* were filled after *X*
//! was closed, and *X* holds nothing of the newest *S* bytes if (*F* − *T*)·*U* ≥ *S*. With *T*
//! open chunks, *X*, and the one chunk that the queue of closed chunks never gives away (the one
//! closed last, [`links::Queue`](super::links::Queue)), *S*/*U* + 2*T* + 2 chunks are enough.
//!
//! A stream that keeps its oldest events refuses when that many chunks are in use and none of them
//! was read: then at least *S* bytes lie in full chunks, all of them older than the event, and the
//! stream, whose size is *S*, would have refused it too. The merge drops what is too much.
//!
//! # The law of contiguity
//!
//! One buffer has no holes, and a pool must have none: *what is kept is contiguous*. Take all that
//! was emitted, by all threads, in the order of time. Where the oldest events are overwritten, a
//! suffix of it is kept; where they stay, a prefix. The same holds between any two places where a
//! loss is marked. The pool by itself does not ensure that: a slow writer's open chunk has events
//! that are older than overwritten events of other writers, and has room while other writers have
//! none.
//!
//! *Overwriting.* A chunk says when it was closed; none of its events is newer. The thread that
//! takes a chunk again notes that time, before it writes the chunk over; the newest of these times
//! is `lost_until`. A reader that misses events drops and counts all events, of any writer, that
//! are not newer than `lost_until`. All that is lost is older, so nothing is missing from what is
//! left. And enough is left: that time is the closing of some *X* as above, and the *F* − *T*
//! chunks that were filled after it hold the newest *S* bytes.
//!
//! *Keeping.* The first event that is refused shuts the stream's [gate](super::gate): from then on
//! all events are refused, of any writer. The reader drops and counts events that were recorded
//! after that time, and says that the stream was full then.
//!
//! A record never takes more space in a chunk than the size that a stream accounts for its event,
//! not even together with a record that names a new writer.
//!
//! # What is counted
//!
//! Chunks that follow each other are a *chain*: each says how many events of its chain came before
//! it. A chain goes on in the next chunk of its writer, or, where a thread has ended, with the
//! thread that continues its chunk. A chain without a chunk retains its count. So events that are
//! overwritten before they were read leave a gap in the counts.
//!
//! # Who is in the way
//!
//! All of it is lock-free: a thread that is stopped or killed anywhere here holds no other up. Its
//! entry ([`Entered`]) says that it may hold something: while a thread that lives has one set, the
//! stream's memory is given to no other stream. The stream's reader finds what a killed thread held
//! ([`stranded`](crate::read::stranded)).
//!
//! A signal handler may make a child amid a change: then two processes go on with the same change,
//! and the same chunk in mind. The child leaves it to its parent ([`Windows::is_left`], looked at
//! right before each step that must not be done twice). Its copies of chunks that the thread has in
//! hand are private memory. Between such a look and its step the child may still be made; it then
//! takes at most a chunk, a chain or an entry that the parent did not get, and the reader finds it.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use tracer_common::area::{
    CHAIN_SLOTS, ENTERING_SLOTS, IDENTITY_RECORD, WINDOW_SLOTS, chunk_state, pool_mode, window,
};
use tracer_common::event_type::EventTypeId;

use super::atomics::{AtomicU64, EnteringEntry, StreamControl, fence};
use super::chunk_ref::{ChunkRef, Shape};
use super::identity::{IDENTITY_TAKES, Identity};
use super::links::{self, Links, Queue, Stack};
use super::mapping::{self, Parts};

/// The windows of an area, as one process has them mapped.
pub(crate) trait Windows: Copy {
    /// Returns how many there are in the area's file.
    fn count(&self) -> usize;
    /// Returns where a window is mapped; maps it where that has to be done.
    fn base(&self, index: usize) -> Option<NonNull<u8>>;
    /// Tells whether no chunk of a window was ever handed out, so that it need not be looked into.
    /// (`false` where the implementation does not look.)
    fn is_empty(&self, _index: usize) -> bool {
        false
    }
    /// Makes sure that there is memory for `bytes` bytes of a window, from `base` on, where
    /// touching them might be SIGBUS. (A process that only reads touches memory that writers have
    /// provided.)
    fn provide(&self, _base: NonNull<u8>, _bytes: usize) -> bool {
        true
    }
    /// Returns the time now, in ticks. `None` where no thread emits.
    fn ticks(&self) -> Option<u64> {
        None
    }
    /// Notes that a chunk is taken again that may have unread events: the time of the first one,
    /// where it is known, and when the chunk was closed.
    fn note_overwritten(&self, _control: &StreamControl, _first: Option<u64>, _closed_at: u64) {}
    /// Tells whether this is a child that a handler has made amid a change of the pool: the change
    /// is its parent's, and the child's copy of the code leaves all as it is.
    fn is_left(&self) -> bool {
        false
    }
}

/// Free chunks that a thread tries to make its own. It fails where a child that a handler has just
/// made was faster with the same chunk, or a hostile process has changed the chunk's state.
const CLAIMS: usize = 4;

/// Chains or ended chunks that a thread looks at before it does without one: as many as there are
/// threads that may take them first. A hostile process might take all, or put others there, for
/// ever.
const AT_ONCE: usize = ENTERING_SLOTS;

/// Chunks whose memory a reader gives back at once. A hostile process may make the list endless.
const RELEASED_AT_ONCE: usize = 1024;

/// One stream's pool, as one process sees it.
#[derive(Clone, Copy)]
pub(crate) struct Pool<'a, W> {
    pub(crate) parts: Parts<'a>,
    pub(crate) slot: usize,
    pub(crate) control: &'a StreamControl,
    pub(crate) generation: u32,
    pub(crate) shape: Shape,
    pub(crate) windows: W,
}

/// Entry that says that a thread changes a pool. Dropping it does nothing: call
/// [`leave`](Self::leave).
pub(crate) struct Entered<'a> {
    entry: &'a EnteringEntry,
}

impl Entered<'_> {
    /// Takes the thread's entry away, when the thread has changed the pool.
    pub(crate) fn leave(self) {
        let times = self.entry.times.load(Relaxed);
        self.entry.times.store(times.wrapping_add(1), Release);
        self.entry.thread.store(0, Release);
    }
}

impl<'a, W: Windows> Pool<'a, W> {
    /// Notes that this thread is about to change the pool; `None` where the stream has ended, or
    /// too many threads change it. `report` gets each entry before the thread tries to take it.
    pub(crate) fn enter(
        &self,
        identity: Identity,
        report: impl Fn(&EnteringEntry),
    ) -> Option<Entered<'a>> {
        let word = identity.entry_word();
        let first = usize::try_from(identity.tid.unsigned_abs()).unwrap_or(0);
        let entry = (0..ENTERING_SLOTS)
            .filter_map(|step| {
                self.parts
                    .entering(self.slot, (first + step) % ENTERING_SLOTS)
            })
            .find(|entry| {
                report(entry);
                let thread = &entry.thread;
                !self.windows.is_left() && thread.compare_exchange(0, word, SeqCst, Relaxed).is_ok()
            })?;
        // The controller that ends the stream changes the generation, passes a barrier, and then
        // looks at the entries.
        fence(SeqCst);
        let entered = Entered { entry };
        if self.control.generation.load(SeqCst) == self.generation {
            return Some(entered);
        }
        if !self.windows.is_left() {
            entered.leave();
        }
        None
    }

    /// Returns where a chunk is. `None` where there is no such chunk, or it cannot be mapped.
    pub(crate) fn chunk_ref(&self, ordinal: u32) -> Option<ChunkRef<'a>> {
        let (window, index) = self.shape.window_and_index(ordinal);
        let base = self.windows.base(self.window(window)?)?;
        Some(self.shape.chunk_within(ordinal, base, index))
    }

    /// Returns the stream's n-th window, if it has so many.
    fn window(&self, n: usize) -> Option<usize> {
        let entry = self.parts.stream_window(self.slot, n)?;
        let untrusted = usize::try_from(entry.load(Acquire)).ok()?.checked_sub(1)?;
        (untrusted < self.windows.count()).then_some(untrusted)
    }

    /// Returns every chunk that was ever handed out, window by window of the stream, from the n-th
    /// on; `None` for a window of which no chunk was.
    pub(crate) fn chunks_by_window(
        &self,
        first: usize,
    ) -> impl Iterator<Item = Option<impl Iterator<Item = ChunkRef<'a>>>> {
        let pool = *self;
        let fresh = self.control.fresh.load(Acquire);
        // In a stream that is no more than a slot, or a hostile one's, the list of windows ends
        // before.
        self.shape
            .by_window(fresh)
            .skip(first)
            .map_while(move |(n, ordinals)| Some((pool.window(n)?, ordinals)))
            .map(move |(window, ordinals)| {
                if pool.windows.is_empty(window) {
                    return None;
                }
                let base = pool.windows.base(window)?;
                Some(ordinals.map(move |ordinal| {
                    let (_, index) = pool.shape.window_and_index(ordinal);
                    pool.shape.chunk_within(ordinal, base, index)
                }))
            })
    }

    pub(crate) fn closed(&self) -> Queue<'a, Self> {
        Queue {
            oldest: &self.control.oldest,
            newest: &self.control.newest,
            links: *self,
        }
    }

    /// Returns the lowest [`ChunkHeader::closing`] of the chunks in the queue of closed ones. A
    /// chunk with a lower value is not in the queue: its value is from an earlier time.
    ///
    /// [`ChunkHeader::closing`]: tracer_common::area::ChunkHeader::closing
    pub(crate) fn first_closing(&self) -> Option<u64> {
        for _ in 0..AT_ONCE {
            let oldest = self.control.oldest.load(Acquire);
            let closing = self.order(links::index_of(oldest)?)?.load(Acquire);
            if self.control.oldest.load(Acquire) == oldest {
                return Some(closing);
            }
        }
        None
    }

    pub(crate) fn ended(&self) -> Stack<'a, Self> {
        Stack {
            top: &self.control.ended,
            links: *self,
        }
    }

    pub(crate) fn released(&self) -> Stack<'a, Self> {
        Stack {
            top: &self.control.released,
            links: *self,
        }
    }

    pub(crate) fn free_chains(&self) -> Stack<'a, ChainLinks<'a, W>> {
        Stack {
            top: &self.control.free_chains,
            links: ChainLinks(*self),
        }
    }

    /// Returns `None` in a child whose parent makes this change: see [`Windows::is_left`].
    #[inline(always)]
    fn not_left(&self) -> Option<()> {
        (!self.windows.is_left()).then_some(())
    }

    /// Gives the thread `identity` a chunk with space for an event with `data_length` bytes of
    /// data. Closes `old`, the chunk that the thread had, but leaves it as it is where no other
    /// chunk is available. `report` gets each chunk before it is opened.
    pub(crate) fn open(
        &self,
        identity: Identity,
        is_restartable: bool,
        data_length: usize,
        old: Option<&ChunkRef<'a>>,
        report: impl Fn(&ChunkRef<'a>),
    ) -> Option<ChunkRef<'a>> {
        if let Some(chunk_ref) = self.take_ended(identity, data_length, &report) {
            if let Some(old) = old {
                let (chain, _events) = self.close(old);
                self.put_chain_back(chain);
            }
            self.go_on(&chunk_ref, identity, is_restartable);
            return Some(chunk_ref);
        }
        let chunk_ref = self.take_free()?;
        // Noted as soon as it is the thread's.
        report(&chunk_ref);
        self.not_left()?;
        let (chain, first) = match old {
            Some(old) => self.close(old),
            None => {
                let Some(chain) = self.take_chain() else {
                    self.not_left()?;
                    self.put_back(&chunk_ref);
                    return None;
                };
                let closed = self.parts.chain(chain).map(|chain| &chain.closed);
                (chain, closed.map_or(0, |closed| closed.load(Relaxed)))
            }
        };
        self.not_left()?;
        self.begin(&chunk_ref, identity, is_restartable, (chain, first));
        Some(chunk_ref)
    }

    /// Leaves a chunk to any thread that needs one: its thread has ended, or has another one.
    pub(crate) fn end(&self, chunk_ref: &ChunkRef<'a>) {
        if let Some(chunk) = chunk_ref.chunk() {
            // If the mark is set, the thread has left an emission for good.
            chunk.abandon();
        }
        if chunk_ref.change(self.generation, chunk_state::OPEN, chunk_state::ENDED)
            && !self.windows.is_left()
        {
            self.control.writers.fetch_sub(1, Relaxed);
            // Counted before another thread can continue in the chunk: see `abandoned`.
            self.control.changes.fetch_add(1, Release);
            self.ended().push(chunk_ref.ordinal);
        }
    }

    /// Returns a chunk whose thread has ended, with space for an event and the name of its new
    /// thread. Chunks without space are closed; where there are many, the next caller closes the
    /// rest.
    fn take_ended(
        &self,
        identity: Identity,
        data_length: usize,
        report: impl Fn(&ChunkRef<'a>),
    ) -> Option<ChunkRef<'a>> {
        for _ in 0..AT_ONCE {
            let chunk_ref = self.chunk_ref(self.ended().pop()?)?;
            report(&chunk_ref);
            self.not_left()?;
            // The thread is named before the chunk is open: an open chunk that names an ended
            // thread counts as abandoned.
            self.name_writer(&chunk_ref, identity);
            self.not_left()?;
            // A thread that is killed here stays counted as a writer; the count never falls below
            // zero.
            self.control.writers.fetch_add(1, Relaxed);
            if !chunk_ref.change(self.generation, chunk_state::ENDED, chunk_state::OPEN) {
                self.not_left()?;
                self.control.writers.fetch_sub(1, Relaxed);
                continue;
            }
            if chunk_ref.chunk()?.has_space(data_length + IDENTITY_TAKES) {
                return Some(chunk_ref);
            }
            let (chain, _events) = self.close(&chunk_ref);
            self.put_chain_back(chain);
        }
        None
    }

    /// Takes a free chunk: one that was read, one that was never used, or else, where the oldest
    /// may be overwritten, the one that was closed first.
    pub(crate) fn take_free(&self) -> Option<ChunkRef<'a>> {
        for _ in 0..CLAIMS {
            let chunk_ref = self.chunk_ref(self.take_free_ordinal()?)?;
            if !self.windows.provide(chunk_ref.base, chunk_ref.bytes) {
                self.not_left()?;
                self.released().push(chunk_ref.ordinal);
                return None;
            }
            if self.claim(&chunk_ref) {
                return Some(chunk_ref);
            }
        }
        None
    }

    fn take_free_ordinal(&self) -> Option<u32> {
        self.not_left()?;
        let consumed = self.control.consumed.load(Acquire);
        let was_read = self.closed().pop(|closing| closing < consumed);
        let overwrites = self.control.mode.load(Relaxed) == pool_mode::OVERWRITE_OLDEST;
        let released = || self.released().pop();
        let unread = was_read.or_else(released).or_else(|| self.take_unused());
        let ordinal = unread.or_else(|| {
            let oldest = overwrites
                .then(|| self.closed().pop(|_closing| true))
                .flatten();
            oldest.inspect(|ordinal| self.note_overwritten(*ordinal))
        });
        ordinal.or_else(|| self.take_unused_beside(self.entered()))
    }

    /// Notes what is lost with a chunk, before it is written over: a reader that finds the chunk
    /// written over finds the note too.
    fn note_overwritten(&self, ordinal: u32) {
        if let Some(chunk) = self.chunk_ref(ordinal).and_then(|found| found.chunk()) {
            let (first, closed_at) = (chunk.untrusted_first_time(), chunk.untrusted_closed_at());
            self.windows
                .note_overwritten(self.control, first, closed_at);
        }
    }

    /// Makes a free chunk this thread's. A reader that is reading the chunk finds that out.
    fn claim(&self, chunk_ref: &ChunkRef<'a>) -> bool {
        let state = &chunk_ref.header.state;
        let word = state.load(Acquire);
        let is_own = chunk_state::generation_of(word) == self.generation;
        let is_free = !is_own
            || matches!(
                chunk_state::state_of(word),
                chunk_state::UNUSED | chunk_state::CLOSED
            );
        // Where the window was another stream's before, the turn in it means nothing here.
        let turn = if is_own {
            chunk_state::turn_of(word).wrapping_add(1)
        } else {
            1
        };
        let claimed = chunk_state::word(self.generation, turn, chunk_state::CLAIMED);
        // A child has the same chunk in mind as its parent, which may have filled it meanwhile: the
        // word that was looked at before the child was made is no longer there then.
        let is_claimed = is_free
            && !self.windows.is_left()
            && state
                .compare_exchange(word, claimed, AcqRel, Relaxed)
                .is_ok();
        // Pairs with the fence of the reader, which looks at the state again after it has read.
        fence(Release);
        is_claimed
    }

    /// Gives the memory of chunks that were read, those with a [`ChunkHeader::closing`] below
    /// `consumed`, back to the machine. Called by the stream's reader.
    pub(crate) fn release_read(&self, consumed: u64) {
        let prepared = self.parts.header().prepared.load(Relaxed);
        for _ in 0..RELEASED_AT_ONCE {
            let Some(ordinal) = self.closed().pop(|closing| closing < consumed) else {
                return;
            };
            let claimed = self
                .chunk_ref(ordinal)
                .filter(|chunk_ref| self.claim(chunk_ref));
            let Some(chunk_ref) = claimed else { return };
            let (n, _) = self.shape.window_and_index(ordinal);
            // Processes that have prepared themselves count on the memory of the first windows.
            let is_free = |window| u32::try_from(window).is_ok_and(|window| window >= prepared);
            if self.window(n).is_some_and(is_free) {
                mapping::release(chunk_ref.base, chunk_ref.bytes);
            }
            if !chunk_ref.change(self.generation, chunk_state::CLAIMED, chunk_state::UNUSED) {
                return;
            }
            self.released().push(ordinal);
        }
    }

    /// Puts a claimed chunk back among the free ones.
    fn put_back(&self, chunk_ref: &ChunkRef<'a>) {
        chunk_ref.header.first.store(0, Relaxed);
        if let Some(chunk) = chunk_ref.chunk() {
            chunk.clear(chunk_ref.ordinal, 0);
        }
        if chunk_ref.change(self.generation, chunk_state::CLAIMED, chunk_state::CLOSED) {
            self.closed().push(chunk_ref.ordinal);
        }
    }

    /// Returns a chunk that was never used, if the stream may have one more.
    pub(crate) fn take_unused(&self) -> Option<u32> {
        self.take_unused_beside(1)
    }

    /// Returns the number of threads that change the pool now, this one too. Each may be about to
    /// get its first chunk, or may have one that is neither open nor closed, and it may have no CPU
    /// for long.
    fn entered(&self) -> u32 {
        let is_taken = |entry: &EnteringEntry| entry.thread.load(Relaxed) != 0;
        let entries = (0..ENTERING_SLOTS).filter_map(|at| self.parts.entering(self.slot, at));
        let entered = entries.filter(|entry| is_taken(entry)).count();
        u32::try_from(entered).unwrap_or(u32::MAX)
    }

    /// As [`take_unused`](Self::take_unused), where that many threads change the pool.
    fn take_unused_beside(&self, entered: u32) -> Option<u32> {
        let control = self.control;
        let writers = control.writers.load(Relaxed).saturating_add(entered);
        let most = control
            .chunks_for_size
            .load(Relaxed)
            .saturating_add(writers.saturating_mul(2));
        let may_have = |fresh: u32| {
            self.not_left()?;
            (fresh < most).then(|| fresh.checked_add(1)).flatten()
        };
        // The window is provided before the chunk is counted: where the area is used up, no chunk
        // is counted.
        let next = control.fresh.load(Acquire);
        may_have(next)?;
        self.provide_window(self.shape.window_and_index(next).0)?;
        let ordinal = control.fresh.fetch_update(AcqRel, Acquire, may_have).ok()?;
        self.provide_window(self.shape.window_and_index(ordinal).0)?;
        Some(ordinal)
    }

    /// Makes sure that the stream has its n-th window.
    fn provide_window(&self, n: usize) -> Option<()> {
        let entry = self.parts.stream_window(self.slot, n)?;
        if entry.load(Acquire) != 0 {
            return Some(());
        }
        let index = self.claim_window()?;
        let plus_one = u32::try_from(index + 1).ok()?;
        let has_headers = self.has_headers(index);
        self.not_left()?;
        let is_others = has_headers
            && entry
                .compare_exchange(0, plus_one, AcqRel, Acquire)
                .is_err_and(|before| before != plus_one);
        if !has_headers || is_others {
            // There is no memory, or another thread was faster.
            self.not_left()?;
            self.parts.window(index)?.store(0, Release);
        }
        has_headers.then_some(())
    }

    /// Tells whether there is memory for the headers at the start of a window. Readers read them,
    /// whatever has become of the chunks.
    fn has_headers(&self, index: usize) -> bool {
        let base = self.windows.base(index);
        base.is_some_and(|base| self.windows.provide(base, self.shape.header_bytes()))
    }

    fn claim_window(&self) -> Option<usize> {
        let own = window::word(self.generation);
        let index = (0..self.windows.count().min(WINDOW_SLOTS)).find(|index| {
            self.parts.window(*index).is_some_and(|word| {
                word.load(Relaxed) == 0
                    && !self.windows.is_left()
                    && word.compare_exchange(0, own, AcqRel, Relaxed).is_ok()
            })
        })?;
        let count = &self.parts.header().window_count;
        count.fetch_max(u32::try_from(index + 1).unwrap_or(0), Release);
        Some(index)
    }

    /// Begins in a chunk that was claimed: it is this thread's from now on.
    fn begin(
        &self,
        chunk_ref: &ChunkRef<'a>,
        identity: Identity,
        is_restartable: bool,
        (chain, first): (u32, u64),
    ) {
        let header = chunk_ref.header;
        header.chain.store(chain, Relaxed);
        header.first.store(first, Relaxed);
        header.refused.store(0, Relaxed);
        header.restartable.store(is_restartable.into(), Relaxed);
        self.name_writer(chunk_ref, identity);
        let opened = self.control.changes.fetch_add(1, AcqRel);
        if let Some(chunk) = chunk_ref.chunk() {
            chunk.clear(chunk_ref.ordinal, opened);
            chunk.write_identity(EventTypeId(IDENTITY_RECORD), &identity.to_bytes());
        }
        let turn = chunk_state::turn_of(header.state.load(Relaxed));
        let open = chunk_state::word(self.generation, turn, chunk_state::OPEN);
        if self.windows.is_left() {
            return;
        }
        self.control.writers.fetch_add(1, Relaxed);
        header.state.store(open, Release);
        self.control.changes.fetch_add(1, Release);
    }

    /// Names the chunk's writer in the chunk. It is not open: only the thread that names itself has
    /// it.
    fn name_writer(&self, chunk_ref: &ChunkRef<'a>, identity: Identity) {
        let changes = self.control.changes.fetch_add(1, AcqRel);
        if let Some(chunk) = chunk_ref.chunk() {
            chunk.set_home(identity.home, changes);
        }
        let thread = &chunk_ref.header.thread;
        thread.store(identity.thread_word(), Release);
    }

    /// Continues a chunk of an ended thread: it is this thread's from now on.
    fn go_on(&self, chunk_ref: &ChunkRef<'a>, identity: Identity, is_restartable: bool) {
        let header = chunk_ref.header;
        header.restartable.store(is_restartable.into(), Relaxed);
        if let Some(chunk) = chunk_ref.chunk() {
            chunk.write_identity(EventTypeId(IDENTITY_RECORD), &identity.to_bytes());
        }
        self.control.changes.fetch_add(1, Release);
    }

    /// Closes a chunk of this thread's. Returns its chain, which has no chunk now, and the chain's
    /// events up to here. The caller cannot read these from the chunk: any thread may take it as
    /// soon as it is closed.
    fn close(&self, chunk_ref: &ChunkRef<'a>) -> (u32, u64) {
        let chain = chunk_ref.header.chain.load(Relaxed);
        let events = chunk_ref.events_of_chain();
        if let Some(chain) = self.parts.chain(chain)
            && !self.windows.is_left()
        {
            chain.closed.store(events, Release);
            // The chain may go on in another chunk without having been in a list: see `stranded`.
            links::touch(&chain.link);
        }
        if let (Some(chunk), Some(ticks)) = (chunk_ref.chunk(), self.windows.ticks()) {
            chunk.set_closed_at(ticks);
        }
        if chunk_ref.change(self.generation, chunk_state::OPEN, chunk_state::CLOSED)
            && !self.windows.is_left()
        {
            self.control.writers.fetch_sub(1, Relaxed);
            self.closed().push(chunk_ref.ordinal);
            self.control.changes.fetch_add(1, Release);
        }
        (chain, events)
    }

    pub(crate) fn take_chain(&self) -> Option<u32> {
        if let Some(chain) = self.free_chains().pop() {
            return Some(chain);
        }
        let count = &self.parts.header().chain_count;
        // Chains of ended streams are used again. A chain that was just counted is free for all
        // threads, until one takes it.
        let used = count
            .load(Acquire)
            .min(u32::try_from(CHAIN_SLOTS).unwrap_or(0));
        let free = (0..used).find(|index| self.claim_chain(*index));
        if free.is_some() {
            return free;
        }
        let more = |count: u32| {
            self.not_left()?;
            (usize::try_from(count).ok()? < CHAIN_SLOTS).then(|| count + 1)
        };
        std::iter::from_fn(|| count.fetch_update(AcqRel, Acquire, more).ok())
            .take(AT_ONCE)
            .find(|index| self.claim_chain(*index))
    }

    fn claim_chain(&self, index: u32) -> bool {
        self.parts.chain(index).is_some_and(|chain| {
            chain.generation.load(Relaxed) == 0
                && !self.windows.is_left()
                && chain
                    .generation
                    .compare_exchange(0, self.generation, AcqRel, Relaxed)
                    .is_ok()
        })
    }

    fn put_chain_back(&self, chain: u32) {
        self.free_chains().push(chain);
    }
}

impl<W: Windows> Links for Pool<'_, W> {
    fn link(&self, index: u32) -> Option<&AtomicU64> {
        self.chunk_ref(index)
            .map(|chunk_ref| &chunk_ref.header.next)
    }

    fn order(&self, index: u32) -> Option<&AtomicU64> {
        self.chunk_ref(index)
            .map(|chunk_ref| &chunk_ref.header.closing)
    }
}

/// The chains without a chunk.
pub(crate) struct ChainLinks<'a, W>(Pool<'a, W>);

impl<W: Windows> Links for ChainLinks<'_, W> {
    fn link(&self, index: u32) -> Option<&AtomicU64> {
        self.0.not_left()?;
        self.0.parts.chain(index).map(|chain| &chain.link)
    }

    /// Returns `None`: chains are only stacked.
    fn order(&self, _index: u32) -> Option<&AtomicU64> {
        None
    }
}
