//! Strings that fit into `{TRACE_NAME_MAX}`: the stream's name and the generation version.

use std::fmt;

/// `{TRACE_NAME_MAX}`. Callers of the C functions pass arrays of this size, so that names kept
/// here are one byte shorter and leave room for the terminating null.
pub const TRACE_NAME_MAX: usize = 64;

/// Most bytes of a name that are kept.
const KEPT: usize = TRACE_NAME_MAX - 1;

/// A string of at most `{TRACE_NAME_MAX}` - 1 bytes, none of them null.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceName {
    bytes: [u8; TRACE_NAME_MAX],
}

impl TraceName {
    /// The empty name.
    pub const EMPTY: Self = Self {
        bytes: [0; TRACE_NAME_MAX],
    };

    /// The start of `name` up to its first null, cut where it is too long.
    #[must_use]
    pub fn cut_from(name: &[u8]) -> Self {
        let mut bytes = [0; TRACE_NAME_MAX];
        let given = name.iter().take_while(|byte| **byte != 0);
        for (kept, given) in bytes.iter_mut().take(KEPT).zip(given) {
            *kept = *given;
        }
        Self { bytes }
    }

    /// The name without a terminating null.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.bytes.iter().position(|byte| *byte == 0);
        self.bytes.split_at(length.unwrap_or(KEPT)).0
    }

    /// The name with its terminating null, filled up with nulls.
    #[must_use]
    pub const fn padded(&self) -> &[u8; TRACE_NAME_MAX] {
        &self.bytes
    }
}

impl fmt::Debug for TraceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_cut_and_keeps_its_null() {
        let name = TraceName::cut_from(&[b'x'; 100]);

        assert_eq!(name.as_bytes().len(), TRACE_NAME_MAX - 1);
        assert_eq!(name.padded().last(), Some(&0));
    }

    #[test]
    fn a_name_ends_at_its_first_null() {
        assert_eq!(TraceName::cut_from(b"ab\0cd").as_bytes(), b"ab");
    }
}
