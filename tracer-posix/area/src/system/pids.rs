//! Processes by their pids, and the pid namespace of this one.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Tells whether a process with this pid exists in this pid namespace, whichever user's it is.
pub(crate) fn process_exists(pid: i32) -> bool {
    // SAFETY: signal 0 is never delivered: the call only looks.
    let result = unsafe { libc::kill(pid, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[inline]
pub(crate) fn own_pid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// Returns the pid namespace that this process is in; 0 where `/proc` does not say.
pub(crate) fn own_pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}
