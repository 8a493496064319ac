//! Whether a thread has ended. A thread of which that is not certain counts as alive.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Tells whether there is no thread `tid` in this process's pid namespace, not even a zombie. The
/// thread's process is not asked for: a process that shares its parent's memory takes itself for a
/// thread of its parent.
pub(crate) fn is_gone(tid: i32) -> bool {
    if tid <= 0 {
        return false;
    }
    // SAFETY: takes no pointers, and signal 0 is never delivered: the call only looks.
    let result = unsafe { libc::syscall(libc::SYS_tkill, tid, 0) };
    result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Tells whether thread `tid` of process `pid`, in this process's pid namespace, has ended for
/// certain.
pub(super) fn has_ended(pid: i32, tid: i32) -> bool {
    if pid <= 0 || tid <= 0 {
        return false;
    }
    // SAFETY: takes no pointers, and signal 0 is never delivered: the call only looks.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    if result != 0 {
        return io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    }
    is_zombie(pid, tid)
}

/// Tells whether thread `tid`, of any process in this process's pid namespace, has ended for
/// certain.
pub(crate) fn has_thread_ended(tid: i32) -> bool {
    tid > 0 && (is_gone(tid) || is_zombie(tid, tid))
}

/// Tells whether a thread that still has its tid has certainly ended. `/proc/<pid>/stat` says that
/// too, but in some kernels reading it waits for a process that is about to run another program,
/// for as long as that takes.
pub(super) fn is_zombie(pid: i32, tid: i32) -> bool {
    state_of(pid, tid).is_some_and(|state| matches!(state, b'Z' | b'X' | b'x'))
}

/// Returns the state of a thread by the kernel's letter for it; `None` where it is not shown.
pub(super) fn state_of(pid: i32, tid: i32) -> Option<u8> {
    let status = fs::read(format!("/proc/{pid}/task/{tid}/status"));
    status.ok().as_deref().and_then(state)
}

/// Returns the state in what `/proc/<pid>/status` says. A name has no line of its own in it: the
/// kernel escapes the ends of lines.
fn state(status: &[u8]) -> Option<u8> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let state = lines.find_map(|line| line.strip_prefix(b"State:\t"))?;
    state.first().copied()
}

/// Tells whether `pid` is in the pid namespace of this process, for certain.
pub(crate) fn is_in_own_namespace(pid: i32) -> bool {
    let own = namespace_of("self");
    own.is_some() && own == namespace_of(&pid.to_string())
}

/// Returns the device and the inode of a process's pid namespace, where `/proc` shows them. Apart,
/// since what the system says of a file takes much of the stack.
#[inline(never)]
fn namespace_of(process: &str) -> Option<(u64, u64)> {
    let namespace = fs::metadata(format!("/proc/{process}/ns/pid")).ok()?;
    Some((namespace.dev(), namespace.ino()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_runs_lives_and_what_was_killed_has_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!has_ended(pid, pid) && !has_thread_ended(pid));
        assert!(
            has_ended(std::process::id().cast_signed(), pid),
            "no thread of this process"
        );
        assert!(!is_gone(pid), "but there");
        child.kill().unwrap();
        while !has_ended(pid, pid) {
            std::thread::yield_now();
        }
        assert!(!is_gone(pid) && has_thread_ended(pid), "a zombie");
        child.wait().unwrap();
        assert!(
            has_ended(pid, pid) && has_thread_ended(pid),
            "not even a zombie any more"
        );
        assert!(is_gone(pid) && !is_gone(0));
        assert!(!has_ended(0, 0), "no thread is named");
    }

    #[test]
    fn the_state_has_a_line_whatever_the_name_is() {
        let status = b"Name:\tState:\tZ\nUmask:\t0022\nState:\tR (running)\n";
        assert_eq!(state(status), Some(b'R'));
        assert_eq!(state(b"nonsense"), None);
    }
}
