//! Machine and time of a run: without them a figure means nothing.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

use xtask::{packages, process, workspace};

/// Machine, and the versions that ran on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Processor's own name.
    pub processor: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// Mebibytes of memory.
    pub memory_mib: u64,
    /// The kernel's release and version.
    pub kernel: String,
    /// Kernel's clock source.
    pub clock: String,
    /// Commit, with a mark when files differ from it.
    pub commit: String,
    /// Start of the run.
    pub date: String,
    /// Load before the run: the average of the last minute.
    pub load: f64,
    /// The peers' versions.
    pub peers: Vec<String>,
}

/// Reads the facts of this machine.
pub fn look() -> anyhow::Result<Machine> {
    Ok(Machine {
        processor: field_of("/proc/cpuinfo", "model name"),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        memory_mib: first_integer(&field_of("/proc/meminfo", "MemTotal")) / 1024,
        kernel: process::output(Command::new("uname").args(["-srm"]))?,
        clock: fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .map_or_else(|_| "not known".to_owned(), |name| name.trim().to_owned()),
        commit: commit(),
        date: process::output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))?,
        load: fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|line| line.split(' ').next()?.parse().ok())
            .unwrap_or(f64::NAN),
        peers: packages::TO_BENCHMARK.iter().map(version).collect(),
    })
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        process::output(
            Command::new("git")
                .current_dir(workspace::root())
                .args(arguments),
        )
        .unwrap_or_else(|_| "not known".to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let has_changes = !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty();
    if has_changes {
        commit + " with changes"
    } else {
        commit
    }
}

fn version(peer: &packages::Need) -> String {
    let name = peer.what;
    let Some(package) = peer.packages.first().filter(|_| (peer.holds)()) else {
        return format!("{name}: missing");
    };
    let asked = process::output(Command::new("dpkg-query").args([
        "--show",
        "--showformat=${Version}",
        package,
    ]));
    asked.map_or_else(|_| name.to_owned(), |version| format!("{name} {version}"))
}

/// Returns the text after the first "name:" in a file of such lines.
fn field_of(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    });
    value.unwrap_or_else(|| "not known".to_owned())
}

fn first_integer(text: &str) -> u64 {
    let digits = text.split(' ').next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
