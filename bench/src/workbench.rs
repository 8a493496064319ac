//! Prerequisites of all questions: compiled programs, and the amount of work in a run.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use super::folder;
use super::programs::{self, LTTNG, OWN, UFTRACE, WITH_LOGS};
use xtask::{packages, process, workspace};

/// Prepared benchmark.
pub struct Workbench {
    is_quick: bool,
    /// Number of rounds of each contestant.
    pub rounds: usize,
    /// Length of the question that takes long, in seconds.
    pub long_seconds: u64,
    /// Whether LTTng-UST takes part.
    pub has_lttng: bool,
    /// Whether uftrace takes part.
    pub has_uftrace: bool,
    /// Whether this build has trace logs.
    pub has_logs: bool,
    /// Another build of the command line, which takes part.
    pub beside: Option<PathBuf>,
}

impl Workbench {
    /// Compiles the programs of all contestants that are installed.
    pub fn prepare(is_quick: bool, long_seconds: u64) -> anyhow::Result<Self> {
        fs::create_dir_all(folder())
            .with_context(|| format!("cannot make {}", folder().display()))?;
        for recipe in OWN {
            programs::compile(recipe)?;
        }
        let header = fs::read_to_string(workspace::target("dist/include/trace.h"))?;
        let has_logs = header.contains("posix_trace_create_withlog");
        if has_logs {
            for recipe in WITH_LOGS {
                programs::compile(recipe)?;
            }
        }
        let has_lttng = ["lttng", "lttng-sessiond"].iter().all(|name| has(name))
            && packages::has_lttng_header()
            && LTTNG.iter().all(|recipe| programs::compile(recipe).is_ok());
        let has_uftrace = has("uftrace") && programs::compile(&UFTRACE).is_ok();
        Ok(Self {
            is_quick,
            rounds: if is_quick { 5 } else { 7 },
            long_seconds,
            has_lttng,
            has_uftrace,
            has_logs,
            beside: None,
        })
    }

    /// Returns the length of a measured phase.
    pub fn phase(&self) -> Duration {
        Duration::from_millis(if self.is_quick { 300 } else { 1000 })
    }

    /// Returns this amount of work, or a tenth of it in a quick run.
    pub fn work(&self, amount: u64) -> u64 {
        if self.is_quick { amount / 10 } else { amount }
    }
}

/// Tells whether a program is installed.
pub fn has(name: &str) -> bool {
    process::find(name).is_some()
}
