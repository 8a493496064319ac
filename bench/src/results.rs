//! The results of a run, as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::outcome::Outcome;

/// How a cost grows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// The question's name.
    pub name: String,
    /// The question.
    pub question: String,
    /// What is along the bottom.
    pub x: String,
    /// What is along the side.
    pub y: String,
    /// The middle of all rounds at each size.
    pub points: Vec<(f64, f64)>,
    /// The exponent of the power that fits best.
    pub exponent: Option<f64>,
    /// The exponent of linear growth.
    pub linear: f64,
}

/// What the micro-benchmarks are called as a whole.
pub const MICRO: &str = "micro";

/// One micro-benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Micro {
    /// Its name: subject and variant.
    pub name: String,
    /// Nanoseconds of one, with the bounds of the 95 % interval.
    pub ns: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// All of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Where and when it was.
    pub machine: Machine,
    /// Whether it was a quick one.
    pub is_quick: bool,
    /// The contests.
    pub outcomes: Vec<Outcome>,
    /// How costs grow.
    pub curves: Vec<Curve>,
    /// The micro-benchmarks.
    pub micro: Vec<Micro>,
    /// What was asked again after the whole run, by name, and at which commit.
    #[serde(default)]
    pub again: BTreeMap<String, String>,
}

impl Results {
    /// Of a run that has just begun.
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

    /// Takes what was asked again, instead of what is here.
    pub fn take_again(&mut self, later: Self) {
        let commit = later.machine.commit;
        for outcome in later.outcomes {
            self.again.insert(outcome.name.clone(), commit.clone());
            replace(&mut self.outcomes, outcome, |one| &one.name);
        }
        for curve in later.curves {
            self.again.insert(curve.name.clone(), commit.clone());
            replace(&mut self.curves, curve, |one| &one.name);
        }
        if !later.micro.is_empty() {
            self.again.insert(MICRO.to_owned(), commit);
            self.micro = later.micro;
        }
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty() && self.curves.is_empty() && self.micro.is_empty()
    }

    /// Reads what [`save`](Self::save) wrote.
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

/// Replaces the one with its name, or at the end.
fn replace<T>(all: &mut Vec<T>, one: T, name: impl Fn(&T) -> &String) {
    match all.iter_mut().find(|other| name(other) == name(&one)) {
        Some(before) => *before = one,
        None => all.push(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_again_replaces_what_was() {
        let mut all = vec![("a".to_owned(), 1), ("b".to_owned(), 2)];
        replace(&mut all, ("a".to_owned(), 3), |one| &one.0);
        replace(&mut all, ("c".to_owned(), 4), |one| &one.0);

        assert_eq!(all.iter().map(|one| one.1).collect::<Vec<_>>(), [3, 2, 4]);
    }
}
