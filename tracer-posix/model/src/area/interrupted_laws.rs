//! The laws of what the reader finds beside threads that do something between two accesses of each
//! other. Orders are not searched for here: each law says one, and is tried at each access, with
//! what was stored last. So threads can be switched as often as a fault needs it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, Mutex};

use loom::sync::Arc as Shared;
use loom::sync::mpsc::channel;
use loom::thread;
use tracer_common::area::{ENTERING_SLOTS, LEFT_FOR_GOOD, chunk_state, home};

use super::doubles::{HERE, World};
use super::killed::{self, Before};
use super::killed_laws::{
    AnyPool, DEEDS, Deed, EARLIER, LONG, NEIGHBOUR, Reader, SHORT, User, VICTIM, expect_order,
    held, leave_an_entry, listed, used_pool,
};
use super::laws::joined;
use crate::layout::atomics;
use crate::read::abandoned::Abandoned;
use crate::read::slice::Slice;

/// Threads whose entries are the same one.
const AT_ONE_ENTRY: [i32; 2] = [8, 9];

/// Takes what there is to take: what has ended; or else what has ended and has no space, and what
/// is free.
const TAKES: [Deed; 2] = [|user| user.refill(SHORT), |user| user.refill(LONG)];

/// Runs a law once, and returns whether there were the accesses of which it says so.
fn run<const COUNT: usize>(
    law: impl Fn() -> [bool; COUNT] + Sync + Send + 'static,
) -> [bool; COUNT] {
    let found = Arc::new(Mutex::new([false; COUNT]));
    let mut builder = loom::model::Builder::new();
    // Where there are two threads, they are switched where they ask for it.
    builder.preemption_bound = Some(0);
    builder.max_branches = 3000;
    builder.check({
        let found = Arc::clone(&found);
        move || {
            let is_there = law();
            if let Ok(mut found) = found.lock() {
                *found = is_there;
            }
        }
    });
    found.lock().map_or([false; COUNT], |found| *found)
}

/// Calls `at` with 0, 1, …, until it says that there is no such access.
fn at_each(mut at: impl FnMut(usize) -> bool) -> bool {
    (0..).take_while(|access| at(*access)).count() > 0
}

/// A reader of a world, and what both are interrupted with.
#[derive(Clone)]
struct Scene {
    world: Shared<World>,
    reader: Rc<RefCell<Reader>>,
}

impl Scene {
    fn new(world: World) -> Self {
        killed::begin();
        Self {
            world: Shared::new(world),
            reader: Rc::new(RefCell::new(Reader::new())),
        }
    }

    fn pool(&self) -> AnyPool<'_> {
        self.world.pool()
    }

    fn look(&self, times: u64) {
        self.reader.borrow_mut().look(&self.world, times);
    }

    fn finish(&self) {
        self.reader.borrow_mut().finish(&self.world);
    }

    /// Returns the reader's looks as a function, to be called later.
    fn looking(&self, times: u64) -> impl FnOnce() + 'static {
        let scene = self.clone();
        move || scene.look(times)
    }
}

/// Returns the chunks that are in no list and not open, and the chains that are not free and that
/// no chunk has: a thread has them in hand.
fn in_hand(pool: &AnyPool<'_>) -> [HashSet<u32>; 2] {
    let control = pool.control;
    let is = |ordinal: u32, wanted: u32| {
        let chunk_ref = pool.chunk_ref(ordinal);
        chunk_ref.is_some_and(|chunk_ref| {
            chunk_state::state_of(chunk_ref.header.state.load(Acquire)) == wanted
        })
    };
    let lists: HashSet<u32> = [&control.oldest, &control.ended, &control.released]
        .into_iter()
        .flat_map(|first| listed(pool, first.load(Acquire)))
        .collect();
    let all = 0..control.fresh.load(Acquire);
    let is_in_hand = |ordinal: &u32| !lists.contains(ordinal) && !is(*ordinal, chunk_state::OPEN);
    let chunks = all.clone().filter(is_in_hand).collect();

    let free = listed(&pool.free_chains().links, control.free_chains.load(Acquire));
    let in_use = all
        .filter(|ordinal| is(*ordinal, chunk_state::OPEN) || is(*ordinal, chunk_state::ENDED))
        .filter_map(|ordinal| pool.chunk_ref(ordinal))
        .map(|chunk_ref| chunk_ref.header.chain.load(Acquire));
    let used: HashSet<u32> = free.into_iter().chain(in_use).collect();
    let chains = 0..pool.parts.header().chain_count.load(Acquire);
    [
        chunks,
        chains.filter(|chain| !used.contains(chain)).collect(),
    ]
}

