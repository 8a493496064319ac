//! The medium that a log is written to, and what else the writer needs from outside: the clocks,
//! and an id.

use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;

use super::layout::LogId;
use super::sys;
use tracer_engine::ClockPair;

/// The medium that a log is written to. Tests use one that fails.
pub(super) trait Medium: fmt::Debug {
    /// Writes all bytes at an offset. A write that fails may have written some of them.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Truncates the file, or makes it longer.
    fn set_len(&mut self, length: u64) -> io::Result<()>;

    /// Reserves space up to `length` without making the file longer.
    fn reserve(&mut self, length: u64) -> io::Result<()>;

    /// Returns both clocks now.
    fn clocks(&mut self) -> ClockPair;
}

/// A file.
#[derive(Debug)]
pub(super) struct LogFile(pub File);

impl Medium for LogFile {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Beyond the process's limit the kernel would send SIGXFSZ, which ends a process that is
        // not prepared for it.
        let end = offset.saturating_add(bytes.len() as u64);
        if end > sys::file_size_limit() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        sys::reserve(&self.0, length)
    }

    fn clocks(&mut self) -> ClockPair {
        sys::clocks_now()
    }
}

/// Returns a random id. It keeps packets of different logs apart; it is no secret.
pub(super) fn new_log_id() -> LogId {
    let keys = RandomState::new();
    let salt = (std::process::id(), sys::monotonic_now().0);
    let mut id = [0; 16];
    let (low, high) = id.split_at_mut(8);
    low.copy_from_slice(&keys.hash_one((salt, 1)).to_le_bytes());
    high.copy_from_slice(&keys.hash_one((salt, 2)).to_le_bytes());
    LogId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_has_an_id_of_its_own() {
        assert_ne!(new_log_id(), new_log_id());
    }
}
