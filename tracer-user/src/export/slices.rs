//! Slices: what has a beginning and an end, put below each other as they lie in time.
//!
//! A slice lies in a row of its track. Within a row slices are nested: each ends before the one
//! ends in which it began. Most are so of themselves. What a program calls a beginning and an end
//! need not be: where one ends while another goes on that began later, the other one moves to a row
//! of its own. So where a slice lies is known when it ends, and it is written then, with both of
//! its times; only what never ends is written by its beginning alone.
//!
//! Who reads the slices puts them in the order of their times, and those of one time in the order
//! of the file. A slice that others begin with at the same time is therefore written before them.

use std::collections::HashMap;

use tracer_engine::event::MonotonicNs;

use super::names::Thread;

/// Tracks whose slices are remembered: more than any machine has threads, and fewer than a damaged
/// file may name.
const MOST_TRACKS: usize = 65_536;

/// Slices within each other.
const MOST_OPEN: usize = 256;

/// What slices belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// What a thread does.
    Thread(Thread),
    /// Interrupts of a CPU.
    Interrupts(u32),
    /// When a CPU has nothing to do.
    Idle(u32),
}

/// What a beginning and its end have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A system call, by its index.
    Call(i32),
    /// A handler of a device's interrupt.
    Interrupt(u32),
    /// A soft interrupt.
    SoftInterrupt(u32),
    /// A CPU is idle.
    Idle,
    /// A pair of user events, by the index of the pair.
    Pair(usize),
}

impl Key {
    /// Whether the kernel's doing: it is nested always, so that what is not has lost an end.
    fn is_kernels(self) -> bool {
        !matches!(self, Self::Pair(_))
    }
}

/// What a slice carries: at its beginning, and what its end adds.
pub trait Arguments: Default {
    /// Says that its end is not in the log.
    fn without_end() -> Self;
}

/// A slice that has begun.
#[derive(Clone, Debug)]
pub struct Slice<A> {
    /// What begins and ends it.
    pub key: Key,
    /// What it is called: any bytes.
    pub name: Vec<u8>,
    /// When it began.
    pub at: MonotonicNs,
    /// What it carries.
    pub arguments: A,
    /// The stack with which it began, by the id that the export gives it.
    pub stack: Option<u64>,
}

/// What is to be written, and where.
#[derive(Clone, Debug)]
pub struct Mark<A> {
    /// The track.
    pub track: Track,
    /// The row in it.
    pub row: u32,
    /// It began at the same time as the slice that it lies in.
    pub begins_with_outer: bool,
    /// How much of the slice.
    pub extent: Extent<A>,
}

/// How much of a slice is written.
#[derive(Clone, Debug)]
pub enum Extent<A> {
    /// All of it: when it ended, and what the end adds.
    Whole(Slice<A>, MonotonicNs, A),
    /// That it began.
    Begin(Slice<A>),
    /// That one that began is over.
    End(MonotonicNs, A),
}

#[derive(Debug)]
struct Open<A> {
    /// `None` once its beginning was written.
    slice: Option<Slice<A>>,
    key: Key,
    at: MonotonicNs,
    row: u32,
    begins_with_outer: bool,
}

/// The slices that have begun and not ended.
#[derive(Debug)]
pub struct Slices<A> {
    tracks: HashMap<Track, Stack<A>>,
}

#[derive(Debug)]
struct Stack<A> {
    open: Vec<Open<A>>,
    /// Above it no slice of the track ever lay.
    top_row: u32,
}

impl<A> Default for Slices<A> {
    fn default() -> Self {
        Self {
            tracks: HashMap::new(),
        }
    }
}

impl<A: Arguments> Slices<A> {
    /// Begins a slice. False where there are too many already.
    pub fn begin(&mut self, track: Track, slice: Slice<A>, out: &mut Vec<Mark<A>>) -> bool {
        if self.tracks.len() >= MOST_TRACKS && !self.tracks.contains_key(&track) {
            return false;
        }
        let stack = self.tracks.entry(track).or_insert_with(|| Stack {
            open: Vec::new(),
            top_row: 0,
        });
        if stack.open.len() >= MOST_OPEN {
            return false;
        }
        if matches!(slice.key, Key::Call(_)) {
            // A thread is in one call at a time: that the last one ended is not in the log.
            stack.end_lost_calls(track, slice.at, out);
        }
        stack.mark_beginnings_at(track, slice.at, out);
        let outer = stack.open.last();
        let row = outer.map_or(0, |outer| outer.row);
        let begins_with_outer = outer.is_some_and(|outer| outer.at == slice.at);
        stack.open.push(Open {
            key: slice.key,
            at: slice.at,
            row,
            begins_with_outer,
            slice: Some(slice),
        });
        true
    }

