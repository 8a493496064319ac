//! Where lines go: a file or the standard output.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::own_file;
use crate::trace::PatientFile;

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Where lines go.
pub struct Output {
    file: PatientFile,
    place: String,
    /// Whether people look at it as it is written.
    is_terminal: bool,
    pending: Vec<u8>,
}

impl Output {
    /// The file at `path`, or the standard output.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or is the log at `input`, which it would replace.
    pub fn open(path: Option<&Path>, input: &Path) -> anyhow::Result<Self> {
        let (file, place) = match path {
            Some(path) => {
                ensure!(
                    !is_same_file(path, input),
                    "{} is the log itself, and would be lost; give --output another name",
                    path.display()
                );
                let file = own_file::create(path)
                    .with_context(|| format!("cannot write to {}", path.display()))?;
                (file, path.display().to_string())
            }
            None => {
                let stdout = io::stdout().as_fd().try_clone_to_owned();
                let stdout = stdout.context("cannot write to the standard output")?;
                (File::from(stdout), "the standard output".to_owned())
            }
        };
        Ok(Self {
            is_terminal: file.is_terminal(),
            file: PatientFile(file),
            place,
            pending: Vec::with_capacity(CHUNK_BYTES),
        })
    }

    /// Colours are for terminals, and for people who have not said that they want none.
    #[must_use]
    pub fn is_coloured(&self) -> bool {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.is_terminal && !is_unwanted
    }

    /// The lines to be written, for more to be appended.
    pub fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Writes when there is much to write.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        if self.pending.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes whatever there is.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        let written = self.file.write_all(&self.pending);
        self.pending.clear();
        written.with_context(|| format!("cannot write to {}", self.place))
    }
}

/// Whether both name one file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    of(one).is_some_and(|one| of(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_itself_is_never_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let link = folder.path().join("link");
        fs::write(&log, "precious").unwrap();
        std::os::unix::fs::symlink(&log, &link).unwrap();

        for output in [&log, &link] {
            assert!(Output::open(Some(output), &log).is_err());
        }
        assert_eq!(fs::read(&log).unwrap(), b"precious");
    }

    #[test]
    fn what_is_pending_is_written_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = Output::open(Some(&path), Path::new("/nowhere")).unwrap();
        output.lines().extend_from_slice(b"line\n");
        output.drain().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        output.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"line\n");
    }
}
