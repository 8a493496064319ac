//! Snapshots of a flight recorder: logs that are complete, the newest under `.1`, the one before it
//! under `.2`, and so on, as logrotate names them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the name of the snapshot before `index - 1` others.
#[must_use]
pub fn path(log: &Path, index: u32) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(format!(".{index}"));
    name.into()
}

/// Makes the log the newest of `most` snapshots; the oldest one is removed.
///
/// # Errors
///
/// A file cannot be renamed. The others have their old names or their new ones.
pub fn rotate(log: &Path, most: u32) -> io::Result<()> {
    for index in (1..most).rev() {
        rename(&path(log, index), &path(log, index + 1))?;
    }
    fs::rename(log, path(log, 1))
}

/// Renames as `fs::rename`, but a missing file is no failure.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_were_asked_for_and_the_newest_is_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("ring");
        for content in ["a", "b", "c", "d"] {
            fs::write(&log, content).unwrap();
            rotate(&log, 3).unwrap();
        }
        let content = |index| fs::read_to_string(path(&log, index)).unwrap();
        assert_eq!([1, 2, 3].map(content), ["d", "c", "b"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        assert!(rotate(&log, 3).is_err());
    }

    #[test]
    fn one_snapshot_is_replaced_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("ring");
        for content in ["a", "b"] {
            fs::write(&log, content).unwrap();
            rotate(&log, 1).unwrap();
        }
        assert_eq!(fs::read_to_string(path(&log, 1)).unwrap(), "b");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
