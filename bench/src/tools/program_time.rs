//! Run time of programs in the kernel, as the kernel itself counts it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// `BPF_PROG_GET_FD_BY_ID`.
const PROGRAM_BY_ID: libc::c_long = 13;
/// `BPF_ENABLE_STATS`: the kernel counts as long as its descriptor is open.
const ENABLE_STATS: libc::c_long = 32;

/// Greatest time in which a tracer has to attach its programs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Time without a further attached program after which all are taken as attached.
const QUIET: Duration = Duration::from_millis(700);

/// Counting by the kernel, which lasts as long as this value.
pub struct ProgramTimes {
    _counted: OwnedFd,
}

/// Counts of several programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Their run time.
    pub ns: u64,
    /// Number of their runs.
    pub runs: u64,
}

impl ProgramTimes {
    /// Makes the kernel count.
    pub fn counted() -> anyhow::Result<Self> {
        let counted = bpf(ENABLE_STATS, 0).context("the kernel does not count programs' time")?;
        Ok(Self { _counted: counted })
    }

    /// Returns the programs that a process has attached, once it attaches no further ones.
    pub fn programs_of(&self, pid: u32) -> anyhow::Result<Vec<OwnedFd>> {
        let ids = all_attached(pid)?;
        let programs = ids.iter().map(|id| bpf(PROGRAM_BY_ID, *id));
        let programs = programs.collect::<io::Result<_>>();
        programs.context("a program is gone")
    }

    /// Sums the counts of these programs so far.
    pub fn read(&self, programs: &[OwnedFd]) -> anyhow::Result<Counted> {
        let mut all = Counted::default();
        for program in programs {
            let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
            let words = fs::read_to_string(path)?;
            all.ns += field(&words, "run_time_ns").context("no run_time_ns")?;
            all.runs += field(&words, "run_cnt").context("no run_cnt")?;
        }
        Ok(all)
    }
}

/// Waits until a process has attached programs and attaches no further ones, and returns which.
pub fn all_attached(pid: u32) -> anyhow::Result<BTreeSet<u32>> {
    let start = Instant::now();
    let (mut ids, mut since) = (BTreeSet::new(), Instant::now());
    while start.elapsed() < TIMEOUT {
        let now = attached(pid)?;
        if now != ids {
            (ids, since) = (now, Instant::now());
        } else if !ids.is_empty() && since.elapsed() > QUIET {
            return Ok(ids);
        }
        sleep(Duration::from_millis(50));
    }
    bail!("process {pid} attaches no programs")
}

/// Finds the programs of the links that a process has.
fn attached(pid: u32) -> anyhow::Result<BTreeSet<u32>> {
    let mut ids = BTreeSet::new();
    let folder = fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .with_context(|| format!("process {pid} has ended"))?;
    for entry in folder {
        // It may have been closed meanwhile.
        let words = fs::read_to_string(entry?.path()).unwrap_or_default();
        if field(&words, "link_id").is_some() {
            let id = field(&words, "prog_id");
            ids.extend(id.and_then(|id| u32::try_from(id).ok()));
        }
    }
    Ok(ids)
}

/// Returns the value of a line `name: value`.
fn field(words: &str, name: &str) -> Option<u64> {
    let mut lines = words.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(found, _)| *found == name)?;
    value.trim().parse().ok()
}

/// Requests a descriptor from the kernel.
fn bpf(command: libc::c_long, argument: u32) -> io::Result<OwnedFd> {
    let attributes = [argument, 0, 0];
    let size = size_of_val(&attributes);
    // SAFETY: the attributes are valid for reads of so many bytes, of which the kernel keeps none.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let words = "pos:\t0\nrun_time_ns:\t1234\nrun_cnt:\t5\n";

        assert_eq!(field(words, "run_time_ns"), Some(1234));
        assert_eq!(field(words, "run_cnt"), Some(5));
        assert_eq!(field(words, "run"), None);
    }
}
