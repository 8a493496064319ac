//! File systems that tests need and that not every machine has mounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use tempfile::TempDir;

/// A file system that was mounted for a test. Unmounted when dropped.
pub struct Mount {
    path: PathBuf,
    /// The folder, where it was made for this.
    _folder: Option<TempDir>,
}

/// Where a file system is mounted of which `is_it` is true, given its kind and its options.
///
/// # Errors
///
/// `/proc/mounts` cannot be read.
pub fn mounted(is_it: impl Fn(&str, &str) -> bool) -> anyhow::Result<Option<PathBuf>> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let found = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, place, kind, options, ..] = words[..] else {
            return None;
        };
        is_it(kind, options).then(|| PathBuf::from(place))
    });
    Ok(found)
}

/// Sees to it that the kernel's tracing files are where tools look for them.
///
/// # Errors
///
/// They cannot be mounted.
pub fn tracefs() -> anyhow::Result<Option<Mount>> {
    match mounted(|kind, _| kind == "tracefs")? {
        Some(_) => Ok(None),
        None => Mount::at("tracefs", Path::new("/sys/kernel/tracing"), None).map(Some),
    }
}

impl Mount {
    /// Mounts a file system of this kind in a folder of its own.
    ///
    /// # Errors
    ///
    /// It cannot be mounted.
    pub fn new(kind: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_owned();
        Self::at(kind, &path, Some(folder))
    }

    fn at(kind: &str, path: &Path, folder: Option<TempDir>) -> anyhow::Result<Self> {
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", kind, "none"]).arg(path).status()?;
        ensure!(
            status.success(),
            "cannot mount {kind} at {}",
            path.display()
        );
        Ok(Self {
            path: path.to_owned(),
            _folder: folder,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}
