//! Choices of the user, and the screen that shows the result.

mod draw;
mod keys;
mod mouse;

use std::sync::Arc;

use tracer_analysis::Thread;

use super::model::{Shot, Window};
use super::source::{Play, ShotRequest};
use super::view::{ScreenLook, ThreadColumn, ThreadListing};

/// View that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum View {
    /// Table of all threads.
    Threads,
    /// Table of all spans.
    Spans,
    /// One thread.
    Thread(Thread),
    /// Critical path of the slowest of these spans.
    Path(String),
}

/// Overlay above the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Nothing,
    /// List of keys.
    Help,
    /// List of columns to choose from, and the index of the selected one.
    Columns(usize),
    /// Text that is being typed.
    Typing(Typing),
}

/// Purpose of the typed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typing {
    /// Restricting the list to these threads, or these events.
    Filter,
    /// Finding the next event that has the text.
    Search,
}

/// Action to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Drawing the screen alone.
    Nothing,
    /// Ending.
    Quit,
    /// Giving the terminal back until the process is continued.
    Suspend,
    /// Drawing everything anew.
    Redraw,
}

/// List of which a part is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scroll {
    /// Selected line.
    selected: usize,
    /// First line that is shown.
    first: usize,
    /// Number of shown lines; known once it was drawn.
    rows: usize,
}

impl Scroll {
    /// Adjusts the first shown line so that the selected one of `count` lines is shown.
    fn fit(&mut self, count: usize, rows: usize) {
        self.rows = rows.max(1);
        self.selected = self.selected.min(count.saturating_sub(1));
        self.first = self.first.min(self.selected);
        self.first = self
            .first
            .max((self.selected + 1).saturating_sub(self.rows));
        self.first = self.first.min(count.saturating_sub(self.rows));
    }

    fn by(&mut self, lines: isize) {
        self.selected = self.selected.saturating_add_signed(lines);
    }
}

/// Screen.
#[derive(Debug)]
pub struct Screen {
    look: ScreenLook,
    /// Width of the screen; known once it was drawn.
    width: u16,
    shot: Arc<Shot>,
    view: View,
    above: Above,
    listing: ThreadListing,
    window: Window,
    /// Whether the display is frozen.
    is_frozen: bool,
    /// State of playing a log; `None` for a running trace.
    play: Option<Play>,
    threads: Scroll,
    /// Selected thread: it stays selected wherever it moves in the list. A tid of 0 is its process.
    thread: Option<Thread>,
    spans: Scroll,
    /// Selected kind of spans.
    span: Option<String>,
    /// Lines by which a path is scrolled.
    path: usize,
    /// Number of the newest events of a thread that are hidden, as they are scrolled away.
    hidden: usize,
    /// Events as they were when they were paused.
    paused: Option<Arc<Shot>>,
    /// Number of shown lines of a path or of events.
    rows: usize,
    event_filter: String,
    search: String,
    typed: String,
}

impl Screen {
    /// Creates a screen with nothing known yet.
    #[must_use]
    pub fn new(look: ScreenLook, window: Window, play: Option<Play>) -> Self {
        Self {
            look,
            width: 80,
            shot: Arc::default(),
            view: View::Threads,
            above: Above::Nothing,
            listing: ThreadListing::default(),
            window,
            is_frozen: false,
            play,
            threads: Scroll::default(),
            thread: None,
            spans: Scroll::default(),
            span: None,
            path: 0,
            hidden: 0,
            paused: None,
            rows: 1,
            event_filter: String::new(),
            search: String::new(),
            typed: String::new(),
        }
    }

    /// Shows this shot from now on, unless the display is frozen.
    pub fn show(&mut self, shot: Arc<Shot>) {
        if !self.is_frozen {
            self.shot = shot;
        }
    }

    /// Returns the wish of the screen.
    #[must_use]
    pub fn wish(&self) -> ShotRequest {
        ShotRequest {
            window: match self.view {
                // Spans are fewer than switches: they are looked at a little longer.
                View::Spans | View::Path(_) => self.window.at_least(10_000_000_000),
                View::Threads | View::Thread(_) => self.window,
            },
            opened: match self.view {
                View::Thread(thread) => Some(thread),
                View::Threads | View::Spans | View::Path(_) => None,
            },
            play: self.play.unwrap_or_default(),
        }
    }

    /// Shows a column, or hides it.
    fn toggle(&mut self, column: ThreadColumn) {
        let columns = &mut self.listing.columns;
        match columns.iter().position(|one| *one == column) {
            Some(at) => {
                columns.remove(at);
            }
            // What was chosen by hand is the last to give way.
            None => columns.insert(0, column),
        }
    }
}

#[cfg(test)]
mod tests;
