//! Screens: how much of a text a terminal shows at once.

use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd};

use unicode_width::UnicodeWidthStr as _;

/// Rows that stay free below an answer: for the prompt of a shell, which may have two.
const FREE_ROWS: usize = 2;

/// Least rows that an answer may have, however small the terminal is.
const LEAST_ROWS: usize = 6;

/// Space that a terminal has for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalScreen {
    rows: usize,
    columns: usize,
}

impl TerminalScreen {
    /// Returns the space of a terminal of that size, of which the rows of a prompt stay free.
    #[must_use]
    pub fn of_size(rows: usize, columns: usize) -> Self {
        Self {
            rows: rows.saturating_sub(FREE_ROWS).max(LEAST_ROWS),
            columns: columns.max(1),
        }
    }

    /// Returns the space of the terminal that `file` is; `None` where it is none, or does not know
    /// its size.
    #[must_use]
    pub fn from_file(file: &(impl AsFd + IsTerminal)) -> Option<Self> {
        if !file.is_terminal() {
            return None;
        }
        let size = size(file)?;
        // A terminal that does not know says 0.
        let is_known = size.ws_row > 0 && size.ws_col > 0;
        is_known.then(|| Self::of_size(size.ws_row.into(), size.ws_col.into()))
    }

    /// Returns how many rows an answer may have.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns what is left of the space beside the lines of messages that come with the answer.
    #[must_use]
    pub fn beside<'a>(&self, messages: impl IntoIterator<Item = &'a str>) -> Self {
        /// Columns of what a message begins with: `tracer-user: `.
        const BEGINNING: &str = "tracer-user: ";
        let messages = messages.into_iter();
        let taken: usize = messages
            .map(|line| self.rows_for(BEGINNING.width() + line.width()))
            .sum();
        Self {
            rows: self.rows.saturating_sub(taken).max(LEAST_ROWS / 2),
            ..*self
        }
    }

    /// Returns how many rows a text takes, whose lines may have colours.
    #[must_use]
    pub fn rows_of(&self, text: &str) -> usize {
        let lines = text.lines();
        lines.map(|line| self.rows_for(width(line))).sum()
    }

    fn rows_for(&self, width: usize) -> usize {
        width.div_ceil(self.columns).max(1)
    }
}

/// Returns the size that a terminal says it has.
pub(super) fn size(terminal: &impl AsFd) -> Option<libc::winsize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = terminal.as_fd().as_raw_fd();
    // SAFETY: this request writes a `winsize`, which `size` is.
    let failed = unsafe { libc::ioctl(terminal, libc::TIOCGWINSZ, &raw mut size) };
    (failed == 0).then_some(size)
}

/// Returns how many columns a line has, without what makes its colours.
fn width(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default();
    let coloured = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text));
    first.width() + coloured.map(|text| text.width()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_take_the_rows_that_a_terminal_gives_them() {
        let screen = TerminalScreen::of_size(24, 10);
        assert_eq!(screen.rows(), 22);
        let rows = [
            ("", 0),
            ("\n", 1),
            ("ten of them\n", 2),
            ("0123456789\n", 1),
            ("0123456789\na\n", 2),
            ("\x1b[1;32m01234\x1b[0m56789\n", 1),
            // Each of these is two columns wide.
            ("名前名前名\n", 1),
            ("名前名前名前\n", 2),
        ];
        for (text, expected) in rows {
            assert_eq!(screen.rows_of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn messages_leave_room_for_an_answer() {
        let screen = TerminalScreen::of_size(24, 80);
        assert_eq!(screen.beside(["0 lost", &"x".repeat(80)]).rows(), 19);
        assert_eq!(screen.beside(["0 lost"; 40]).rows(), 3);
        assert_eq!(TerminalScreen::of_size(1, 0).rows(), 6);
    }

    #[test]
    fn a_file_is_no_screen() {
        assert_eq!(
            TerminalScreen::from_file(&tempfile::tempfile().unwrap()),
            None
        );
    }
}
