//! The kernel's tracing files (tracefs).
//!
//! Where tracefs is not mounted, this process mounts it for itself alone: without a name in any
//! mount namespace, and until the descriptor is closed. Where tracefs is mounted already, this
//! process uses that mount: on some kernels, a second mount would change the options of the first
//! one.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

/// Usual mount points.
const USUAL: [&CStr; 2] = [c"/sys/kernel/tracing", c"/sys/kernel/debug/tracing"];

/// Most bytes of a file that are read. The kernel's files have some thousand.
const MOST_BYTES: u64 = 256 << 10;

/// The folder of the tracepoints.
#[derive(Debug)]
pub struct Tracefs {
    events: PathBuf,
    /// Own mount, where tracefs was not mounted yet.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds the files.
    ///
    /// # Errors
    ///
    /// They are not there, or this process may not read them.
    pub fn open() -> io::Result<Self> {
        if let Some(usual) = USUAL.into_iter().find(|path| is_tracefs(path)) {
            let events = Path::new(usual.to_str().unwrap_or_default()).join("events");
            // Usually only root may read the folder.
            fs::read_dir(&events)?;
            return Ok(Self {
                events,
                _mount: None,
            });
        }
        let mount = mounted()?;
        Ok(Self {
            events: format!("/proc/self/fd/{}/events", mount.as_raw_fd()).into(),
            _mount: Some(mount),
        })
    }

    /// Returns the names of the categories or, where one is given, of the tracepoints in it.
    ///
    /// # Errors
    ///
    /// The folder is not there.
    pub fn folders(&self, category: Option<&str>) -> io::Result<Vec<String>> {
        let folder = match category {
            None => self.events.clone(),
            Some(category) => self.events.join(category),
        };
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir()
                && let Ok(name) = entry.file_name().into_string()
            {
                folders.push(name);
            }
        }
        folders.sort_unstable();
        Ok(folders)
    }

    /// Reads the kernel's description of a tracepoint.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn format(&self, category: &str, name: &str) -> io::Result<String> {
        let path = self.events.join(category).join(name).join("format");
        let mut text = String::new();
        let file = File::open(path)?;
        file.take(MOST_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }
}

fn is_tracefs(path: &CStr) -> bool {
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path is a C string, and `found` has the size of what is written.
    let failed = unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) };
    // SAFETY: all-zero bytes are valid, and so is what the kernel writes.
    let found = unsafe { found.assume_init() };
    // The field is signed in some C libraries, and unsigned in others.
    failed == 0 && i128::from(found.f_type) == i128::from(libc::TRACEFS_MAGIC)
}

/// Mounts tracefs without a name.
fn mounted() -> io::Result<OwnedFd> {
    const CLOEXEC: libc::c_uint = 1;
    const CREATE: libc::c_uint = 6;
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a C string.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOEXEC) };
    let context = descriptor(context)?;
    let fd = context.as_raw_fd();
    // SAFETY: this command takes neither a key nor a value.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, fd, CREATE, nothing, nothing, 0) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes integers only.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, fd, CLOEXEC, 0) })
}

fn descriptor(returned: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(returned) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
