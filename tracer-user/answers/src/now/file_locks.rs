//! Locks of files, and the waits for them, as `/proc/locks` has them.

use std::fs;

/// A lock of a file, or a wait for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// Number that a lock and the waits for it have in common.
    number: u64,
    /// Whether it is a wait.
    pub is_wait: bool,
    /// `POSIX`, `FLOCK`, `OFDLCK`, `LEASE`.
    pub kind: String,
    /// For writing.
    pub is_write: bool,
    /// The process that has asked for it; 0 or less where it is not known.
    pub pid: i32,
    /// Device and inode of the file.
    pub file: String,
    /// The first and the last byte.
    pub range: (u64, u64),
}

impl FileLock {
    /// Reads a line, of `/proc/locks` or of a descriptor's details.
    pub fn parse(untrusted: &str) -> Option<Self> {
        let (number, rest) = untrusted.trim_start().split_once(':')?;
        let mut words = rest.split_ascii_whitespace().peekable();
        let is_wait = words.next_if_eq(&"->").is_some();
        let kind = words.next()?.to_owned();
        let (_mandatory, mode) = (words.next()?, words.next()?);
        let pid = words.next()?.parse().ok()?;
        let file = words.next()?.to_owned();
        let first = words.next()?.parse().ok()?;
        let last = match words.next()? {
            "EOF" => u64::MAX,
            last => last.parse().ok()?,
        };
        Some(Self {
            number: number.parse().ok()?,
            is_wait,
            kind,
            is_write: mode.contains("WRITE"),
            pid,
            file,
            range: (first, last),
        })
    }

    /// Returns the inode of the file.
    pub fn inode(&self) -> Option<&str> {
        self.file.rsplit(':').next()
    }
}

/// Reads all locks of files that `/proc` shows.
pub fn read_all() -> Vec<FileLock> {
    let text = fs::read_to_string("/proc/locks").unwrap_or_default();
    parse_all(&text)
}

fn parse_all(text: &str) -> Vec<FileLock> {
    text.lines().filter_map(FileLock::parse).collect()
}

/// Finds the lock that process `pid` waits for in a file with this inode: the only one that the
/// lines allow. `kinds` are those that the call may wait for.
pub fn waited_for<'a>(
    locks: &'a [FileLock],
    pid: i32,
    inode: &str,
    kinds: &[&str],
) -> Option<(&'a FileLock, &'a FileLock)> {
    let mut found = None;
    for wait in locks.iter().filter(|lock| lock.is_wait) {
        let is_asked = wait.pid == pid || (wait.pid <= 0 && wait.kind == "OFDLCK");
        if !is_asked || !kinds.contains(&&*wait.kind) || wait.inode() != Some(inode) {
            continue;
        }
        let mut of_number = locks.iter().filter(|lock| lock.number == wait.number);
        let held = of_number.find(|lock| !lock.is_wait)?;
        // Threads of a process may wait for several.
        if found.is_some_and(|(_, before): (&FileLock, &FileLock)| before != held) {
            return None;
        }
        found = Some((wait, held));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "1: POSIX  ADVISORY  WRITE 10 08:01:42 0 EOF\n\
        1: -> POSIX  ADVISORY  WRITE 11 08:01:42 0 9\n\
        2: FLOCK  ADVISORY  READ 12 08:01:43 0 EOF\n\
        2:   -> FLOCK  ADVISORY  WRITE 13 08:01:43 0 EOF\n\
        3: OFDLCK ADVISORY  WRITE -1 08:01:44 5 6\n\
        x\n";

    #[test]
    fn who_waits_for_whom_has_one_number() {
        let locks = parse_all(LINES);
        assert_eq!(locks.len(), 5);
        let holder = |pid, inode, kinds: &[&str]| {
            waited_for(&locks, pid, inode, kinds).map(|(_, held)| held.pid)
        };
        assert_eq!(holder(11, "42", &["POSIX"]), Some(10));
        assert_eq!(holder(13, "43", &["FLOCK"]), Some(12));
        assert_eq!(holder(11, "43", &["POSIX"]), None);
        assert_eq!(holder(11, "42", &["FLOCK"]), None);
        assert_eq!(holder(10, "42", &["POSIX"]), None, "it has it");
        assert_eq!(locks[4].range, (5, 6));
        assert!(locks[3].is_write && !locks[2].is_write);
    }

    #[test]
    fn several_waits_of_a_process_for_several_locks_are_not_told_apart() {
        let more = format!(
            "{LINES}4: POSIX  ADVISORY  WRITE 14 08:01:42 20 EOF\n\
             4: -> POSIX  ADVISORY  WRITE 11 08:01:42 20 29\n"
        );
        assert_eq!(waited_for(&parse_all(&more), 11, "42", &["POSIX"]), None);
    }
}
