//! Descriptors of processes: they never come to mean another process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A process, for as long as this lives.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens process `pid`.
    ///
    /// # Errors
    ///
    /// The error of `pidfd_open()`: `ESRCH` for no such process, `EINVAL` or `ENOENT` for a thread.
    pub fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: the call takes two integers and touches no memory of this process.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned the descriptor, and no other value owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Tells whether the process has ended.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `poll` is one valid `pollfd`, as the second argument says.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready > 0
    }

    /// Sends a signal. A process that has ended gets none. Returns whether it was sent.
    pub fn signal(&self, signal: i32) -> bool {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and a null pointer means no further information.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                no_info,
                0,
            )
        };
        result == 0
    }

    /// Makes the pidfd one to be waited for: it becomes readable when the process ends.
    ///
    /// # Errors
    ///
    /// The kernel does not take it.
    pub fn into_waited_for(self) -> io::Result<AsyncFd<OwnedFd>> {
        wait_for_input(self.0)
    }
}

/// Returns a descriptor to be waited for until it is readable.
///
/// # Errors
///
/// The kernel does not take it.
pub fn wait_for_input(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps its descriptor open, and the same, until it is dropped.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }
        .map_err(|error| error.into_parts().1)
}
