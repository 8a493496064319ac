//! Results of a run, as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::outcome::Outcome;

/// Growth of a cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the question.
    pub name: String,
    /// Text of the question.
    pub question: String,
    /// Title of the horizontal axis.
    pub x: String,
    /// Title of the vertical axis.
    pub y: String,
    /// Median of all rounds at each size.
    pub points: Vec<(f64, f64)>,
    /// The exponent of the power that fits best.
    pub exponent: Option<f64>,
    /// The exponent of linear growth.
    pub linear: f64,
}

/// Name of the micro-benchmarks as a whole.
pub const MICRO: &str = "micro";

/// Result of one micro-benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Micro {
    /// Its name: subject and variant.
    pub name: String,
    /// Nanoseconds of one iteration.
    pub ns: f64,
    /// Lower bound of the 95 % interval.
    pub low: f64,
    /// Upper bound of the 95 % interval.
    pub high: f64,
}

/// All results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Machine and time of the run.
    pub machine: Machine,
    /// Whether it was a quick run.
    pub is_quick: bool,
    /// The contests.
    pub outcomes: Vec<Outcome>,
    /// Growth of costs.
    pub curves: Vec<Curve>,
    /// The micro-benchmarks.
    pub micro: Vec<Micro>,
    /// Questions that were not measured in the whole run but at another time, by name.
    #[serde(default)]
    pub again: BTreeMap<String, Machine>,
}

impl Results {
    /// Creates the results of a run that has just begun.
    pub fn new(machine: Machine, is_quick: bool) -> Self {
        Self {
            machine,
            is_quick,
            outcomes: Vec::new(),
            curves: Vec::new(),
            micro: Vec::new(),
            again: BTreeMap::new(),
        }
    }

    /// Replaces results by those that were measured again later.
    pub fn take_again(&mut self, later: Self) {
        let machine = later.machine;
        for outcome in later.outcomes {
            self.again.insert(outcome.name.clone(), machine.clone());
            replace(&mut self.outcomes, outcome, |one| &one.name);
        }
        for curve in later.curves {
            self.again.insert(curve.name.clone(), machine.clone());
            replace(&mut self.curves, curve, |one| &one.name);
        }
        if !later.micro.is_empty() {
            self.again.insert(MICRO.to_owned(), machine);
            self.micro = later.micro;
        }
    }

    /// Takes the outcome of this question from earlier results, unless it was asked again.
    pub fn keep(&mut self, mut before: Self, name: &str) {
        let is_it = |outcome: &Outcome| outcome.name == name;
        if self.outcomes.iter().any(is_it) {
            return;
        }
        if let Some(at) = before.outcomes.iter().position(is_it) {
            let machine = before.again.remove(name).unwrap_or(before.machine);
            self.again.insert(name.to_owned(), machine);
            self.outcomes.push(before.outcomes.swap_remove(at));
        }
    }

    /// Puts the contests and the growth in the order of these names.
    pub fn sort_by(&mut self, names: &[&str]) {
        let at = |name: &str| names.iter().position(|other| *other == name);
        let place = |name: &str| at(name).unwrap_or(names.len());
        self.outcomes.sort_by_key(|outcome| place(&outcome.name));
        self.curves.sort_by_key(|curve| place(&curve.name));
    }

    /// Tells whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty() && self.curves.is_empty() && self.micro.is_empty()
    }

    /// Reads the file that [`save`](Self::save) wrote.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| {
            format!("no results in {}: run `cargo xtask bench`", path.display())
        })?;
        serde_json::from_str(&text).with_context(|| format!("damaged: {}", path.display()))
    }

    /// Writes JSON to `path`.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let json = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, json).with_context(|| path.display().to_string())
    }
}

/// Replaces the element of the same name, or appends `one`.
fn replace<T>(all: &mut Vec<T>, one: T, name: impl Fn(&T) -> &String) {
    match all.iter_mut().find(|other| name(other) == name(&one)) {
        Some(before) => *before = one,
        None => all.push(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(names: &[&str]) -> Results {
        let outcome = |name: &&str| {
            let contest = crate::contest::Contest::new("?", crate::outcome::Unit::Ns);
            contest.run(name, 0)
        };
        Results {
            outcomes: names.iter().map(outcome).collect(),
            ..Results::new(crate::machine::Machine::default(), false)
        }
    }

    #[test]
    fn a_question_that_was_not_asked_keeps_its_outcome_and_machine() {
        let mut before = results(&["long", "other"]);
        before.machine.commit = "earlier".to_owned();
        let mut all = results(&["b", "a"]);
        all.keep(before.clone(), "long");
        all.sort_by(&["a", "b", "long"]);

        let names = all.outcomes.iter().map(|outcome| outcome.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "long"]);
        assert_eq!(all.again["long"].commit, "earlier");

        let mut asked = results(&["long"]);
        asked.keep(before, "long");
        assert_eq!((asked.outcomes.len(), asked.again.len()), (1, 0));
    }

    #[test]
    fn what_is_asked_again_replaces_what_was() {
        let mut all = vec![("a".to_owned(), 1), ("b".to_owned(), 2)];
        replace(&mut all, ("a".to_owned(), 3), |one| &one.0);
        replace(&mut all, ("c".to_owned(), 4), |one| &one.0);

        assert_eq!(all.iter().map(|one| one.1).collect::<Vec<_>>(), [3, 2, 4]);
    }
}
