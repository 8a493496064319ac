//! Detection of whether a log that is not completed is still being written.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// Looks for writers of a log.
#[derive(Debug)]
pub struct Writers {
    file: Option<File>,
}

impl Writers {
    /// Opens the log at this path, to ask about its writers.
    #[must_use]
    pub fn open(log: &Path) -> Self {
        // Who opens the file for writing while it is asked would end this process by that.
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        Self {
            file: File::open(log).ok(),
        }
    }

    /// Tells whether for certain no process has the log open for writing. The kernel gives a lease
    /// of reading only then; where it gives none for other reasons nothing is known.
    #[must_use]
    pub fn have_ended(&self) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        let lease = |kind: i32| {
            // SAFETY: takes integers only.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0 }
        };
        let have_ended = lease(libc::F_RDLCK);
        if have_ended {
            lease(libc::F_UNLCK);
        }
        have_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_it_open_for_writing_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let writer = File::create(&path).unwrap();
        let writers = Writers::open(&path);
        assert!(!writers.have_ended());
        drop(writer);
        // Not on every file system there are leases.
        let _ = writers.have_ended();
        let writer = File::options().append(true).open(&path).unwrap();
        assert!(!writers.have_ended());
        drop(writer);
        assert!(!Writers::open(&folder.path().join("none")).have_ended());
    }
}
