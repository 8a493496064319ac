//! Bytes of a message, of which not all were read.

use crate::structs::bytes::Bytes;

/// A part of a message: what was read of it, and how long it is.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    read: &'a [u8],
    length: usize,
}

impl<'a> Part<'a> {
    /// A part of so many bytes, of which these were read: any bytes.
    pub fn new(untrusted: &'a [u8], length: usize) -> Self {
        Self {
            read: untrusted.get(..length).unwrap_or(untrusted),
            length,
        }
    }

    /// What begins there; nothing behind its end.
    pub fn from(self, at: usize) -> Self {
        Self {
            read: self.read.get(at..).unwrap_or_default(),
            length: self.length.saturating_sub(at),
        }
    }

    /// Its first bytes, at most so many.
    pub fn first(self, length: usize) -> Self {
        Self::new(self.read, length.min(self.length))
    }

    /// How long it is.
    pub fn length(self) -> usize {
        self.length
    }

    /// Whether it is longer than what was read of it.
    pub fn has_more(self) -> bool {
        self.read.len() < self.length
    }

    /// What was read of it.
    pub fn read(self) -> Bytes<'a> {
        Bytes(self.read)
    }

    /// Whether so many of its bytes were read. `None` where it has not so many.
    pub fn has(self, bytes: usize) -> Option<bool> {
        (self.length >= bytes).then_some(self.read.len() >= bytes)
    }

    /// Its bytes as escapes, in quotes.
    pub fn in_hex(self) -> String {
        if self.read.is_empty() && self.has_more() {
            return "...".to_owned();
        }
        let digits = self.read.iter().map(|byte| format!("\\x{byte:02x}"));
        let more = if self.has_more() { "..." } else { "" };
        format!("\"{}\"{more}", digits.collect::<String>())
    }
}
