//! Patterns of names, as shells know them.

use std::fmt;

use tracer_common::kernel::COMM_BYTES;

/// Bytes of a name: the kernel holds no more, and a null.
const MOST: usize = COMM_BYTES - 1;

/// Any one byte.
const ANY: u8 = b'?';

/// Any bytes, or none.
const STAR: u8 = b'*';

/// A pattern of names of processes: `*` matches any bytes, `?` one.
///
/// The pattern is a row of elements, each of which matches one byte of a name. How far a name has
/// come is a set of elements: the eBPF programs go through a name in this way, by the words that
/// this makes for them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NamePattern {
    elements: [u8; MOST],
    length: usize,
    /// Bit *n*: any bytes may come before element *n*.
    stars: u32,
    /// Whether there was more than a name can have.
    is_truncated: bool,
}

/// Why something is no pattern of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing.
    #[error("names no process")]
    Empty,
    /// More bytes than a name can have.
    #[error("asks for more than {MOST} bytes, and the kernel keeps no more of a name")]
    TooLong,
}

impl NamePattern {
    /// Parses the pattern that was typed. A name that is too long is truncated to what the kernel
    /// holds of it.
    ///
    /// # Errors
    ///
    /// See [`PatternError`].
    pub fn new(typed: &str) -> Result<Self, PatternError> {
        if typed.is_empty() {
            return Err(PatternError::Empty);
        }
        let mut pattern = Self {
            elements: [0; MOST],
            length: 0,
            stars: 0,
            is_truncated: false,
        };
        for byte in typed.bytes() {
            match (byte, pattern.elements.get_mut(pattern.length)) {
                (STAR, _) => pattern.stars |= pattern.end(),
                (_, Some(element)) => {
                    *element = byte;
                    pattern.length += 1;
                }
                (_, None) => pattern.is_truncated = true,
            }
        }
        // Where a star comes before the end, it is unknown which bytes would be truncated.
        let is_open = pattern.stars & !pattern.end() != 0;
        if pattern.is_truncated && is_open {
            return Err(PatternError::TooLong);
        }
        if pattern.is_truncated {
            pattern.stars = 0;
        }
        Ok(pattern)
    }

    /// Tells whether a name, without its null, is like this.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let fits = self.fits();
        let step = |reached: u32, byte: &u8| {
            let fits = fits.get(usize::from(*byte)).copied().unwrap_or(0);
            ((reached & fits) << 1) | (reached & self.stars)
        };
        !name.is_empty() && name.iter().fold(1, step) & self.end() != 0
    }

    /// Tells whether there was more than the kernel holds of a name.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns for each byte the elements that it fits, as bits.
    pub fn fits(&self) -> [u32; 256] {
        let mut fits = [0; 256];
        for (index, element) in self.elements.iter().take(self.length).enumerate() {
            for (byte, fits) in (0..=u8::MAX).zip(&mut fits) {
                if *element == ANY || *element == byte {
                    *fits |= 1 << index;
                }
            }
        }
        fits
    }

    /// Returns bits, of which bit *n* says that any bytes may come before element *n*.
    #[must_use]
    pub fn stars(&self) -> u32 {
        self.stars
    }

    /// Returns the bit of the element after the last.
    pub fn end(&self) -> u32 {
        1 << self.length
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        for index in 0..=self.length {
            if self.stars & (1 << index) != 0 {
                text.push(STAR);
            }
            text.extend(self.elements.get(index).filter(|_| index < self.length));
        }
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamePattern({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        NamePattern::new(pattern).unwrap().matches(name.as_bytes())
    }

    #[test]
    fn a_name_is_itself_and_no_other() {
        assert!(matches("redis-server", "redis-server"));
        for other in ["redis-serve", "redis-servers", "Redis-server", ""] {
            assert!(!matches("redis-server", other), "{other}");
        }
    }

    #[test]
    fn stars_and_question_marks_are_those_of_a_shell() {
        for (pattern, name, is_like) in [
            ("redis*", "redis-server", true),
            ("redis*", "redis", true),
            ("redis*", "tredis", false),
            ("*server", "redis-server", true),
            ("*server", "redis-servers", false),
            ("*d*s*", "redis-server", true),
            ("*d*x*", "redis-server", false),
            ("r?dis", "redis", true),
            ("r?dis", "rdis", false),
            ("*", "anything", true),
            ("**a**", "a", true),
            ("kworker/*:?", "kworker/0:1", true),
            ("a*a", "a", false),
            ("*aab", "aaaab", true),
        ] {
            assert_eq!(matches(pattern, name), is_like, "{pattern} {name}");
        }
    }

    #[test]
    fn a_long_name_is_what_the_kernel_keeps_of_it() {
        for typed in ["a-very-long-command-name", "a-very-long-command*"] {
            let long = NamePattern::new(typed).unwrap();
            assert!(
                long.is_truncated() && long.matches(b"a-very-long-com"),
                "{typed}"
            );
            assert_eq!(long.to_string(), "a-very-long-com");
        }
        let fifteen = NamePattern::new("a-very-long-com").unwrap();
        assert!(!fifteen.is_truncated());
        assert_eq!(
            NamePattern::new("*a-very-long-name"),
            Err(PatternError::TooLong)
        );
        assert_eq!(NamePattern::new(""), Err(PatternError::Empty));
    }

    #[test]
    fn a_pattern_is_shown_as_it_was_typed() {
        for typed in ["redis*", "*a?b*", "*", "sh"] {
            assert_eq!(NamePattern::new(typed).unwrap().to_string(), typed);
        }
    }
}
