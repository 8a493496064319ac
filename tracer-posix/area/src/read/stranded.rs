//! Chunks and chains that a thread held when it was killed.
//!
//! A thread that changes the pool holds, for a moment, a chunk and a chain that are in no list and
//! that no open chunk has. If its process is killed there, ends, or runs another program, or if a
//! handler jumps out of it, they are stranded, and the pool would be smaller by them for as long as
//! the stream lives. The thread's entry ([`Entered`](crate::layout::pool::Entered)) stays, and
//! makes the stream's reader look.
//!
//! The reader distinguishes what a dead thread has left from what a living one holds in five steps:
//!
//! 1. Note each chunk that is not open and in no list. Note also each chain that is in no list and
//!    belongs to no chunk that is open or may be continued. A note has what changes when the thing
//!    is put into a list, or taken into use: a chunk's state and its link, or a chain's link.
//! 2. Wait until each entry that is set now has been left since, or its thread has ended. A thread
//!    that had something in hand at step 1 has put it somewhere by then.
//! 3. Note once more, and retain the notes that are as at step 1.
//! 4. Wait once more.
//! 5. A chunk or chain that is still as it was noted is stranded: put it into a list.
//!
//! A chunk or chain that was put into a list and taken out again between the steps has another
//! link. To note and wait once is not enough: a thread changes the link *before* the thing is in
//! the list. A thread that was between the two at step 1 has put the thing into the list by step 3,
//! with the link that was noted. Then step 3 finds the thing in the list, or another thread has
//! taken it out, and step 4 waits for that thread.
//!
//! A chain may go from one chunk to the next without having been in a list, while the reader looks
//! for chains in use at step 1 or 3: it may see the chain in neither chunk. A thread changes the
//! chain's link on the way too ([`Pool`] does so whenever it closes a chunk), so that step 3 or 5
//! finds another link.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use tracer_common::area::{ENTERING_SLOTS, LEFT_FOR_GOOD, chunk_state};

use super::slice::Slice;
use crate::discover::liveness::is_gone;
use crate::discover::reader_windows::AreaWindows;
use crate::layout::atomics::EnteringEntry;
use crate::layout::chunk_ref::ChunkRef;
use crate::layout::identity::entered;
use crate::layout::links::{Links, Stack, index_of};
use crate::layout::pool::Pool;
use crate::system::thread;

/// Pause between two looks, in milliseconds, at first and after something was found. It doubles
/// each time that nothing was found.
const PAUSE_MS: u64 = 100;
const LONGEST_PAUSE_MS: u64 = 10_000;

/// Pause between two looks while threads find no chunk, or while the reader waits for a thread that
/// may have something in hand.
const SHORTEST_PAUSE_MS: u64 = 1;

/// Threads that are looked for at once, each with a system call.
const AT_ONCE: usize = 64;

/// The search for what dead threads have left.
#[derive(Debug)]
pub(crate) struct Stranded {
    /// When to look next, in milliseconds by the reader's clock.
    due_ms: u64,
    pause_ms: u64,
    /// Events that were refused for want of a chunk, as of the last look.
    refused: u64,
    /// Index of the entry at which the next look begins.
    looked_at: usize,
    /// Whether a dead thread was found, and the search for what it may have left has yet to begin.
    is_any_dead: bool,
    notes: Option<Notes>,
}

/// A chunk that may be stranded: its ordinal, its state and its link.
type Note = (u32, u64, u64);

/// A chain that may be stranded: its index and its link.
type ChainNote = (u32, u64);

#[derive(Debug)]
struct Notes {
    chunks: Vec<Note>,
    chains: Vec<ChainNote>,
    /// The entries of threads that may have one of these in hand: index, thread, and how often the
    /// entry was left.
    entered: Vec<(usize, u64, u64)>,
    /// Whether these are the notes of step 3.
    are_second: bool,
}

impl Stranded {
    pub(crate) fn new() -> Self {
        Self {
            due_ms: 0,
            pause_ms: PAUSE_MS,
            refused: 0,
            looked_at: 0,
            is_any_dead: false,
            notes: None,
        }
    }

