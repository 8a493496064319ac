//! Destination of a conversion. Nothing is replaced unasked, and a half-written output does not
//! have the final name.

use std::fs::{self, File, Metadata};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::unfinished::Unfinished;
use crate::output_file;
use crate::output_file::is_same_file;
use crate::terminal::output::{Sink, is_stdout};

/// Number of bytes that are written at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Destination of a conversion. A file has no name, and a folder is called `OUT.RANDOM.partial`,
/// until all of it is written; it is removed when that fails.
#[derive(Debug)]
pub struct Destination {
    output: PathBuf,
    kind: Kind,
    is_replaced: bool,
}

#[derive(Debug)]
enum Kind {
    /// Standard output: written to as it is.
    Stdout,
    /// Pipe or device: written to as it is.
    Special,
    /// File or folder.
    New(Unfinished),
}

impl Destination {
    /// Prepares a file to be made, of the log at `input` where there is one; `-` is the standard
    /// output.
    ///
    /// # Errors
    ///
    /// Something is there that must not be replaced, or nothing can be made there.
    pub fn file(output: &Path, input: Option<&Path>, force: bool) -> anyhow::Result<Self> {
        if is_stdout(output) {
            return Ok(Self::new(output, Kind::Stdout, false));
        }
        let there = metadata(output)?;
        let is_replaced = there.is_some();
        match there {
            None => {}
            Some(there) if there.is_dir() => {
                bail!(
                    "{} is a folder; give --output the name of a file",
                    output.display()
                )
            }
            Some(there) if !there.is_file() => {
                return Ok(Self::new(output, Kind::Special, false));
            }
            Some(_) => {
                ensure!(
                    !input.is_some_and(|input| is_same_file(output, input)),
                    "{} is the log itself, and would be lost; give --output another name",
                    output.display()
                );
                ensure!(force, "{}", is_there(output));
            }
        }
        let unfinished = Unfinished::file(output).with_context(|| cannot_write(output))?;
        Ok(Self::new(output, Kind::New(unfinished), is_replaced))
    }

    /// Prepares a folder to be made, with files of these names in it.
    ///
    /// # Errors
    ///
    /// Something is there that must not be replaced, or nothing can be made there.
    pub fn folder(
        output: &Path,
        files: &'static [&'static str],
        force: bool,
    ) -> anyhow::Result<Self> {
        ensure!(
            !is_stdout(output),
            "this format is a folder of several files, which cannot go to the standard output; \
             give --output the name of a folder"
        );
        let there = metadata(output)?;
        let is_replaced = there.is_some();
        if let Some(there) = there {
            ensure!(
                !output.is_symlink(),
                "{} is a link; give --output the name of the folder itself",
                output.display()
            );
            ensure!(
                there.is_dir(),
                "{} is a file, and this format needs a folder; give --output another name",
                output.display()
            );
            ensure!(force, "{}", is_there(output));
            ensure_ours(output, files)?;
        }
        let unfinished = Unfinished::folder(output, files).with_context(|| cannot_write(output))?;
        Ok(Self::new(output, Kind::New(unfinished), is_replaced))
    }

    fn new(output: &Path, kind: Kind, is_replaced: bool) -> Self {
        Self {
            output: output.to_owned(),
            kind,
            is_replaced,
        }
    }

    /// Returns the folder in which the files are to be written.
    pub fn path(&self) -> &Path {
        match &self.kind {
            Kind::Stdout | Kind::Special => &self.output,
            Kind::New(unfinished) => unfinished.path(),
        }
    }

    /// Returns a buffered writer into the file.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn writer(&self) -> anyhow::Result<Box<dyn Write + Send>> {
        let file = match &self.kind {
            Kind::Stdout => return Ok(buffered(Sink::Stdout.open()?)),
            Kind::Special => output_file::create(&self.output),
            Kind::New(unfinished) => unfinished.writer(),
        };
        Ok(buffered(file.with_context(|| cannot_write(&self.output))?))
    }

    /// Describes what is left of it when the conversion ends early.
    pub fn early_end(&self) -> &'static str {
        match self.kind {
            Kind::Stdout | Kind::Special => "what was written is not the whole",
            Kind::New(_) => "nothing was made",
        }
    }

    /// Gives the written output its name.
    ///
    /// # Errors
    ///
    /// It cannot have it.
    pub fn complete(self) -> anyhow::Result<()> {
        let Kind::New(unfinished) = self.kind else {
            return Ok(());
        };
        match unfinished.become_output(&self.output, self.is_replaced) {
            // It was not there when we began.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(is_there(&self.output)),
            other => other.with_context(|| cannot_write(&self.output)),
        }
    }
}

