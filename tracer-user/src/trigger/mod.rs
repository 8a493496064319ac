//! A recorder that waits for something: the newest events are held in memory, and when what a
//! condition says happens they go to a log of their own, and it is reported why.

mod condition;
pub mod newest;
mod recorder;
mod rule;

use std::path::PathBuf;
use std::time::Duration;

pub use condition::Condition;
pub use recorder::Recorder;
pub use rule::Rule;

use crate::trace::LogSetup;

/// What is waited for, and what is written then.
#[derive(Clone, Debug)]
pub struct TriggerSetup {
    /// Any of these.
    pub rules: Vec<Rule>,
    /// How much is held of what happened before.
    pub keep: Duration,
    /// Logs that are written; after that strikes are only counted.
    pub most_logs: u32,
    /// The logs, but for their names: `.1`, `.2` and so on are added to this one.
    pub log: LogSetup,
}

impl TriggerSetup {
    /// The name of a log.
    #[must_use]
    pub fn path(&self, index: u32) -> PathBuf {
        let mut name = self.log.path.clone().into_os_string();
        name.push(format!(".{index}"));
        name.into()
    }
}
