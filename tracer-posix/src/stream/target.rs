//! The process that a stream traces, where its end is the end of its events.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use tracer_area::own_pid;
use tracer_engine::{Attributes, Inheritance};

/// Another process, whose children are not traced.
#[derive(Debug)]
pub(super) struct Target {
    /// Readable when it has ended.
    process: Arc<OwnedFd>,
}

impl Target {
    /// Returns the process `pid`; `None` where events may come though it has ended, or its end
    /// cannot be found out.
    pub fn open(pid: i32, attributes: &Attributes) -> Option<Self> {
        if pid == own_pid() || attributes.inheritance() == Inheritance::Inherited {
            return None;
        }
        // SAFETY: takes no pointers.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let process = RawFd::try_from(process).ok().filter(|fd| *fd >= 0)?;
        Some(Self {
            // SAFETY: just opened, and no other value owns it.
            process: Arc::new(unsafe { OwnedFd::from_raw_fd(process) }),
        })
    }

    /// Returns a descriptor that can be read when it has ended.
    #[cfg(feature = "async")]
    pub fn file(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.process)
    }

    /// Tells whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut polled = libc::pollfd {
            fd: self.process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut polled, 1, 0) == 1 }
    }
}
