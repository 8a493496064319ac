//! The laws, each over every order that its threads can take.

use std::cell::RefCell;

use loom::sync::Arc;
use loom::thread;

use super::atomics::AtomicU64;
use super::links::{self, Links, Queue, Stack};
use super::threads::{Reader, Shared, Writer, take_stream_away};

/// The threads' numbers.
const FIRST: u64 = 1;
const SECOND: u64 = 2;

/// Threads are switched at most so often where they did not ask for it: more is days of work.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn joined<T>(handle: thread::JoinHandle<T>) -> T {
    match handle.join() {
        Ok(value) => value,
        Err(_) => panic!("a thread of the model has failed"),
    }
}

/// A writer of three records in a chunk for two, and a reader who looks beside it and once more when
/// it is done: records are whole, in order, not older than a watermark before them, and what is not
/// there is counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_reader_beside_a_writer() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut writer = Writer::of(&shared, FIRST);
                (0..3).for_each(|_| writer.emit());
                writer.attempts
            }
        });
        let mut reader = Reader::new(1);
        reader.round(&shared);
        let attempts = joined(writer);
        reader.round(&shared);
        assert_eq!(
            reader.records + reader.lost,
            attempts,
            "lost and not counted"
        );
    });
}

/// As [`a_reader_beside_a_writer`], where the reader looks three times and the chunk is never full.
///
/// # Panics
///
/// The law does not hold.
pub fn a_watermark() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut writer = Writer::of(&shared, FIRST);
                (0..2).for_each(|_| writer.emit());
                writer.attempts
            }
        });
        let mut reader = Reader::new(1);
        reader.round(&shared);
        reader.round(&shared);
        let attempts = joined(writer);
        reader.round(&shared);
        assert_eq!((reader.records, reader.lost), (attempts, 0));
    });
}

/// A writer fills the chunk, and takes it again for itself, as the oldest: whatever the reader has read by then, records are
/// whole, and what it has not is counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_chunk_that_is_taken_again() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut writer = Writer::of(&shared, FIRST);
                writer.emit();
                writer.emit();
                let before = writer.attempts;
                writer.close();
                let Some(mut writer) = Writer::take(&shared, 1, SECOND) else {
                    panic!("it is free");
                };
                writer.emit();
                before + writer.attempts
            }
        });
        let mut reader = Reader::new(1);
        reader.round(&shared);
        let attempts = joined(writer);
        reader.round(&shared);
        assert_eq!(
            reader.records + reader.lost,
            attempts,
            "lost and not counted"
        );
    });
}

/// A stream is taken away from under a thread that emits, and its chunk goes to a thread of another
/// stream: whose reader finds that thread's records alone, whole, and all counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_stream_taken_away() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let mut old = Writer::of(&shared, FIRST);
        let new = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let Some(mut writer) = Writer::take(&shared, 2, SECOND) else {
                    // The chunk is not free yet, or never: the old thread was amid a record.
                    return 0;
                };
                writer.emit();
                writer.attempts
            }
        });
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                take_stream_away(&shared);
                let mut reader = Reader::new(2);
                reader.round(&shared);
                let attempts = joined(new);
                reader.round(&shared);
                (reader, attempts)
            }
        });
        old.emit();
        old.emit();
        let (mut reader, attempts) = joined(reader);
        reader.round(&shared);
        assert_eq!((reader.records, reader.lost), (attempts, 0));
    });
}

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
    fn link(&self, number: u32) -> Option<&AtomicU64> {
        self.nodes
            .get(usize::try_from(number).ok()?)
            .map(|[link, _]| link)
    }

    fn order(&self, number: u32) -> Option<&AtomicU64> {
        self.nodes
            .get(usize::try_from(number).ok()?)
            .map(|[_, order]| order)
    }
}

/// Two threads close chunks, one of which takes the oldest meanwhile: each number is in one hand at a time, and what is
/// closed first goes first.
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
        while let Some(number) = nodes.queue().pop(|_| true) {
            all.push(number);
        }
        all.sort_unstable();
        // One of the two that were put in stays.
        assert!(all == [0, 1] || all == [0, 2], "{all:?}");
    });
}

/// A chunk is closed while another thread takes the oldest and closes it again: none gets lost or comes twice, and their order
/// is the one in which they come out.
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
                if let Some(number) = nodes.queue().pop(|_| true) {
                    assert!(nodes.queue().push(number));
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

/// A thread takes from a stack while another takes two and puts one back: each number is in one hand at a time.
///
/// # Panics
///
/// The law does not hold.
pub fn a_stack_of_ended_chunks() {
    check(|| {
        let nodes = Arc::new(Nodes::new(3));
        assert!((0..3).all(|number| nodes.stack().push(number)));
        let other = thread::spawn({
            let nodes = Arc::clone(&nodes);
            move || {
                let first = nodes.stack().pop();
                let second = nodes.stack().pop();
                if let Some(number) = first {
                    assert!(nodes.stack().push(number));
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
