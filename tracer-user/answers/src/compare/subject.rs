//! A subject that both sides have, and how it differs.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tracer_analysis::Durations;

use super::causes::FOR_CPU;
use super::chance::probability;
use super::change::{Change, Samples};
use super::run::{Run, RunCalls, SubjectTime};
use super::timeline::Timeline;

/// A subject that both sides have.
#[derive(Debug)]
pub struct Difference {
    /// Name of the spans, or of the process.
    pub name: Vec<u8>,
    /// Name of another process that it is compared with: two programs may have nothing in common.
    pub other: Option<Vec<u8>>,
    /// Whether it is of spans.
    pub is_of_spans: bool,
    /// Word for the difference.
    pub verdict: Change,
    /// Probability that chance alone makes such a difference; `None` where it cannot be told.
    pub chance: Option<f64>,
    /// Whether it is of spans of one run each that cover little time.
    pub is_short: bool,
    /// Before, and after.
    pub sides: [SubjectSide; 2],
    /// Causes, those with the largest difference first.
    pub causes: Vec<CauseDifference>,
    /// The time of one span, or run, of each side, as it usually is, where that is asked for.
    pub timelines: [Option<Timeline>; 2],
}

/// One side of a subject: all of its runs together.
#[derive(Debug)]
pub struct SubjectSide {
    /// Durations of all runs.
    pub took: Durations,
    /// Runs that have the subject.
    pub runs: u64,
}

impl SubjectSide {
    /// Returns the mean duration, in nanoseconds.
    pub fn mean(&self) -> u64 {
        self.took.mean().unwrap_or_default()
    }
}

/// Time for one cause on both sides: means of a span, or of a run, in nanoseconds.
#[derive(Clone, Debug)]
pub struct CauseDifference {
    /// The cause, in words.
    pub cause: String,
    /// Whether it is not known what the time was spent on.
    pub is_unknown: bool,
    /// Before, and after.
    pub ns: [u64; 2],
    /// Parts of it, those with the largest difference first.
    pub details: Vec<(String, [u64; 2])>,
    /// System calls that belong to it: those that a thread was blocked in, or, where a thread ran,
    /// those that may explain it.
    pub calls: Vec<CallDifference>,
}

impl CauseDifference {
    /// Returns by how much it is longer, in nanoseconds.
    pub fn longer(&self) -> i64 {
        longer(self.ns)
    }
}

/// A system call on both sides: sums of a run, in the mean.
#[derive(Clone, Debug)]
pub struct CallDifference {
    /// Name of the call.
    pub name: String,
    /// Before, and after.
    pub sides: [RunCalls; 2],
}

impl CallDifference {
    /// Tells whether it may explain that threads ran longer, or not so long: it is made clearly
    /// more often, by a fifth and by ten, and took a good part of that time; or less often.
    fn explains(&self, longer_ns: i64) -> bool {
        let [before, after] = self.sides;
        let [less, more] = if longer_ns > 0 {
            [before, after]
        } else {
            [after, before]
        };
        let times = more.count.saturating_sub(less.count);
        let ns = more.runnable_ns().saturating_sub(less.runnable_ns());
        times >= 10 && times >= more.count / 5 && ns >= longer_ns.unsigned_abs() / 10
    }
}

/// Returns by how much the second is more, in nanoseconds.
fn longer([a, b]: [u64; 2]) -> i64 {
    let wide = i128::from(b) - i128::from(a);
    i64::try_from(wide).unwrap_or(if wide > 0 { i64::MAX } else { i64::MIN })
}

/// Parts of a cause, and calls, that are listed.
const LISTED: usize = 5;

/// Compares all subjects that both sides have: spans by name, and the first processes.
pub fn differences(a: &[Run], b: &[Run]) -> Vec<Difference> {
    let calls = call_differences(a, b);
    let names: BTreeSet<&Vec<u8>> = a.iter().flat_map(|run| run.spans.keys()).collect();
    let mut all: Vec<Difference> = names
        .into_iter()
        .filter_map(|name| {
            let of = |runs: &'_ [Run]| -> Vec<SubjectTime> {
                let found = runs.iter().filter_map(|run| run.spans.get(name));
                found.cloned().collect()
            };
            difference((name, true), &of(a), &of(b), &calls)
        })
        .collect();
    all.sort_by_key(|found| Reverse(found.weight()));
    let wholes = |runs: &'_ [Run]| -> Vec<SubjectTime> {
        let found = runs.iter().filter_map(|run| run.whole.as_ref());
        found.map(|(_, subject)| subject.clone()).collect()
    };
    let name = b.iter().find_map(|run| run.whole.as_ref());
    let name = name.map_or(&[][..], |(name, _)| name);
    let whole = difference((name, false), &wholes(a), &wholes(b), &calls);
    all.extend(whole.map(|whole| whole.between_programs(other_program(name, a, b))));
    // Those that are clearly other than before come first.
    all.sort_by_key(|found| matches!(found.verdict, Change::Same | Change::Unsure));
    all
}

