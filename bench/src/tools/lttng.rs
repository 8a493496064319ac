//! LTTng-UST: sessions that record the trace point of the benchmark.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::background::{as_float, size};
use crate::folder;
use xtask::process;

/// Storage of a session's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In memory, written on demand; the oldest events are overwritten.
    Snapshot,
    /// On disk; events that do not fit are discarded.
    Disk,
}

/// Session that records. Destroyed when dropped.
pub struct Session {
    folder: PathBuf,
}

const NAME: &str = "posix-trace-bench";

impl Session {
    /// Creates and starts a session, and the daemon where none runs. `contexts` are added to each
    /// event, such as "vtid".
    pub fn start(keeping: Keeping, contexts: &[&str]) -> anyhow::Result<Self> {
        let folder = folder().join("lttng");
        let _nothing_there = fs::remove_dir_all(&folder);
        if !process::succeeds(&mut lttng(&["list"])) {
            process::output(Command::new("lttng-sessiond").args(["--daemonize", "--no-kernel"]))?;
        }
        let _left_by_one_that_was_killed = process::succeeds(&mut lttng(&["destroy", NAME]));
        let output = format!("--output={}", folder.display());
        let mut create = lttng(&["create", NAME, &output]);
        let mode = match keeping {
            Keeping::Snapshot => {
                create.arg("--snapshot");
                "--overwrite"
            }
            Keeping::Disk => "--discard",
        };
        process::output(&mut create)?;
        let session = Self { folder };
        let sizes = ["--subbuf-size=1M", "--num-subbuf=4", "channel"];
        run_in_session(&["enable-channel"], &[mode], &sizes)?;
        run_in_session(&["enable-event"], &["--channel=channel"], &["bench:point"])?;
        for context in contexts {
            let kind = format!("--type={context}");
            run_in_session(&["add-context"], &["--channel=channel"], &[&kind])?;
        }
        process::output(&mut lttng(&["start", NAME]))?;
        Ok(session)
    }

    /// Stops the session, which writes all its events to disk. Returns the folder and its size in
    /// bytes.
    pub fn finish(self) -> anyhow::Result<(PathBuf, f64)> {
        process::output(&mut lttng(&["stop", NAME]))?;
        process::output(&mut lttng(&["destroy", NAME]))?;
        let bytes = bytes_below(&self.folder);
        Ok((self.folder.clone(), bytes))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ended_already = process::succeeds(&mut lttng(&["destroy", NAME]));
    }
}

fn run_in_session(command: &[&str], options: &[&str], rest: &[&str]) -> anyhow::Result<()> {
    let session = ["--userspace", "--session", NAME];
    process::output(lttng(command).args(session).args(options).args(rest)).map(drop)
}

fn lttng(arguments: &[&str]) -> Command {
    let mut command = Command::new("lttng");
    command.args(["--quiet", "--no-sessiond"]).args(arguments);
    command
}

/// Sums the bytes of all files in a folder and in the folders below it.
fn bytes_below(folder: &Path) -> f64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0.0;
    };
    let of = |path: PathBuf| {
        if path.is_dir() {
            bytes_below(&path)
        } else {
            size(&path)
        }
    };
    entries.flatten().map(|entry| of(entry.path())).sum()
}

/// Sums the resident megabytes of LTTng's daemons. Those that they fork to act as other users are
/// left out.
pub fn resident_megabytes() -> anyhow::Result<f64> {
    let mut kilobytes = 0;
    for name in ["lttng-sessiond", "lttng-consumerd"] {
        let pids = process::output(Command::new("pgrep").args(["-f", &format!("^{name} ")]))?;
        let of = |pid: &str| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        kilobytes += pids
            .lines()
            .map(|pid| super::resident_kilobytes(&of(pid)))
            .max()
            .unwrap_or(0);
    }
    Ok(as_float(kilobytes * 1024) / 1e6)
}
