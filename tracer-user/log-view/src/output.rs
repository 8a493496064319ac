//! Output of lines: to a file or the standard output.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};

use tracer_event::consumer::Lines;
use tracer_output::output_file::is_same_file;
use tracer_output::report::{TextLook, TextStyle};
use tracer_output::terminal::BlockingFile;
use tracer_output::terminal::output::{Sink, has_lost_its_reader};

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Output of lines.
pub struct Output {
    file: BlockingFile,
    sink: String,
    pending: Lines,
}

impl Output {
    /// Opens the output for lines to this sink.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or is the log at `input`, which it would replace.
    pub fn open(sink: &Sink, input: &Path) -> anyhow::Result<Self> {
        if let Sink::File(path) = sink {
            ensure!(
                !is_same_file(path, input),
                "{} is the log itself, and would be lost; give --output another name",
                path.display()
            );
        }
        Ok(Self {
            file: BlockingFile(sink.open()?),
            sink: sink.to_string(),
            pending: Lines::default(),
        })
    }

    /// Returns the style of text there.
    #[must_use]
    pub fn style(&self, look: TextLook) -> TextStyle {
        look.style(&self.file.0)
    }

    /// Tells whether what is written will never be read.
    #[must_use]
    pub fn has_lost_its_reader(&self) -> bool {
        has_lost_its_reader(&self.file.0)
    }

    /// Returns the lines to be written, for more to be appended.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.pending
    }

    /// Writes when there is much to write.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        if self.pending.bytes().len() >= CHUNK_BYTES {
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
        let mut pending = self.pending.bytes();
        let written = self.file.write_all(&pending);
        pending.clear();
        written.with_context(|| format!("cannot write to {}", self.sink))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_log_itself_is_never_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let link = folder.path().join("link");
        fs::write(&log, "precious").unwrap();
        std::os::unix::fs::symlink(&log, &link).unwrap();

        for output in [&log, &link] {
            assert!(Output::open(&Sink::File(output.clone()), &log).is_err());
        }
        assert_eq!(fs::read(&log).unwrap(), b"precious");
    }

    #[test]
    fn what_is_pending_is_written_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = Output::open(&Sink::File(path.clone()), Path::new("/nowhere")).unwrap();
        output.lines().bytes().extend_from_slice(b"line\n");
        output.drain().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        output.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"line\n");
    }
}
