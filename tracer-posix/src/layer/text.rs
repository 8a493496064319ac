//! Fields as text, within a bound and without allocation.

use std::fmt::{self, Write as _};

/// Most bytes of text.
const MOST: usize = 512;

/// Text on the stack; what does not fit is left out.
#[derive(Clone, Debug)]
pub(super) struct Text {
    bytes: [u8; MOST],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            bytes: [0; MOST],
            length: 0,
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
        // Text never fails: it cuts.
        let _ = self.write_fmt(value);
    }

    /// Adds as much of `text` as fits, whole characters only.
    pub(super) fn push(&mut self, text: &str) {
        let room = MOST - self.length;
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (Some(place), Some(kept)) = (
            self.bytes.get_mut(self.length..self.length + end),
            text.as_bytes().get(..end),
        ) else {
            return;
        };
        place.copy_from_slice(kept);
        self.length += end;
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
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
    fn what_does_not_fit_is_cut_between_characters() {
        let mut text = Text::default();
        text.push("a");
        text.push(&"ä".repeat(MOST));
        text.push("z");

        // The one byte that is left is too few for an ä, and enough for a z.
        let cut = format!("a{}z", "ä".repeat((MOST - 1) / 2));
        assert_eq!(text.as_str(), cut);
        text.push("more");
        assert_eq!(text.as_bytes().len(), MOST);
    }
}
