//! Strings that fit into `{TRACE_NAME_MAX}`: the stream's name and the generation version.

use std::fmt;

/// `{TRACE_NAME_MAX}`. Callers of the C functions pass arrays of this size, so that names stored
/// here are one byte shorter and leave space for the terminating null.
pub const TRACE_NAME_MAX: usize = 64;

/// Most bytes of a name that are stored.
const MOST_BYTES: usize = TRACE_NAME_MAX - 1;

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

    /// Returns the start of `name` up to its first null, truncated where it is too long.
    #[must_use]
    pub fn truncated_from(name: &[u8]) -> Self {
        let mut bytes = [0; TRACE_NAME_MAX];
        let given = name.iter().take_while(|byte| **byte != 0);
        for (stored, given) in bytes.iter_mut().take(MOST_BYTES).zip(given) {
            *stored = *given;
        }
        Self { bytes }
    }

    /// Returns the name without a terminating null.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.bytes.iter().position(|byte| *byte == 0);
        self.bytes.split_at(length.unwrap_or(MOST_BYTES)).0
    }

    /// Returns the name with its terminating null, filled up with nulls.
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
    fn a_name_that_is_too_long_is_truncated_and_keeps_its_null() {
        let name = TraceName::truncated_from(&[b'x'; 100]);

        assert_eq!(name.as_bytes().len(), TRACE_NAME_MAX - 1);
        assert_eq!(name.padded().last(), Some(&0));
    }

    #[test]
    fn a_name_ends_at_its_first_null() {
        assert_eq!(TraceName::truncated_from(b"ab\0cd").as_bytes(), b"ab");
    }
}