/// A thread lives and is stopped amid a change, which it has begun between two accesses of the
/// reader. The reader had looked before amid a change of another thread, which was done then. What
/// the stopped one has in hand stays there.
///
/// # Panics
///
/// The law does not hold.
pub fn stopped_while_the_reader_looks() {
    for (before, deed) in DEEDS {
        for take in TAKES {
            at_each(|looked| {
                let mut was_looked = false;
                at_each(|stop| {
                    let mut was_stopped = false;
                    at_each(|access| {
                        let law = move || stopped_at(before, deed, take, [looked, stop, access]);
                        let [is_looked, is_stopped, is_there] = run(law);
                        was_looked |= is_looked;
                        was_stopped |= is_stopped;
                        is_there
                    });
                    was_stopped
                });
                was_looked
            });
        }
    }
}

fn stopped_at(before: Deed, deed: Deed, take: Deed, accesses: [usize; 3]) -> [bool; 3] {
    let [looked, stop, access] = accesses;
    let scene = Scene::new(used_pool());
    let mut user = User::new(&scene.world, VICTIM);
    before(&mut user);
    leave_an_entry(&scene.world);
    let is_looked = killed::interrupted(Before::Exchange(looked), scene.looking(1), || {
        deed(&mut user);
    });
    let taken = Rc::new(RefCell::new((false, [HashSet::new(), HashSet::new()])));
    let take = {
        let (scene, taken) = (scene.clone(), Rc::clone(&taken));
        move || {
            let mut other = User::new(&scene.world, NEIGHBOUR);
            let is_stopped = killed::stopped(Before::Exchange(stop), || take(&mut other));
            taken.replace((is_stopped, in_hand(&scene.pool())));
        }
    };
    let is_there = killed::interrupted(Before::Access(access), take, || scene.look(2));
    let (is_stopped, [chunks, chains]) = taken.take();
    let [now_chunks, now_chains] = in_hand(&scene.pool());
    assert!(chunks.is_subset(&now_chunks), "{chunks:?}, {now_chunks:?}");
    assert!(
        chains.is_subset(&now_chains),
        "chains {chains:?}, {now_chains:?}"
    );
    killed::end(NEIGHBOUR);
    scene.finish();
    expect_order(&scene.pool(), &held(&user));
    [is_looked, is_stopped, is_there]
}

/// A living thread is amid a change whenever the reader looks, but never amid the same one: nothing
/// that is in hand is given away.
///
/// # Panics
///
/// The law does not hold.
pub fn amid_a_change_at_each_look() {
    const THEN: [[Deed; 2]; 4] = [
        [|user| user.refill(SHORT), |user| user.refill(SHORT)],
        [|user| user.refill(LONG), |user| user.refill(LONG)],
        [|user| user.leave(), |user| user.refill(SHORT)],
        [
            // Another thread.
            |user| {
                *user = User::new(user.world, VICTIM);
                user.refill(LONG);
            },
            |user| user.refill(LONG),
        ],
    ];
    for (before, first) in DEEDS {
        for [second, third] in THEN {
            at_each(|at_first| {
                let mut is_first = false;
                at_each(|at_second| {
                    let mut is_second = false;
                    at_each(|at_third| {
                        let deeds = [(first, at_first), (second, at_second), (third, at_third)];
                        let [one, two, three] = run(move || amid(before, deeds));
                        is_first |= one;
                        is_second |= two;
                        three
                    });
                    is_second
                });
                is_first
            });
        }
    }
}

