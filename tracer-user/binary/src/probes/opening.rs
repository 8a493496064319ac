//! Opening files that others have put where we look: what is no ordinary file is not opened, and
//! none can make us wait.
//!
//! Opening a FIFO waits for a process at its other end, a device may do anything, a terminal
//! without a session becomes the terminal of our session, and a file with a lease on it makes us
//! wait for as long as the holder may take to answer. So a file is first held without being opened
//! (`O_PATH`), looked at, and then opened through that same descriptor: it cannot become another
//! one in between. A file that another user's program serves is not asked for either
//! ([`fuse_check`](super::fuse_check)).
//!
//! Reading of a file that any user may have made: no part of it, and not all parts together, take
//! all of the memory.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::ReadRef;

use super::fuse_check::{Unsafe, ensure_unserved, sees_served_mounts};
use crate::bounded_proc;

/// Opens the ordinary file at `path` for reading.
///
/// # Errors
///
/// It cannot be opened at once, or had better not be (`Unsafe`).
pub fn open_ordinary(path: &Path) -> io::Result<File> {
    let path = std::path::absolute(path)?;
    let held = match process_of(&path) {
        None => hold(Path::new("/"), &path, 0),
        Some(pid) => {
            let path = path.clone();
            bounded_proc::before_tracing(pid, move || hold(Path::new("/"), &path, 0))?
        }
    };
    open_held(&held?, &path)
}

/// Opens a file as [`open_ordinary`] does, where `path` is one of a process whose root is `root`:
/// its links, and `..`, do not lead out of there. Where another user serves one of its mounts, no
/// name leads into another mount than its root's: the server would be asked for the rest of the
/// name.
///
/// # Errors
///
/// See [`open_ordinary`].
pub fn open_ordinary_below(root: &Path, path: &Path) -> io::Result<File> {
    let stays = if sees_served_mounts(root) {
        libc::RESOLVE_NO_XDEV
    } else {
        0
    };
    open_held(&hold(root, path, libc::RESOLVE_IN_ROOT | stays)?, root)
}

/// Returns the process in whose folder of `/proc` a path is: it may keep the kernel from following
/// it.
fn process_of(path: &Path) -> Option<i32> {
    let mut parts = path.strip_prefix("/proc").ok()?.components();
    parts.next()?.as_os_str().to_str()?.parse().ok()
}

/// Takes hold of a file without opening it.
fn hold(root: &Path, path: &Path, resolve: u64) -> io::Result<OwnedFd> {
    let root = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(root)?;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all-zero bytes are valid.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from((libc::O_PATH | libc::O_CLOEXEC).cast_unsigned());
    how.resolve = resolve;
    // SAFETY: the path ends with a null, and `how` is valid for the size that the call is given.
    let held = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    let held = i32::try_from(held).ok().filter(|held| *held >= 0);
    let held = held.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: it was opened just now, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(held) })
}

/// Opens what is held, if it is an ordinary file.
fn open_held(held: &OwnedFd, path: &Path) -> io::Result<File> {
    ensure_unserved(held, path)?;
    let metadata = File::from(held.try_clone()?).metadata()?;
    if !metadata.is_file() {
        return Err(Unsafe::NoOrdinaryFile.into());
    }
    File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

/// Bytes of a file that are read in all, at one time. The tables of a browser with all its symbols
/// have less; a sparse file claims any size for nothing.
pub const MOST_BYTES: u64 = 128 << 20;

/// Bytes of a name.
const MOST_NAME_BYTES: u64 = 64 << 10;

/// Bytes that may still be read.
#[derive(Debug)]
pub struct ReadBudget {
    left: Cell<u64>,
    is_exceeded: Cell<bool>,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self {
            left: Cell::new(MOST_BYTES),
            is_exceeded: Cell::new(false),
        }
    }
}

impl ReadBudget {
    /// Tells whether more was asked for than may be read.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }

    fn spend(&self, bytes: u64) -> Result<(), ()> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.is_exceeded.set(true);
                Err(())
            }
        }
    }
}

/// File of which no more is read than the budget allows.
#[derive(Clone, Copy, Debug)]
pub struct Bounded<'b, R> {
    file: R,
    budget: &'b ReadBudget,
}

impl<'b, R> Bounded<'b, R> {
    /// Reads `file` within the budget.
    pub fn new(file: R, budget: &'b ReadBudget) -> Self {
        Self { file, budget }
    }
}

impl<'a, R: ReadRef<'a>> ReadRef<'a> for Bounded<'a, R> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // Beyond the end is nothing, and costs nothing.
        let end = offset.checked_add(size).ok_or(())?;
        if end > self.file.len()? {
            return Err(());
        }
        self.budget.spend(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let end = range.end.min(range.start.saturating_add(MOST_NAME_BYTES));
        let found = self.file.read_bytes_at_until(range.start..end, delimiter)?;
        self.budget.spend(found.len() as u64)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use object::read::ReadCache;

    use super::*;

    #[test]
    fn what_is_no_ordinary_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let name = std::ffi::CString::new(fifo.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a null.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let link = folder.path().join("link");
        symlink("/dev/zero", &link).unwrap();

        let start = Instant::now();
        for path in [&*fifo, &*link, folder.path(), Path::new("/dev/tty")] {
            assert!(open_ordinary(path).is_err(), "{}", path.display());
        }
        let error = open_ordinary(&fifo).unwrap_err();
        assert_eq!(error.to_string(), Unsafe::NoOrdinaryFile.to_string());
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_lease_does_not_hold_us_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leased");
        fs::write(&path, "x").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        // The signal that announces the end of the lease would end this process.
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        // SAFETY: takes integers only.
        let leased = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
        assert_eq!(leased, 0, "{}", io::Error::last_os_error());

        let start = Instant::now();
        let error = open_ordinary(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn links_do_not_lead_out_of_a_root() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/passwd"), "theirs").unwrap();
        symlink("/etc/passwd", folder.path().join("link")).unwrap();
        symlink("../../../../etc/passwd", folder.path().join("up")).unwrap();
        for name in ["link", "/link", "up", "etc/passwd"] {
            let mut text = String::new();
            let mut file = open_ordinary_below(folder.path(), Path::new(name)).unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "theirs", "{name}");
        }
    }

    #[test]
    fn parts_that_are_too_large_together_are_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MOST_BYTES * 100).unwrap();
        let cache = ReadCache::new(&file);
        let budget = ReadBudget::default();
        let bounded = Bounded::new(&cache, &budget);

        assert_eq!(bounded.read_bytes_at(MOST_BYTES * 99, 4), Ok(&[0; 4][..]));
        assert!(bounded.read_bytes_at(MOST_BYTES * 100, 4).is_err());
        assert!(!budget.is_exceeded());
        assert!(bounded.read_bytes_at(0, MOST_BYTES).is_err());
        assert!(budget.is_exceeded());
    }
}
