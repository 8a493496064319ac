//! Code that a process has made itself, as the process tells of it in whatever way: in files that
//! it writes, too.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Mapping;
use super::generated::NameSince;
use super::jit_dump::JitDump;
use super::lines::SourceLine;
use super::perf_map::PerfMap;
use super::spaces::date_of;
use crate::probes::{living_thread, open_ordinary_below, root_of};

/// Opens the file of this name that process `pid` has written, which has had code of its own since
/// a time. Only a file of root's or of the process's own user is believed, and only one that was
/// written since the process began.
pub fn open_own(pid: i32, since: u64, path: &Path) -> Option<File> {
    let root = root_of(living_thread(pid));
    let open_below = |root: &Path| open_ordinary_below(root, path).ok();
    // One that has ended may have left it here. It has no root, even before its parent waits.
    let has_ended = || {
        let found = std::fs::read_link(&root);
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let file = open_below(&root).or_else(|| has_ended().then(|| open_below(Path::new("/")))?)?;
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

/// Programs whose own code is known. Beyond that, all are forgotten.
const MOST_PROGRAMS: usize = 1024;

/// Bytes of all lists that are known. Beyond that, all are forgotten.
const MOST_LISTED_BYTES: u64 = 256 << 20;

/// Functions that a process has made itself.
#[derive(Debug, Default)]
pub struct OwnCode {
    list: PerfMap,
    /// Names with times, which count before those of the list.
    dump: JitDump,
}

impl OwnCode {
    /// Opens the file with times of which process `pid` has mapped this mark at a time.
    pub fn mark(&mut self, pid: i32, at: u64, mark: &Mapping) {
        self.dump.open(pid, at, mark);
    }

    /// Reads what process `pid` has told since the last look, unless that was just now; at once
    /// where it is `due`. It has had code of its own since a time.
    pub fn look(&mut self, pid: i32, since: u64, is_due: bool) {
        self.list.look(pid, since, is_due);
        self.dump.look(is_due);
    }

    /// Reads what was told since then, where that is more, for an address that has no name. Returns
    /// whether it is.
    pub fn look_again(&mut self, pid: i32, since: u64) -> bool {
        let is_more = self.list.has_grown() || self.dump.has_grown();
        if is_more {
            self.look(pid, since, true);
        }
        is_more
    }

    /// Returns the function that had an address at a time, and the offset in it, where the process
    /// has had code of its own there since a time.
    pub fn find(&self, address: u64, at: u64, since: u64) -> Option<(Arc<str>, u64)> {
        let found = self.dump.code.find(address, at, since);
        found.or_else(|| self.list.code.find(address, at, since))
    }

    /// Returns the line that an address had at a time, as [`find`](Self::find) does the function.
    pub fn line(&self, address: u64, at: u64, since: u64) -> Option<SourceLine> {
        self.dump.line(address, at, since)
    }

    /// Returns the names that an address has had, in order of time, where the process has had code
    /// of its own there since a time.
    pub fn names(&self, address: u64, since: u64) -> Vec<NameSince> {
        let names = self.dump.code.names(address, since);
        if names.iter().any(|(_, name)| name.is_some()) {
            return names;
        }
        self.list.code.names(address, since)
    }

    /// Returns the number of bytes of the list that were read.
    pub fn bytes(&self) -> u64 {
        self.list.bytes()
    }

    /// Returns the number of functions that were told of so far.
    pub fn added(&self) -> u64 {
        self.list.code.added() + self.dump.code.added()
    }
}

/// Functions that processes have made themselves.
#[derive(Debug, Default)]
pub struct OwnCodes {
    codes: HashMap<i32, OwnCode>,
    /// Bytes of all lists.
    listed_bytes: u64,
}

impl OwnCodes {
    /// Returns what a process has told by the last look.
    pub fn get(&self, pid: i32) -> Option<&OwnCode> {
        self.codes.get(&pid)
    }

    /// Opens the file with times of which process `pid` has mapped this mark at a time.
    pub fn mark(&mut self, pid: i32, at: u64, mark: &Mapping) {
        self.code(pid).mark(pid, at, mark);
    }

    /// Reads what programs have told by now of the code that they generate.
    pub fn look_at_all(&mut self) {
        for (pid, code) in &mut self.codes {
            code.look(*pid, 0, true);
        }
    }

    /// Reads what a process has told that has had code of its own since a time, unless that was
    /// read just now.
    pub fn look(&mut self, pid: i32, since: u64) {
        self.read(pid, |code| code.look(pid, since, false));
    }

    /// Returns the function that had an address of a process at a time, and the offset in it, where
    /// the process has had code of its own there since a time, and what it has told since another
    /// one is about that.
    pub fn find(
        &mut self,
        (pid, address): (i32, u64),
        at: u64,
        (since, told_since): (u64, u64),
    ) -> Option<(Arc<str>, u64)> {
        self.look(pid, since);
        let found = self.codes.get(&pid)?.find(address, at, told_since);
        if found.is_some() || !self.read(pid, |code| code.look_again(pid, since)) {
            return found;
        }
        self.codes.get(&pid)?.find(address, at, told_since)
    }

    /// Has more of what a process tells read, and counts it.
    fn read<T>(&mut self, pid: i32, look: impl FnOnce(&mut OwnCode) -> T) -> T {
        let code = self.code(pid);
        let before = code.bytes();
        let found = look(code);
        let more = code.bytes().saturating_sub(before);
        self.listed_bytes += more;
        found
    }

    fn code(&mut self, pid: i32) -> &mut OwnCode {
        let is_new = !self.codes.contains_key(&pid);
        let are_many = is_new && self.codes.len() >= MOST_PROGRAMS;
        if are_many || self.listed_bytes > MOST_LISTED_BYTES {
            self.codes.clear();
            self.listed_bytes = 0;
        }
        self.codes.entry(pid).or_default()
    }
}

/// Returns names as they count from a time on: of those from before, the last one.
pub fn since_mapped(names: Vec<NameSince>, since: u64) -> Vec<NameSince> {
    let mut counts: Vec<NameSince> = Vec::new();
    for (time, name) in names {
        let time = time.max(since);
        counts.retain(|(of, _)| *of != time);
        counts.push((time, name));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_leaves_is_found_before_and_after_its_parent_waits_for_it() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let name = format!("tmp/perf-{pid}.map");
        let file = Path::new("/").join(&name);
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat"));
        while !stat().unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        std::fs::write(&file, "1000 10 f\n").unwrap();
        let since = super::super::spaces::time_now();
        let of_zombie = open_own(pid, since, Path::new(&name));
        child.wait().unwrap();
        let of_ended = open_own(pid, since, Path::new(&name));
        std::fs::remove_file(&file).unwrap();
        assert_eq!((of_zombie.is_some(), of_ended.is_some()), (true, true));
    }

    #[test]
    fn of_names_from_before_the_last_one_counts() {
        let name = |of: &str| Some((Arc::from(of), 0));
        let names = vec![(0, name("a")), (5, None), (9, name("b")), (20, name("c"))];
        let counts = since_mapped(names.clone(), 10);
        assert_eq!(counts, [(10, name("b")), (20, name("c"))]);
        assert_eq!(since_mapped(names.clone(), 0), names);
    }
}
