//! The laws of what killed threads leave behind: after the reader has looked for it each chunk, and
//! each chain, is in one list or held by one thread that lives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use loom::sync::Arc as Shared;
use loom::thread;
use tracer_common::area::{chunk_state, home};

use super::doubles::{GENERATION, HERE, World};
use super::killed;
use super::laws::joined;
use crate::discover::reader_windows::AreaWindows;
use crate::layout::atomics;
use crate::layout::chunk_ref::ChunkRef;
use crate::layout::identity::Identity;
use crate::layout::links::{Links, index_of};
use crate::layout::pool::Pool;
use crate::read::abandoned::Abandoned;
use crate::read::slice::Slice;
use crate::read::stranded::Stranded;

/// The threads' tids: who is killed, who lives beside, and who has used the pool before.
pub(super) const VICTIM: i32 = 1;
pub(super) const NEIGHBOUR: i32 = 2;
pub(super) const EARLIER: i32 = 3;

/// Data for which a chunk that had one writer has space, and for which it has not.
pub(super) const SHORT: usize = 8;
pub(super) const LONG: usize = 64;

/// Looks after which a reader has found all that there is to be found, and looks beside other
/// threads.
const LOOKS: u64 = 6;
const LOOKS_BESIDE: u64 = 3;

/// Orders of a law that are gone through: a part of them where there are more. A law of killed
/// threads has as many for each change.
const MOST_ORDERS: usize = 5000;
const MOST_ORDERS_OF_A_CHANGE: usize = 300;

pub(super) type AnyPool<'a> = Pool<'a, AreaWindows<'a>>;

/// A thread that uses the pool (`Thread::refill`, `Thread::leave`).
pub(super) struct User<'a> {
    pub(super) world: &'a World,
    tid: i32,
    pub(super) home: u64,
    pub(super) chunk_ref: Option<ChunkRef<'a>>,
}

impl<'a> User<'a> {
    pub(super) fn new(world: &'a World, tid: i32) -> Self {
        Self::with(world, tid, &[])
    }

    /// Makes a thread that has this chunk.
    pub(super) fn with(world: &'a World, tid: i32, own: &[u32]) -> Self {
        let chunk_ref = own.first().and_then(|own| world.pool().chunk_ref(*own));
        let home = home::word(HERE, 0);
        Self {
            world,
            tid,
            home,
            chunk_ref,
        }
    }

    pub(super) fn identity(&self) -> Identity {
        Identity {
            pid: self.tid,
            tid: self.tid,
            thread_id: 0,
            home: self.home,
        }
    }

    /// Needs a chunk, or another one.
    pub(super) fn refill(&mut self, data_length: usize) {
        let pool = self.world.pool();
        let Some(entered) = pool.enter(self.identity(), |_| {}) else {
            return;
        };
        self.expect_own();
        let old = self.chunk_ref.as_ref();
        let new = pool.open(self.identity(), true, data_length, old, |_| {});
        self.chunk_ref = new.or(self.chunk_ref);
        entered.leave();
        self.expect_own();
    }

    /// Leaves its chunk to any thread that needs one.
    pub(super) fn leave(&mut self) {
        self.expect_own();
        let pool = self.world.pool();
        let Some(chunk_ref) = self.chunk_ref.take() else {
            return;
        };
        if let Some(entered) = pool.enter(self.identity(), |_| {}) {
            pool.end(&chunk_ref);
            entered.leave();
        }
    }

    /// Checks that no other thread has its chunk.
    pub(super) fn expect_own(&self) {
        if let Some(chunk_ref) = &self.chunk_ref {
            let state = chunk_ref.header.state.load(Acquire);
            assert_eq!(
                chunk_state::state_of(state),
                chunk_state::OPEN,
                "taken away"
            );
            let thread = chunk_ref.header.thread.load(Relaxed);
            assert_eq!(thread, self.identity().thread_word(), "given away");
        }
    }
}

/// The stream's reader, as far as it looks for what killed threads have left
/// (`Reading::begin_look`).
pub(super) struct Reader {
    stranded: Stranded,
    now_ms: u64,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            stranded: Stranded::new(),
            now_ms: 0,
        }
    }

    /// Has the reader find all that there is to be found.
    pub(super) fn finish(&mut self, world: &World) {
        let pool = world.pool();
        let fresh = pool.control.fresh.load(Acquire);
        Abandoned::new().leave_to_others(&pool, 0..fresh, &Slice);
        self.look(world, LOOKS);
    }

    pub(super) fn look(&mut self, world: &World, times: u64) {
        for _ in 0..times {
            self.now_ms += 1_000_000;
            self.stranded
                .recover(&world.pool(), || HERE, self.now_ms, &Slice);
        }
    }
}

