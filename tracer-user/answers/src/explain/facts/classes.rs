//! Kinds of waits, by the system call that a thread is in and what it was given.

use tracer_analysis::{CallKey, Inside, Reason};

use crate::queries::words::call_name;

/// Kind of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitClass {
    /// None of those below, or not known.
    #[default]
    Other,
    /// A lock of a program (`futex()`): its value says that others want it too.
    Lock,
    /// Such a lock, for which the thread waits with a time limit.
    TimedLock,
    /// A lock of a file.
    FileLock,
    /// A futex of which it is not known whether it is a lock.
    Futex,
    /// A futex for which the thread waits with a time limit.
    TimedFutex,
    /// The end of another thread.
    Join,
    /// The end, or the exec, of a child.
    Child,
    /// Its own pause.
    Sleep,
    /// The arrival of written data on the disk.
    Sync,
    /// A file.
    File,
    /// A pipe.
    Pipe,
    /// A socket, or something that comes over one.
    Socket,
    /// A connection.
    Connect,
    /// An answer of a name server.
    Dns,
    /// Several things at a time: whatever comes first.
    Poll,
    /// Requests that it has handed to the kernel.
    Requests,
    /// A signal.
    Signal,
}

/// System calls whose kind their name says.
const BY_NAME: &[(WaitClass, &[&str])] = &[
    (
        WaitClass::Child,
        &["wait4", "waitid", "waitpid", "vfork", "clone", "clone3"],
    ),
    (
        WaitClass::Sleep,
        &["nanosleep", "clock_nanosleep", "clock_nanosleep_time64"],
    ),
    (
        WaitClass::Sync,
        &[
            "fsync",
            "fdatasync",
            "sync",
            "syncfs",
            "msync",
            "sync_file_range",
        ],
    ),
    (WaitClass::Connect, &["connect"]),
    (
        WaitClass::Socket,
        &[
            "accept", "accept4", "recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg",
            "sendmmsg", "shutdown",
        ],
    ),
    (
        WaitClass::Poll,
        &[
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "_newselect",
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
        ],
    ),
    (
        WaitClass::Requests,
        &["io_uring_enter", "io_getevents", "io_pgetevents"],
    ),
    (
        WaitClass::Signal,
        &["pause", "rt_sigsuspend", "rt_sigtimedwait", "sigsuspend"],
    ),
    (WaitClass::FileLock, &["flock"]),
    (
        WaitClass::File,
        &[
            "open",
            "openat",
            "openat2",
            "getdents64",
            "unlink",
            "unlinkat",
            "rename",
            "renameat2",
            "ftruncate",
            "fallocate",
            "stat",
            "newfstatat",
            "statx",
            "close",
            "mkdir",
            "rmdir",
        ],
    ),
];

/// Calls that have a descriptor first, and of which only that says what they wait for.
const BY_DESCRIPTOR: &[&str] = &[
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "sendfile",
    "splice",
    "copy_file_range",
];

/// Commands of `fcntl()` that wait for a lock: `F_SETLKW`, `F_OFD_SETLKW`, `F_SETLKW64`.
const WAIT_FOR_LOCK: [u64; 3] = [7, 38, 14];

/// Returns the kind of a wait in this system call with these arguments; without them, as far as the
/// call alone says it.
#[must_use]
pub fn of_call(key: CallKey, args: Option<&[u64; 6]>) -> WaitClass {
    let name = call_name(key);
    match (name.as_str(), args) {
        ("futex" | "futex_time64" | "futex_wait" | "futex_waitv", args) => {
            args.map_or(WaitClass::Futex, |args| of_futex(&name, args))
        }
        ("fcntl" | "fcntl64", Some([_, command, ..])) if WAIT_FOR_LOCK.contains(command) => {
            WaitClass::FileLock
        }
        ("poll" | "ppoll", Some([_, 0, ..])) => WaitClass::Sleep,
        ("select" | "pselect6" | "_newselect", Some([0, ..])) => WaitClass::Sleep,
        (name, _) => {
            let of = BY_NAME.iter().find(|(_, names)| names.contains(&name));
            of.map_or(WaitClass::Other, |(class, _)| *class)
        }
    }
}

