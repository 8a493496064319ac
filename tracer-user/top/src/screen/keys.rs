//! Keys: their help, in words, and how they are handled.

use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Above, Screen, Todo, Typing, View};
use crate::model::Window;
use crate::source::{Play, SPEEDS};
use crate::view::{self, ALL_COLUMNS, opened, spans};

/// Keys that work everywhere.
pub const KEYS: [(&str, &str); 17] = [
    ("t s Tab", "threads, spans"),
    ("Up Down PgUp PgDn g G", "select a line"),
    ("Enter", "open the thread, or the path of the slowest span"),
    ("Esc", "back; drop the filter"),
    ("< >", "sort by the column to the left, to the right"),
    ("r", "the least first"),
    ("o", "by process, or all threads alike"),
    ("c", "choose columns"),
    ("/", "filter by name or id; in a thread: search its events"),
    ("& n", "in a thread: filter its events; search on"),
    ("p", "in a thread: pause its events"),
    ("w", "sum up the last second, ten seconds, or all"),
    ("f Space", "freeze what is shown; Space of a log: pause"),
    ("? h F1", "these keys"),
    ("Ctrl-Z Ctrl-L", "suspend; draw anew"),
    ("q Ctrl-C", "end"),
    (
        "mouse",
        "a heading: sort; a line: select, open; the wheel: move",
    ),
];

/// Keys that move the time of a log.
pub const PLAY: [(&str, &str); 6] = [
    ("Space", "pause, play"),
    (". ,", "a step of 100 ms forth, back"),
    ("] [", "5 s forth, back"),
    ("+ - 1", "twice as fast, half as fast, as fast as it was"),
    ("0", "from the start"),
    ("e", "to the end"),
];

/// Lengths of the short and the long step, in nanoseconds.
const STEPS: (i64, i64) = (100_000_000, 5_000_000_000);

/// Number of lines that reaches either end.
const FAR: isize = isize::MAX / 2;

/// Windows that are summed up, one after the other.
const WINDOWS: [Window; 3] = [
    Window::Last(1_000_000_000),
    Window::Last(10_000_000_000),
    Window::All,
];

