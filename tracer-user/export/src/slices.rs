//! Slices: times with a beginning and an end, put below each other as they lie in time.
//!
//! A slice lies in a row of its track. Within a row slices are nested: each ends before the slice
//! in which it began. Most are nested anyway. Those that a program marks by a beginning and an end
//! need not be: where one ends while another that began later continues, the other one moves to a
//! row of its own. So the place of a slice is known when it ends, and it is written then, with both
//! of its times; only a slice that never ends is written by its beginning alone.
//!
//! A reader puts the slices in the order of their times, and those of one time in the order of the
//! file. A slice within which others begin at the same time is therefore written before them.

use std::collections::HashMap;

use tracer_engine::event::MonotonicNs;

use super::names::LogThread;

/// Limit of tracks whose slices are remembered: more than any machine has threads, and fewer than a
/// damaged file may name.
const MOST_TRACKS: usize = 65_536;

/// Limit of slices within each other.
const MOST_OPEN: usize = 256;

/// Owner of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// Activity of a thread.
    Thread(LogThread),
    /// Interrupts of a CPU.
    Interrupts(u32),
    /// Times in which a CPU is idle.
    Idle(u32),
}

/// Key that a beginning and its end have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// System call, by its index.
    Call(i32),
    /// Handler of a device's interrupt.
    Interrupt(u32),
    /// Soft interrupt.
    SoftInterrupt(u32),
    /// Idle time of a CPU.
    Idle,
    /// Pair of user events, by the index of the pair.
    Pair(usize),
}

impl Key {
    /// Tells whether the slice is the kernel's. Those are always nested, so one that is not has
    /// lost its end.
    fn is_kernels(self) -> bool {
        !matches!(self, Self::Pair(_))
    }
}

/// Data of a slice: that of its beginning, and that added by its end.
pub trait SliceArguments: Default {
    /// Returns the data for an end that is not in the log.
    fn without_end() -> Self;
}

/// Slice that has begun.
#[derive(Clone, Debug)]
pub struct Slice<A> {
    /// Key of its beginning and its end.
    pub key: Key,
    /// Name of the slice: any bytes.
    pub name: Vec<u8>,
    /// Time of its beginning.
    pub at: MonotonicNs,
    /// Data of the slice.
    pub arguments: A,
    /// Stack with which it began, by the id that the export gives it.
    pub stack: Option<u64>,
}

/// Part of a slice to be written, with its place.
#[derive(Clone, Debug)]
pub struct Mark<A> {
    /// Track of the slice.
    pub track: Track,
    /// Row in the track.
    pub row: u32,
    /// Whether it began at the same time as the slice that it lies in.
    pub begins_with_outer: bool,
    /// Part of the slice.
    pub extent: SliceExtent<A>,
}

/// Part of a slice that is written.
#[derive(Clone, Debug)]
pub enum SliceExtent<A> {
    /// Whole slice, with the time of its end and the data of the end.
    Whole(Slice<A>, MonotonicNs, A),
    /// Beginning of a slice.
    Begin(Slice<A>),
    /// End of a slice whose beginning was written, with its time and data.
    End(MonotonicNs, A),
}

#[derive(Debug)]
struct Open<A> {
    /// Slice; `None` once its beginning was written.
    slice: Option<Slice<A>>,
    key: Key,
    at: MonotonicNs,
    row: u32,
    begins_with_outer: bool,
}

/// Slices that have begun and not ended.
#[derive(Debug)]
pub struct Slices<A> {
    tracks: HashMap<Track, Stack<A>>,
}

#[derive(Debug)]
struct Stack<A> {
    open: Vec<Open<A>>,
    /// Highest row in which a slice of the track ever lay.
    top_row: u32,
}

impl<A> Default for Slices<A> {
    fn default() -> Self {
        Self {
            tracks: HashMap::new(),
        }
    }
}

impl<A: SliceArguments> Slices<A> {
    /// Begins a slice. Returns false where there are too many already.
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

    /// Ends the slice with this key that began last. Returns false where none has begun.
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

    /// Marks the beginnings at this very time, before another event of this time is written.
    pub fn mark_beginnings_at(&mut self, track: Track, at: MonotonicNs, out: &mut Vec<Mark<A>>) {
        if let Some(stack) = self.tracks.get_mut(&track) {
            stack.mark_beginnings_at(track, at, out);
        }
    }

    /// Ends all open slices, as the thread has ended.
    pub fn end_all(&mut self, track: Track, at: MonotonicNs, out: &mut Vec<Mark<A>>) {
        let Some(mut stack) = self.tracks.remove(&track) else {
            return;
        };
        while let Some(last) = stack.open.len().checked_sub(1) {
            stack.finish(track, last, at, A::default(), out);
        }
    }

    /// Marks the beginnings of all slices that never ended.
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
                    extent: SliceExtent::Begin(slice),
                }));
            }
        }
    }
}

/// Tells whether `key` ends the slice that began with `open`. On return from a signal handler the
/// kernel no longer knows the call.
fn is_of(open: Key, key: Key) -> bool {
    open == key || (matches!(open, Key::Call(_)) && key == Key::Call(-1))
}

impl<A: SliceArguments> Stack<A> {
    /// Moves the slices that continue when the one at `index` ends out of its way.
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
            Some(slice) => SliceExtent::Whole(slice, at, arguments),
            None => SliceExtent::End(at, arguments),
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
                extent: SliceExtent::Begin(slice),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl SliceArguments for () {
        fn without_end() -> Self {}
    }

    const TRACK: Track = Track::Idle(0);

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin(usize),
        End(usize),
    }

    /// Returns row, beginning, end (`None` for never) and pair of each slice, in the order of a
    /// reader.
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
                SliceExtent::Whole(slice, end, ()) => {
                    borders.push((slice.at.0, mark.row, Some(slice.key)));
                    borders.push((end.0, mark.row, None));
                }
                SliceExtent::Begin(slice) => borders.push((slice.at.0, mark.row, Some(slice.key))),
                SliceExtent::End(end, ()) => borders.push((end.0, mark.row, None)),
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
    fn an_end_without_a_beginning_ends_no_slice() {
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
                SliceExtent::Whole(slice, end, ()) => (slice.at.0, end.0),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ends, [(1, 5), (5, 9)]);
    }

    proptest! {
        /// Checks that each slice has its own times, in whatever order slices begin and end, also
        /// at the same time.
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
