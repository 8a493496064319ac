//! Fields as text, within a bound and without allocation.

use std::fmt::{self, Write as _};

/// Most bytes of text.
const MOST: usize = 512;

/// How text ends from which something was left out.
const MARK: &str = "…";

/// Text on the stack; what does not fit is left out, and marked.
#[derive(Clone, Debug)]
pub(super) struct Text {
    bytes: [u8; MOST],
    length: usize,
    is_truncated: bool,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            bytes: [0; MOST],
            length: 0,
            is_truncated: false,
        }
    }
}

impl Text {
    /// Adds a field: `name=value`, after a space where it is not the first. The field `message`,
    /// which is what an event says, is its value alone.
    pub(super) fn field(&mut self, name: &str, value: fmt::Arguments<'_>) {
        if self.length > 0 {
            self.push(" ");
        }
        if name != "message" {
            self.push(name);
            self.push("=");
        }
        // Text never fails: it is truncated.
        let _ = self.write_fmt(value);
    }

    /// Adds `text`, or as much of it as leaves space for a mark, whole characters only.
    pub(super) fn push(&mut self, text: &str) {
        if self.is_truncated {
            return;
        }
        if text.len() <= MOST - self.length {
            self.append(text);
            return;
        }
        self.is_truncated = true;
        self.append(whole_characters(text, MOST - self.length));
        self.length = whole_characters(self.as_str(), MOST - MARK.len()).len();
        self.append(MARK);
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds what fits.
    fn append(&mut self, text: &str) {
        let end = self.length + text.len();
        if let Some(to) = self.bytes.get_mut(self.length..end) {
            to.copy_from_slice(text.as_bytes());
            self.length = end;
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// The longest beginning of `text` of at most `most` bytes.
fn whole_characters(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_names_and_values_and_a_message_is_itself() {
        let mut text = Text::default();
        text.field("message", format_args!("done"));
        text.field("count", format_args!("{}", 3));

        assert_eq!(text.as_str(), "done count=3");
    }

    #[test]
    fn what_does_not_fit_is_truncated_between_characters_and_marked() {
        let mut text = Text::default();
        text.push("a");
        text.push(&"ä".repeat(MOST));
        text.push("z");

        let truncated = format!("a{}…", "ä".repeat((MOST - 1 - MARK.len()) / 2));
        assert_eq!(text.as_str(), truncated);
    }

    #[test]
    fn what_just_fits_is_not_marked() {
        let mut text = Text::default();
        text.push(&"x".repeat(MOST));
        assert_eq!(text.as_str(), "x".repeat(MOST));

        text.push("y");
        assert_eq!(text.as_str(), "x".repeat(MOST - MARK.len()) + MARK);
    }
}
