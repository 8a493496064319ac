//! Files that processes write about themselves.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::spaces::date_of;
use crate::probes::{living_thread, open_ordinary_below, root_of};

/// Opens the file of this name that process `pid` has written, which has had code of its own since
/// a time. Only a file of root's or of the process's own user is believed, and only one that was
/// written since the process began.
pub fn open_own(pid: i32, since: u64, path: &Path) -> Option<File> {
    // One that has ended may have left it here.
    let root = if std::fs::metadata(format!("/proc/{pid}")).is_ok() {
        root_of(living_thread(pid))
    } else {
        "/".into()
    };
    let file = open_ordinary_below(&root, path).ok()?;
    is_own(pid, since, &file)?.then_some(file)
}

/// Tells whether process `pid`, which has had code of its own since a time, may have written a
/// file; `None` where that is unknown.
pub fn is_own(pid: i32, since: u64, file: &File) -> Option<bool> {
    let process = std::fs::metadata(format!("/proc/{pid}")).ok();
    let metadata = file.metadata().ok()?;
    // SAFETY: takes nothing and cannot fail.
    let own_user = unsafe { libc::geteuid() };
    let owner = process.as_ref().map_or(own_user, Metadata::uid);
    let by = metadata.uid();
    if by != 0 && by != owner {
        return Some(false);
    }
    // Another process may have had the pid before.
    let began = beginning_of(pid).or_else(|| date_of(since))?;
    Some(metadata.modified().ok()? + Duration::from_millis(20) >= began)
}

/// Returns the date at which a process began; `None` where it has ended.
fn beginning_of(pid: i32) -> Option<SystemTime> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    let ticks: u64 = behind.split_ascii_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: `sysconf` has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).ok().filter(|ticks| *ticks > 0)?;
    let began = Duration::from_millis(ticks.checked_mul(1000)? / per_second);
    let mut uptime = String::new();
    File::open("/proc/uptime")
        .ok()?
        .read_to_string(&mut uptime)
        .ok()?;
    let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(uptime).ok()?;
    SystemTime::now().checked_sub(uptime.saturating_sub(began))
}

/// Tells whether a file has more than so many bytes.
pub fn has_more(file: Option<&File>, bytes: u64) -> bool {
    let length = file.and_then(|file| Some(file.metadata().ok()?.len()));
    length.is_some_and(|length| length > bytes)
}

/// Returns the pid of a process in its own pid namespace, as far as that is known.
pub fn own_pid(pid: i32) -> i32 {
    let own = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mut lines = status.lines();
        let pids = lines.find_map(|line| line.strip_prefix("NStgid:"))?;
        pids.split_ascii_whitespace().last()?.parse().ok()
    };
    own().unwrap_or(pid)
}
