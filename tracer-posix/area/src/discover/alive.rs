//! Whether a process, such as the controller of a stream, is still there.
//!
//! Another process ends the stream of a controller that is dead, and only a proof of its death
//! counts. `/proc` may be hidden from this process (`hidepid`), may not be mounted, or may not be
//! openable for want of descriptors: a process that it does not show need not be dead.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use crate::system::pids::{own_pid, own_pid_namespace, process_exists};
use crate::system::proc_stat::{Shown, shown_of};

/// State of a process, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The process that is meant is there.
    Alive,
    /// The process is gone: no process has its pid, or a younger one, or a zombie; or it runs
    /// another program.
    Dead,
    /// Not known: nothing shows the process.
    Unknown,
}

/// A process as it has written itself down, with 0 for what it could not find out about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its pid in its pid namespace.
    pub(crate) pid: i32,
    /// When it was started, in the kernel's clock ticks since boot.
    pub(crate) start: u64,
    /// The inode of its pid namespace.
    pub(crate) namespace: u64,
    /// Where the stack of its program begins.
    pub(crate) stack: u64,
}

impl Identity {
    /// Returns this process's identity.
    pub(crate) fn own() -> Self {
        let pid = own_pid();
        let shown = shown_of(pid);
        Self {
            pid,
            start: shown.map_or(0, |shown| shown.start),
            namespace: own_pid_namespace(),
            stack: shown.map_or(0, |shown| shown.stack),
        }
    }

    /// Tells whether the process is still there.
    pub(crate) fn life(self) -> Life {
        if self.namespace == 0 || self.namespace != own_pid_namespace() {
            // Its pid means nothing in this process's namespace.
            return Life::Unknown;
        }
        if self.pid <= 0 {
            return Life::Unknown;
        }
        if !process_exists(self.pid) {
            return Life::Dead;
        }
        match shown_of(self.pid) {
            Some(shown) if self.start != 0 && shown.start == self.start => {
                if shown.is_over || self.has_become_another_program(shown) {
                    Life::Dead
                } else {
                    Life::Alive
                }
            }
            Some(_) if self.start != 0 && counts_from_our_boot(self.pid) => Life::Dead,
            _ => Life::Unknown,
        }
    }

    /// Tells whether the process certainly runs another program. The kernel puts the stack of each
    /// program elsewhere, unless it was told not to.
    fn has_become_another_program(self, shown: Shown) -> bool {
        self.stack != 0 && shown.stack != 0 && shown.stack != self.stack
    }
}

/// Tells whether a process has this pid. `false` where no process has it, or where it is the tid of
/// a thread that is not its process's first; `true` where the kernel does not say.
pub(super) fn is_process(pid: i32) -> bool {
    // SAFETY: takes no pointers.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let error = io::Error::last_os_error();
    match RawFd::try_from(opened) {
        Ok(opened) if opened >= 0 => {
            // SAFETY: just opened, and no other value owns it.
            drop(unsafe { OwnedFd::from_raw_fd(opened) });
            true
        }
        _ => !matches!(
            error.raw_os_error(),
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)
        ),
    }
}

/// Tells whether the kernel ends a process for every system call but the few that
/// `SECCOMP_MODE_STRICT` permits. A thread's first event takes other calls.
pub(super) fn is_strictly_confined(pid: i32) -> bool {
    const STRICT: &str = "1";
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == STRICT)
}

/// Tells whether a process counts time from the same boot as this one. In another time namespace
/// the boot was at another time.
fn counts_from_our_boot(pid: i32) -> bool {
    let theirs = fs::metadata(format!("/proc/{pid}/ns/time"));
    let ours = fs::metadata("/proc/self/ns/time");
    match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => theirs.ino() == ours.ino(),
        // A kernel without such namespaces, or a process of another user.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_there_and_the_same_is_alive() {
        assert_eq!(Identity::own().life(), Life::Alive);
    }

    #[test]
    fn another_process_with_its_pid_proves_its_death() {
        let own = Identity::own();
        let earlier = Identity {
            start: own.start - 1,
            ..own
        };

        assert_eq!(earlier.life(), Life::Dead);
    }

    #[test]
    fn no_process_with_its_pid_proves_its_death() {
        let own = Identity::own();
        let gone = |start| Identity {
            pid: i32::MAX,
            start,
            ..own
        };

        assert_eq!(gone(own.start).life(), Life::Dead);
        assert_eq!(gone(0).life(), Life::Dead);
    }

    #[test]
    fn a_zombie_is_dead_and_a_process_without_its_first_thread_is_not() {
        // SAFETY: the child makes a thread, as a child of glibc's fork() may, and ends by it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(60)));
            // SAFETY: ends this thread alone.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let shown = shown_of(child).unwrap();
        let identity = Identity {
            pid: child,
            start: shown.start,
            ..Identity::own()
        };
        while crate::discover::liveness::state_of(child, child) != Some(b'Z') {
            std::thread::yield_now();
        }
        assert_eq!(identity.life(), Life::Alive);
        // SAFETY: the child of this test.
        unsafe { libc::kill(child, libc::SIGKILL) };
        while identity.life() != Life::Dead {
            std::thread::yield_now();
        }
        // SAFETY: as above; nothing is written.
        let waited = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert_eq!(waited, child);
    }

    #[test]
    fn a_process_that_runs_another_program_is_not_what_it_was() {
        let own = Identity::own();
        let earlier = Identity {
            stack: own.stack + 4096,
            ..own
        };

        assert_eq!(earlier.life(), Life::Dead);
        assert_eq!(Identity { stack: 0, ..own }.life(), Life::Alive);
    }

    #[test]
    fn what_is_not_known_is_no_proof() {
        let own = Identity::own();
        let unknown = [
            // It could not read its own start.
            Identity { start: 0, ..own },
            // It could not find out its namespace, or has another.
            Identity {
                namespace: 0,
                start: own.start - 1,
                ..own
            },
            Identity {
                namespace: own.namespace + 1,
                pid: i32::MAX,
                ..own
            },
            Identity { pid: 0, ..own },
        ];

        for identity in unknown {
            assert_eq!(identity.life(), Life::Unknown, "{identity:?}");
        }
    }
}