fn amid(before: Deed, deeds: [(Deed, usize); 3]) -> [bool; 3] {
    let scene = Scene::new(used_pool());
    leave_an_entry(&scene.world);
    let mut user = User::new(&scene.world, NEIGHBOUR);
    before(&mut user);
    let are_there = deeds.map(|(deed, exchange)| {
        killed::interrupted(Before::Exchange(exchange), scene.looking(1), || {
            deed(&mut user);
        })
    });
    scene.finish();
    user.expect_own();
    expect_order(&scene.pool(), &open(&scene.pool()));
    are_there
}

/// As above, where the reader's last look is interrupted: a chain goes from one chunk to the next
/// meanwhile, of which the reader may pass the one by before and the other one after.
///
/// # Panics
///
/// The law does not hold.
pub fn moved_while_the_reader_looks() {
    for rounds in 0..4 {
        at_each(|at_first| {
            let mut is_first = false;
            at_each(|at_second| {
                let mut is_second = false;
                at_each(|access| {
                    let accesses = [at_first, at_second, access];
                    let [one, two, three] = run(move || moved(rounds, accesses));
                    is_first |= one;
                    is_second |= two;
                    three
                });
                is_second
            });
            is_first
        });
    }
}

fn moved(rounds: usize, [at_first, at_second, access]: [usize; 3]) -> [bool; 3] {
    let scene = Scene::new(used_pool());
    leave_an_entry(&scene.world);
    let mut first = User::new(&scene.world, NEIGHBOUR);
    let [(before, deed)] = DEEDS[5..] else {
        panic!("it puts its chain back");
    };
    before(&mut first);
    let is_first = killed::interrupted(Before::Exchange(at_first), scene.looking(1), || {
        deed(&mut first);
    });
    // Others are closed first, then.
    (0..rounds).for_each(|_| first.refill(SHORT));
    let mut second = User::new(&scene.world, VICTIM);
    let is_second = killed::interrupted(Before::Exchange(at_second), scene.looking(1), || {
        second.refill(LONG);
    });
    let own = held(&second);
    let change = {
        let scene = scene.clone();
        move || User::with(&scene.world, VICTIM, &own).refill(LONG)
    };
    let is_there = killed::interrupted(Before::Access(access), change, || scene.look(1));
    scene.finish();
    expect_order(&scene.pool(), &open(&scene.pool()));
    [is_first, is_second, is_there]
}

/// A dead thread has taken a chunk, which is in a list after three looks, each amid a change of
/// another thread.
///
/// # Panics
///
/// The law does not hold.
pub fn found_amid_changes_of_others() {
    at_each(|exchange| {
        let [is_there] = run(move || {
            let scene = Scene::new(used_pool());
            killed::after(3, EARLIER, || {
                User::new(&scene.world, EARLIER).refill(SHORT)
            });
            let [left, _] = in_hand(&scene.pool());
            assert_eq!(left.len(), 1, "it was killed with a chunk in hand");
            let mut user = User::new(&scene.world, NEIGHBOUR);
            let are_there = [(); 3].map(|()| {
                killed::interrupted(Before::Exchange(exchange), scene.looking(1), || {
                    user.refill(SHORT);
                })
            });
            let is_there = are_there == [true; 3];
            assert!(!is_there || in_hand(&scene.pool()).iter().all(HashSet::is_empty));
            scene.finish();
            expect_order(&scene.pool(), &held(&user));
            [is_there]
        });
        is_there
    });
}

