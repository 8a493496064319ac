//! Intervals of threads, held in little memory.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use tracer_engine::event::MonotonicNs;

use crate::state::{Interval, IntervalEnd, State, Thread};

/// Items of a piece of a [`Queue`].
const PIECE: usize = 512;

/// Shapes that are there before it is asked whether intervals still have them.
const FEW_SHAPES: usize = 4096;

/// Queue in pieces: it grows without a copy of what it has.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T> {
    /// Pieces of [`PIECE`] items; only the last one may have less.
    pieces: VecDeque<Vec<T>>,
    /// Items of the first piece that are gone.
    gone: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            gone: 0,
        }
    }
}

impl<T: Copy> Queue<T> {
    /// Returns the count of its items.
    pub fn len(&self) -> usize {
        let last = self.pieces.back().map_or(0, Vec::len);
        (self.pieces.len().saturating_sub(1) * PIECE + last).saturating_sub(self.gone)
    }

    /// Tells whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an item at its end.
    pub fn push(&mut self, item: T) {
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE => last.push(item),
            _ => self.pieces.push_back(vec![item]),
        }
    }

    /// Returns an item, the first by 0.
    pub fn get(&self, index: usize) -> Option<&T> {
        let index = index + self.gone;
        self.pieces.get(index / PIECE)?.get(index % PIECE)
    }

    /// Returns the last item, to change it.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        if self.is_empty() {
            return None;
        }
        self.pieces.back_mut()?.last_mut()
    }

    /// Returns the index of the first item of which `is_before` is false, and with it of all that
    /// come after.
    pub fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.get(middle).is_some_and(&is_before) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// Returns the items from this index on.
    pub fn since(&self, index: usize) -> impl Iterator<Item = &T> {
        let index = index + self.gone;
        let pieces = self.pieces.range((index / PIECE).min(self.pieces.len())..);
        pieces.flatten().skip(index % PIECE)
    }

    /// Returns all items, to change them.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten().skip(self.gone)
    }

    /// Drops the first items.
    pub fn drop_first(&mut self, count: usize) {
        self.gone += count.min(self.len());
        let pieces = (self.gone / PIECE).min(self.pieces.len());
        self.pieces.drain(..pieces);
        self.gone -= pieces * PIECE;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Drops all items.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.gone = 0;
    }
}

/// An interval of a thread that is known, with the rest in [`Shapes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// From when on.
    from: MonotonicNs,
    /// Until when.
    to: MonotonicNs,
    /// Number of its shape.
    shape: u32,
    /// How long it had waited at its beginning, in nanoseconds, where the shape does not say since
    /// when.
    waited_ns: u32,
}

impl Held {
    /// Returns from when on it is.
    pub fn from(&self) -> MonotonicNs {
        self.from
    }

    /// Returns until when it is.
    pub fn to(&self) -> MonotonicNs {
        self.to
    }
}

/// Everything of an interval but its thread and its times: most are like others before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    state: State,
    end: IntervalEnd,
    cpu: Option<u32>,
    /// Since when it waited, where that is not told by 32 bits of nanoseconds.
    waits_since: Option<MonotonicNs>,
}

/// Shapes of intervals that are held, each once.
#[derive(Debug, Default)]
pub(crate) struct Shapes(IndexSet<Shape, RandomState>);

impl Shapes {
    /// Returns the interval as it is held; `None` where there are too many shapes.
    pub fn hold(&mut self, interval: &Interval) -> Option<Held> {
        let waited = interval.from.0.checked_sub(interval.waits_since.0);
        let waited_ns = waited.and_then(|ns| u32::try_from(ns).ok());
        let (shape, _) = self.0.insert_full(Shape {
            state: interval.state,
            end: interval.end,
            cpu: interval.cpu,
            waits_since: waited_ns.is_none().then_some(interval.waits_since),
        });
        Some(Held {
            from: interval.from,
            to: interval.to,
            shape: u32::try_from(shape).ok()?,
            waited_ns: waited_ns.unwrap_or(0),
        })
    }

    /// Returns the interval of this thread.
    pub fn interval(&self, thread: Thread, held: &Held) -> Option<Interval> {
        let shape = self.0.get_index(usize::try_from(held.shape).ok()?)?;
        let waited = MonotonicNs(held.from.0.saturating_sub(held.waited_ns.into()));
        Some(Interval {
            thread,
            state: shape.state,
            from: held.from,
            to: held.to,
            end: shape.end,
            cpu: shape.cpu,
            waits_since: shape.waits_since.unwrap_or(waited),
        })
    }

