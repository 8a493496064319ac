//! Recorder that waits for a condition: the newest events are held in memory, and when the
//! condition is met they go to a log of their own, and the reason is reported.

mod condition;
pub mod newest;
mod recorder;
mod rule;

use std::path::PathBuf;
use std::time::Duration;

pub use condition::Condition;
pub use recorder::FlightRecorder;
pub use rule::TriggerRule;

use tracer_log_view::log_output::LogSetup;

/// Conditions that are waited for, and output that is written then.
#[derive(Clone, Debug)]
pub struct TriggerSetup {
    /// Rules of which any one is enough.
    pub rules: Vec<TriggerRule>,
    /// Time for which earlier events are held.
    pub keep: Duration,
    /// Logs that are written; after that strikes are only counted.
    pub most_logs: u32,
    /// The logs, but for their names: `.1`, `.2` and so on are added to this one.
    pub log: LogSetup,
}

impl TriggerSetup {
    /// Returns the name of a log.
    #[must_use]
    pub fn path(&self, index: u32) -> PathBuf {
        let mut name = self.log.path.clone().into_os_string();
        name.push(format!(".{index}"));
        name.into()
    }
}
