//! Locks and stacks of runs, beside each other: by names that are the same in another run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tracer_analysis::{LockType, Thread};

use super::run::Run;
use crate::flame::{FlameKind, Folded};
use crate::queries::words::{lock_type, place};
use crate::stat::Statistics;
use tracer_text::escape::push_for_people;

/// Stacks of a kind of one run that are told apart, those with the most time; beyond them, time is
/// of others.
const MOST: usize = 4096;

/// Name of the other stacks.
const OTHERS: &str = "[other stacks]";

/// Waits for locks of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockTime {
    /// How often a thread waited for one.
    pub waits: u64,
    /// How long, all together, in nanoseconds.
    pub ns: u64,
    /// The longest, in nanoseconds.
    pub longest: u64,
}

/// Time by stack, in nanoseconds.
pub type StackTimes = BTreeMap<String, u64>;

/// Something that has a name, on both sides: means of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside<T> {
    /// Its name.
    pub name: String,
    /// Before, and after.
    pub sides: [T; 2],
}

/// Stacks of a kind on both sides, those that differ most first.
#[derive(Clone, Debug)]
pub struct StackDifferences {
    /// Kind of the stacks.
    pub kind: FlameKind,
    /// Stacks, each a line of frames with semicolons between them, with their nanoseconds.
    pub stacks: Vec<Beside<u64>>,
}

/// Returns the waits for the locks of a log. Their addresses are others in each run: a name is of
/// the kind, the program, and the function that waited first, where that is known.
pub fn locks_of(statistics: &Statistics) -> BTreeMap<String, LockTime> {
    let mut locks: BTreeMap<String, LockTime> = BTreeMap::new();
    for (key, total) in statistics.locks.sorted() {
        let leader = Thread {
            pid: key.pid,
            tid: key.pid,
        };
        let mut comm = Vec::new();
        push_for_people(&mut comm, statistics.paths.names().get(leader));
        let comm = String::from_utf8_lossy(&comm);
        let kind = match total.kind {
            LockType::ThreadEnd => "the end of a thread".to_owned(),
            kind => lock_type(kind),
        };
        let mut name = format!("{kind} of {comm}");
        if let Some(place) = place(total.function, statistics.paths.functions()) {
            name.push_str(&format!(", first waited for {place}"));
        }
        let of_name = locks.entry(name).or_default();
        of_name.waits = of_name.waits.saturating_add(total.waits);
        of_name.ns = of_name.ns.saturating_add(total.ns);
        of_name.longest = of_name.longest.max(total.longest);
    }
    locks
}

/// Returns the time of each stack of a graph.
pub fn stacks_of(folded: &Folded) -> StackTimes {
    let mut paths = folded.paths();
    paths.sort_by_key(|(_, ns)| Reverse(*ns));
    let mut times = StackTimes::new();
    for (path, ns) in paths {
        let frames: Vec<String> = path
            .iter()
            .map(|frame| format!("{}{}", frame.name, frame.kind.suffix()))
            .collect();
        let name = if times.len() < MOST {
            frames.join(";")
        } else {
            OTHERS.to_owned()
        };
        let of_name = times.entry(name).or_default();
        *of_name = of_name.saturating_add(ns);
    }
    times
}

/// Compares the locks that threads waited for, those first whose time differs most.
pub fn lock_differences(a: &[Run], b: &[Run]) -> Vec<Beside<LockTime>> {
    let mean = |runs: &[Run], name: &String| {
        let of_runs = runs.iter().filter_map(|run| run.locks.get(name));
        let sum = of_runs.fold(LockTime::default(), |sum, one| LockTime {
            waits: sum.waits.saturating_add(one.waits),
            ns: sum.ns.saturating_add(one.ns),
            longest: sum.longest.max(one.longest),
        });
        let count = (runs.len() as u64).max(1);
        LockTime {
            waits: sum.waits / count,
            ns: sum.ns / count,
            ..sum
        }
    };
    let runs = a.iter().chain(b);
    let names: BTreeSet<&String> = runs.flat_map(|run| run.locks.keys()).collect();
    let with_means = names.into_iter().map(|name| Beside {
        name: name.clone(),
        sides: [mean(a, name), mean(b, name)],
    });
    let mut all: Vec<Beside<LockTime>> = with_means.collect();
    all.sort_by_key(|of| {
        let [a, b] = of.sides;
        Reverse(a.ns.abs_diff(b.ns))
    });
    all
}

/// Compares the stacks of the kinds that all runs have.
pub fn stack_differences(a: &[Run], b: &[Run]) -> Vec<StackDifferences> {
    let all = || a.iter().chain(b);
    let kinds = [FlameKind::OnCpu, FlameKind::OffCpu].into_iter();
    let kinds = kinds.filter(|kind| all().all(|run| run.stacks_of(*kind).is_some()));
    kinds
        .map(|kind| StackDifferences {
            kind,
            stacks: differences_of(a, b, kind),
        })
        .collect()
}

fn differences_of(a: &[Run], b: &[Run], kind: FlameKind) -> Vec<Beside<u64>> {
    let mut sums: BTreeMap<&String, [u64; 2]> = BTreeMap::new();
    for (side, runs) in [a, b].into_iter().enumerate() {
        for (name, ns) in runs.iter().filter_map(|run| run.stacks_of(kind)).flatten() {
            if let Some(of_name) = sums.entry(name).or_default().get_mut(side) {
                *of_name = of_name.saturating_add(*ns);
            }
        }
    }
    let [of_a, of_b] = [a, b].map(|runs| (runs.len() as u64).max(1));
    let with_means = sums.into_iter().map(|(name, [before, after])| Beside {
        name: name.clone(),
        sides: [before / of_a, after / of_b],
    });
    let mut all: Vec<Beside<u64>> = with_means.collect();
    all.sort_by_key(|of| {
        let [a, b] = of.sides;
        Reverse(a.abs_diff(b))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flame::FrameKind;

    #[test]
    fn stacks_beyond_those_with_the_most_time_are_added_up() {
        let mut folded = Folded::default();
        let thread = folded.frame(FrameKind::Thread, b"t");
        for nth in 0..MOST + 10 {
            let frame = folded.frame(FrameKind::Kernel, format!("f{nth}").as_bytes());
            folded.add(&[thread, frame], if nth == 7 { 9 } else { 2 });
        }
        let times = stacks_of(&folded);
        assert_eq!(times["t;f7_[k]"], 9);
        assert_eq!(times[OTHERS], 20);
        assert_eq!(times.values().sum::<u64>(), folded.total());
    }
}