    /// Tells whether there are many more than so many intervals can have.
    pub fn are_many(&self, held: usize) -> bool {
        self.0.len() > FEW_SHAPES.max(held.saturating_mul(2))
    }

    /// Drops the shapes that none of these intervals, which are all, has.
    pub fn drop_unused<'a>(&mut self, all: impl Iterator<Item = &'a mut Queue<Held>>) {
        let old = std::mem::take(&mut self.0);
        for held in all.flat_map(Queue::all_mut) {
            let index = usize::try_from(held.shape).ok();
            let Some(shape) = index.and_then(|index| old.get_index(index)) else {
                continue;
            };
            let (number, _) = self.0.insert_full(*shape);
            held.shape = u32::try_from(number).unwrap_or(u32::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::state::{Behind, Task, Wait, Waker};

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Drop(usize),
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..3 * PIECE).prop_map(Step::Push),
            6 => (0..3 * PIECE).prop_map(Step::Drop),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        #[test]
        fn a_queue_has_what_a_deque_has(steps in prop::collection::vec(step(), 1..20)) {
            let (mut ours, mut theirs) = (Queue::default(), VecDeque::new());
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Push(count) => for _ in 0..count {
                        ours.push(next);
                        theirs.push_back(next);
                        next += 1;
                    },
                    Step::Drop(count) => {
                        ours.drop_first(count);
                        theirs.drain(..count.min(theirs.len()));
                    }
                    Step::Clear => {
                        ours.clear();
                        theirs.clear();
                    }
                }
                prop_assert_eq!(ours.len(), theirs.len());
                prop_assert_eq!(ours.last_mut().copied(), theirs.back().copied());
                prop_assert!(ours.since(0).eq(theirs.iter()));
                for at in [0, 1, PIECE - 1, PIECE, theirs.len() / 2, theirs.len()] {
                    prop_assert_eq!(ours.get(at), theirs.get(at));
                    prop_assert!(ours.since(at).eq(theirs.iter().skip(at)));
                    let first = next - i32::try_from(at).unwrap_or(0);
                    prop_assert_eq!(
                        ours.partition_point(|one| *one < first),
                        theirs.partition_point(|one| *one < first),
                    );
                }
            }
        }
    }

    fn interval(nth: u64) -> Interval {
        let task = Task::new(7, 8, [b'x'; 16]);
        let from = MonotonicNs(10_000_000_000 + nth);
        Interval {
            thread: Thread { pid: 1, tid: 2 },
            state: if nth.is_multiple_of(3) {
                State::Running
            } else {
                State::Runnable(Wait::Woken)
            },
            from,
            to: MonotonicNs(from.0 + 5),
            end: match nth % 4 {
                0 => IntervalEnd::Unsaid,
                1 => IntervalEnd::Woken(Waker::Thread(task)),
                2 => IntervalEnd::Woken(Waker::Timer),
                _ => IntervalEnd::GotCpu(Behind { task, others: None }),
            },
            cpu: (!nth.is_multiple_of(5)).then_some(1),
            waits_since: MonotonicNs(match nth % 7 {
                0 => 3,
                1 => from.0 + 1,
                2 => from.0 - 1,
                _ => from.0,
            }),
        }
    }

    #[test]
    fn intervals_come_back_as_they_were_also_after_shapes_are_dropped() {
        let mut shapes = Shapes::default();
        let mut held = Queue::default();
        let count = 20_000;
        for nth in 0..count {
            held.push(shapes.hold(&interval(nth)).expect("few shapes"));
        }
        assert!(!shapes.are_many(held.len()));
        for dropped in [0, 1, 19_000] {
            held.drop_first(dropped);
            shapes.drop_unused([&mut held].into_iter());
            let first = count - held.len() as u64;
            let back: Vec<_> = held
                .since(0)
                .filter_map(|one| shapes.interval(interval(0).thread, one))
                .collect();
            let expected: Vec<_> = (first..count).map(interval).collect();
            assert_eq!(back, expected);
        }
        assert!(shapes.0.len() < 1000, "{}", shapes.0.len());
        assert!(size_of::<Held>() < size_of::<Interval>() / 3);
    }
}
