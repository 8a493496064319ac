//! Facts about processes from the kernel itself.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Returns how often each thread of a process has left its CPU, voluntarily or not, by thread.
///
/// # Errors
///
/// The process is gone.
pub fn switches(pid: i32) -> anyhow::Result<BTreeMap<i32, u64>> {
    let mut switches = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let tid = entry.file_name().to_string_lossy().parse()?;
        let status = fs::read_to_string(entry.path().join("status"))?;
        let count = |name: &str| -> anyhow::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let count = line.with_context(|| format!("no {name} in status"))?;
            Ok(count.trim().parse()?)
        };
        let all = count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?;
        switches.insert(tid, all);
    }
    Ok(switches)
}

/// Tells whether each of `threads` sleeps.
fn are_blocked(pid: i32, threads: &[i32]) -> anyhow::Result<bool> {
    for tid in threads {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"))?;
        let (_, state) = stat.rsplit_once(") ").context("no state in stat")?;
        if !state.starts_with('S') {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the counts of `threads`, once the threads are blocked and the counts do not change: the
/// counts alone do not show rest, as those of a runnable thread without a CPU do not change either.
///
/// # Errors
///
/// The process is gone or never comes to rest.
pub fn switches_at_rest(pid: i32, threads: &[i32]) -> anyhow::Result<BTreeMap<i32, u64>> {
    let mut last = None;
    super::wait_until("threads at rest", Duration::from_secs(30), || {
        std::thread::sleep(Duration::from_millis(50));
        let is_blocked = are_blocked(pid, threads)?;
        let mut now = switches(pid)?;
        now.retain(|tid, _| threads.contains(tid));
        let rested = last.replace(now.clone()) == Some(now.clone()) && is_blocked;
        Ok(rested.then_some(now))
    })
}

/// Waits for the end of a process without reaping it.
///
/// # Errors
///
/// It is not a child of this process.
pub fn wait_unreaped(pid: i32) -> anyhow::Result<()> {
    let id = libc::id_t::try_from(pid)?;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: `info` is valid for a write.
        let result = unsafe {
            libc::waitid(
                libc::P_PID,
                id,
                info.as_mut_ptr(),
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        let error = std::io::Error::last_os_error();
        if result == 0 {
            return Ok(());
        }
        ensure!(error.kind() == std::io::ErrorKind::Interrupted, error);
    }
}

/// A process that is killed when this value is dropped, also when a test fails.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a process a signal.
///
/// # Errors
///
/// It is gone.
pub fn signal(pid: i32, signal: i32) -> anyhow::Result<()> {
    // SAFETY: `kill` takes integers only.
    let result = unsafe { libc::kill(pid, signal) };
    ensure!(result == 0, "process {pid} is gone");
    Ok(())
}