    /// Ends the slice with this key that began last. False where none has begun.
    pub fn end(
        &mut self,
        track: Track,
        key: Key,
        at: MonotonicNs,
        arguments: A,
        out: &mut Vec<Mark<A>>,
    ) -> bool {
        let Some(stack) = self.tracks.get_mut(&track) else {
            return false;
        };
        let Some(index) = stack.open.iter().rposition(|open| is_of(open.key, key)) else {
            return false;
        };
        stack.make_innermost(track, index, at, out);
        stack.finish(track, index, at, arguments, out);
        true
    }

    /// Marks what began at this very time, before something else of this time is written.
    pub fn mark_beginnings_at(&mut self, track: Track, at: MonotonicNs, out: &mut Vec<Mark<A>>) {
        if let Some(stack) = self.tracks.get_mut(&track) {
            stack.mark_beginnings_at(track, at, out);
        }
    }

    /// Ends whatever is open: the thread has ended.
    pub fn end_all(&mut self, track: Track, at: MonotonicNs, out: &mut Vec<Mark<A>>) {
        let Some(mut stack) = self.tracks.remove(&track) else {
            return;
        };
        while let Some(last) = stack.open.len().checked_sub(1) {
            stack.finish(track, last, at, A::default(), out);
        }
    }

    /// Marks the beginnings of all that never ended.
    pub fn finish(mut self, out: &mut Vec<Mark<A>>) {
        let mut tracks: Vec<_> = self.tracks.drain().collect();
        tracks.sort_by_key(|(track, _)| *track);
        for (track, stack) in tracks {
            for open in stack.open {
                let Open {
                    slice,
                    row,
                    begins_with_outer,
                    ..
                } = open;
                out.extend(slice.map(|slice| Mark {
                    track,
                    row,
                    begins_with_outer,
                    extent: Extent::Begin(slice),
                }));
            }
        }
    }
}

/// Whether `key` ends what began with `open`. Returning from a signal handler the kernel no longer
/// knows the call.
fn is_of(open: Key, key: Key) -> bool {
    open == key || (matches!(open, Key::Call(_)) && key == Key::Call(-1))
}

impl<A: Arguments> Stack<A> {
    /// Whoever goes on when the slice at `index` ends moves out of its way.
    fn make_innermost(
        &mut self,
        track: Track,
        index: usize,
        at: MonotonicNs,
        out: &mut Vec<Mark<A>>,
    ) {
        let is_lost = |open: &Open<A>| open.key.is_kernels();
        for above in (index + 1..self.open.len()).rev() {
            if self.open.get(above).is_some_and(is_lost) {
                self.finish(track, above, at, A::without_end(), out);
            }
        }
        let Some((ending, above)) = self.open.get_mut(index..).and_then(<[_]>::split_first_mut)
        else {
            return;
        };
        let has_its_row = |open: &Open<A>| open.slice.is_none() && open.row == ending.row;
        if above.iter().any(has_its_row) {
            self.top_row += 1;
            ending.row = self.top_row;
        }
        for open in above.iter_mut().filter(|open| open.slice.is_some()) {
            open.row = open.row.max(ending.row + 1);
            self.top_row = self.top_row.max(open.row);
        }
    }

    fn finish(
        &mut self,
        track: Track,
        index: usize,
        at: MonotonicNs,
        arguments: A,
        out: &mut Vec<Mark<A>>,
    ) {
        let Open {
            slice,
            row,
            begins_with_outer,
            ..
        } = self.open.remove(index);
        let extent = match slice {
            Some(slice) => Extent::Whole(slice, at, arguments),
            None => Extent::End(at, arguments),
        };
        out.push(Mark {
            track,
            row,
            begins_with_outer,
            extent,
        });
    }

    fn end_lost_calls(&mut self, track: Track, at: MonotonicNs, out: &mut Vec<Mark<A>>) {
        while let Some(index) = self.open.iter().rposition(|open| open.key.is_kernels()) {
            self.finish(track, index, at, A::without_end(), out);
        }
    }

