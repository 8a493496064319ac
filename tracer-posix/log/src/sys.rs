//! System calls for logs that the standard library lacks: clocks, locks, reserved space, limits.

#![expect(unsafe_code, reason = "calls of the C library")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use tracer_engine::ClockPair;
use tracer_engine::event::{MonotonicNs, RealtimeNs};

use super::System;

/// Returns both clocks now.
#[must_use]
pub fn clocks_now() -> ClockPair {
    ClockPair::read(monotonic_now, realtime_now)
}

/// Returns `CLOCK_MONOTONIC` now.
pub(super) fn monotonic_now() -> MonotonicNs {
    MonotonicNs(nanoseconds(libc::CLOCK_MONOTONIC))
}

/// Returns `CLOCK_REALTIME` now; 0 before 1970.
fn realtime_now() -> RealtimeNs {
    RealtimeNs(nanoseconds(libc::CLOCK_REALTIME))
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid to write to, and each of both clocks exists everywhere.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    let whole = u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(NS);
    whole.saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// Nanoseconds of a second.
const NS: u64 = 1_000_000_000;

/// How a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// Whether it was opened for reading.
    pub for_reading: bool,
    /// Whether it was opened for writing.
    pub for_writing: bool,
    /// Every write goes to the end (`O_APPEND`), also those that name an offset.
    pub appending: bool,
    /// Writes bypass the page cache (`O_DIRECT`): they have to be whole, aligned blocks.
    pub direct: bool,
}

/// Returns how `file` was opened.
pub(super) fn opened(file: &File) -> io::Result<Opened> {
    // SAFETY: `F_GETFL` takes no argument and `file` is open.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = flags & libc::O_ACCMODE;
    let is_path_only = flags & libc::O_PATH != 0;
    Ok(Opened {
        for_reading: !is_path_only && matches!(mode, libc::O_RDONLY | libc::O_RDWR),
        for_writing: !is_path_only && matches!(mode, libc::O_WRONLY | libc::O_RDWR),
        appending: flags & libc::O_APPEND != 0,
        direct: flags & libc::O_DIRECT != 0,
    })
}

/// Locks `file` against logs of other processes, until [`unlock`] or the end of this process.
/// Returns the process that holds the lock already; `None` if this process holds it now, or if the
/// file system has no locks.
///
/// The lock belongs to the process, not to the descriptor: the recorder of a stream is a process of
/// its own, and when it is killed its log must be free for others.
pub(super) fn lock(file: &File) -> Option<libc::pid_t> {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: `file` is open, and `lock` describes a part of it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
    let is_held = matches!(errno(), Some(libc::EAGAIN | libc::EACCES));
    if result == 0 || !is_held {
        return None;
    }
    // SAFETY: as above; the call says who holds the lock, in the same structure.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    let is_known = result == 0 && i32::from(lock.l_type) != libc::F_UNLCK;
    // The holder has released the lock meanwhile, or is on another machine.
    Some(if is_known { lock.l_pid } else { 0 })
}

/// Lets other processes write to `file` again.
pub(super) fn unlock(file: &File) {
    let lock = whole_file(libc::F_UNLCK);
    // SAFETY: as for `lock`. A failure does not matter: the lock ends with the process.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
}

fn errno() -> Option<i32> {
    io::Error::last_os_error().raw_os_error()
}

fn whole_file(kind: i32) -> libc::flock {
    // SAFETY: a `flock` consists of integers; all of them 0 mean the file from its beginning to its
    // end.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // Both are small: the C library's headers have them as constants of this type.
    lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    lock
}

/// Returns the largest file that this process may make, in bytes.
pub(super) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is valid to write to.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// Returns the kernel and the machine that this runs on.
pub(super) fn system() -> System {
    // SAFETY: the structure is made of bytes: zeros are a value of it.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is valid to write to.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return System::default();
    }
    let text = |field: &[libc::c_char]| {
        field
            .iter()
            .map(|&byte| byte.to_ne_bytes()[0])
            .take_while(|byte| *byte != 0)
            .collect()
    };
    System {
        kernel_release: text(&names.release),
        machine: text(&names.machine),
    }
}

/// Reserves space for the first `length` bytes of `file`, without making it longer.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(length)
        .map_err(|_too_large| io::Error::from_raw_os_error(libc::EFBIG))?;
    loop {
        // SAFETY: `file` is open; the call touches no memory of this process.
        let result =
            unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, length) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn it_is_known_how_a_file_was_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut options = OpenOptions::new();
        let appending = options.append(true).create(true).open(&path).unwrap();
        let reading = File::open(&path).unwrap();

        let opened_for = |file| {
            let Opened {
                for_reading,
                for_writing,
                appending,
                ..
            } = opened(file).unwrap();
            (for_reading, for_writing, appending)
        };
        assert_eq!(opened_for(&appending), (false, true, true));
        assert_eq!(opened_for(&reading), (true, false, false));
    }

    #[test]
    fn reserved_space_does_not_make_a_file_longer() {
        let file = tempfile::tempfile().unwrap();

        // Not every file system can reserve space.
        if let Err(error) = reserve(&file, 1 << 20) {
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        }

        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