/// Returns the indices in a list that no thread changes.
pub(super) fn listed(links: &impl Links, first: u64) -> Vec<u32> {
    let next = |index: &u32| index_of(links.link(*index)?.load(Acquire));
    std::iter::successors(index_of(first), next)
        .take(20)
        .collect()
}

/// Checks the pool when no thread changes it any more. Each chunk and each chain is in one list, or
/// held by one thread: `held` are the chunks of the living ones.
pub(super) fn expect_order(pool: &AnyPool<'_>, held: &[u32]) {
    atomics::barrier();
    let [closed, ended, released] = [
        listed(pool, pool.control.oldest.load(Acquire)),
        listed(pool, pool.control.ended.load(Acquire)),
        listed(pool, pool.control.released.load(Acquire)),
    ];
    let lists = format!("closed {closed:?}, ended {ended:?}, released {released:?}, held {held:?}");
    let mut all: Vec<u32> = [&*closed, &*ended, &*released, held].concat();
    all.sort_unstable();
    let fresh = pool.control.fresh.load(Acquire);
    assert_eq!(all, Vec::from_iter(0..fresh), "{lists}");

    let state = |ordinal: u32| {
        let chunk_ref = pool.chunk_ref(ordinal)?;
        let chain = chunk_ref.header.chain.load(Acquire);
        Some((chunk_ref.header.state.load(Acquire), chain))
    };
    let are = |ordinals: &[u32], expected: u32| {
        ordinals.iter().all(|ordinal| {
            state(*ordinal).is_some_and(|(state, _)| {
                chunk_state::state_of(state) == expected
                    && chunk_state::generation_of(state) == GENERATION
            })
        })
    };
    // What the queue had first was never in use.
    let used: Vec<u32> = closed
        .into_iter()
        .filter(|ordinal| state(*ordinal).is_some_and(|(state, _)| state != 0))
        .collect();
    let are_right = are(&used, chunk_state::CLOSED)
        && are(&ended, chunk_state::ENDED)
        && are(&released, chunk_state::UNUSED)
        && are(held, chunk_state::OPEN);
    assert!(are_right, "states of {lists}");

    let free = listed(
        &pool.free_chains().links,
        pool.control.free_chains.load(Acquire),
    );
    let in_use = [&*ended, held].concat();
    let in_use: Vec<u32> = in_use
        .into_iter()
        .filter_map(|ordinal| Some(state(ordinal)?.1))
        .collect();
    let mut all: Vec<u32> = [&*free, &*in_use].concat();
    all.sort_unstable();
    let chains: Vec<u32> = (0..pool.parts.header().chain_count.load(Acquire))
        .filter(|chain| {
            let chain = pool.parts.chain(*chain);
            chain.is_some_and(|chain| chain.generation.load(Acquire) == GENERATION)
        })
        .collect();
    assert_eq!(all, chains, "chains: free {free:?}, in use {in_use:?}");
}

/// Returns the chunk that a living thread has.
pub(super) fn held(user: &User<'_>) -> Vec<u32> {
    user.chunk_ref
        .iter()
        .map(|chunk_ref| chunk_ref.ordinal)
        .collect()
}

/// Returns a pool of four chunks that was used: 0 and 1 are closed, 2 was left by its thread, and 3
/// was never used.
pub(super) fn used_pool() -> World {
    let world = World::new(4);
    let mut earlier = User::new(&world, EARLIER);
    earlier.refill(SHORT);
    earlier.refill(SHORT);
    earlier.leave();
    world
}

/// Kills a thread that has taken nothing yet: the reader looks.
pub(super) fn leave_an_entry(world: &World) {
    killed::after(1, EARLIER, || User::new(world, EARLIER).refill(SHORT));
}

