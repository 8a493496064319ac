//! How many streams there are in the whole system (`{TRACE_SYS_MAX}`), without a daemon.
//!
//! Every stream holds a record lock on a byte of one file that everybody may write. The kernel lets
//! go of such locks when the process that holds them ends or execs, however that comes about, and a forked child does
//! not get them: just as it is with streams. Where the file cannot be had (no `/dev/shm`), only the
//! limit of each area counts.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::sync::{Mutex, PoisonError};

use tracer_common::area::STREAM_SLOTS;

/// The file. Nothing is in it.
const PATH: &str = "/dev/shm/posix-trace-streams";

/// Streams that may exist at once in the whole system: `{TRACE_SYS_MAX}`.
pub const TRACE_SYS_MAX: usize = STREAM_SLOTS;

/// A stream's place in the count. Given back when dropped.
#[derive(Debug)]
pub struct Counted(Option<usize>);

/// `EAGAIN`: there are as many streams as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{TRACE_SYS_MAX} trace streams exist in the system, and no more may")]
pub struct TooManyStreams;

/// What this process holds. In a forked child it is the parent's.
struct Held {
    pid: u32,
    file: File,
    places: [bool; TRACE_SYS_MAX],
}

static HELD: Mutex<Option<Held>> = Mutex::new(None);

impl Counted {
    /// Counts a stream of this process.
    ///
    /// # Errors
    ///
    /// See [`TooManyStreams`].
    pub fn new() -> Result<Self, TooManyStreams> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let own_pid = std::process::id();
        if held.as_ref().is_none_or(|held| held.pid != own_pid) {
            // The parent's file is not closed here: the number may be somebody else's by now.
            std::mem::forget(held.take());
            *held = open().ok().map(|file| Held {
                pid: own_pid,
                file,
                places: [false; TRACE_SYS_MAX],
            });
        }
        let Some(Held { file, places, .. }) = held.as_mut() else {
            return Ok(Self(None));
        };
        for (place, is_held) in places.iter_mut().enumerate() {
            // A lock that this process has it would be given again.
            if *is_held {
                continue;
            }
            match lock(file, place, libc::F_WRLCK) {
                Ok(()) => {
                    *is_held = true;
                    return Ok(Self(Some(place)));
                }
                Err(error) if is_taken(&error) => {}
                // A file system without locks.
                Err(_) => return Ok(Self(None)),
            }
        }
        Err(TooManyStreams)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = self.0
            && let Some(held) = held.as_mut()
            && held.pid == std::process::id()
            && let Some(is_held) = held.places.get_mut(place)
        {
            *is_held = false;
            // The descriptor was closed behind our back: the lock is gone as well.
            let _ = lock(&held.file, place, libc::F_UNLCK);
        }
    }
}

fn open() -> io::Result<File> {
    let options = |creates| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(creates);
        options.custom_flags(libc::O_NOFOLLOW).mode(0o666);
        options.open(PATH)
    };
    // In two steps: the kernel may refuse to open another user's file in a shared folder where
    // it might have to be made.
    match options(false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    match options(true) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(0o666))?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options(false),
        Err(error) => Err(error),
    }
}

fn lock(file: &File, place: usize, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: a lock's description is plain numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    lock.l_start = libc::off_t::try_from(place).unwrap_or_default();
    lock.l_len = 1;
    // SAFETY: a valid object.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}
