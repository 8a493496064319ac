//! Limit on our descriptors.
//!
//! Each trace area that is read takes one, and a process can bring a thousand: another user must
//! not take those away that we need.

use std::io;
use std::sync::OnceLock;

/// Limit that we want.
const WANTED: libc::rlim_t = 65_536;

/// Limit before it was raised. A command that we start gets it back.
static BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit as far as we may, which is further with CAP_SYS_RESOURCE.
pub fn raise_limit() {
    let Ok(before) = limit() else { return };
    let _ = BEFORE.set(before);
    let wanted = before.rlim_cur.max(WANTED);
    for most in [before.rlim_max.max(wanted), before.rlim_max] {
        let raised = libc::rlimit {
            rlim_cur: wanted.min(most),
            rlim_max: most,
        };
        if set(&raised).is_ok() {
            return;
        }
    }
}

/// Restores the limit, in a child that becomes another program. Async-signal-safe.
pub fn restore_limit() -> io::Result<()> {
    BEFORE.get().map_or(Ok(()), set)
}

fn limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: `limit` is a whole `rlimit`, which the call only reads.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const *limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
