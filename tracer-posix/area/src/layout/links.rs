//! Lists in shared memory: a queue and a stack of things that have indices, without a lock.
//!
//! Their words have an index plus one in the low half, 0 for none, and a count of changes in the
//! high half, so that a word that has become the same again differs from one that has stayed.
//! Another process may write anything into them: every index is looked up ([`Links`]) before it is
//! used, and no operation tries more often than [`TRIES`] times. It gives up then, as if there were
//! nothing in the list. Without a hostile process that takes as many other threads that succeed at
//! the same moment.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::atomics::AtomicU64;

const TRIES: usize = 4096;

/// The words of items that can be in lists.
pub(crate) trait Links {
    /// Returns the link of an index to the next one; `None` where there is no such index.
    fn link(&self, index: u32) -> Option<&AtomicU64>;
    /// Returns the word that says how many items were put into the queue before this one.
    fn order(&self, index: u32) -> Option<&AtomicU64>;
}

/// Returns the word of a list with this index.
pub(crate) const fn word(index: u32) -> u64 {
    index as u64 + 1
}

/// Returns the index in a word.
pub(crate) fn index_of(word: u64) -> Option<u32> {
    u32::try_from(word & u64::from(u32::MAX))
        .ok()?
        .checked_sub(1)
}

/// Returns a word with this index that is not `before`.
fn changed(before: u64, index: Option<u32>) -> u64 {
    (before >> 32).wrapping_add(1) << 32 | index.map_or(0, word)
}

fn change(word: &AtomicU64, before: u64, index: Option<u32>) -> bool {
    word.compare_exchange(before, changed(before, index), AcqRel, Relaxed)
        .is_ok()
}

/// Points the link of an item that is in no list. A thread that sees that also sees that the item
/// has left the list in which it was.
fn point(link: &AtomicU64, index: Option<u32>) {
    link.store(changed(link.load(Relaxed), index), Release);
}

/// Changes the link of an item that is in no list: a thread that has noted the link sees that
/// another one has had the item in hand.
pub(super) fn touch(link: &AtomicU64) {
    point(link, None);
}

/// A queue. It is never quite empty: the item that was put in last cannot be taken out before
/// another one was put in.
pub(crate) struct Queue<'a, L> {
    pub(crate) oldest: &'a AtomicU64,
    pub(crate) newest: &'a AtomicU64,
    pub(crate) links: L,
}

impl<L: Links> Queue<'_, L> {
    /// Puts in an item that is in no list. `false` where that cannot be done.
    pub(crate) fn push(&self, index: u32) -> bool {
        let (Some(own_link), Some(own_order)) = (self.links.link(index), self.links.order(index))
        else {
            return false;
        };
        point(own_link, None);
        for _ in 0..TRIES {
            let newest = self.newest.load(Acquire);
            let Some(last) = index_of(newest) else {
                return false;
            };
            let (Some(link), Some(order)) = (self.links.link(last), self.links.order(last)) else {
                return false;
            };
            let next = link.load(Acquire);
            let before = order.load(Relaxed);
            if self.newest.load(Acquire) != newest {
                continue;
            }
            if index_of(next).is_some() {
                // The thread that has put that item in has not updated `newest` yet.
                change(self.newest, newest, index_of(next));
                continue;
            }
            own_order.store(before.wrapping_add(1), Relaxed);
            if change(link, next, Some(index)) {
                change(self.newest, newest, Some(index));
                return true;
            }
        }
        false
    }

    /// Takes out the item that was put in first, if `may_go` allows that for the item's order.
    pub(crate) fn pop(&self, may_go: impl Fn(u64) -> bool) -> Option<u32> {
        for _ in 0..TRIES {
            let oldest = self.oldest.load(Acquire);
            let newest = self.newest.load(Acquire);
            let index = index_of(oldest)?;
            let next = self.links.link(index)?.load(Acquire);
            let order = self.links.order(index)?.load(Relaxed);
            if self.oldest.load(Acquire) != oldest {
                continue;
            }
            if index_of(next).is_none() || !may_go(order) {
                return None;
            }
            if index_of(newest) == Some(index) {
                change(self.newest, newest, index_of(next));
                continue;
            }
            if change(self.oldest, oldest, index_of(next)) {
                return Some(index);
            }
        }
        None
    }
}

/// A stack.
pub(crate) struct Stack<'a, L> {
    pub(crate) top: &'a AtomicU64,
    pub(crate) links: L,
}

