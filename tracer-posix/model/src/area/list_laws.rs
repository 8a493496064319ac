//! The laws of the lists, each over every order that its threads can take.

use std::cell::RefCell;

use loom::sync::Arc;
use loom::thread;

use super::laws::{check, joined};
use crate::layout::atomics::AtomicU64;
use crate::layout::links::{self, Links, Queue, Stack};

/// The words of a few things that can be in a list.
struct Nodes {
    nodes: Vec<[AtomicU64; 2]>,
    oldest: AtomicU64,
    newest: AtomicU64,
    top: AtomicU64,
}

impl Nodes {
    fn new(count: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            nodes: (0..count).map(|_| [zero(), zero()]).collect(),
            oldest: AtomicU64::new(links::word(0)),
            newest: AtomicU64::new(links::word(0)),
            top: zero(),
        }
    }

    fn queue(&self) -> Queue<'_, &Self> {
        Queue {
            oldest: &self.oldest,
            newest: &self.newest,
            links: self,
        }
    }

    fn stack(&self) -> Stack<'_, &Self> {
        Stack {
            top: &self.top,
            links: self,
        }
    }
}

impl Links for &Nodes {
    fn link(&self, index: u32) -> Option<&AtomicU64> {
        self.nodes
            .get(usize::try_from(index).ok()?)
            .map(|[link, _]| link)
    }

    fn order(&self, index: u32) -> Option<&AtomicU64> {
        self.nodes
            .get(usize::try_from(index).ok()?)
            .map(|[_, order]| order)
    }
}

/// Two threads close chunks, one of which takes the oldest meanwhile: each index is held once at a
/// time, and what is closed first goes first.
///
/// # Panics
///
/// The law does not hold.
pub fn a_queue_of_closed_chunks() {
    check(|| {
        let nodes = Arc::new(Nodes::new(3));
        let other = thread::spawn({
            let nodes = Arc::clone(&nodes);
            move || {
                assert!(nodes.queue().push(1));
                nodes.queue().pop(|_| true)
            }
        });
        assert!(nodes.queue().push(2));
        let mine = nodes.queue().pop(|_| true);
        let theirs = joined(other);
        let mut all: Vec<_> = [mine, theirs].into_iter().flatten().collect();
        while let Some(index) = nodes.queue().pop(|_| true) {
            all.push(index);
        }
        all.sort_unstable();
        // One of the two that were put in stays.
        assert!(all == [0, 1] || all == [0, 2], "{all:?}");
    });
}

/// A chunk is closed while another thread takes the oldest and closes it again: none gets lost or
/// comes twice, and their order is the one in which they come out.
///
/// # Panics
///
/// The law does not hold.
pub fn a_chunk_that_is_closed_again() {
    check(|| {
        let nodes = Arc::new(Nodes::new(4));
        assert!(nodes.queue().push(3));
        let other = thread::spawn({
            let nodes = Arc::clone(&nodes);
            move || {
                assert!(nodes.queue().push(1));
                if let Some(index) = nodes.queue().pop(|_| true) {
                    assert!(nodes.queue().push(index));
                }
            }
        });
        assert!(nodes.queue().push(2));
        joined(other);
        let orders = RefCell::new(Vec::new());
        let pop = || {
            nodes.queue().pop(|order| {
                orders.borrow_mut().push(order);
                true
            })
        };
        let mut all: Vec<_> = std::iter::from_fn(pop).take(5).collect();
        let mut orders = orders.take();
        orders.dedup();
        assert!(orders.is_sorted_by(|a, b| a < b), "{orders:?}");
        all.sort_unstable();
        // One of the four stays.
        assert_eq!(all.len(), 3, "{all:?}");
        all.dedup();
        assert_eq!(all.len(), 3, "{all:?}");
    });
}

/// A chunk is closed while another thread takes the only one that there is, if it may, and closes
/// it again.
///
/// # Panics
///
/// The law does not hold.
pub fn an_only_chunk_that_is_closed_again() {
    check(|| {
        let nodes = Arc::new(Nodes::new(2));
        let other = thread::spawn({
            let nodes = Arc::clone(&nodes);
            move || {
                if let Some(index) = nodes.queue().pop(|_| true) {
                    assert!(nodes.queue().push(index));
                }
            }
        });
        assert!(nodes.queue().push(1));
        joined(other);
        let first = nodes.queue().pop(|_| true);
        assert!(first.is_some(), "one of two came out");
        assert_eq!(nodes.queue().pop(|_| true), None, "the other stays");
    });
}

/// A thread takes from a stack while another takes two and puts one back: each index is held once
/// at a time.
///
/// # Panics
///
/// The law does not hold.
pub fn a_stack_of_ended_chunks() {
    check(|| {
        let nodes = Arc::new(Nodes::new(3));
        assert!((0..3).all(|index| nodes.stack().push(index)));
        let other = thread::spawn({
            let nodes = Arc::clone(&nodes);
            move || {
                let first = nodes.stack().pop();
                let second = nodes.stack().pop();
                if let Some(index) = first {
                    assert!(nodes.stack().push(index));
                }
                second
            }
        });
        let mine = nodes.stack().pop();
        let theirs = joined(other);
        let left = std::iter::from_fn(|| nodes.stack().pop());
        let mut all: Vec<_> = mine.into_iter().chain(theirs).chain(left.take(4)).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// Checks that an item is put into the queue all the same where the chunk that the thread saw as
/// the last of the queue has gone into the stack, alone.
///
/// # Panics
///
/// The law does not hold.
pub fn a_last_chunk_that_has_gone_elsewhere() {
    check(|| {
        let nodes = Arc::new(Nodes::new(3));
        let other = thread::spawn({
            let nodes = Arc::clone(&nodes);
            move || {
                assert!(nodes.queue().push(2));
                let first = nodes.queue().pop(|_| true);
                assert!(first.is_some_and(|index| nodes.stack().push(index)));
                first
            }
        });
        assert!(nodes.queue().push(1));
        let first = joined(other);
        assert_eq!(first, Some(0), "it was there first");
        let stack: Vec<_> = std::iter::from_fn(|| nodes.stack().pop()).take(4).collect();
        assert_eq!(stack, [0], "nothing was put behind it");
        let first = nodes.queue().pop(|_| true);
        assert!(matches!(first, Some(1 | 2)), "{first:?}");
        assert_eq!(nodes.queue().pop(|_| true), None, "the other stays");
    });
}

/// A thread takes from a queue of three while another takes one too and puts it into the stack:
/// each gets one, since there is one for each.
///
/// # Panics
///
/// The law does not hold.
pub fn an_oldest_chunk_that_has_gone_elsewhere() {
    check(|| {
        let nodes = Arc::new(Nodes::new(3));
        assert!(nodes.queue().push(1) && nodes.queue().push(2));
        let other = thread::spawn({
            let nodes = Arc::clone(&nodes);
            move || nodes.queue().pop(|_| true)
        });
        let mine = nodes.queue().pop(|_| true);
        assert!(mine.is_some_and(|index| nodes.stack().push(index)));
        let mut all: Vec<_> = mine.into_iter().chain(joined(other)).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    });
}