/// Tells whether the first argument of this call is the descriptor that says what it waits for.
#[must_use]
pub fn is_by_descriptor(key: CallKey) -> bool {
    let name = call_name(key);
    BY_DESCRIPTOR.contains(&name.as_str())
}

/// Returns the kind of a wait for a futex.
///
/// The C libraries' mutexes, and those of Rust's library, have the value 2 where others want them
/// too; locks for readers and writers 2 or 3. A thread that is joined has its tid there.
fn of_futex(name: &str, [_, op, value, timeout, ..]: &[u64; 6]) -> WaitClass {
    const COMMAND: u64 = 0x7f;
    const PRIVATE: u64 = 0x80;
    if !name.starts_with("futex") || name.starts_with("futex_wait") {
        return WaitClass::Futex;
    }
    let value = value & 0xffff_ffff;
    match (op & COMMAND, value) {
        // LOCK_PI, LOCK_PI2, and WAIT, WAIT_BITSET
        (6 | 13, _) | (0 | 9, 2 | 3) if *timeout != 0 => WaitClass::TimedLock,
        (6 | 13, _) | (0 | 9, 2 | 3) => WaitClass::Lock,
        (9, tid) if op & PRIVATE == 0 && tid > 3 && *timeout == 0 => WaitClass::Join,
        (0 | 9, _) if *timeout != 0 => WaitClass::TimedFutex,
        _ => WaitClass::Futex,
    }
}

impl WaitClass {
    /// Returns the kind of a wait for this reason, where nothing else is known of it.
    #[must_use]
    pub fn of_reason(reason: Reason) -> Self {
        match reason.inside {
            Inside::Call(key) => of_call(key, None),
            Inside::Unknown | Inside::Fault | Inside::Exit | Inside::Kernel => Self::Other,
        }
    }

    /// Tells whether it is a lock of a program.
    #[must_use]
    pub fn is_lock(self) -> bool {
        matches!(self, Self::Lock | Self::TimedLock)
    }

    /// Tells whether such a wait has a time limit: it ends.
    #[must_use]
    pub fn has_limit(self) -> bool {
        matches!(self, Self::Sleep | Self::TimedFutex | Self::TimedLock)
    }

    /// Tells whether programs wait so for something to do: such a wait is no sign that anything is
    /// slow.
    #[must_use]
    pub fn is_for_work(self) -> bool {
        matches!(
            self,
            Self::Poll | Self::Socket | Self::Pipe | Self::Signal | Self::Futex | Self::TimedFutex
        )
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn futexes_are_locks_by_the_value_with_which_they_are_waited_for() {
        let futex = |op, value, timeout| {
            of_call(
                CallKey::new(false, 202),
                Some(&[0x1000, op, value, timeout, 0, 0]),
            )
        };
        assert_eq!(futex(0x80, 2, 0), WaitClass::Lock, "a mutex");
        assert_eq!(futex(0x189, 2, 0x2000), WaitClass::TimedLock, "for a time");
        assert_eq!(
            futex(0x86, 0, 0),
            WaitClass::Lock,
            "one that inherits priorities"
        );
        assert_eq!(futex(0x189, 0, 0), WaitClass::Futex, "a condition variable");
        assert_eq!(futex(0x189, 0, 0x2000), WaitClass::TimedFutex);
        assert_eq!(futex(0x109, 4711, 0), WaitClass::Join);
    }

    #[test]
    fn calls_are_told_apart_by_what_they_are_given() {
        let of = |nr, args| of_call(CallKey::new(false, nr), Some(&args));
        assert_eq!(of(72, [3, 7, 0, 0, 0, 0]), WaitClass::FileLock, "F_SETLKW");
        assert_eq!(of(72, [3, 6, 0, 0, 0, 0]), WaitClass::Other, "F_SETLK");
        assert_eq!(
            of(7, [0, 0, 100, 0, 0, 0]),
            WaitClass::Sleep,
            "poll() of nothing"
        );
        assert_eq!(of(7, [9, 1, 100, 0, 0, 0]), WaitClass::Poll);
        assert_eq!(of(230, [0; 6]), WaitClass::Sleep);
        assert_eq!(of_call(CallKey::new(false, 75), None), WaitClass::Sync);
    }
}