    /// Continues the search, if it is time for that. `namespace` is this process's pid namespace.
    pub(crate) fn recover(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        namespace: impl FnOnce() -> u32,
        now_ms: u64,
        slice: &Slice,
    ) {
        let refused = pool.control.refused_no_chunk.load(Relaxed);
        if std::mem::replace(&mut self.refused, refused) != refused {
            self.wait(now_ms, SHORTEST_PAUSE_MS);
        }
        // Before a thread has entered, none can have left something behind.
        if now_ms < self.due_ms || pool.control.fresh.load(Relaxed) <= 1 {
            return;
        }
        let namespace = namespace();
        if namespace == 0 {
            return;
        }
        if self.notes.is_none() {
            self.is_any_dead |= self.clear_entries(pool, namespace);
            if self.is_any_dead {
                self.notes = Notes::take(pool, slice);
                self.is_any_dead = self.notes.is_none();
            }
            // Where there was no time to take notes there may never be: that must not take the time
            // of each call.
            if self.notes.is_some() {
                self.pause_ms = SHORTEST_PAUSE_MS;
            }
        }
        if let Some(mut notes) = self.notes.take() {
            // A thread that has died meanwhile may have left something that it took after the
            // notes.
            self.is_any_dead |= notes.clear_entered(pool, namespace);
            if !notes.entered.is_empty() {
                self.notes = Some(notes);
            } else if !notes.are_second {
                self.notes = Some(notes.again(pool, slice).unwrap_or(notes));
            } else {
                self.is_any_dead |= !notes.put_into_lists(pool, slice);
                self.pause_ms = PAUSE_MS;
            }
        }
        self.due_ms = now_ms + self.pause_ms;
        self.pause_ms = (self.pause_ms * 2).min(LONGEST_PAUSE_MS);
    }

    /// Looks again in so many milliseconds at the latest.
    fn wait(&mut self, now_ms: u64, pause_ms: u64) {
        self.due_ms = self.due_ms.min(now_ms + pause_ms);
    }

    /// Takes away the entries of threads that have ended. Returns whether there was one.
    fn clear_entries(&mut self, pool: &Pool<'_, AreaWindows<'_>>, namespace: u32) -> bool {
        let mut is_any = false;
        let mut left = AT_ONCE;
        for index in (self.looked_at..ENTERING_SLOTS).chain(0..self.looked_at) {
            let Some(entry) = pool.parts.entering(pool.slot, index) else {
                continue;
            };
            if entry.thread.load(Relaxed) == 0 {
                continue;
            }
            if left == 0 {
                self.looked_at = index;
                break;
            }
            left -= 1;
            is_any |= clear(entry, namespace);
        }
        is_any
    }
}

/// Takes an entry away, if its thread has ended. Returns whether it has.
fn clear(entry: &EnteringEntry, namespace: u32) -> bool {
    let word = entry.thread.load(Acquire);
    let (of, tid) = entered(word);
    let is_dead = word != 0 && (word == LEFT_FOR_GOOD || of == namespace && is_gone(tid));
    let thread = &entry.thread;
    is_dead && thread.compare_exchange(word, 0, AcqRel, Relaxed).is_ok()
}

impl Notes {
    /// Takes notes; `None` where there is no time for that, or a list changes meanwhile.
    fn take(pool: &Pool<'_, AreaWindows<'_>>, slice: &Slice) -> Option<Self> {
        let mut chains = chains_of(pool);
        let mut chunks = Vec::new();
        let mut in_use = HashSet::new();
        let mut count = 0;
        for of_window in pool.chunks_by_window(0) {
            for chunk_ref in of_window.into_iter().flatten() {
                chunks.extend(note(pool, &chunk_ref));
                in_use.extend(chain_in_use(pool, &chunk_ref));
                count += 1;
            }
            if slice.is_spent() {
                return None;
            }
        }
        let closed = closed(pool, &chunks)?;
        chunks.retain(|(ordinal, ..)| !closed.contains(ordinal));
        let listed = [
            indices(&pool.ended(), count, || slice.is_spent())?,
            indices(&pool.released(), count, || slice.is_spent())?,
        ];
        let listed: HashSet<u32> = listed.into_iter().flatten().collect();
        chunks.retain(|(ordinal, ..)| !listed.contains(ordinal));
        in_use.extend(indices(&pool.free_chains(), chains.len(), || {
            slice.is_spent()
        })?);
        chains.retain(|(chain, ..)| !in_use.contains(chain));
        thread::membarrier();
        let entered = (0..ENTERING_SLOTS)
            .filter_map(|index| Some((index, pool.parts.entering(pool.slot, index)?)))
            .map(|(index, entry)| (index, entry.thread.load(Acquire), entry.times.load(Acquire)))
            .filter(|(_, thread, _)| *thread != 0)
            .collect();
        Some(Self {
            chunks,
            chains,
            entered,
            are_second: false,
        })
    }