/// A thread is stopped amid a change, and another one enters where it has left, or is about to. Who
/// is amid a change at the reader's first look is waited for.
///
/// # Panics
///
/// The law does not hold.
pub fn entered_where_another_one_leaves() {
    at_each(|leaving| {
        let mut is_left = false;
        at_each(|pushing| {
            let mut is_pushed = false;
            at_each(|taking| {
                let law = move || entered_at([leaving, pushing, taking]);
                let [is_leaving, is_pushing, is_taking] = run(law);
                is_left |= is_leaving;
                is_pushed |= is_pushing;
                is_taking
            });
            is_pushed
        });
        is_left
    });
}

fn entered_at([leaving, pushing, taking]: [usize; 3]) -> [bool; 3] {
    let scene = Scene::new(World::new(6));
    let mut first = User::new(&scene.world, AT_ONE_ENTRY[0]);
    let mut second = User::new(&scene.world, AT_ONE_ENTRY[1]);
    first.refill(SHORT);
    second.refill(SHORT);
    let own = held(&first);
    leave_an_entry(&scene.world);

    // Whether the first one waits; and whether it may go on.
    let (come, has_come) = channel();
    let (go, may_go) = channel();
    let first = thread::spawn({
        let world = Shared::clone(&scene.world);
        move || {
            let mut first = User::with(&world, AT_ONE_ENTRY[0], &own);
            let end = come.clone();
            let wait = move || assert!(come.send(true).is_ok() && may_go.recv().is_ok());
            let is_there = killed::interrupted(Before::Change(leaving), wait, || first.leave());
            assert!(is_there || end.send(false).is_ok());
        }
    });
    let is_leaving = has_come.recv() == Ok(true);
    let go_on = move || {
        assert!(!is_leaving || go.send(()).is_ok());
        joined(first);
    };
    let go_on = Rc::new(Cell::new(Some(go_on)));
    let looks = {
        let (scene, go_on) = (scene.clone(), Rc::clone(&go_on));
        move || {
            scene.look(1);
            go_on.take().into_iter().for_each(|go_on| go_on());
            scene.look(1);
        }
    };
    let is_pushing = killed::interrupted(Before::Exchange(pushing), looks, || second.leave());
    go_on.take().into_iter().for_each(|go_on| go_on());
    let mut third = User::new(&scene.world, NEIGHBOUR);
    let is_taking = killed::interrupted(Before::Exchange(taking), scene.looking(1), || {
        third.refill(SHORT);
    });
    scene.finish();
    expect_order(&scene.pool(), &held(&third));
    [is_leaving, is_pushing, is_taking]
}

/// A list changes twice while the reader goes through it, so that what is in it is not seen there.
///
/// # Panics
///
/// The law does not hold.
pub fn a_list_that_changes_under_the_reader() {
    at_each(|first| {
        let mut is_first = false;
        at_each(|second| {
            let [one, two] = run(move || changed_under_the_reader([first, second]));
            is_first |= one;
            two
        });
        is_first
    });
}

fn changed_under_the_reader([first, second]: [usize; 2]) -> [bool; 2] {
    let scene = Scene::new(World::new(8));
    let mut users = [(); 4].map(|()| User::new(&scene.world, NEIGHBOUR));
    for user in &mut users {
        user.refill(SHORT);
    }
    let [lowest, mut beneath, mut next, mut top] = users;
    let lowest = held(&lowest);
    // A chunk with one writer has space for another one, and one with two has not.
    top.leave();
    top.refill(SHORT);
    for user in [&mut beneath, &mut next, &mut top] {
        user.leave();
    }
    leave_an_entry(&scene.world);
    let is_first = Rc::new(Cell::new(false));
    let change = {
        let (scene, is_first) = (scene.clone(), Rc::clone(&is_first));
        move || {
            is_first.set(true);
            // Closes the one on top, goes on in the next one, and leaves that on top of another
            // one.
            let mut user = User::new(&scene.world, NEIGHBOUR);
            user.refill(SHORT);
            User::with(&scene.world, NEIGHBOUR, &lowest).leave();
            user.leave();
            let again = scene.clone();
            killed::interrupt(Before::Access(second), move || {
                User::new(&again.world, VICTIM).refill(SHORT);
            });
        }
    };
    let is_second = killed::interrupted(Before::Access(first), change, || scene.look(3));
    let [is_first, is_second] = [is_first.get(), is_first.get() && is_second];
    if is_second {
        let [chunks, chains] = in_hand(&scene.pool());
        assert!(chunks.is_empty() && chains.is_empty());
        scene.finish();
        // One is in use: that of who has taken one last.
        let open = open(&scene.pool());
        assert_eq!(open.len(), 1);
        expect_order(&scene.pool(), &open);
    }
    [is_first, is_second]
}

