//! Output of lines: to a file or the standard output.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};

use tracer_event::consumer::Lines;
use tracer_output::output_file::is_same_file;
use tracer_output::report::{TextLook, TextStyle};
use tracer_output::terminal::output::{Sink, has_lost_its_reader};
use tracer_output::terminal::{BlockingFile, TerminalScreen};

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Output of lines.
pub struct Output {
    file: BlockingFile,
    sink: String,
    pending: Lines,
    limit: Option<Limit>,
}

/// Limit of what is written.
#[derive(Debug)]
struct Limit {
    /// Bytes that may still be written.
    left: usize,
    /// Screen that it is to fit on, where the limit is that, and the ends of the parts that are
    /// pending.
    screen: Option<(TerminalScreen, Vec<usize>)>,
    /// Bytes of the pending lines that fit.
    kept: usize,
    /// Parts that were left out: lines, or those of one event.
    left_out: u64,
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
            limit: None,
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

    /// Writes no more than so many bytes: whatever was appended since the last call of
    /// [`drain`](Self::drain) or [`settle`](Self::settle) is written whole or not at all, and once
    /// a part does not fit, none behind it is written.
    pub fn limit(&mut self, bytes: usize) {
        self.limit = Some(Limit {
            left: bytes,
            screen: None,
            kept: 0,
            left_out: 0,
        });
    }

    /// Writes no more than a screen shows, likewise; it is written at the end.
    pub fn limit_to(&mut self, screen: TerminalScreen) {
        self.limit(CHUNK_BYTES - 1);
        if let Some(limit) = &mut self.limit {
            limit.screen = Some((screen, Vec::new()));
        }
    }

    /// Lifts the limit of a screen: parts at the end are left out until this screen shows all that
    /// are there, and, where any are left out, the line that says how many, which is appended.
    pub fn lift_for(&mut self, screen: TerminalScreen, truncated: impl Fn(u64) -> String) {
        let Some(limit) = self.limit.take() else {
            return;
        };
        let (_, mut ends) = limit.screen.unwrap_or((screen, Vec::new()));
        let mut left_out = limit.left_out;
        let mut pending = self.pending.bytes();
        loop {
            let shown = String::from_utf8_lossy(&pending);
            let closing = if left_out > 0 {
                truncated(left_out)
            } else {
                String::new()
            };
            let fits = screen.rows_of(&shown) + screen.rows_of(&closing) <= screen.rows();
            if fits || ends.pop().is_none() {
                pending.extend_from_slice(closing.as_bytes());
                return;
            }
            pending.truncate(ends.last().copied().unwrap_or(0));
            left_out += 1;
        }
    }

    /// Lifts the limit, for so many more bytes. Returns how many parts were left out, and how many
    /// bytes may be written now.
    pub fn lift(&mut self, more: usize) -> Option<(u64, usize)> {
        let limit = self.limit.take()?;
        Some((limit.left_out, limit.left.saturating_sub(limit.kept) + more))
    }

    /// Sees whether what was appended last fits, and leaves it out otherwise.
    pub fn settle(&mut self) {
        let Some(limit) = &mut self.limit else {
            return;
        };
        let mut pending = self.pending.bytes();
        if pending.len() == limit.kept {
            return;
        }
        let has_room = match &limit.screen {
            // Those behind what is on no screen are not looked at.
            Some((screen, ends)) => ends.len() < screen.rows(),
            None => true,
        };
        if limit.left_out == 0 && pending.len() <= limit.left && has_room {
            limit.kept = pending.len();
            if let Some((_, ends)) = &mut limit.screen {
                ends.push(limit.kept);
            }
        } else {
            pending.truncate(limit.kept);
            limit.left_out += 1;
        }
    }

    /// Writes when there is much to write.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        self.settle();
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
        if let Some(limit) = &mut self.limit {
            limit.left = limit.left.saturating_sub(pending.len());
            limit.kept = 0;
        }
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