/// A step of a thread: the one amid which it is killed, or the one before that.
pub(super) type Deed = fn(&mut User<'_>);

pub(super) const DEEDS: [(Deed, Deed); 6] = [
    // Goes on where another has ended.
    (|_| {}, |user| user.refill(SHORT)),
    // Closes that one for want of space, puts its chain back, and takes both anew.
    (|_| {}, |user| user.refill(LONG)),
    // Closes its own, and takes one that was never used.
    (|user| user.refill(SHORT), |user| user.refill(SHORT)),
    // Takes the one that was closed first.
    (
        |user| {
            user.refill(SHORT);
            user.refill(SHORT);
        },
        |user| user.refill(SHORT),
    ),
    // Leaves its own to others.
    (|user| user.refill(SHORT), |user| user.leave()),
    // Closes its own, and goes on where another has ended.
    (
        |user| {
            user.refill(SHORT);
            let mut other = User::new(user.world, EARLIER);
            other.refill(SHORT);
            other.leave();
        },
        |user| user.refill(SHORT),
    ),
];

/// Threads are switched once where they did not ask for it.
fn check(most_orders: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(1);
    builder.max_permutations = Some(most_orders);
    // It counts them that often.
    builder.checkpoint_interval = most_orders;
    // A reader that looks through a pool makes more of them than the checker expects.
    builder.max_branches = 3000;
    builder.check(model);
}

/// Checks a law for each change that a thread may be killed before, in each of its deeds: the law
/// gets what the thread has done, what it does, and after how many changes it is killed, and
/// returns whether it was.
fn for_each_change(law: fn(Deed, Deed, usize) -> bool) {
    for (before, deed) in DEEDS {
        for changes in 0.. {
            let was_killed = Arc::new(AtomicBool::new(false));
            check(MOST_ORDERS_OF_A_CHANGE, {
                let was_killed = Arc::clone(&was_killed);
                move || was_killed.store(law(before, deed, changes), Relaxed)
            });
            if !was_killed.load(Relaxed) {
                break;
            }
        }
    }
}

/// A thread is killed amid a change of the pool. While the reader looks for what it has left,
/// another one takes a chunk.
///
/// # Panics
///
/// The law does not hold.
pub fn killed_before_the_reader_looks() {
    for_each_change(|before, deed, changes| {
        let world = Shared::new(used_pool());
        let mut victim = User::new(&world, VICTIM);
        before(&mut victim);
        let was_killed = killed::after(changes, VICTIM, || deed(&mut victim));
        let neighbour = thread::spawn({
            let world = Shared::clone(&world);
            move || {
                let mut user = User::new(&world, NEIGHBOUR);
                user.refill(SHORT);
                held(&user)
            }
        });
        let mut reader = Reader::new();
        reader.look(&world, LOOKS_BESIDE);
        let held = joined(neighbour);
        reader.finish(&world);
        expect_order(&world.pool(), &held);
        was_killed
    });
}

/// A thread is killed amid a change of the pool while the reader looks for what another one has
/// left.
///
/// # Panics
///
/// The law does not hold.
pub fn killed_while_the_reader_looks() {
    for_each_change(|before, deed, changes| {
        let world = Shared::new(used_pool());
        let mut victim = User::new(&world, VICTIM);
        before(&mut victim);
        let own = held(&victim);
        leave_an_entry(&world);
        let victim = thread::spawn({
            let world = Shared::clone(&world);
            move || {
                let mut victim = User::with(&world, VICTIM, &own);
                killed::after(changes, VICTIM, || deed(&mut victim))
            }
        });
        let mut reader = Reader::new();
        reader.look(&world, LOOKS_BESIDE);
        let was_killed = joined(victim);
        reader.finish(&world);
        expect_order(&world.pool(), &[]);
        was_killed
    });
}

/// A thread that lives changes the pool while the reader looks for what another one has left.
///
/// # Panics
///
/// The law does not hold.
pub fn alive_while_the_reader_looks() {
    for (before, deed) in DEEDS {
        check(MOST_ORDERS, move || {
            let world = Shared::new(used_pool());
            let mut user = User::new(&world, NEIGHBOUR);
            before(&mut user);
            let own = held(&user);
            leave_an_entry(&world);
            let user = thread::spawn({
                let world = Shared::clone(&world);
                move || {
                    let mut user = User::with(&world, NEIGHBOUR, &own);
                    deed(&mut user);
                    held(&user)
                }
            });
            let mut reader = Reader::new();
            reader.look(&world, LOOKS_BESIDE);
            let held = joined(user);
            reader.finish(&world);
            expect_order(&world.pool(), &held);
        });
    }
}

/// A thread leaves its chunk, and another one takes what there is to take, while the reader looks
/// for what a third one has left.
///
/// # Panics
///
/// The law does not hold.
pub fn handed_on_while_the_reader_looks() {
    check(MOST_ORDERS, || {
        let world = Shared::new(used_pool());
        let mut leaver = User::new(&world, VICTIM);
        leaver.refill(SHORT);
        let own = held(&leaver);
        leave_an_entry(&world);
        let leaver = thread::spawn({
            let world = Shared::clone(&world);
            move || User::with(&world, VICTIM, &own).leave()
        });
        let taker = thread::spawn({
            let world = Shared::clone(&world);
            move || {
                let mut taker = User::new(&world, NEIGHBOUR);
                taker.refill(SHORT);
                held(&taker)
            }
        });
        let mut reader = Reader::new();
        reader.look(&world, LOOKS_BESIDE);
        joined(leaver);
        let held = joined(taker);
        reader.finish(&world);
        expect_order(&world.pool(), &held);
    });
}