/// Returns the chunks that are open.
fn open(pool: &AnyPool<'_>) -> Vec<u32> {
    let is_open = |ordinal: &u32| {
        let chunk_ref = pool.chunk_ref(*ordinal);
        chunk_ref.is_some_and(|chunk_ref| {
            chunk_state::state_of(chunk_ref.header.state.load(Acquire)) == chunk_state::OPEN
        })
    };
    let all = 0..pool.control.fresh.load(Acquire);
    all.filter(is_open).collect()
}

/// A thread is killed with a chunk in hand, and a list changes whenever the reader looks for what
/// it has left: it is found when nothing changes any more.
///
/// # Panics
///
/// The law does not hold.
pub fn looked_for_in_vain() {
    at_each(|access| {
        let [is_there] = run(move || {
            let scene = Scene::new(used_pool());
            killed::after(3, EARLIER, || {
                User::new(&scene.world, EARLIER).refill(SHORT);
            });
            let change = {
                let scene = scene.clone();
                move || {
                    let mut user = User::new(&scene.world, NEIGHBOUR);
                    user.refill(SHORT);
                    user.leave();
                }
            };
            let is_there = killed::interrupted(Before::Access(access), change, || scene.look(1));
            scene.finish();
            expect_order(&scene.pool(), &[]);
            [is_there]
        });
        is_there
    });
}

/// A thread lives that never comes back to what it was doing, and has said so: what it had in hand
/// is given back.
///
/// # Panics
///
/// The law does not hold.
pub fn left_for_good() {
    at_each(|change| {
        let [is_there] = run(move || {
            let scene = Scene::new(used_pool());
            let mut user = User::new(&scene.world, VICTIM);
            let is_there = killed::stopped(Before::Change(change), || user.refill(SHORT));
            let pool = scene.pool();
            let own = user.identity().entry_word();
            for entry in (0..ENTERING_SLOTS).filter_map(|at| pool.parts.entering(pool.slot, at)) {
                let thread = &entry.thread;
                let _ = thread.compare_exchange(own, LEFT_FOR_GOOD, AcqRel, Relaxed);
            }
            scene.finish();
            // It knows of the one that it has opened.
            expect_order(&pool, &open(&pool));
            [is_there]
        });
        is_there
    });
}

/// A chunk's thread leaves it and ends, and another one goes on there, between two accesses of the
/// reader, which looks for chunks whose threads are no more: it is the other one's.
///
/// # Panics
///
/// The law does not hold.
pub fn gone_on_with_while_the_reader_looks() {
    at_each(|stop| {
        let mut was_stopped = false;
        at_each(|access| {
            let [is_stopped, is_there] = run(move || gone_on_with([stop, access]));
            was_stopped |= is_stopped;
            is_there
        });
        was_stopped
    });
}

