//! Drawing the screen.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::keys::{KEYS, PLAY};
use super::{Above, Screen, Typing, View};
use crate::model::Shot;
use crate::source::Play;
use crate::view::{ALL_COLUMNS, Role, opened, spans, threads, title};

/// Parts of bars.
const PARTS: [&str; 6] = [
    "running", "runnable", "blocked", "stopped", "unpolled", "unknown",
];

/// Smallest size that something can be shown on.
const LEAST: (u16, u16) = (20, 6);

impl Screen {
    /// Draws the whole screen.
    pub fn draw(&mut self, buffer: &mut Buffer) {
        let area = buffer.area;
        self.width = area.width;
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let width = usize::from(area.width);
            buffer.set_stringn(area.x, area.y, "too small", width, Style::new());
            return;
        }
        let shot = Arc::clone(&self.shot);
        title::draw(buffer, row(area, 0), &shot, self.look);
        let body = Rect::new(area.x, area.y + 1, area.width, area.height - 2);
        match self.view.clone() {
            View::Threads => self.draw_threads(buffer, body, &shot),
            View::Spans => self.draw_spans(buffer, body, &shot),
            View::Thread(_) => self.draw_thread(buffer, body, &shot),
            View::Path(name) => self.draw_path(buffer, body, (&shot, &name)),
        }
        self.draw_foot(buffer, row(area, area.height - 1), &shot);
        match self.above {
            Above::Help => self.draw_help(buffer, body),
            Above::Columns(selected) => self.draw_columns(buffer, body, selected),
            Above::Nothing | Above::Typing(_) => {}
        }
    }

    fn draw_threads(&mut self, buffer: &mut Buffer, area: Rect, shot: &Shot) {
        let lines = self.listing.lines(shot);
        // Who was selected is so wherever it is now.
        let selected = self.thread;
        let mut threads = lines.iter().map(threads::Line::thread);
        let at = threads.position(|thread| Some(thread) == selected);
        if let Some(at) = at {
            self.threads.selected = at;
        }
        let rows = usize::from(area.height - 1);
        self.threads.fit(lines.len(), rows);
        let first = self.threads.first;
        let shown = lines.get(first..).unwrap_or_default();
        self.listing.widen_now(shown.get(..rows).unwrap_or(shown));
        let selected = self.threads.selected.saturating_sub(first);
        let what = (shot, &self.listing);
        threads::draw(buffer, area, what, (shown, Some(selected)), self.look);
        let words = match shot.missing {
            Some(missing) => missing,
            None if !lines.is_empty() => return,
            None if self.listing.filter.is_empty() => "nothing has happened yet",
            None => "no thread is called so (Esc drops the filter)",
        };
        let below = u16::try_from(shown.len().min(rows - 1)).unwrap_or(0);
        let aside = self.look.style(Role::Aside);
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.y + 1 + below, words, width, aside);
    }

    fn draw_spans(&mut self, buffer: &mut Buffer, area: Rect, shot: &Shot) {
        let kinds = spans::rows(shot);
        let mut names = kinds.iter().map(|kind| &kind.name);
        let at = names.position(|name| Some(name) == self.span.as_ref());
        if let Some(at) = at {
            self.spans.selected = at;
        }
        // Below the list it says why: a line of space, a title, and so many.
        let why = u16::try_from(spans::LINES).unwrap_or(3) + 2;
        let list = Rect {
            height: area.height.saturating_sub(why).max(2),
            ..area
        };
        self.spans.fit(kinds.len(), usize::from(list.height - 1));
        let first = self.spans.first;
        let shown = kinds.get(first..).unwrap_or_default();
        let selected = self.spans.selected.saturating_sub(first);
        spans::draw(buffer, list, (shot, shown), Some(selected), self.look);
        let width = usize::from(area.width);
        let Some(kind) = kinds.get(self.spans.selected) else {
            let words = "no span has ended yet: spans are pairs of user events (x begin, x end), or \
                         what --span names";
            let aside = self.look.style(Role::Aside);
            buffer.set_stringn(area.x, area.y + 1, words, width, aside);
            return;
        };
        let lines = spans::slowest(kind, spans::LINES);
        for (line, y) in lines.iter().zip(list.bottom() + 1..area.bottom()) {
            buffer.set_stringn(area.x, y, line, width, Style::new());
        }
    }

    fn draw_path(&mut self, buffer: &mut Buffer, area: Rect, (shot, name): (&Shot, &str)) {
        let kind = shot.spans.iter().find(|kind| kind.name == *name);
        let lines = kind.map(|kind| spans::slowest(kind, usize::MAX));
        let lines = lines.unwrap_or_default();
        self.rows = usize::from(area.height);
        self.path = self.path.min(lines.len().saturating_sub(self.rows));
        let shown = lines.iter().skip(self.path);
        for (line, y) in shown.zip(area.y..area.bottom()) {
            buffer.set_stringn(area.x, y, line, usize::from(area.width), Style::new());
        }
    }

    fn draw_thread(&mut self, buffer: &mut Buffer, area: Rect, shot: &Shot) {
        let Some(now) = &shot.opened else {
            return;
        };
        let paused = self.paused.as_ref().and_then(|shot| shot.opened.as_ref());
        // Paused, its states stand still as its events do.
        opened::draw(buffer, area, paused.unwrap_or(now), self.look);
        let width = usize::from(area.width);
        let y = area.y + opened::ROWS;
        let rows = area.bottom().saturating_sub(y);
        self.rows = usize::from(rows);
        let lines = opened::lines(paused.unwrap_or(now), &self.event_filter);
        self.hidden = self.hidden.min(lines.len().saturating_sub(self.rows));
        let mut words = format!("events: {}", lines.len());
        if !self.event_filter.is_empty() {
            words.push_str(&format!(" with \"{}\"", self.event_filter));
        }
        let search = self.search.to_lowercase();
        let is_found = |line: &str| !search.is_empty() && line.to_lowercase().contains(&search);
        if !search.is_empty() {
            let count = lines.iter().filter(|line| is_found(line)).count();
            words.push_str(&format!(", {count} found with \"{}\"", self.search));
        }
        if self.paused.is_some() {
            words.push_str(", paused (p goes on)");
        }
        if y > area.bottom() {
            return;
        }
        buffer.set_stringn(area.x, y - 1, words, width, self.look.style(Role::Heading));
        let first = lines.len().saturating_sub(self.rows + self.hidden);
        for (line, y) in lines.iter().skip(first).zip(y..y + rows) {
            let style = if is_found(line) {
                self.look.style(Role::Heading)
            } else {
                Style::new()
            };
            buffer.set_stringn(area.x, y, line, width, style);
        }
    }

    fn draw_foot(&self, buffer: &mut Buffer, area: Rect, shot: &Shot) {
        let words = match self.above {
            Above::Typing(Typing::Filter) => format!("filter: {}_", self.typed),
            Above::Typing(Typing::Search) => format!("search: {}_", self.typed),
            Above::Nothing | Above::Help | Above::Columns(_) => self.foot(shot),
        };
        let style = self.look.style(Role::Aside);
        buffer.set_stringn(area.x, area.y, words, usize::from(area.width), style);
    }

    fn foot(&self, shot: &Shot) -> String {
        let mut words = match self.play {
            Some(play) => format!("{}  Space .,+-  ", playing(play, shot)),
            None if self.is_frozen => "frozen  ".to_owned(),
            None if shot.has_ended => "the trace has ended  ".to_owned(),
            None => String::new(),
        };
        if !self.listing.filter.is_empty() && self.view == View::Threads {
            words.push_str(&format!("only \"{}\"  ", self.listing.filter));
        }
        let hints = match self.view {
            View::Threads => {
                "?help q:end Enter:open s:spans <>:sort /:filter c:columns w:window f:freeze"
            }
            View::Spans => "?help q:end Enter:path t:threads w:window f:freeze",
            View::Thread(_) => "?help q:end Esc:back p:pause /:search n:next &:filter w:window",
            View::Path(_) => "?help q:end Esc:back f:freeze",
        };
        // As many as there is space for, each whole.
        for hint in hints.split(' ') {
            if words.chars().count() + hint.len() > usize::from(self.width) {
                break;
            }
            words.push_str(hint);
            words.push(' ');
        }
        words
    }

    fn draw_help(&self, buffer: &mut Buffer, area: Rect) {
        let parts = PARTS.iter().map(|part| {
            let character = self.look.part(Role::from_part(part));
            format!("{character} {part}  ")
        });
        let mut lines = vec![parts.collect()];
        let play: &[_] = if self.play.is_some() { &PLAY } else { &[] };
        for (key, what) in play.iter().chain(&KEYS) {
            lines.push(format!("{key:<22} {what}"));
        }
        self.draw_above(buffer, area, &lines, None);
    }

    fn draw_columns(&self, buffer: &mut Buffer, area: Rect, selected: usize) {
        let lines = ALL_COLUMNS.iter().map(|entry| {
            let is_shown = self.listing.columns.contains(&entry.column);
            let mark = if is_shown { 'x' } else { ' ' };
            format!("[{mark}] {:<10} {}", entry.name, entry.help)
        });
        let mut lines: Vec<String> = lines.collect();
        lines.push("Space shows or hides it, s sorts by it, Esc ends".to_owned());
        self.draw_above(buffer, area, &lines, Some(selected));
    }

    /// Draws lines above the view.
    fn draw_above(&self, buffer: &mut Buffer, area: Rect, lines: &[String], at: Option<usize>) {
        // As far as there is space, the selected one is seen.
        let first = at.map_or(0, |at| (at + 1).saturating_sub(usize::from(area.height)));
        let width = usize::from(area.width);
        for ((nth, line), y) in lines
            .iter()
            .enumerate()
            .skip(first)
            .zip(area.y..area.bottom())
        {
            let style = if at == Some(nth) {
                Style::reset().patch(self.look.style(Role::Selected))
            } else {
                Style::reset()
            };
            buffer.set_stringn(area.x, y, format!(" {line:<width$}"), width, style);
        }
    }
}

/// Describes in words how a log is played.
fn playing(play: Play, shot: &Shot) -> String {
    let state = if shot.has_ended {
        "end of the log"
    } else if play.is_paused {
        "paused"
    } else {
        "playing"
    };
    let times = 1_u64 << play.speed.unsigned_abs().min(32);
    if play.speed < 0 {
        format!("{state} 1/{times}x")
    } else {
        format!("{state} {times}x")
    }
}

fn row(area: Rect, y: u16) -> Rect {
    Rect::new(area.x, area.y + y, area.width, 1)
}
