//! Texts of the licences in the crates' folders. The repository has them once: they are there only
//! while crates are packaged.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Crate;
use crate::workspace;

/// Names of the texts, in the top folder and in each crate.
pub const TEXTS: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Links that are removed when this value is dropped.
pub struct Texts(Vec<PathBuf>);

impl Texts {
    /// Puts links to the texts into the folder of each crate: cargo packages what they lead to.
    pub fn put_into(crates: &[Crate]) -> anyhow::Result<Self> {
        let mut texts = Self(Vec::new());
        for one in crates {
            let folder = one.manifest_path.parent().context("a manifest's folder")?;
            for name in TEXTS {
                texts.link(&workspace::root().join(name), folder.join(name))?;
            }
        }
        Ok(texts)
    }

    fn link(&mut self, text: &Path, place: PathBuf) -> anyhow::Result<()> {
        match symlink(text, &place) {
            Ok(()) => self.0.push(place),
            // Of a task that was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && place.is_symlink() => {
                self.0.push(place);
            }
            Err(error) => return Err(error).with_context(|| place.display().to_string()),
        }
        Ok(())
    }
}

impl Drop for Texts {
    fn drop(&mut self) {
        for place in &self.0 {
            let _ = fs::remove_file(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_there_while_they_are_needed() {
        let folder = workspace::target("tmp/texts");
        fs::create_dir_all(&folder).unwrap();
        let place = folder.join("LICENSE-MIT");
        let text = workspace::root().join("LICENSE-MIT");

        for _ in 0..2 {
            let mut texts = Texts(Vec::new());
            texts.link(&text, place.clone()).unwrap();
            assert_eq!(fs::read(&place).unwrap(), fs::read(&text).unwrap());
            drop(texts);
            assert!(!place.exists());
        }
        // A file that another user has put there stays.
        fs::write(&place, "own").unwrap();
        assert!(Texts(Vec::new()).link(&text, place.clone()).is_err());
        assert_eq!(fs::read(&place).unwrap(), b"own");
        fs::remove_file(&place).unwrap();
    }
}
