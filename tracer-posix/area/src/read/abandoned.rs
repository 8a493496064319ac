//! Chunks that their threads have left open for good: in a process that was killed, that ended
//! without the C library, or that runs another program now.
//!
//! No other thread would ever go on in such a chunk, and the pool would grow by one with each. So
//! the stream's reader leaves the chunk to any thread that needs one, as its thread would have
//! done. That needs a proof: two writers would damage a chunk.
//!
//! A chunk is abandoned if it is open, and names a thread of this process's pid namespace that does
//! not exist now. It is also abandoned if another program has since named itself, in another chunk,
//! with the same pid and tid: then the thread's process runs that program now, or the thread has
//! ended and another one has its tid.
//!
//! The chunk's state alone does not show that: between the reader's look at the chunk and its look
//! for the thread, the thread may have left the chunk, and another one may go on in it. But a
//! thread that leaves a chunk counts a change before another can go on there, and the one that goes
//! on names itself before the chunk is open. If no change was counted between the first look and
//! the last, and all that is looked at is the same, no thread has left the chunk, and no thread
//! exists that could.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use tracer_common::area::{chunk_state, home};

use super::slice::Slice;
use crate::discover::liveness::is_gone;
use crate::discover::reader_windows::AreaWindows;
use crate::layout::chunk_ref::ChunkRef;
use crate::layout::identity::thread_of;
use crate::layout::pool::Pool;
use crate::system::pids::own_pid_namespace;

/// Number of chunks that may have a writer before the writers are looked at.
const FIRST_LOOK: usize = 16;

/// Threads that are looked for at once, each with a system call.
const AT_ONCE: usize = 1024;

/// When to look for abandoned chunks, and which of them next.
#[derive(Debug)]
pub(crate) struct Abandoned {
    /// Number of chunks with a writer at which it is time for another look: twice as many as there
    /// were after the last look.
    due_at: usize,
    /// Number of the open chunks that the present look has passed.
    looked_at: usize,
    /// The pid namespace of this process, once it was asked for; 0 where it is not known.
    namespace: Option<u32>,
}

/// Owner of an open chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    state: u64,
    thread: u64,
    home: u64,
    named: u64,
}

impl Abandoned {
    /// Makes the state of a reader that has not looked yet.
    pub(crate) fn new() -> Self {
        Self {
            due_at: FIRST_LOOK,
            looked_at: 0,
            namespace: None,
        }
    }

    /// Returns the pid namespace of this process; 0 where it is not known.
    pub(super) fn namespace(&mut self) -> u32 {
        let ask = || u32::try_from(own_pid_namespace()).unwrap_or(0);
        *self.namespace.get_or_insert_with(ask)
    }

    /// Leaves the abandoned chunks to other threads, if it is time to look for them. `ordinals` are
    /// those of all open chunks. Where `slice` does not suffice to look at all of them nothing is
    /// done: a hostile process may have them in thousands of windows.
    pub(crate) fn leave_to_others(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        ordinals: impl Iterator<Item = u32>,
        slice: &Slice,
    ) {
        let writers = || usize::try_from(pool.control.writers.load(Relaxed)).unwrap_or(0);
        if writers() < self.due_at && self.looked_at == 0 {
            return;
        }
        let namespace = self.namespace();
        if namespace == 0 {
            return;
        }
        let open: Vec<_> = ordinals
            .take_while(|_| !slice.is_spent())
            .filter_map(|ordinal| pool.chunk_ref(ordinal))
            .filter_map(|chunk_ref| {
                let owner = owner(pool, &chunk_ref, namespace)?;
                Some((chunk_ref, owner))
            })
            .collect();
        if slice.is_spent() {
            return;
        }
        let mut latest = HashMap::new();
        for (_, owner) in &open {
            let known = latest.entry(owner.thread).or_insert(*owner);
            if owner.named > known.named {
                *known = *owner;
            }
        }
        let is_replaced = |owner: &Owner| {
            latest
                .get(&owner.thread)
                .is_some_and(|latest| latest.named > owner.named && latest.home != owner.home)
        };
        for (chunk_ref, owner) in open.iter().skip(self.looked_at).take(AT_ONCE) {
            leave(pool, chunk_ref, owner, is_replaced(owner));
        }
        self.looked_at += AT_ONCE;
        if self.looked_at >= open.len() {
            self.looked_at = 0;
            self.due_at = FIRST_LOOK.max(writers().saturating_mul(2));
        }
    }
}

/// Returns the owner of the chunk, if the chunk is open and its thread is of this pid namespace.
fn owner(
    pool: &Pool<'_, AreaWindows<'_>>,
    chunk_ref: &ChunkRef<'_>,
    namespace: u32,
) -> Option<Owner> {
    let state = chunk_ref.header.state.load(Acquire);
    let thread = chunk_ref.header.thread.load(Acquire);
    let (home, named) = chunk_ref.chunk()?.untrusted_home();
    let is_open = chunk_state::state_of(state) == chunk_state::OPEN
        && chunk_state::generation_of(state) == pool.generation;
    (is_open && home::namespace_of(home) == namespace).then_some(Owner {
        state,
        thread,
        home,
        named,
    })
}

/// Leaves a chunk to other threads, if its owner has abandoned it. `is_replaced` says whether
/// another program has since named itself with the owner's pid and tid.
fn leave(
    pool: &Pool<'_, AreaWindows<'_>>,
    chunk_ref: &ChunkRef<'_>,
    known: &Owner,
    is_replaced: bool,
) {
    let changes = pool.control.changes.load(Acquire);
    let is_same =
        || owner(pool, chunk_ref, home::namespace_of(known.home)).is_some_and(|now| now == *known);
    let (_, tid) = thread_of(known.thread);
    let is_abandoned = is_same()
        && (is_replaced || is_gone(tid))
        && is_same()
        && pool.control.changes.load(Acquire) == changes;
    if is_abandoned {
        pool.end(chunk_ref);
    }
}
