//! File systems that tests need and that not every machine has mounted.
//!
//! The test's thread mounts them in a mount namespace of its own, which the programs that it starts
//! inherit. No other process sees them, and nothing of them is left, however the test ends.

use std::cell::Cell;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// A file system that was mounted for a test. Unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    /// Folder that was made for this mount; `None` for a folder that was there.
    _folder: Option<TempDir>,
}

/// Finds the mount point of a file system for which `is_it` is true, given its kind and its
/// options.
///
/// # Errors
///
/// `/proc/mounts` cannot be read.
pub fn mounted(is_it: impl Fn(&str, &str) -> bool) -> anyhow::Result<Option<PathBuf>> {
    // The mounts of this thread: each thread may have a mount namespace of its own.
    let mounts = fs::read_to_string("/proc/thread-self/mounts")?;
    let found = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, path, kind, options, ..] = words[..] else {
            return None;
        };
        is_it(kind, options).then(|| PathBuf::from(path))
    });
    Ok(found)
}

/// Makes sure that the kernel's tracing files are where tools look for them.
///
/// # Errors
///
/// They cannot be mounted.
pub fn tracefs() -> anyhow::Result<Option<Mount>> {
    match mounted(|kind, _| kind == "tracefs")? {
        Some(_) => Ok(None),
        None => Mount::at("tracefs", "", Path::new("/sys/kernel/tracing"), None).map(Some),
    }
}

/// Hides what is in a folder from this thread and from what it starts.
///
/// # Errors
///
/// It takes root.
pub fn hidden(folder: &Path) -> anyhow::Result<Mount> {
    Mount::at("tmpfs", "", folder, None)
}

/// Gives this thread, and what it starts from now on, a mount namespace of its own, unless it has
/// one already.
///
/// # Errors
///
/// It takes root.
pub fn own_namespace() -> anyhow::Result<()> {
    thread_local! {
        static HAS_OWN: Cell<bool> = const { Cell::new(false) };
    }
    if HAS_OWN.get() {
        return Ok(());
    }
    // SAFETY: takes integers only; a thread may leave what it shares with the others.
    let unshared = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    ensure!(
        unshared == 0,
        "no mount namespace of its own: {}",
        io::Error::last_os_error()
    );
    // All mounts become private: otherwise processes outside would see what this thread mounts.
    make_private(Path::new("/"), libc::MS_REC).or_else(|error| {
        // In a chroot, the root may be a folder inside a mount, and no mount point itself. Then
        // each mount point that is visible is made private.
        ensure!(error.raw_os_error() == Some(libc::EINVAL), error);
        for path in mount_points()? {
            make_private(&path, 0).with_context(|| path.display().to_string())?;
        }
        Ok(())
    })?;
    HAS_OWN.set(true);
    Ok(())
}

fn make_private(path: &Path, recursive: libc::c_ulong) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let (flags, nothing) = (recursive | libc::MS_PRIVATE, ptr::null());
    // SAFETY: the path is a C string; with these flags the kernel looks at no other argument.
    let made = unsafe { libc::mount(nothing, path.as_ptr(), nothing, flags, ptr::null()) };
    if made == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn mount_points() -> anyhow::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts")?;
    let paths = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    Ok(paths.map(PathBuf::from).collect())
}

impl Mount {
    /// Mounts a file system of this kind, with these options, in a folder of its own.
    ///
    /// # Errors
    ///
    /// It cannot be mounted.
    pub fn new(kind: &str, options: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_owned();
        Self::at(kind, options, &path, Some(folder))
    }

    fn at(kind: &str, options: &str, path: &Path, folder: Option<TempDir>) -> anyhow::Result<Self> {
        own_namespace()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", kind]);
        if !options.is_empty() {
            mount.args(["-o", options]);
        }
        let status = mount.arg("none").arg(path).status();
        let status = status.context("cannot run mount")?;
        ensure!(
            status.success(),
            "cannot mount {kind} at {}: {status}",
            path.display()
        );
        Ok(Self {
            path: path.to_owned(),
            _folder: folder,
        })
    }

    /// Returns its mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Detached at once, even where files are still open there: the folder is removed next.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
