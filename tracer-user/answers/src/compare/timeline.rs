//! Time of one span, or of a process, in pieces: what a page draws.

use std::collections::BTreeMap;

use tracer_analysis::Step;

use super::causes;
use crate::queries::words::part;
use crate::queries::{Explained, Functions};

/// Pieces of a timeline. Of a longer path, each has the cause that most of its time has.
const PIECES: usize = 600;

/// Spans of a kind that are held, of which one is drawn.
const HELD: usize = 16;

/// A part of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelinePiece {
    /// Where it begins, in nanoseconds since the beginning of the span.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
    /// Its cause, by the name that the comparison has for it.
    pub cause: String,
    /// More words about it; empty where it is many steps.
    pub words: String,
}

/// Time of one span, or of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Duration, in nanoseconds.
    pub ns: u64,
    /// Its pieces, in order of time.
    pub pieces: Vec<TimelinePiece>,
}

impl Timeline {
    /// Makes the timeline of a span that was given out with its outermost steps.
    pub fn new(span: &Explained, functions: &Functions) -> Self {
        let since = |at: u64| at.saturating_sub(span.from.0);
        let pieces = if span.segments.len() <= PIECES {
            let steps = span.segments.iter();
            let pieces = steps.map(|step| TimelinePiece {
                from: since(step.from.0),
                to: since(step.to.0),
                cause: causes::name(&step.part).0,
                words: words(step, functions),
            });
            pieces.collect()
        } else {
            columns(&span.segments, span.from.0, span.ns)
        };
        Self {
            ns: span.ns,
            pieces,
        }
    }
}

/// Describes a step, without what lies within it.
fn words(step: &Step, functions: &Functions) -> String {
    let words = part(&step.part, true, functions);
    let ends = [", which meanwhile", ", meanwhile", ", in which it"];
    let shorter = ends.iter().find_map(|end| words.strip_suffix(end));
    shorter.map_or_else(|| words.clone(), str::to_owned)
}

/// Parts the time into equal columns, each with the cause of most of its time, and joins those next
/// to each other that have the same.
fn columns(steps: &[Step], begin: u64, ns: u64) -> Vec<TimelinePiece> {
    let border = |column: usize| {
        let at = u128::from(ns) * column as u128 / PIECES as u128;
        begin.saturating_add(u64::try_from(at).unwrap_or(u64::MAX))
    };
    let mut pieces: Vec<TimelinePiece> = Vec::new();
    let mut rest = steps;
    for column in 0..PIECES {
        let (from, to) = (border(column), border(column + 1));
        let is_over = |step: &Step| step.to.0 <= from;
        let over = rest.iter().take_while(|step| is_over(step)).count();
        rest = rest.get(over..).unwrap_or_default();
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        for step in rest.iter().take_while(|step| step.from.0 < to) {
            let ns = step.to.0.min(to).saturating_sub(step.from.0.max(from));
            *times.entry(causes::name(&step.part).0).or_default() += ns;
        }
        let Some((cause, _)) = times.into_iter().max_by_key(|(_, ns)| *ns) else {
            continue;
        };
        let (from, to) = (from - begin, to - begin);
        match pieces.last_mut() {
            Some(last) if last.cause == cause && last.to == from => last.to = to,
            _ => pieces.push(TimelinePiece {
                from,
                to,
                cause,
                words: String::new(),
            }),
        }
    }
    pieces
}

/// Some spans of a kind, spread over its time, in memory that does not grow with their number.
#[derive(Clone, Debug)]
pub struct SomeSpans {
    /// One of so many is held.
    stride: u64,
    seen: u64,
    held: Vec<Timeline>,
}

impl Default for SomeSpans {
    fn default() -> Self {
        Self {
            stride: 1,
            seen: 0,
            held: Vec::new(),
        }
    }
}

impl SomeSpans {
    /// Takes the next span.
    pub fn add(&mut self, timeline: impl FnOnce() -> Timeline) {
        if self.seen.is_multiple_of(self.stride) {
            if self.held.len() == HELD {
                let held = std::mem::take(&mut self.held).into_iter();
                self.held = held.step_by(2).collect();
                self.stride = self.stride.saturating_mul(2);
            }
            if self.seen.is_multiple_of(self.stride) {
                self.held.push(timeline());
            }
        }
        self.seen += 1;
    }

    /// Returns the one that took a time next to this one.
    pub fn nearest(self, ns: u64) -> Option<Timeline> {
        let held = self.held.into_iter();
        held.min_by_key(|timeline| timeline.ns.abs_diff(ns))
    }
}

#[cfg(test)]
mod tests {
    use tracer_analysis::{PathPart, Thread, UnknownReason};
    use tracer_engine::event::MonotonicNs;

    use super::*;

    fn step(from: u64, to: u64, is_running: bool) -> Step {
        Step {
            depth: 0,
            thread: Thread { pid: 1, tid: 1 },
            from: MonotonicNs(from),
            to: MonotonicNs(to),
            part: if is_running {
                PathPart::Running
            } else {
                PathPart::Unknown(UnknownReason::NotSeen)
            },
        }
    }

    #[test]
    fn columns_have_the_cause_of_most_of_their_time() {
        // 10,000 steps, each with nine parts of ten; then as many the other way round.
        let mut steps = Vec::new();
        for nth in 0..10_000 {
            let (at, is_first) = (1_000 + nth * 100, nth < 5_000);
            steps.push(step(at, at + 90, is_first));
            steps.push(step(at + 90, at + 100, !is_first));
        }
        let pieces = columns(&steps, 1_000, 1_000_000);
        let of: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.from, piece.to, piece.cause.as_str()))
            .collect();
        assert_eq!(of, [(0, 500_000, "ran"), (500_000, 1_000_000, "unknown")]);
    }

    #[test]
    fn few_are_held_of_many_and_the_nearest_is_returned() {
        let mut some = SomeSpans::default();
        for ns in 0..1_000 {
            some.add(|| Timeline {
                ns,
                pieces: Vec::new(),
            });
        }
        assert!((HELD / 2..=HELD).contains(&some.held.len()));
        let spread: Vec<u64> = some.held.iter().map(|one| one.ns).collect();
        let steps: Vec<u64> = spread.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(steps.iter().all(|one| *one == some.stride), "{spread:?}");
        let nearest = some.nearest(500).unwrap().ns;
        assert!(nearest.abs_diff(500) <= 64, "{nearest}");
    }
}