/// Returns a buffered writer into a new file.
///
/// # Errors
///
/// It cannot be made.
pub fn writer(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    let file = output_file::create_new(path).with_context(|| cannot_write(path))?;
    Ok(buffered(file))
}

fn buffered(file: File) -> Box<dyn Write + Send> {
    Box::new(BufWriter::with_capacity(CHUNK_BYTES, file))
}

fn metadata(path: &Path) -> anyhow::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| cannot_write(path)),
    }
}

/// Fails when a folder has anything else in it than what an export writes.
fn ensure_ours(folder: &Path, files: &[&str]) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| cannot_write(folder))? {
        let name = entry.with_context(|| cannot_write(folder))?.file_name();
        ensure!(
            files.iter().any(|file| name == *file),
            "{} holds {}, which is no part of an export; give --output another name",
            folder.display(),
            name.display()
        );
    }
    Ok(())
}

fn is_there(path: &Path) -> String {
    format!(
        "{} is there already; give --force to replace it, or --output another name",
        path.display()
    )
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write to {}", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::unfinished::tests::{FILES, names};
    use super::*;

    #[test]
    fn a_file_bears_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let destination = Destination::file(&output, Some(Path::new("log")), false).unwrap();
        destination.writer().unwrap().write_all(b"x").unwrap();
        assert!(!output.exists());
        destination.complete().unwrap();
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn what_failed_is_removed_and_what_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        fs::write(&output, "old").unwrap();
        let destination = Destination::file(&output, Some(Path::new("log")), true).unwrap();
        destination.writer().unwrap().write_all(b"new").unwrap();
        drop(destination);
        assert_eq!(names(folder.path()), ["out"]);
        assert_eq!(fs::read(&output).unwrap(), b"old");
    }

    #[test]
    fn nothing_is_replaced_unasked_and_the_log_never() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        fs::write(&output, "old").unwrap();
        let refusal = Destination::file(&output, Some(Path::new("log")), false).unwrap_err();
        assert!(refusal.to_string().contains("--force"), "{refusal}");
        assert!(Destination::file(&output, Some(&output), true).is_err());
        assert!(Destination::file(folder.path(), Some(Path::new("log")), true).is_err());
        assert!(Destination::folder(&output, FILES, true).is_err());
    }

    #[test]
    fn a_folder_with_anything_else_in_it_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        for (file, is_replaced) in [("stream", true), ("thesis.tex", false)] {
            fs::create_dir_all(&output).unwrap();
            fs::write(output.join(file), "old").unwrap();
            assert!(Destination::folder(&output, FILES, false).is_err());
            let forced = Destination::folder(&output, FILES, true);
            assert_eq!(forced.is_ok(), is_replaced, "{file}");
            if let Ok(destination) = forced {
                fs::write(destination.path().join("metadata"), "new").unwrap();
                destination.complete().unwrap();
                assert_eq!(names(&output), ["metadata"]);
            }
        }
        assert!(output.join("thesis.tex").exists());
    }

    #[test]
    fn what_another_user_has_put_where_we_write_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (output, victim) = (folder.path().join("out"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, folder.path().join("out.partial")).unwrap();
        let destination = Destination::file(&output, Some(Path::new("log")), false).unwrap();
        destination.writer().unwrap().write_all(b"x").unwrap();
        destination.complete().unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(!output.is_symlink());

        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("stream"), "precious").unwrap();
        let link = folder.path().join("link");
        symlink(&elsewhere, &link).unwrap();
        assert!(Destination::folder(&link, FILES, true).is_err());
    }

    #[test]
    fn a_device_is_written_to_as_it_is() {
        let null = Path::new("/dev/null");
        let destination = Destination::file(null, Some(Path::new("log")), false).unwrap();
        destination.writer().unwrap().write_all(b"x").unwrap();
        destination.complete().unwrap();
        assert!(null.exists());
    }
}