/// Returns the name of the first process of a run that has another name than this.
fn other_program(name: &[u8], a: &[Run], b: &[Run]) -> Option<Vec<u8>> {
    let names = a.iter().chain(b).filter_map(|run| run.whole.as_ref());
    let mut others = names.filter(|(of, _)| of != name);
    others.next().map(|(of, _)| of.clone())
}

impl Difference {
    /// Returns the difference between a process and this other one, where there is one: whether it
    /// is slower cannot be told.
    fn between_programs(self, other: Option<Vec<u8>>) -> Self {
        let verdict = match &other {
            Some(_) => Change::Unsure,
            None => self.verdict,
        };
        Self {
            other,
            verdict,
            ..self
        }
    }

    /// Returns by how much all spans together are longer or shorter.
    fn weight(&self) -> u64 {
        let [a, b] = &self.sides;
        let count = b.took.count().max(1);
        a.mean().abs_diff(b.mean()).saturating_mul(count)
    }
}

fn difference(
    (name, is_of_spans): (&[u8], bool),
    a: &[SubjectTime],
    b: &[SubjectTime],
    calls: &[CallDifference],
) -> Option<Difference> {
    let (of_a, of_b) = (side(a)?, side(b)?);
    let are_runs = !is_of_spans || of_a.runs.max(of_b.runs) > 1;
    let chance = probability(&samples(a, are_runs), &samples(b, are_runs));
    let kind = if are_runs {
        Samples::Runs
    } else {
        Samples::portions([a, b].map(|runs| runs.iter().map(|run| run.covered_ns).sum()))
    };
    let both = Both {
        a: (a, of_a.took.count()),
        b: (b, of_b.took.count()),
    };
    let (mean_a, mean_b) = (of_a.mean(), of_b.mean());
    let verdict = match chance {
        None if !is_of_spans => {
            let for_cpu =
                |subject: &SubjectTime| subject.causes.0.get(FOR_CPU).map_or(0, |of| of.ns);
            Change::of_one_run([mean_a, mean_b], both.mean(for_cpu))
        }
        _ => Change::between(mean_a, mean_b, chance.map(|chance| (chance, kind))),
    };
    Some(Difference {
        name: name.to_vec(),
        other: None,
        is_of_spans,
        verdict,
        chance,
        is_short: kind == Samples::ShortPortions,
        causes: both.causes(calls),
        timelines: [timeline(a, &of_a), timeline(b, &of_b)],
        sides: [of_a, of_b],
    })
}

fn side(subjects: &[SubjectTime]) -> Option<SubjectSide> {
    let mut took = Durations::default();
    for subject in subjects {
        took.add_all(&subject.took);
    }
    (took.count() > 0).then_some(SubjectSide {
        took,
        runs: subjects.len() as u64,
    })
}

/// Returns the timeline of a side that took about as long as half of all.
fn timeline(subjects: &[SubjectTime], side: &SubjectSide) -> Option<Timeline> {
    let half = side.took.quantile(0.5).unwrap_or_default();
    let timelines = subjects.iter().filter_map(|one| one.timeline.as_ref());
    timelines.min_by_key(|one| one.ns.abs_diff(half)).cloned()
}

/// Returns the samples of a side: the mean of each run, or of each portion of the spans of the only
/// one.
#[expect(
    clippy::cast_precision_loss,
    reason = "a mean needs no more digits than these have"
)]
fn samples(subjects: &[SubjectTime], are_runs: bool) -> Vec<f64> {
    let means = subjects.iter().filter_map(|subject| subject.took.mean());
    if are_runs {
        return means.map(|mean| mean as f64).collect();
    }
    let portions = subjects.iter().map(|subject| subject.portions.means());
    portions.flatten().collect()
}