impl<L: Links> Stack<'_, L> {
    /// Puts in an item that is in no list. `false` where that cannot be done.
    pub(crate) fn push(&self, index: u32) -> bool {
        for _ in 0..TRIES {
            let top = self.top.load(Acquire);
            let Some(link) = self.links.link(index) else {
                return false;
            };
            point(link, index_of(top));
            if change(self.top, top, Some(index)) {
                return true;
            }
        }
        false
    }

    /// Takes out the item that was put in last.
    pub(crate) fn pop(&self) -> Option<u32> {
        for _ in 0..TRIES {
            let top = self.top.load(Acquire);
            let index = index_of(top)?;
            let next = self.links.link(index)?.load(Acquire);
            if change(self.top, top, index_of(next)) {
                return Some(index);
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;

    struct Nodes(Vec<[AtomicU64; 2]>);

    impl Nodes {
        fn new(count: usize) -> Self {
            Self(
                (0..count)
                    .map(|_| [AtomicU64::new(0), AtomicU64::new(0)])
                    .collect(),
            )
        }
    }

    impl Links for &Nodes {
        fn link(&self, index: u32) -> Option<&AtomicU64> {
            self.0
                .get(usize::try_from(index).ok()?)
                .map(|[link, _]| link)
        }

        fn order(&self, index: u32) -> Option<&AtomicU64> {
            self.0
                .get(usize::try_from(index).ok()?)
                .map(|[_, order]| order)
        }
    }

    #[test]
    fn what_was_put_in_first_comes_out_first_and_the_last_stays() {
        let nodes = Nodes::new(4);
        let (oldest, newest) = (AtomicU64::new(word(0)), AtomicU64::new(word(0)));
        let queue = Queue {
            oldest: &oldest,
            newest: &newest,
            links: &nodes,
        };
        assert_eq!(queue.pop(|_| true), None, "the last stays");
        assert!(queue.push(1) && queue.push(2));
        let orders: Vec<_> = nodes
            .0
            .iter()
            .map(|[_, order]| order.load(Relaxed))
            .collect();
        assert_eq!(orders[..3], [0, 1, 2]);
        assert_eq!(queue.pop(|order| order < 1), Some(0));
        assert_eq!(queue.pop(|order| order < 1), None, "it may not go");
        assert_eq!(queue.pop(|_| true), Some(1));
        assert_eq!(queue.pop(|_| true), None, "the last stays");
        assert!(!queue.push(9), "no such index");
    }

    #[test]
    fn a_list_of_nonsense_ends() {
        let nodes = Nodes::new(2);
        nodes.0[0][0].store(word(0), Relaxed);
        nodes.0[1][0].store(77, Relaxed);
        let (oldest, newest) = (AtomicU64::new(word(0)), AtomicU64::new(word(0)));
        let queue = Queue {
            oldest: &oldest,
            newest: &newest,
            links: &nodes,
        };
        assert!(!queue.push(1), "a circle");
        assert_eq!(queue.pop(|_| true), None);
        let top = AtomicU64::new(word(1));
        let stack = Stack {
            top: &top,
            links: &nodes,
        };
        assert_eq!(stack.pop(), Some(1));
        assert_eq!(stack.pop(), None, "77 is no index");
    }

    /// Threads that move indices between a queue and a stack: none is ever held twice, and none is
    /// lost.
    #[test]
    fn an_index_is_held_once_at_a_time_whichever_thread_moves_it() {
        const COUNT: u32 = 40;
        const THREADS: usize = 8;
        let nodes = Nodes::new(usize::try_from(COUNT).unwrap_or(0));
        let (oldest, newest) = (AtomicU64::new(word(0)), AtomicU64::new(word(0)));
        let top = AtomicU64::new(0);
        let queue = || Queue {
            oldest: &oldest,
            newest: &newest,
            links: &nodes,
        };
        let stack = || Stack {
            top: &top,
            links: &nodes,
        };
        let held: Vec<AtomicBool> = (0..COUNT).map(|_| AtomicBool::new(false)).collect();
        (1..COUNT).for_each(|index| assert!(stack().push(index)));
        let hold = |index: u32| {
            let was_held = held[index as usize].swap(true, AcqRel);
            assert!(!was_held, "{index} is held twice");
        };
        let let_go = |index: u32| held[index as usize].store(false, Release);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (queue, stack, hold, let_go) = (&queue, &stack, &hold, &let_go);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let taken = if (round + thread).is_multiple_of(2) {
                            stack().pop().or_else(|| queue().pop(|_| true))
                        } else {
                            queue().pop(|_| true).or_else(|| stack().pop())
                        };
                        let Some(index) = taken else { continue };
                        hold(index);
                        let_go(index);
                        let is_back = if round % 3 == 0 {
                            stack().push(index)
                        } else {
                            queue().push(index)
                        };
                        assert!(is_back);
                    }
                });
            }
        });
        let left = Mutex::new(HashSet::new());
        while let Some(index) = stack().pop().or_else(|| queue().pop(|_| true)) {
            assert!(left.lock().unwrap().insert(index));
        }
        assert_eq!(left.lock().unwrap().len(), (COUNT - 1) as usize);
    }
}