    /// Takes notes again and retains those that are as they were here; `None` as in
    /// [`take`](Self::take).
    fn again(&self, pool: &Pool<'_, AreaWindows<'_>>, slice: &Slice) -> Option<Self> {
        let mut again = Self::take(pool, slice)?;
        let (chunks, chains) = (as_set(&self.chunks), as_set(&self.chains));
        again.chunks.retain(|note| chunks.contains(note));
        again.chains.retain(|note| chains.contains(note));
        again.are_second = true;
        Some(again)
    }

    /// Forgets the entries that were left since. Returns whether a thread among them has ended
    /// without leaving.
    fn clear_entered(&mut self, pool: &Pool<'_, AreaWindows<'_>>, namespace: u32) -> bool {
        let mut is_any_dead = false;
        self.entered.retain(|(index, thread, times)| {
            let Some(entry) = pool.parts.entering(pool.slot, *index) else {
                return false;
            };
            let is_there =
                entry.times.load(Acquire) == *times && entry.thread.load(Acquire) == *thread;
            let is_dead = is_there && clear(entry, namespace);
            is_any_dead |= is_dead;
            is_there && !is_dead
        });
        is_any_dead
    }

    /// Puts what is still as it was noted into lists. Returns whether there was time for all.
    fn put_into_lists(self, pool: &Pool<'_, AreaWindows<'_>>, slice: &Slice) -> bool {
        for known in self.chunks {
            if slice.is_spent() {
                return false;
            }
            if let Some(chunk_ref) = pool.chunk_ref(known.0)
                && note(pool, &chunk_ref) == Some(known)
            {
                put_into_list(pool, &chunk_ref, known.1);
            }
        }
        if self.chains.is_empty() {
            return true;
        }
        // Some chains are in use by now. One that moves meanwhile has another link afterwards.
        let mut in_use = HashSet::new();
        for of_window in pool.chunks_by_window(0) {
            let chunks = of_window.into_iter().flatten();
            in_use.extend(chunks.filter_map(|chunk_ref| chain_in_use(pool, &chunk_ref)));
            if slice.is_spent() {
                return false;
            }
        }
        let now = as_set(&chains_of(pool));
        for known in self.chains {
            if !in_use.contains(&known.0) && now.contains(&known) {
                pool.free_chains().push(known.0);
            }
        }
        true
    }
}

fn as_set<N: Copy + Eq + Hash>(notes: &[N]) -> HashSet<N> {
    notes.iter().copied().collect()
}

/// Returns the chunks that are in the queue of closed ones, by the links that were noted: threads
/// may take them out faster than the reader can go through the queue itself. `None` where there is
/// no such queue.
fn closed(pool: &Pool<'_, AreaWindows<'_>>, chunks: &[Note]) -> Option<HashSet<u32>> {
    let links = chunks.iter().map(|(ordinal, _, link)| (*ordinal, *link));
    let mut links: HashMap<u32, u64> = links.collect();
    let mut closed = HashSet::new();
    let mut next = index_of(pool.control.oldest.load(Acquire));
    next?;
    while let Some((index, link)) = next.and_then(|index| links.remove_entry(&index)) {
        closed.insert(index);
        next = index_of(link);
    }
    Some(closed)
}

/// Returns the indices in a stack as of one moment; `None` where it changes meanwhile, there are
/// more than `most`, or the time is spent.
fn indices<L: Links>(
    stack: &Stack<'_, L>,
    most: usize,
    is_spent: impl Fn() -> bool,
) -> Option<Vec<u32>> {
    let top = stack.top.load(Acquire);
    linked(&stack.links, top, most, is_spent).filter(|_| stack.top.load(Acquire) == top)
}

/// Returns the indices in a list whose first one this word has.
fn linked(
    links: &impl Links,
    first: u64,
    most: usize,
    is_spent: impl Fn() -> bool,
) -> Option<Vec<u32>> {
    let mut indices = Vec::new();
    let mut next = index_of(first);
    while let Some(index) = next {
        if indices.len() == most || is_spent() {
            return None;
        }
        indices.push(index);
        next = index_of(links.link(index)?.load(Acquire));
    }
    Some(indices)
}

/// Returns the note of a chunk that is stranded if it is in no list and no thread has it in hand.
fn note(pool: &Pool<'_, AreaWindows<'_>>, chunk_ref: &ChunkRef<'_>) -> Option<Note> {
    let link = chunk_ref.header.next.load(Acquire);
    let state = chunk_ref.header.state.load(Acquire);
    let is_open = chunk_state::generation_of(state) == pool.generation
        && chunk_state::state_of(state) == chunk_state::OPEN;
    (!is_open).then_some((chunk_ref.ordinal, state, link))
}