fn gone_on_with([stop, access]: [usize; 2]) -> [bool; 2] {
    let scene = Scene::new(used_pool());
    let mut first = User::new(&scene.world, VICTIM);
    first.refill(SHORT);
    first.leave();
    // One with a single writer has space.
    first.refill(LONG);
    let own = held(&first);
    let is_stopped = Rc::new(Cell::new(false));
    let change = {
        let (scene, is_stopped) = (scene.clone(), Rc::clone(&is_stopped));
        move || {
            User::with(&scene.world, VICTIM, &own).leave();
            killed::end(VICTIM);
            let mut second = User::new(&scene.world, NEIGHBOUR);
            is_stopped.set(killed::stopped(Before::Exchange(stop), || {
                second.refill(SHORT)
            }));
            assert!(is_stopped.get() || held(&second) == own);
        }
    };
    let is_there = killed::interrupted(Before::Access(access), change, || {
        let pool = scene.pool();
        let all = 0..pool.control.fresh.load(Acquire);
        Abandoned::new().leave_to_others(&pool, all, &Slice);
    });
    if !is_there {
        return [false; 2];
    }
    let pool = scene.pool();
    // Those who live keep theirs.
    for ordinal in listed(&pool, pool.control.ended.load(Acquire)) {
        let chunk_ref = pool.chunk_ref(ordinal);
        let state =
            chunk_ref.map(|chunk_ref| chunk_state::state_of(chunk_ref.header.state.load(Acquire)));
        assert_eq!(state, Some(chunk_state::ENDED), "it is open as well");
    }
    if !is_stopped.get() {
        assert_eq!(open(&pool), held_by(&pool, NEIGHBOUR), "taken away");
        assert_eq!(open(&pool).len(), 1, "taken away");
    }
    killed::end(NEIGHBOUR);
    scene.finish();
    expect_order(&pool, &[]);
    [is_stopped.get(), true]
}

/// Returns the chunks that are open and name this thread.
fn held_by(pool: &AnyPool<'_>, tid: i32) -> Vec<u32> {
    let own = u64::from(tid.unsigned_abs());
    let names = |ordinal: &u32| {
        let chunk_ref = pool.chunk_ref(*ordinal);
        chunk_ref
            .is_some_and(|chunk_ref| chunk_ref.header.thread.load(Acquire) & 0xffff_ffff == own)
    };
    open(pool).into_iter().filter(names).collect()
}

/// Checks that chunks are left to others where their owner is gone: those of a thread that is gone,
/// unless its tid counts elsewhere; and where a thread's tid is that of another program by now,
/// those of the program before.
///
/// # Panics
///
/// The law does not hold.
pub fn whose_chunks_are_abandoned() {
    const ELSEWHERE: u64 = home::word(HERE + 1, 0);
    const BEFORE: u64 = home::word(HERE, 1);
    const NOW: u64 = home::word(HERE, 2);
    let remain = |homes: [u64; 2], is_gone: bool, remain: usize| {
        run::<0>(move || {
            let scene = Scene::new(World::new(4));
            for home in homes {
                let mut user = User::new(&scene.world, VICTIM);
                user.home = home;
                user.refill(SHORT);
            }
            if is_gone {
                killed::end(VICTIM);
            }
            scene.finish();
            let open = open(&scene.pool());
            assert_eq!(open.len(), remain, "{homes:?}");
            // The later one is the one that remains.
            assert!(remain != 1 || open == [2]);
            expect_order(&scene.pool(), &open);
            []
        });
    };
    remain([NOW; 2], false, 2);
    remain([NOW; 2], true, 0);
    remain([ELSEWHERE; 2], true, 2);
    remain([BEFORE, NOW], false, 1);
}

/// A thread enters while its stream is ended: it finds out, or is found.
///
/// # Panics
///
/// The law does not hold.
pub fn entered_while_the_stream_ends() {
    loom::model(|| {
        let world = Shared::new(World::new(1));
        let other = thread::spawn({
            let world = Shared::clone(&world);
            move || {
                let user = User::new(&world, NEIGHBOUR);
                world.pool().enter(user.identity(), |_| {}).is_some()
            }
        });
        // `retire::end`, `retire::finish`.
        let pool = world.pool();
        let generation = &pool.control.generation;
        let _ = generation.compare_exchange(pool.generation, 0, AcqRel, Relaxed);
        atomics::barrier();
        let is_found = (0..ENTERING_SLOTS)
            .filter_map(|at| pool.parts.entering(pool.slot, at))
            .any(|entry| entry.thread.load(Acquire) != 0);
        assert!(!joined(other) || is_found);
    });
}
