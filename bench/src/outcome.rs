//! What came out of a contest, as it is written to the results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// What a measured value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Events or switches a second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Millions of bytes.
    Megabytes,
    /// Seconds.
    Seconds,
    /// Parts of a hundred.
    Percent,
}

impl Unit {
    /// Its sign.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::PerSecond => "/s",
            Self::Bytes => "bytes",
            Self::Megabytes => "MB",
            Self::Seconds => "s",
            Self::Percent => "%",
        }
    }
}

/// What is shown of a contestant beside the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// The value itself.
    Value,
    /// What it adds to the first contestant, which runs without a tracer.
    Added,
    /// What it adds, in per cent of the first contestant.
    AddedPercent,
}

/// One contestant's runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contender {
    /// What ran.
    pub name: String,
    /// Whether it is this project.
    pub is_ours: bool,
    /// The value of each round.
    pub values: Vec<f64>,
    /// Their spread.
    pub spread: Option<Spread>,
    /// The spread of what was asked for ([`Measure`]), where that is not the value itself.
    pub measured: Option<Spread>,
    /// Ours through this one's, round by round, by what was asked for.
    pub ratio: Option<Spread>,
    /// What else was seen (events lost, bytes written): the middle of all rounds.
    pub facts: BTreeMap<String, f64>,
    /// Why it has no values, or fewer.
    pub failure: Option<String>,
}

/// Whether a goal was reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// What was to be reached.
    pub goal: String,
    /// What was measured; `None` when it could not be.
    pub measured: Option<f64>,
    /// Whether that is enough; `None` when it could not be measured.
    pub holds: Option<bool>,
}

/// All of a contest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The question's name.
    pub name: String,
    /// The question.
    pub question: String,
    /// Of the values.
    pub unit: Unit,
    /// What is shown.
    pub measure: Measure,
    /// Whether less is better.
    pub less_is_better: bool,
    /// Who took part.
    pub contenders: Vec<Contender>,
    /// Who could not.
    pub missing: Vec<String>,
    /// The goals.
    pub verdicts: Vec<Verdict>,
}
