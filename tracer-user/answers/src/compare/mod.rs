//! Difference between runs: what became slower, and which of its parts explain that.
//!
//! A run is a log. Of each, a walk takes what it has of every *subject*: spans of a name, and the
//! first process as a whole. The time of a subject is parted by its critical paths into *causes*,
//! such as "blocked in fsync for a device", without pids, so that the same cause has the same name
//! in another run. Then the means of both sides are compared, cause by cause, and it is estimated
//! how often chance alone makes such a difference.

mod beside;
mod causes;
mod chance;
mod change;
mod json;
mod page;
mod portions;
mod run;
mod subject;
mod text;
mod timeline;

use tracer_output::terminal::Outcome;

pub use json::json;
pub use page::page;
pub use run::Run;
pub use text::text;

use beside::{Beside, LockTime, StackDifferences};
use subject::{CallDifference, Difference};

/// Result of a comparison.
#[derive(Debug)]
pub struct Comparison {
    /// Runs before, in the order in which they were given.
    pub a: Vec<Run>,
    /// Runs after.
    pub b: Vec<Run>,
    /// Subjects that both sides have, those with the largest difference first.
    differences: Vec<Difference>,
    /// System calls of all threads, those with the largest difference of time first.
    calls: Vec<CallDifference>,
    /// Locks that threads waited for, likewise.
    locks: Vec<Beside<LockTime>>,
    /// Stacks of the kinds that all logs have.
    stacks: Vec<StackDifferences>,
    /// Names of the spans that one side alone has.
    only_in: [Vec<Vec<u8>>; 2],
}

impl Comparison {
    /// Compares two sides, each of at least one run.
    #[must_use]
    pub fn new(a: Vec<Run>, b: Vec<Run>) -> Self {
        Self {
            differences: subject::differences(&a, &b),
            calls: subject::call_differences(&a, &b),
            locks: beside::lock_differences(&a, &b),
            stacks: beside::stack_differences(&a, &b),
            only_in: [subject::only_in(&a, &b), subject::only_in(&b, &a)],
            a,
            b,
        }
    }

    /// Tells whether the logs have anything to compare.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    /// Tells whether anything is missing in the logs.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let mut runs = self.a.iter().chain(&self.b);
        if runs.any(|run| run.outcome == Outcome::EventsLost) {
            Outcome::EventsLost
        } else {
            Outcome::Complete
        }
    }
}
