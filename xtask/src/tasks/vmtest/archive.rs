//! Root file system as a `cpio` archive, which a kernel takes as its first one.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use cpio::newc::{self, ModeFileType};

/// Entry at a path.
enum Entry {
    Folder,
    File { content: Vec<u8>, mode: u32 },
}

/// Tree that becomes an archive. Paths are absolute, as they are on the machine that boots.
pub struct Archive {
    /// Entries by path without the leading slash; a folder sorts before its contents.
    entries: BTreeMap<PathBuf, Entry>,
}

impl Archive {
    /// Creates an empty tree.
    pub fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
        }
    }

    /// Adds an empty folder and those above it.
    pub fn folder(&mut self, path: impl AsRef<Path>) -> anyhow::Result<()> {
        self.insert(path.as_ref(), Entry::Folder)
    }

    /// Adds a file and the folders above it.
    pub fn file(
        &mut self,
        path: impl AsRef<Path>,
        mode: u32,
        content: impl Into<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let content = content.into();
        self.insert(path.as_ref(), Entry::File { content, mode })
    }

    fn insert(&mut self, path: &Path, entry: Entry) -> anyhow::Result<()> {
        let path = inside(path)?;
        for folder in path
            .ancestors()
            .skip(1)
            .filter(|path| *path != Path::new(""))
        {
            match self.entries.get(folder) {
                None => {
                    self.entries.insert(folder.to_owned(), Entry::Folder);
                }
                Some(Entry::Folder) => {}
                Some(_) => bail!("/{} is no folder", folder.display()),
            }
        }
        self.entries.insert(path, entry);
        Ok(())
    }

    /// Returns the archive in the format `newc`.
    pub fn into_bytes(self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (inode, (path, entry)) in (1..).zip(&self.entries) {
            let name = path.to_str().context("a path that is not UTF-8")?;
            let (kind, mode, content) = match entry {
                Entry::Folder => (ModeFileType::Directory, 0o755, &[][..]),
                Entry::File { content, mode } => (ModeFileType::Regular, *mode, &content[..]),
            };
            let size =
                u32::try_from(content.len()).with_context(|| format!("{name} is too large"))?;
            // A number of its own for each, or the kernel takes them for one file.
            let builder = newc::Builder::new(name).ino(inode).mode(mode);
            let mut writer = builder.set_mode_file_type(kind).write(&mut bytes, size);
            writer.write_all(content)?;
            writer.finish()?;
        }
        newc::trailer(&mut bytes)?;
        Ok(bytes)
    }
}

/// Removes the leading slash of a path.
fn inside(path: &Path) -> anyhow::Result<PathBuf> {
    let inner = path
        .strip_prefix("/")
        .with_context(|| format!("{} is not absolute", path.display()))?;
    let is_plain = inner
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    ensure!(
        is_plain && inner != Path::new(""),
        "{} is no plain path",
        path.display()
    );
    Ok(inner.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Returns name, mode with its type, and content of each entry.
    fn read_back(bytes: &[u8]) -> Vec<(String, u32, String)> {
        let mut entries = Vec::new();
        let mut rest = bytes;
        loop {
            let mut reader = newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return entries;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut content = String::new();
            reader.read_to_string(&mut content).unwrap();
            entries.push((name, mode, content));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut archive = Archive::new();
        archive.file("/a/b/c", 0o755, "abc").unwrap();
        archive.folder("/proc").unwrap();

        let entries = read_back(&archive.into_bytes().unwrap());

        let entry = |name: &str, mode, content: &str| (name.to_owned(), mode, content.to_owned());
        assert_eq!(
            entries,
            [
                entry("a", 0o40755, ""),
                entry("a/b", 0o40755, ""),
                entry("a/b/c", 0o100755, "abc"),
                entry("proc", 0o40755, ""),
            ]
        );
    }

    #[test]
    fn an_archive_has_the_magic_of_its_format_and_whole_words() {
        let mut archive = Archive::new();
        archive.file("/odd", 0o644, "abc").unwrap();
        let bytes = archive.into_bytes().unwrap();
        assert!(bytes.starts_with(b"070701"));
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn paths_that_lead_out_or_through_a_file_are_refused() {
        let mut archive = Archive::new();
        archive.file("/a", 0o644, "").unwrap();

        assert!(archive.file("/a/b", 0o644, "").is_err());
        assert!(archive.file("/../b", 0o644, "").is_err());
        assert!(archive.file("b", 0o644, "").is_err());
        assert!(archive.folder("/").is_err());
    }
}
