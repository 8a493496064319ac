//! Processes that this user may trace: the kernel decides, as of `ptrace`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use tracer_binary::bounded_proc::{self, HeldProcess};

/// Setting of the kernel's module Yama.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Reason why a process cannot be traced by this user.
#[derive(Debug, thiserror::Error)]
pub enum NotPermitted {
    /// `ESRCH`.
    #[error("process {pid} has ended")]
    Ended {
        /// The process.
        pid: i32,
    },
    /// Process of another user.
    #[error(
        "process {pid} is of another user ({user}), and without root a user's own processes are \
         traced; run as root"
    )]
    OfAnother {
        /// The process.
        pid: i32,
        /// Its user.
        user: u32,
    },
    /// Process that is protected although it is this user's.
    #[error(
        "process {pid} has rights that this user lacks, or lets no process look into it; run as \
         root"
    )]
    Protected {
        /// The process.
        pid: i32,
    },
    /// Limits of Yama.
    #[error(
        "process {pid} was not started by this one, and {YAMA} is {scope}: {}",
        yama_in_words(*scope)
    )]
    Yama {
        /// The process.
        pid: i32,
        /// The setting.
        scope: u32,
    },
    /// Process that keeps the kernel from answering.
    #[error(transparent)]
    Held(#[from] HeldProcess),
    /// Lack of memory or descriptors.
    #[error("process {pid} cannot be opened")]
    Lack {
        /// The process.
        pid: i32,
        /// Cause.
        source: io::Error,
    },
}

fn yama_in_words(scope: u32) -> &'static str {
    match scope {
        1 => {
            "a user may trace what a tracer has started itself; start it by `tracer-user run -- \
             COMMAND`, or run as root"
        }
        2 => "root alone may trace; run as root",
        _ => "no process may trace another through the service; run as root",
    }
}

impl NotPermitted {
    /// Tells whether the process is gone, or is left to others: the trace of the other processes
    /// goes on.
    pub fn is_of_process(&self) -> bool {
        !matches!(self, Self::Lack { .. })
    }

    /// Tells whether the kernel does not let this user trace it: an administrator may.
    pub fn is_of_rights(&self) -> bool {
        matches!(
            self,
            Self::OfAnother { .. } | Self::Protected { .. } | Self::Yama { .. }
        )
    }

    /// Tells whether the process is gone.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}

/// Makes sure that this user may trace process `pid`.
///
/// # Errors
///
/// The user may not, or it is not known.
pub fn check(pid: i32) -> Result<(), NotPermitted> {
    let opened = bounded_proc::ask_process(pid, move || {
        // What the service is shown: the kernel opens it to those who may trace the process.
        File::open(format!("/proc/{pid}/mem")).map(drop)
    })?;
    let Err(error) = opened else { return Ok(()) };
    Err(match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => NotPermitted::Ended { pid },
        Some(libc::EACCES | libc::EPERM) => refusal(pid),
        _ => NotPermitted::Lack { pid, source: error },
    })
}

/// Returns why the kernel refuses.
fn refusal(pid: i32) -> NotPermitted {
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    // Of a process that lets no other look into it, this is root's.
    let Ok(user) = fs::metadata(format!("/proc/{pid}/task")).map(|found| found.uid()) else {
        return NotPermitted::Ended { pid };
    };
    let user_by_status = user_of(pid).unwrap_or(user);
    if user_by_status != own {
        return NotPermitted::OfAnother {
            pid,
            user: user_by_status,
        };
    }
    match yama() {
        Some(scope) if scope > 0 && user == own => NotPermitted::Yama { pid, scope },
        _ => NotPermitted::Protected { pid },
    }
}

/// Returns the real user of a process.
fn user_of(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn yama() -> Option<u32> {
    fs::read_to_string(YAMA).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_may_open_is_permitted_and_what_is_gone_has_ended() {
        let own = std::process::id().cast_signed();
        assert!(check(own).is_ok());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        child.wait().unwrap();
        assert!(matches!(check(pid), Err(NotPermitted::Ended { .. })));
    }
}