/// Subjects of both sides, and how many spans each side has.
struct Both<'a> {
    a: (&'a [SubjectTime], u64),
    b: (&'a [SubjectTime], u64),
}

impl Both<'_> {
    /// Returns of each side the mean of what its subjects have, for each of its spans.
    fn mean(&self, of: impl Fn(&SubjectTime) -> u64) -> [u64; 2] {
        [self.a, self.b].map(|(subjects, count)| {
            let all = subjects.iter().map(&of);
            all.fold(0, u64::saturating_add) / count.max(1)
        })
    }

    /// Returns how many spans a run has, at least one.
    fn spans_a_run(&self) -> u64 {
        let (subjects, count) = self.b;
        count.checked_div(subjects.len() as u64).unwrap_or(1).max(1)
    }

    fn all(&self) -> impl Iterator<Item = &SubjectTime> {
        self.a.0.iter().chain(self.b.0)
    }

    fn causes(&self, calls: &[CallDifference]) -> Vec<CauseDifference> {
        let names = self.all().flat_map(|subject| subject.causes.0.keys());
        let names: BTreeSet<&String> = names.collect();
        let causes = names.into_iter().map(|cause| self.cause(cause, calls));
        let mut causes: Vec<CauseDifference> = causes.collect();
        // What is not known explains nothing.
        causes.sort_by_key(|found| (found.is_unknown, Reverse(found.longer().unsigned_abs())));
        causes
    }

    fn cause(&self, cause: &str, calls: &[CallDifference]) -> CauseDifference {
        let time = |subject: &SubjectTime| subject.causes.0.get(cause).map_or(0, |time| time.ns);
        let times = || self.all().filter_map(|subject| subject.causes.0.get(cause));
        let call = times().find_map(|time| time.call.as_ref());
        let is_running = times().any(|time| time.is_running);
        let ns = self.mean(time);
        let of_a_run = longer(ns.map(|ns| ns.saturating_mul(self.spans_a_run())));
        let belongs =
            |of: &&CallDifference| Some(&of.name) == call || is_running && of.explains(of_a_run);
        CauseDifference {
            cause: cause.to_owned(),
            is_unknown: times().any(|time| time.is_unknown),
            ns,
            details: self.details(cause),
            calls: calls.iter().filter(belongs).take(LISTED).cloned().collect(),
        }
    }

    fn details(&self, cause: &str) -> Vec<(String, [u64; 2])> {
        let times = self.all().filter_map(|subject| subject.causes.0.get(cause));
        let names: BTreeSet<&String> = times.flat_map(|time| time.details.keys()).collect();
        let with_means = names.into_iter().map(|words| {
            let of = |subject: &SubjectTime| {
                let ns = subject.causes.0.get(cause)?.details.get(words);
                ns.copied()
            };
            (words.clone(), self.mean(|subject| of(subject).unwrap_or(0)))
        });
        let mut details: Vec<(String, [u64; 2])> = with_means.collect();
        details.sort_by_key(|(_, ns)| Reverse(longer(*ns).unsigned_abs()));
        details.truncate(LISTED);
        details
    }
}

/// Compares the system calls of all threads: means of a run.
pub fn call_differences(a: &[Run], b: &[Run]) -> Vec<CallDifference> {
    let all = a.iter().chain(b);
    let names: BTreeSet<&String> = all.flat_map(|run| run.calls.keys()).collect();
    let mean = |runs: &[Run], name: &String| {
        let mut sum = RunCalls::default();
        let of_runs = runs.iter().filter_map(|run| run.calls.get(name));
        of_runs.for_each(|call| sum.add(call));
        sum.of_each(runs.len() as u64)
    };
    let mut calls: Vec<CallDifference> = names
        .into_iter()
        .map(|name| CallDifference {
            name: name.clone(),
            sides: [mean(a, name), mean(b, name)],
        })
        .collect();
    calls.sort_by_key(|call| {
        let [before, after] = call.sides;
        Reverse((
            before.ns.abs_diff(after.ns),
            before.count.abs_diff(after.count),
        ))
    });
    calls
}

/// Returns the names of the spans of these runs that the others do not have.
pub fn only_in(runs: &[Run], others: &[Run]) -> Vec<Vec<u8>> {
    let has = |name: &&Vec<u8>| others.iter().any(|run| run.spans.contains_key(*name));
    let names: BTreeSet<&Vec<u8>> = runs.iter().flat_map(|run| run.spans.keys()).collect();
    names
        .into_iter()
        .filter(|name| !has(name))
        .cloned()
        .collect()
}
