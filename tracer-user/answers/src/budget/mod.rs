//! Budgets of answers: no answer is longer, and what is left out is counted.
//!
//! Text is cut by whole lines and JSON by whole entries of lists, always at the same places. The
//! sums at the top of an answer, and the first lines of each of its tables, stay longest, and what
//! says that events are missing stays in any case. A text for a terminal is cut likewise, to what
//! its screen shows.

mod bare;
mod json;
mod missing;
mod text;

use serde::Serialize;
use serde_json::Value;

use text::TextRoom;
use tracer_event::document::{document, object_line};
use tracer_event::summary::Summary;
use tracer_output::terminal::TerminalScreen;

/// Least budget, in bytes: that there is more, and how it is shown, has to fit.
pub const LEAST_BYTES: u64 = 256;

/// Budget of an answer.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// Most bytes; `None` for any number.
    pub bytes: Option<usize>,
    /// Screen that a text is to fit on, where no number of bytes was asked for; `None` for any
    /// height.
    pub screen: Option<TerminalScreen>,
    /// Command that shows what is left out; `None` where none does: another trace has other events.
    pub rest: Option<String>,
}

impl Budget {
    /// Returns a text, as far as it fits.
    #[must_use]
    pub fn text(&self, whole: String) -> String {
        let room = match (self.bytes, &self.screen) {
            (Some(bytes), _) => TextRoom::Bytes(bytes),
            (None, Some(screen)) => TextRoom::Screen(screen),
            (None, None) => return whole,
        };
        if room.holds(&whole) {
            whole
        } else {
            text::cut(&whole, room, self.rest())
        }
    }

    fn rest(&self) -> Option<&str> {
        self.rest.as_deref()
    }

    /// Returns a text that the closing lines of a trace follow, as far as both fit.
    #[must_use]
    pub fn text_before_closing(&self, whole: String, summary: &Summary) -> String {
        let closing = summary.for_people();
        let screen = self.screen.map(|screen| screen.beside(closing.lines()));
        Self {
            screen,
            ..self.clone()
        }
        .text(whole)
    }

    /// Returns an object of JSON over several lines, as far as it fits.
    #[must_use]
    pub fn document(&self, object: &impl Serialize) -> String {
        let whole = document(object);
        match (self.bytes, serde_json::to_value(object)) {
            (Some(bytes), Ok(value)) if whole.len() > bytes => {
                json::cut(&value, bytes, self.rest(), document)
            }
            _ => whole,
        }
    }

    /// Returns an object of JSON on one line, as far as it fits.
    #[must_use]
    pub fn line(&self, object: &Value) -> String {
        let whole = object_line(object);
        match self.bytes {
            Some(bytes) if whole.len() > bytes => {
                json::cut(object, bytes, self.rest(), object_line)
            }
            _ => whole,
        }
    }
}