impl Screen {
    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Todo {
        if key.kind == KeyEventKind::Release {
            return Todo::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Todo::Quit,
                KeyCode::Char('z') => Todo::Suspend,
                KeyCode::Char('l') => Todo::Redraw,
                _ => Todo::Nothing,
            };
        }
        match self.above {
            Above::Typing(typing) => self.type_key(typing, key.code),
            Above::Columns(at) => self.column_key(at, key.code),
            Above::Help => self.above = Above::Nothing,
            Above::Nothing if key.code == KeyCode::Char('q') => return Todo::Quit,
            Above::Nothing => self.view_key(key.code),
        }
        Todo::Nothing
    }

    fn type_key(&mut self, typing: Typing, code: KeyCode) {
        match code {
            KeyCode::Esc => {
                self.typed.clear();
                self.take_typed(typing);
                self.above = Above::Nothing;
            }
            KeyCode::Enter => {
                self.above = Above::Nothing;
                if typing == Typing::Search {
                    self.search_on();
                }
            }
            KeyCode::Backspace => {
                self.typed.pop();
                self.take_typed(typing);
            }
            KeyCode::Char(character) if !character.is_control() => {
                self.typed.push(character);
                self.take_typed(typing);
            }
            _ => {}
        }
    }

    /// Takes over the text typed so far.
    fn take_typed(&mut self, typing: Typing) {
        let typed = self.typed.clone();
        match (typing, &self.view) {
            (Typing::Search, _) => self.search = typed,
            (Typing::Filter, View::Thread(_)) => self.event_filter = typed,
            (Typing::Filter, _) => self.listing.filter = typed,
        }
    }

    fn column_key(&mut self, at: usize, code: KeyCode) {
        let column = ALL_COLUMNS.get(at).map(|entry| entry.column);
        match (code, column) {
            (KeyCode::Up | KeyCode::Char('k'), _) => {
                self.above = Above::Columns(at.saturating_sub(1));
            }
            (KeyCode::Down | KeyCode::Char('j'), _) => {
                self.above = Above::Columns((at + 1).min(ALL_COLUMNS.len() - 1));
            }
            (KeyCode::Char(' ') | KeyCode::Enter, Some(column)) => self.toggle(column),
            (KeyCode::Char('s'), Some(column)) => self.listing.sort = column,
            (KeyCode::Esc | KeyCode::Char('q' | 'c'), _) => self.above = Above::Nothing,
            _ => {}
        }
    }

    fn view_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if self.is_opened() => self.back(),
            KeyCode::Esc => self.listing.filter.clear(),
            KeyCode::F(1) => self.above = Above::Help,
            KeyCode::Tab if self.view == View::Threads => self.view = View::Spans,
            KeyCode::Tab => self.view = View::Threads,
            KeyCode::Enter | KeyCode::Right => self.enter(),
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-self.page()),
            KeyCode::PageDown => self.scroll(self.page()),
            KeyCode::Home => self.scroll(-FAR),
            KeyCode::End => self.scroll(FAR),
            KeyCode::Char(key) => self.letter(key),
            _ => {}
        }
    }

    fn letter(&mut self, key: char) {
        if let Some(play) = &mut self.play
            && move_play(play, key)
        {
            self.is_frozen = false;
            return;
        }
        let is_thread = matches!(self.view, View::Thread(_));
        match key {
            '?' | 'h' => self.above = Above::Help,
            't' => self.view = View::Threads,
            's' => self.view = View::Spans,
            'w' => self.next_window(),
            'f' => self.is_frozen = !self.is_frozen,
            ' ' => self.pause(),
            '/' if is_thread => {
                self.typed.clear();
                self.above = Above::Typing(Typing::Search);
            }
            '/' => self.type_filter(),
            '&' if is_thread => self.type_filter(),
            'n' if is_thread => self.search_on(),
            'p' if is_thread => self.pause_events(),
            'k' => self.scroll(-1),
            'j' => self.scroll(1),
            'g' => self.scroll(-FAR),
            'G' => self.scroll(FAR),
            '<' => self.sort_by_next(false),
            '>' => self.sort_by_next(true),
            'r' => self.listing.is_reversed = !self.listing.is_reversed,
            'o' => self.listing.is_grouped = !self.listing.is_grouped,
            'c' => self.above = Above::Columns(0),
            _ => {}
        }
    }

    pub(super) fn is_opened(&self) -> bool {
        matches!(self.view, View::Thread(_) | View::Path(_))
    }

    pub(super) fn back(&mut self) {
        self.view = match self.view {
            View::Path(_) => View::Spans,
            View::Threads | View::Spans | View::Thread(_) => View::Threads,
        };
        self.go_on();
    }

    /// Shows events of a thread as they come again.
    fn go_on(&mut self) {
        (self.hidden, self.paused) = (0, None);
    }

    fn next_window(&mut self) {
        let at = WINDOWS.iter().position(|window| *window == self.window);
        let next = at.map_or(0, |at| (at + 1) % WINDOWS.len());
        if let Some(window) = WINDOWS.get(next) {
            self.window = *window;
        }
    }

    /// Pauses or continues the time: that of a log, or the display of a trace, which continues.
    fn pause(&mut self) {
        match &mut self.play {
            Some(play) => play.is_paused = !play.is_paused,
            None => self.is_frozen = !self.is_frozen,
        }
    }

    fn type_filter(&mut self) {
        self.typed = match self.view {
            View::Thread(_) => self.event_filter.clone(),
            View::Threads | View::Spans | View::Path(_) => self.listing.filter.clone(),
        };
        self.above = Above::Typing(Typing::Filter);
    }

    /// Sorts by the next shown column to the right or to the left.
    fn sort_by_next(&mut self, is_right: bool) {
        let shown = self.listing.fitting(self.width);
        let sort = self.listing.sort;
        let at = shown.iter().position(|(entry, _)| entry.column == sort);
        let next = match at {
            None => 0,
            Some(at) if is_right => at + 1,
            Some(at) => at + shown.len() - 1,
        };
        if let Some((entry, _)) = shown.get(next % shown.len().max(1)) {
            self.listing.sort = entry.column;
        }
    }

    fn page(&self) -> isize {
        let rows = match self.view {
            View::Threads => self.threads.rows,
            View::Spans => self.spans.rows,
            View::Thread(_) | View::Path(_) => self.rows,
        };
        isize::try_from(rows.max(2) - 1).unwrap_or(1)
    }

    pub(super) fn scroll(&mut self, by: isize) {
        match self.view {
            View::Threads => {
                self.threads.by(by);
                self.select_thread();
            }
            View::Spans => {
                self.spans.by(by);
                self.select_span();
            }
            View::Path(_) => self.path = self.path.saturating_add_signed(by),
            View::Thread(_) => {
                self.stop_events();
                self.hidden = self.hidden.saturating_add_signed(-by);
            }
        }
    }

    /// Remembers the thread in the selected line: it stays selected.
    pub(super) fn select_thread(&mut self) {
        let shot = Arc::clone(&self.shot);
        let lines = self.listing.lines(&shot);
        let rows = self.threads.rows;
        self.threads.fit(lines.len(), rows);
        let line = lines.get(self.threads.selected);
        self.thread = line.map(view::Line::thread);
    }

    /// Remembers the kind of spans in the selected line: it stays selected.
    pub(super) fn select_span(&mut self) {
        let shot = Arc::clone(&self.shot);
        let kinds = spans::rows(&shot);
        let rows = self.spans.rows;
        self.spans.fit(kinds.len(), rows);
        let kind = kinds.get(self.spans.selected);
        self.span = kind.map(|kind| kind.name.clone());
    }

    pub(super) fn enter(&mut self) {
        match self.view {
            View::Threads => {
                // The selected one, wherever it has gone since; else the one in its line.
                if self.thread.is_none() {
                    self.select_thread();
                }
                if let Some(mut thread) = self.thread {
                    if thread.tid == 0 {
                        thread.tid = thread.pid;
                    }
                    self.go_on();
                    self.view = View::Thread(thread);
                }
            }
            View::Spans => {
                if self.span.is_none() {
                    self.select_span();
                }
                if let Some(name) = self.span.clone() {
                    self.path = 0;
                    self.view = View::Path(name);
                }
            }
            View::Thread(_) | View::Path(_) => {}
        }
    }

    /// Stops the events: those that are shown stay.
    fn stop_events(&mut self) {
        if self.paused.is_none() {
            self.paused = Some(Arc::clone(&self.shot));
        }
    }

    fn pause_events(&mut self) {
        if self.paused.is_some() {
            self.go_on();
        } else {
            self.stop_events();
        }
    }

    /// Moves to the newest event with the searched text before the last one shown.
    fn search_on(&mut self) {
        if self.search.is_empty() {
            return;
        }
        let is_first = self.paused.is_none();
        self.stop_events();
        let shot = self.paused.as_ref().and_then(|shot| shot.opened.as_ref());
        let Some(shot) = shot else {
            return;
        };
        let lines = opened::lines(shot, &self.event_filter);
        let search = self.search.to_lowercase();
        let skipped = if is_first { 0 } else { self.hidden + 1 };
        let newest = lines.iter().rev().enumerate().skip(skipped);
        let mut found = newest.filter(|(_, line)| line.to_lowercase().contains(&search));
        if let Some((hidden, _)) = found.next() {
            self.hidden = hidden;
        }
    }
}

/// Moves the time of a log; tells whether the key means that.
fn move_play(play: &mut Play, key: char) -> bool {
    let step = match key {
        '.' => STEPS.0,
        ',' => -STEPS.0,
        ']' => STEPS.1,
        '[' => -STEPS.1,
        '0' => {
            play.starts = play.starts.wrapping_add(1);
            return true;
        }
        'e' => {
            play.ends = play.ends.wrapping_add(1);
            return true;
        }
        '+' | '=' => {
            play.speed = (play.speed + 1).min(SPEEDS.1);
            return true;
        }
        '-' => {
            play.speed = (play.speed - 1).max(SPEEDS.0);
            return true;
        }
        '1' => {
            play.speed = 0;
            return true;
        }
        _ => return false,
    };
    play.moved = play.moved.wrapping_add(step);
    // After a small step it does not run on.
    play.is_paused |= key == '.' || key == ',';
    true
}
