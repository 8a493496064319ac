//! Why no area is found.

use std::ffi::c_int;
use std::io;

/// Why the trace area of a process is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// `ESRCH`.
    #[error("no process has pid {pid}")]
    NoSuchProcess {
        /// The process asked for.
        pid: i32,
    },
    /// `EPERM`.
    #[error("not permitted to look into process {pid}")]
    NotPermitted {
        /// The process asked for.
        pid: i32,
        /// The kernel's error.
        source: io::Error,
    },
    /// `EPERM`.
    #[error(
        "process {pid} is confined to read() and write() (SECCOMP_MODE_STRICT): its first event would end it"
    )]
    Confined {
        /// The process asked for.
        pid: i32,
    },
    /// `EPERM`. Its descriptors are closed: the kernel shows what is only mapped to those with a
    /// capability.
    #[error(
        "process {pid} has a trace area, of which it has closed the descriptor: what is only mapped the kernel shows to \
         those with CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN"
    )]
    OnlyMapped {
        /// The process asked for.
        pid: i32,
    },
    /// `EPERM`. It could have no file for it.
    #[error(
        "the trace area of process {pid} is memory of its own, which no other process can have: it could make no file (by RLIMIT_FSIZE, a \
         filter of system calls, or for lack of descriptors or memory)"
    )]
    WithoutFile {
        /// The process asked for.
        pid: i32,
    },
    /// The area is not one that this library can read.
    #[error("the trace area of process {pid} is damaged or of another version")]
    Unreadable {
        /// The process asked for.
        pid: i32,
    },
    /// A system call failed.
    #[error("cannot map the trace area of process {pid}")]
    Map {
        /// The process asked for.
        pid: i32,
        /// The kernel's error.
        source: io::Error,
    },
}

impl FindError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::NoSuchProcess { .. } => libc::ESRCH,
            // What the C library takes to read a folder.
            Self::NotPermitted { source, .. } if source.raw_os_error() == Some(libc::ENOMEM) => {
                libc::ENOMEM
            }
            Self::NotPermitted { .. }
            | Self::OnlyMapped { .. }
            | Self::WithoutFile { .. }
            | Self::Confined { .. }
            | Self::Unreadable { .. } => libc::EPERM,
            Self::Map { .. } => libc::ENOMEM,
        }
    }

    /// Tells whether the area may be found later: descriptors or memory of this process lack now,
    /// or the area's owner has a lease on it.
    #[must_use]
    pub fn is_for_lack(&self) -> bool {
        let (Self::NotPermitted { source, .. } | Self::Map { source, .. }) = self else {
            return false;
        };
        matches!(
            source.raw_os_error(),
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN)
        )
    }
}
