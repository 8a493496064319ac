//! Handling of the mouse.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::{Above, Screen, View};

/// Number of lines above a list: the title and the headings.
const ABOVE: u16 = 2;

/// Number of lines that the wheel scrolls.
const WHEEL: isize = 3;

impl Screen {
    /// Handles an event of the mouse.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        if self.above != Above::Nothing {
            if matches!(mouse.kind, MouseEventKind::Down(_)) {
                self.above = Above::Nothing;
            }
            return;
        }
        match mouse.kind {
            MouseEventKind::ScrollUp => self.scroll(-WHEEL),
            MouseEventKind::ScrollDown => self.scroll(WHEEL),
            MouseEventKind::Down(MouseButton::Left) => self.click(mouse.column, mouse.row),
            MouseEventKind::Down(MouseButton::Right) if self.is_opened() => self.back(),
            _ => {}
        }
    }

    /// Handles a click: a heading sorts; a line is selected, and opened where it is selected
    /// already.
    fn click(&mut self, x: u16, y: u16) {
        let line = y.checked_sub(ABOVE).map(usize::from);
        match (&self.view, line) {
            (View::Threads, None) if y + 1 == ABOVE => {
                if let Some(column) = self.listing.column_at(x, self.width) {
                    self.listing.is_reversed =
                        self.listing.sort == column && !self.listing.is_reversed;
                    self.listing.sort = column;
                }
            }
            (View::Threads, Some(line)) if line < self.threads.rows => {
                let at = self.threads.first + line;
                if self.threads.selected == at && self.thread.is_some() {
                    self.enter();
                } else {
                    self.threads.selected = at;
                    self.select_thread();
                }
            }
            (View::Spans, Some(line)) if line < self.spans.rows => {
                let at = self.spans.first + line;
                if self.spans.selected == at && self.span.is_some() {
                    self.enter();
                } else {
                    self.spans.selected = at;
                    self.select_span();
                }
            }
            _ => {}
        }
    }
}
