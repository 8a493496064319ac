//! What the user has chosen to see, and the screen that shows it.

mod draw;
mod help;
mod keys;
mod mouse;

use std::sync::Arc;

use tracer_analysis::Thread;

use super::model::{Shot, Window};
use super::source::{Play, Wish};
use super::view::{Column, Listing, Look};

/// Which view is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum View {
    /// All threads.
    Threads,
    /// All spans.
    Spans,
    /// A thread.
    Thread(Thread),
    /// Why the slowest of these spans took that long.
    Path(String),
}

/// What lies above the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Nothing,
    /// The keys.
    Help,
    /// The columns to choose from, and which one is selected.
    Columns(usize),
    /// Words that are being typed.
    Typing(Typing),
}

/// What words are typed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typing {
    /// Only these threads, or these events.
    Filter,
    /// The next event that has them.
    Search,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Nothing but to draw.
    Nothing,
    /// To end.
    Quit,
    /// To give the terminal back until somebody continues.
    Suspend,
    /// To draw everything anew.
    Redraw,
}

/// A list of which a part is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scroll {
    /// The line that is selected.
    selected: usize,
    /// The first that is shown.
    first: usize,
    /// How many are shown; known once it was drawn.
    rows: usize,
}

impl Scroll {
    /// Sees to it that the selected one is among those that are shown, of so many.
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

/// The screen.
#[derive(Debug)]
pub struct Screen {
    look: Look,
    /// How wide it is; known once it was drawn.
    width: u16,
    shot: Arc<Shot>,
    view: View,
    above: Above,
    listing: Listing,
    window: Window,
    /// Whether what is shown stays as it is.
    is_frozen: bool,
    /// How a log is played; `None` for a running trace.
    play: Option<Play>,
    threads: Scroll,
    /// The thread that is selected: it stays so wherever it goes. A tid of 0 is its process.
    thread: Option<Thread>,
    spans: Scroll,
    /// The kind of spans that is selected.
    span: Option<String>,
    /// How far a path is scrolled.
    path: usize,
    /// How many of the newest events of a thread are not shown, as they are scrolled away.
    hidden: usize,
    /// The events as they were when they were paused.
    paused: Option<Arc<Shot>>,
    /// How many lines of a path or of events are shown.
    rows: usize,
    event_filter: String,
    search: String,
    typed: String,
}

impl Screen {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(look: Look, window: Window, play: Option<Play>) -> Self {
        Self {
            look,
            width: 80,
            shot: Arc::default(),
            view: View::Threads,
            above: Above::Nothing,
            listing: Listing::default(),
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

    /// Shows this from now on, unless what is shown is to stay.
    pub fn show(&mut self, shot: Arc<Shot>) {
        if !self.is_frozen {
            self.shot = shot;
        }
    }

    /// What is to be known.
    #[must_use]
    pub fn wish(&self) -> Wish {
        Wish {
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

    /// Shows a column, or does not any more.
    fn toggle(&mut self, column: Column) {
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
