//! How many streams a user has in the whole system (`{TRACE_SYS_MAX}`), without a daemon.
//!
//! Every stream holds a record lock on a byte of one file, which belongs to its user alone: no
//! other user can open it, and so no other user can hold all the entries, or make this process wait
//! by a lease. The kernel releases the lock when the process that holds it ends or execs, however
//! that comes about; a forked child does not get the lock. Streams behave in the same way. Where
//! the file is not available (no `/dev/shm`, or another user has taken its name), only the limit of
//! each area counts.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

use tracer_common::area::STREAM_SLOTS;

use tracer_area as area;
use tracer_area::descriptor::Guarded;

/// Name of the file, without the uid of its user. The file is empty.
const PATH: &str = "/dev/shm/posix-trace-streams";

/// Streams that a user may have at once in the whole system: `{TRACE_SYS_MAX}`.
pub const TRACE_SYS_MAX: usize = STREAM_SLOTS;

/// A stream's entry in the count. Dropping it frees the entry.
#[doc(hidden)]
#[derive(Debug)]
pub struct Counted(Option<usize>);

/// `EAGAIN`: there are as many streams as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this user has {TRACE_SYS_MAX} trace streams in the system, and may have no more")]
pub struct TooManyStreams;

impl TooManyStreams {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        libc::EAGAIN
    }
}

/// Entries that this process holds, in atomics: a lock might be held when another thread forks.
struct Held {
    pid: i32,
    file: Guarded<File>,
    entries: [AtomicBool; TRACE_SYS_MAX],
}

/// Entries of this process; those of its parent in a forked child that has not counted yet.
static HELD: AtomicPtr<Held> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the entries that this process holds, if it has counted a stream.
fn held() -> Option<&'static Held> {
    // SAFETY: made by `made_anew`, and never freed.
    let held = unsafe { HELD.load(Acquire).as_ref() }?;
    (held.pid == area::own_pid()).then_some(held)
}

/// Returns the entries with the file open, or `None` where the file is not available.
fn held_open() -> Option<&'static Held> {
    let found = HELD.load(Acquire);
    match held() {
        Some(held) if held.file.get().is_ok() => Some(held),
        // The program has closed the descriptor, and with it all locks are gone.
        Some(held) => made_anew(found, held.taken()),
        None => made_anew(found, [false; TRACE_SYS_MAX]),
    }
}

/// Opens the file for this process, and locks the entries again that it had. The record from before
/// stays as it is: another thread may be using it, or it is the parent's.
fn made_anew(found: *mut Held, taken: [bool; TRACE_SYS_MAX]) -> Option<&'static Held> {
    let file = Guarded::new(open().ok()?).ok()?;
    for (entry, _) in taken.iter().enumerate().filter(|(_, is_taken)| **is_taken) {
        // Another process may have taken the entry: then there is one stream too many, which cannot
        // be undone.
        let _ = lock(file.get().ok()?, entry, libc::F_WRLCK);
    }
    let held = Box::into_raw(Box::new(Held {
        pid: area::own_pid(),
        file,
        entries: taken.map(AtomicBool::new),
    }));
    // If another thread was faster, this thread's file stays open: closing it would end the locks
    // of both.
    let _faster = HELD.compare_exchange(found, held, AcqRel, Acquire);
    self::held()
}

impl Held {
    fn taken(&self) -> [bool; TRACE_SYS_MAX] {
        std::array::from_fn(|entry| {
            self.entries
                .get(entry)
                .is_some_and(|is_taken| is_taken.load(Acquire))
        })
    }

    /// Takes a free entry; `None` where all are taken.
    fn take(&self) -> io::Result<Option<usize>> {
        let file = self.file.get()?;
        for (entry, is_taken) in self.entries.iter().enumerate() {
            // The kernel would grant this process a lock that it has already.
            if is_taken.swap(true, AcqRel) {
                continue;
            }
            match lock(file, entry, libc::F_WRLCK) {
                Ok(()) => return Ok(Some(entry)),
                Err(error) => {
                    is_taken.store(false, Release);
                    if !is_taken_by_another(&error) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(None)
    }
}

impl Counted {
    /// Counts a stream of this process.
    ///
    /// # Errors
    ///
    /// See [`TooManyStreams`].
    pub fn new() -> Result<Self, TooManyStreams> {
        let Some(held) = held_open() else {
            return Ok(Self(None));
        };
        match held.take() {
            Ok(Some(entry)) => Ok(Self(Some(entry))),
            Ok(None) => Err(TooManyStreams),
            // The file system has no locks.
            Err(_) => Ok(Self(None)),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(entry) = self.0
            && let Some(held) = held()
            && let Some(is_taken) = held.entries.get(entry)
        {
            // If the program has closed the descriptor, the lock is gone too.
            if let Ok(file) = held.file.get() {
                let _ = lock(file, entry, libc::F_UNLCK);
            }
            is_taken.store(false, Release);
        }
    }
}

fn open() -> io::Result<File> {
    // SAFETY: the call has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    open_own(&format!("{PATH}-{user}"), user)
}

/// Opens the file of this user, or makes it. Another user may have put anything there: a link, a
/// FIFO, a file with a lease on it. The call neither uses these nor waits for them.
fn open_own(path: &str, user: u32) -> io::Result<File> {
    let options = |creates| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(creates);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        options.custom_flags(flags).mode(0o600);
        options.open(path)
    };
    // In two steps: in a shared folder, the kernel may refuse to open another user's file with
    // `O_CREAT`.
    let opened = match options(false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match options(true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options(false),
            made => made,
        },
        other => other,
    };
    let file = opened?;
    let metadata = file.metadata()?;
    let is_own = metadata.is_file() && metadata.uid() == user && metadata.mode() & 0o077 == 0;
    if is_own {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn lock(file: &File, entry: usize, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: a lock's description is plain integers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    lock.l_start = libc::off_t::try_from(entry).unwrap_or_default();
    lock.l_len = 1;
    // SAFETY: a valid object.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

fn is_taken_by_another(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, Instant};

    use super::*;

    fn own() -> u32 {
        // SAFETY: the call has no preconditions and cannot fail.
        unsafe { libc::geteuid() }
    }

    #[test]
    fn the_file_is_its_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("streams");
        let path = path.to_str().unwrap();
        for _ in 0..2 {
            let file = open_own(path, own()).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn what_others_have_put_there_is_neither_used_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let shared = path("shared");
        fs::write(&shared, "").unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o666)).unwrap();
        let link = path("link");
        symlink("/dev/zero", &link).unwrap();
        let fifo = std::ffi::CString::new(path("fifo")).unwrap();
        // SAFETY: the name ends with a null.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);

        let start = Instant::now();
        for path in [shared, link, fifo.into_string().unwrap()] {
            assert!(open_own(&path, own()).is_err(), "{path}");
        }
        // This stands for a file of another user.
        assert!(open_own(&path("theirs"), own() + 1).is_err());
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
