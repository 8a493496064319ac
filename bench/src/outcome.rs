//! Outcome of a contest, as written to the results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// Unit of a measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Events or switches per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Millions of bytes.
    Megabytes,
    /// Seconds.
    Seconds,
    /// Per cent.
    Percent,
}

impl Unit {
    /// Returns the unit's sign.
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

/// Figure that is shown of a contestant beside the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// The value itself.
    Value,
    /// Cost added to that of the first contestant, which runs without a tracer.
    Added,
    /// Added cost, in per cent of the first contestant's.
    AddedPercent,
}

/// Runs of one contestant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contender {
    /// Name of the contestant.
    pub name: String,
    /// Whether it belongs to this project.
    pub is_ours: bool,
    /// Value of each round.
    pub values: Vec<f64>,
    /// Spread of the values.
    pub spread: Option<Spread>,
    /// Spread of the compared figure ([`Measure`]), unless that is the value itself.
    pub measured: Option<Spread>,
    /// Our figure divided by this contestant's, round by round, of the compared figure.
    pub ratio: Option<Spread>,
    /// Further figures (events lost, bytes written): the median of all rounds.
    pub facts: BTreeMap<String, f64>,
    /// Reason why it has no values, or fewer.
    pub failure: Option<String>,
}

/// Result of a goal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Goal as text.
    pub goal: String,
    /// Measured figure; `None` when it could not be measured.
    pub measured: Option<f64>,
    /// Whether the figure reaches the goal; `None` when it could not be measured.
    pub holds: Option<bool>,
}

/// Whole outcome of a contest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the question.
    pub name: String,
    /// Text of the question.
    pub question: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Figure that is shown.
    pub measure: Measure,
    /// Whether less is better.
    pub less_is_better: bool,
    /// Contestants that took part.
    pub contenders: Vec<Contender>,
    /// Contestants that could not take part, with the reasons.
    pub missing: Vec<String>,
    /// Results of the goals.
    pub verdicts: Vec<Verdict>,
}