/// Returns the chain whose next event may be in this chunk.
fn chain_in_use(pool: &Pool<'_, AreaWindows<'_>>, chunk_ref: &ChunkRef<'_>) -> Option<u32> {
    let state = chunk_ref.header.state.load(Acquire);
    let may_go_on = chunk_state::generation_of(state) == pool.generation
        && matches!(
            chunk_state::state_of(state),
            chunk_state::OPEN | chunk_state::ENDED
        );
    may_go_on.then(|| chunk_ref.header.chain.load(Relaxed))
}

/// Returns the stream's chains.
fn chains_of(pool: &Pool<'_, AreaWindows<'_>>) -> Vec<ChainNote> {
    let count = pool.parts.header().chain_count.load(Acquire);
    (0..count)
        .map_while(|index| Some((index, pool.parts.chain(index)?)))
        .filter(|(_, chain)| chain.generation.load(Acquire) == pool.generation)
        .map(|(index, chain)| (index, chain.link.load(Acquire)))
        .collect()
}

/// Puts a stranded chunk into the list where a chunk of its state belongs.
fn put_into_list(pool: &Pool<'_, AreaWindows<'_>>, chunk_ref: &ChunkRef<'_>, state: u64) {
    let is_own = chunk_state::generation_of(state) == pool.generation;
    match chunk_state::state_of(state) {
        chunk_state::ENDED if is_own => {
            pool.ended().push(chunk_ref.ordinal);
        }
        chunk_state::CLOSED if is_own => {
            pool.closed().push(chunk_ref.ordinal);
            pool.control.changes.fetch_add(1, Release);
        }
        _ => {
            let turn = if is_own {
                chunk_state::turn_of(state)
            } else {
                0
            };
            let unused = chunk_state::word(pool.generation, turn, chunk_state::UNUSED);
            let word = &chunk_ref.header.state;
            if word
                .compare_exchange(state, unused, AcqRel, Relaxed)
                .is_ok()
            {
                pool.released().push(chunk_ref.ordinal);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::discover::find::Area;
    use crate::layout::identity::Identity;
    use crate::layout::pool::{Entered, Windows};
    use crate::read::slot::{RingMode, Slot, StreamRequest};

    /// Inode of a pid namespace that does not exist.
    const ELSEWHERE: u32 = 1;
    /// Inode that the tests pass for this process's pid namespace.
    const HERE: u32 = 7;
    /// More than a tid can be.
    const NOBODY: i32 = i32::MAX - 1;

    struct Scene {
        area: Area,
        slot: Slot,
    }

    impl Scene {
        fn new() -> Self {
            let area = Area::for_command().unwrap();
            let request = StreamRequest {
                target: None,
                inherit: true,
                is_only_source: false,
                bytes: 64 << 10,
                mode: RingMode::OverwriteOldest,
                max_data: 64,
                lease: None,
            };
            let slot = Slot::take(&area, &request).unwrap();
            Self { area, slot }
        }

        fn pool(&self) -> Pool<'_, AreaWindows<'_>> {
            let parts = self.area.parts().unwrap();
            let Slot {
                index,
                generation,
                shape,
            } = self.slot;
            Pool {
                parts,
                slot: index,
                control: parts.stream(index).unwrap(),
                generation,
                shape,
                windows: self.area.windows(),
            }
        }

        fn slice(&self) -> Slice {
            Slice::begin(&self.area.windows())
        }
    }

    fn thread(tid: i32, namespace: u32) -> Identity {
        Identity {
            pid: 1,
            tid,
            thread_id: 0,
            home: tracer_common::area::home::word(namespace, 0),
        }
    }

    fn living() -> Identity {
        // SAFETY: takes nothing and cannot fail.
        thread(unsafe { libc::gettid() }, HERE)
    }

    fn enter<'a>(pool: &Pool<'a, AreaWindows<'a>>, who: Identity) -> Entered<'a> {
        pool.enter(who, |_| {}).unwrap()
    }

    fn open<'a>(pool: &Pool<'a, AreaWindows<'a>>) -> ChunkRef<'a> {
        pool.open(living(), true, 8, None, |_| {}).unwrap()
    }

    /// Looks often enough to find all, even where a look has time for little, as on an emulated
    /// processor.
    fn look(stranded: &mut Stranded, scene: &Scene) {
        for now_ms in (0..100).map(|nth| nth * 1_000_000) {
            stranded.due_ms = 0;
            stranded.recover(&scene.pool(), || HERE, now_ms, &scene.slice());
        }
    }

    fn in_lists(pool: &Pool<'_, AreaWindows<'_>>) -> [Vec<u32>; 3] {
        [
            linked(pool, pool.control.oldest.load(Relaxed), 1000, || false).unwrap(),
            indices(&pool.ended(), 1000, || false).unwrap(),
            indices(&pool.released(), 1000, || false).unwrap(),
        ]
    }

    #[test]
    fn what_a_dead_thread_held_is_given_back() {
        let scene = Scene::new();
        let pool = scene.pool();
        // Makes some closed chunks, and one whose thread has ended.
        let mut last = open(&pool);
        for _ in 0..3 {
            last = pool.open(living(), true, 8, Some(&last), |_| {}).unwrap();
        }
        pool.end(&last);
        let _left_for_good = enter(&pool, thread(NOBODY, HERE));
        let ended = pool.ended().pop().unwrap();
        let closed = pool.closed().pop(|_| true).unwrap();
        let claimed = pool.take_free().unwrap().ordinal;
        let fresh = pool.take_unused().unwrap();
        let chain = pool.take_chain().unwrap();
        look(&mut Stranded::new(), &scene);
        let [in_closed, in_ended, in_released] = in_lists(&pool);
        assert!(in_closed.contains(&closed), "{in_closed:?}");
        assert_eq!(in_ended, [ended]);
        assert!(
            in_released.contains(&claimed) && in_released.contains(&fresh),
            "{in_released:?}"
        );
        assert_eq!(pool.take_chain(), Some(chain));
        // All of it can be used.
        let opened: Vec<u32> = (0..3).map(|_| open(&pool).ordinal).collect();
        assert_eq!(
            HashSet::<u32>::from_iter(opened),
            [ended, claimed, fresh].into()
        );
    }

    #[test]
    fn what_a_living_thread_holds_is_its_own() {
        let scene = Scene::new();
        let pool = scene.pool();
        pool.end(&open(&pool));
        let _left_for_good = enter(&pool, thread(NOBODY, HERE));
        let entered = enter(&pool, living());
        let held = pool.ended().pop().unwrap();
        let chain = pool.take_chain().unwrap();
        let mut stranded = Stranded::new();
        look(&mut stranded, &scene);
        assert_eq!(in_lists(&pool)[1], [] as [u32; 0], "it may go on there");
        // The living thread takes the chain into use, and puts the chunk back. Another thread takes
        // the chunk out and holds it.
        open(&pool).header.chain.store(chain, Relaxed);
        pool.ended().push(held);
        entered.leave();
        let other = enter(&pool, living());
        assert_eq!(pool.ended().pop(), Some(held));
        look(&mut stranded, &scene);
        assert_eq!(in_lists(&pool)[1], [] as [u32; 0], "a thread has it");
        let free = indices(&pool.free_chains(), 100, || false).unwrap();
        assert!(!free.contains(&chain), "{free:?}");
        pool.ended().push(held);
        other.leave();
        look(&mut stranded, &scene);
        assert_eq!(in_lists(&pool)[1], [held], "once");
    }

    #[test]
    fn a_thread_of_another_namespace_lives() {
        for namespace in [ELSEWHERE, 0] {
            let scene = Scene::new();
            let pool = scene.pool();
            pool.end(&open(&pool));
            let _unknown = enter(&pool, thread(NOBODY, namespace));
            let _left_for_good = enter(&pool, thread(NOBODY, HERE));
            pool.ended().pop().unwrap();
            look(&mut Stranded::new(), &scene);
            assert_eq!(in_lists(&pool)[1], [] as [u32; 0]);
        }
    }

    #[test]
    fn what_there_is_no_time_for_takes_the_time_of_few_calls() {
        let scene = Scene::new();
        let pool = scene.pool();
        open(&pool);
        let _left_for_good = enter(&pool, thread(NOBODY, HERE));
        let spent = scene.slice();
        while !spent.is_spent() {
            std::thread::yield_now();
        }
        let mut stranded = Stranded::new();
        let mut times = 0;
        for now_ms in 0..10_000 {
            let due_ms = stranded.due_ms;
            stranded.recover(&pool, || HERE, now_ms, &spent);
            times += usize::from(stranded.due_ms != due_ms);
        }
        assert!(
            stranded.notes.is_none() && (5..10).contains(&times),
            "{times}"
        );
    }

    #[test]
    fn lists_of_nonsense_are_left_alone() {
        let scene = Scene::new();
        let pool = scene.pool();
        let first = open(&pool).ordinal;
        let _left_for_good = enter(&pool, thread(NOBODY, HERE));
        pool.released().push(first);
        let link = &pool.chunk_ref(first).unwrap().header.next;
        link.store(crate::layout::links::word(first), Relaxed);
        pool.control.fresh.store(u32::MAX, Relaxed);
        look(&mut Stranded::new(), &scene);
        assert!(pool.windows.count() > 0);
    }
}
