//! A file that was made for a trace which may not begin.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that was made just now; removed when this is dropped, unless it is to stay. So a trace
/// that could not begin leaves no file that would be in the way of the next attempt.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    /// Device and inode: the name may lead to another file by then.
    identity: Option<(u64, u64)>,
}

impl NewFile {
    /// Returns the file at `path`, which is this one.
    pub fn new(path: &Path, file: &File) -> Self {
        Self {
            path: path.to_owned(),
            identity: file.metadata().ok().as_ref().map(identity),
        }
    }

    /// Lets the file stay.
    pub fn keep(mut self) {
        self.identity = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).ok();
        if self.identity.is_some() && there.as_ref().map(identity) == self.identity {
            // The failure that brought us here is what is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(data: &Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_unless_it_is_to_stay_or_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        drop(NewFile::new(&path, &File::create(&path).unwrap()));
        assert!(!path.exists());
        NewFile::new(&path, &File::create(&path).unwrap()).keep();
        assert!(path.exists());
        let file = NewFile::new(&path, &File::open(&path).unwrap());
        fs::rename(&path, folder.path().join("old")).unwrap();
        fs::write(&path, "another").unwrap();
        drop(file);
        assert!(path.exists());
    }
}