    fn mark_beginnings_at(&mut self, track: Track, at: MonotonicNs, out: &mut Vec<Mark<A>>) {
        let first = self.open.iter().rposition(|open| open.at < at);
        for index in first.map_or(0, |index| index + 1)..self.open.len() {
            let (below, rest) = self.open.split_at_mut(index);
            let Some(open) = rest.first_mut() else {
                return;
            };
            let Some(slice) = open.slice.take() else {
                continue;
            };
            // Once written it cannot move: no two of a row may be in that state.
            let has_its_row = |below: &Open<A>| below.slice.is_none() && below.row == open.row;
            if below.iter().any(has_its_row) {
                self.top_row += 1;
                open.row = self.top_row;
            }
            out.push(Mark {
                track,
                row: open.row,
                begins_with_outer: open.begins_with_outer,
                extent: Extent::Begin(slice),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Arguments for () {
        fn without_end() -> Self {}
    }

    const TRACK: Track = Track::Idle(0);

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin(usize),
        End(usize),
    }

    /// Row, beginning, end (`None` for never) and pair of each slice, in the order of a reader.
    fn laid_out(steps: &[(u64, Step)]) -> Vec<(u32, u64, Option<u64>, usize)> {
        let mut slices = Slices::<()>::default();
        let mut marks = Vec::new();
        for (at, step) in steps {
            let at = MonotonicNs(*at);
            match step {
                Step::Begin(pair) => {
                    let slice = Slice {
                        key: Key::Pair(*pair),
                        name: Vec::new(),
                        at,
                        arguments: (),
                        stack: None,
                    };
                    slices.begin(TRACK, slice, &mut marks);
                }
                Step::End(pair) => {
                    slices.end(TRACK, Key::Pair(*pair), at, (), &mut marks);
                }
            }
        }
        slices.finish(&mut marks);
        read(&marks)
    }

    /// Reads marks as a viewer does: by time and then in order, each end for the innermost
    /// beginning of its row.
    fn read(marks: &[Mark<()>]) -> Vec<(u32, u64, Option<u64>, usize)> {
        let mut borders = Vec::new();
        for mark in marks {
            match &mark.extent {
                Extent::Whole(slice, end, ()) => {
                    borders.push((slice.at.0, mark.row, Some(slice.key)));
                    borders.push((end.0, mark.row, None));
                }
                Extent::Begin(slice) => borders.push((slice.at.0, mark.row, Some(slice.key))),
                Extent::End(end, ()) => borders.push((end.0, mark.row, None)),
            }
        }
        borders.sort_by_key(|(at, ..)| *at);
        let mut open: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut slices = Vec::new();
        for (at, row, border) in borders {
            let stack = open.entry(row).or_default();
            match border {
                Some(Key::Pair(pair)) => {
                    stack.push(slices.len());
                    slices.push((row, at, None, pair));
                }
                Some(_) => unreachable!(),
                None => slices[stack.pop().unwrap()].2 = Some(at),
            }
        }
        slices
    }

    #[test]
    fn what_is_nested_stays_in_one_row() {
        use Step::{Begin, End};
        assert_eq!(
            laid_out(&[
                (1, Begin(1)),
                (2, Begin(2)),
                (3, End(2)),
                (4, End(1)),
                (5, Begin(3))
            ]),
            [(0, 1, Some(4), 1), (0, 2, Some(3), 2), (0, 5, None, 3)]
        );
    }

    #[test]
    fn what_goes_on_longer_has_a_row_of_its_own() {
        use Step::{Begin, End};
        assert_eq!(
            laid_out(&[(1, Begin(1)), (2, Begin(2)), (3, End(1)), (4, End(2))]),
            [(0, 1, Some(3), 1), (1, 2, Some(4), 2)]
        );
    }

    #[test]
    fn an_end_without_a_beginning_is_none_of_ours() {
        let mut slices = Slices::<()>::default();
        assert!(!slices.end(TRACK, Key::Idle, MonotonicNs(1), (), &mut Vec::new()));
    }

    #[test]
    fn a_call_ends_where_the_next_one_begins_at_the_latest() {
        let mut slices = Slices::<()>::default();
        let mut marks = Vec::new();
        for (at, call) in [(1, 7), (5, 8)] {
            let slice = Slice {
                key: Key::Call(call),
                name: Vec::new(),
                at: MonotonicNs(at),
                arguments: (),
                stack: None,
            };
            assert!(slices.begin(TRACK, slice, &mut marks));
        }
        assert!(slices.end(TRACK, Key::Call(-1), MonotonicNs(9), (), &mut marks));
        let ends: Vec<_> = marks
            .iter()
            .map(|mark| match &mark.extent {
                Extent::Whole(slice, end, ()) => (slice.at.0, end.0),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ends, [(1, 5), (5, 9)]);
    }

    proptest! {
        /// Whatever begins and ends in whatever order, also at the same time: each slice has its
        /// own times.
        #[test]
        fn each_slice_keeps_its_times(
            plan in prop::collection::vec((0_u64..3, 0_usize..40), 1..80)
        ) {
            let mut at = 1;
            let mut open: Vec<(usize, u64)> = Vec::new();
            let (mut steps, mut expected) = (Vec::new(), Vec::new());
            for (pair, (wait, choice)) in plan.into_iter().enumerate() {
                at += wait;
                if choice % 2 == 0 || open.is_empty() {
                    open.push((pair, at));
                    steps.push((at, Step::Begin(pair)));
                } else {
                    let (ended, began) = open.remove(choice % open.len());
                    steps.push((at, Step::End(ended)));
                    expected.push((began, Some(at), ended));
                }
            }
            expected.extend(open.into_iter().map(|(pair, began)| (began, None, pair)));
            expected.sort_unstable();
            let mut found: Vec<_> = laid_out(&steps)
                .into_iter()
                .map(|(_, began, ended, pair)| (began, ended, pair))
                .collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
