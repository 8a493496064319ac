//! Bytes of a message, of which not all were read.

use crate::calls::bytes::Bytes;

/// A part of a message: the bytes of it that were read, and its length.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    read: &'a [u8],
    length: usize,
}

impl<'a> Part<'a> {
    /// Makes a part of this many bytes, of which these were read: any bytes.
    pub fn new(untrusted: &'a [u8], length: usize) -> Self {
        Self {
            read: untrusted.get(..length).unwrap_or(untrusted),
            length,
        }
    }

    /// Returns the part from this offset on; nothing behind its end.
    pub fn from(self, at: usize) -> Self {
        Self {
            read: self.read.get(at..).unwrap_or_default(),
            length: self.length.saturating_sub(at),
        }
    }

    /// Returns its first bytes, at most this many.
    pub fn first(self, length: usize) -> Self {
        Self::new(self.read, length.min(self.length))
    }

    /// Returns its length.
    pub fn length(self) -> usize {
        self.length
    }

    /// Tells whether it is longer than the bytes of it that were read.
    pub fn has_more(self) -> bool {
        self.read.len() < self.length
    }

    /// Returns the bytes of it that were read.
    pub fn read(self) -> Bytes<'a> {
        Bytes(self.read)
    }

    /// Tells whether this many of its bytes were read. `None` where it has fewer.
    pub fn has(self, bytes: usize) -> Option<bool> {
        (self.length >= bytes).then_some(self.read.len() >= bytes)
    }

    /// Renders its bytes as escapes, in quotes.
    pub fn in_hex(self) -> String {
        if self.read.is_empty() && self.has_more() {
            return "...".to_owned();
        }
        let digits = self.read.iter().map(|byte| format!("\\x{byte:02x}"));
        let more = if self.has_more() { "..." } else { "" };
        format!("\"{}\"{more}", digits.collect::<String>())
    }
}
