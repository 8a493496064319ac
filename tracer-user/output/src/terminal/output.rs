//! Output of lines, and what people see there.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::screen::{TerminalScreen, size};
use crate::output_file;

/// The word for the standard output where a file can be named.
const STDOUT: &str = "-";

/// Target of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// The standard output.
    Stdout,
    /// The standard error: a command that is traced has the standard output for itself.
    Stderr,
    /// A file, which is made or emptied.
    File(PathBuf),
}

impl Sink {
    /// Returns the sink that was typed: a file, or `-` for the standard output.
    #[must_use]
    pub fn from_typed(typed: PathBuf) -> Self {
        if is_stdout(&typed) {
            Self::Stdout
        } else {
            Self::File(typed)
        }
    }

    /// Opens a descriptor to write to.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or the stream was closed.
    pub fn open(&self) -> anyhow::Result<File> {
        let file = match self {
            Self::Stdout => io::stdout().as_fd().try_clone_to_owned().map(File::from),
            Self::Stderr => io::stderr().as_fd().try_clone_to_owned().map(File::from),
            Self::File(path) => output_file::create(path),
        };
        file.with_context(|| format!("cannot write to {self}"))
    }

    /// Returns the space that the terminal has to which this leads; `None` where it leads to none.
    #[must_use]
    pub fn screen(&self) -> Option<TerminalScreen> {
        match self {
            Self::Stdout => TerminalScreen::from_file(&io::stdout()),
            Self::Stderr => TerminalScreen::from_file(&io::stderr()),
            Self::File(_) => None,
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("the standard output"),
            Self::Stderr => f.write_str("the standard error"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Tells whether the standard output was typed where a file can be named.
#[must_use]
pub fn is_stdout(typed: &Path) -> bool {
    typed.as_os_str() == OsStr::new(STDOUT)
}

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// In a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Wherever it goes.
    Always,
    /// Not at all.
    Never,
}

impl ColorChoice {
    /// Tells whether text in `file` is coloured.
    #[must_use]
    pub fn is_coloured(self, file: &impl IsTerminal) -> bool {
        match self {
            Self::Auto => file.is_terminal() && are_colours_wanted(|name| env::var_os(name)),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Tells whether the environment lets a terminal be coloured.
fn are_colours_wanted<T: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<T>) -> bool {
    let is_unwanted = variable("NO_COLOR").is_some_and(|value| !value.as_ref().is_empty());
    let is_dumb = variable("TERM").is_some_and(|value| value.as_ref() == "dumb");
    !is_unwanted && !is_dumb
}

/// Limit on the width of lines.
#[derive(Debug)]
pub enum Width {
    /// Lines of any width: their reader is no terminal.
    Whole,
    /// This count of characters.
    #[cfg(test)]
    Characters(usize),
    /// Lines of the width that this terminal has at that moment.
    Terminal(OwnedFd),
}

impl Width {
    /// Returns the width that lines to `file` may have.
    #[must_use]
    pub fn for_file(file: &File) -> Self {
        match file.as_fd().try_clone_to_owned() {
            Ok(terminal) if file.is_terminal() => Self::Terminal(terminal),
            _ => Self::Whole,
        }
    }

    /// Returns the most characters; `None` where there is no limit.
    #[must_use]
    pub fn characters(&self) -> Option<usize> {
        match self {
            Self::Whole => None,
            #[cfg(test)]
            Self::Characters(most) => Some(*most),
            Self::Terminal(terminal) => columns(terminal),
        }
    }
}

fn columns(terminal: &OwnedFd) -> Option<usize> {
    // A terminal that does not know says 0.
    let columns = size(terminal)?.ws_col;
    (columns > 0).then_some(usize::from(columns))
}

/// Tells whether what is written will never be read: the other end of the pipe is closed.
#[must_use]
pub fn has_lost_its_reader(file: &impl AsRawFd) -> bool {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: `poll` is one valid `pollfd`, as the second argument says. It does not wait.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready > 0 && poll.revents & libc::POLLERR != 0
}

/// File that is written to even when another process that shares it has made it non-blocking, as
/// some shells and terminals do.
pub struct BlockingFile(pub File);

impl Write for BlockingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(),
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl BlockingFile {
    fn wait(&self) {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `poll` is one valid `pollfd`, as the second argument says.
        // Whatever it returns, the next write shows more.
        unsafe { libc::poll(&raw mut poll, 1, 1000) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_is_the_standard_output() {
        assert_eq!(Sink::from_typed("-".into()), Sink::Stdout);
        assert_eq!(Sink::from_typed("./-".into()), Sink::File("./-".into()));
    }

    #[test]
    fn the_environment_may_forbid_colours() {
        let wanted = |no_color: Option<&'static str>, term: Option<&'static str>| {
            are_colours_wanted(|name| if name == "TERM" { term } else { no_color })
        };
        assert!(wanted(None, None) && wanted(Some(""), Some("xterm")));
        assert!(!wanted(Some("1"), Some("xterm")));
        assert!(!wanted(None, Some("dumb")));
    }

    #[test]
    fn a_file_is_coloured_only_when_that_is_asked_for() {
        let file = tempfile::tempfile().unwrap();
        assert!(!ColorChoice::Auto.is_coloured(&file));
        assert!(ColorChoice::Always.is_coloured(&file));
        assert_eq!(Width::for_file(&file).characters(), None);
    }

    #[test]
    fn a_pipe_shows_that_its_reader_is_gone() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(!has_lost_its_reader(&writer));
        drop(reader);
        assert!(has_lost_its_reader(&writer));
        assert!(!has_lost_its_reader(&tempfile::tempfile().unwrap()));
    }
}
