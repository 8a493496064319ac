//! Option that has the debugger's parts of files brought from servers.

use anyhow::Context as _;
use tracer_binary::probes::{ServerWait, ask_servers};

/// Servers of the debugger's parts of files.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DebuginfodArgs {
    /// For the names of stacks, have the debugger's part of a file that has none here brought from
    /// a server (debuginfod), by its build identifier: of these URLS, else of DEBUGINFOD_URLS, else
    /// of /etc/debuginfod. Runs debuginfod-find, as root without rights; a file takes at most a
    /// minute and 1 GiB, all of them five and 4 GiB. What runs is not held up: a log has the names
    /// at its end, lines once they are there
    #[arg(
        long,
        value_name = "URLS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    debuginfod: Option<String>,
}

impl DebuginfodArgs {
    /// Has servers asked from now on, where that was typed.
    ///
    /// # Errors
    ///
    /// There is no server, or no program that asks it.
    pub fn ask_servers(&self, waiting: ServerWait) -> anyhow::Result<()> {
        self.debuginfod.as_deref().map_or(Ok(()), |typed| {
            ask_servers(typed, waiting).context("--debuginfod")
        })
    }

    /// Returns this one, or the other one where nothing was typed here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            debuginfod: self.debuginfod.or(other.debuginfod),
        }
    }
}
