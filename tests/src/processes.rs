//! What the kernel itself says about processes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// How often each thread of a process has given up its CPU, by thread.
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
            let number = line.with_context(|| format!("no {name} in status"))?;
            Ok(number.trim().parse()?)
        };
        let all = count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?;
        switches.insert(tid, all);
    }
    Ok(switches)
}

/// The counts of `threads`, once they stand still: the threads are blocked.
///
/// # Errors
///
/// The process is gone or never comes to rest.
pub fn switches_at_rest(pid: i32, threads: &[i32]) -> anyhow::Result<BTreeMap<i32, u64>> {
    let mut last = None;
    super::wait_until("threads at rest", Duration::from_secs(30), || {
        std::thread::sleep(Duration::from_millis(50));
        let mut now = switches(pid)?;
        now.retain(|tid, _| threads.contains(tid));
        let rested = last.replace(now.clone()) == Some(now.clone());
        Ok(rested.then_some(now))
    })
}
