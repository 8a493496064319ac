//! Fields in the data of an event: text that people read, and that programs read back exactly.
//!
//! The layer for the crate `tracing` writes such data, [`Writer`] does so for other programs, and
//! [`Record::parse`] reads it. It is UTF-8 of one line, of words with a space between them:
//!
//! ```text
//! level=INFO span=3 "it works" code=3 bytes=12u user="bob admin=true\nlevel=ERROR"
//! ```
//!
//! | word | what it is |
//! |---|---|
//! | `name="…"` | the name of the event, where its type has none of its own |
//! | `level=INFO` | how important it is: `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERROR` |
//! | `span=3` | the span that it is of, or in |
//! | `parent=2` | the span that contains that one |
//! | `follows=1` | a span that it follows from; there may be several |
//! | `"…"` | the message |
//! | `x=…` | the field `x` |
//!
//! The name of a field has letters, digits and `_.:#-`, and begins with a letter or `_`. Any other
//! name is in quotation marks behind a `@`, as in `@"a b"=1`, and so is a name that is one of the
//! first five words of the table.
//!
//! | value | type |
//! |---|---|
//! | `-7` | `i64` |
//! | `7u` | `u64` |
//! | `7i128`, `7u128` | `i128`, `u128` |
//! | `7.0`, `1e300`, `NaN`, `inf`, `-inf` | `f64` |
//! | `true`, `false` | `bool` |
//! | `"…"` | text |
//! | `?"…"` | how `Debug` or `Display` show the value |
//! | `!"…"!"…"` | an error, and the errors that it comes from |
//! | `x"0aff"` | bytes |
//!
//! In quotation marks `"` and `\` have a `\` in front; line ends and tabs are `\n`, `\r` and `\t`;
//! other characters that are not printed, or change the direction of writing, are `\u{1b}`. So no
//! value ends a line, a field, or its own quotation marks.
//!
//! Fields that did not fit are left out from the end. A value of which a part is missing has `…`
//! behind its quotation marks, and where whole fields are missing, the last word is `…`.

mod parse;
#[cfg(test)]
mod tests;
mod write;

use std::borrow::Cow;

pub use parse::{Record, span_id};
pub use write::{MOST_BYTES, Writer};

/// Names of the words in front of the fields.
const RESERVED: [&str; 5] = ["name", "level", "span", "parent", "follows"];

/// Mark that says that something is missing.
const MARK: &str = "…";

/// Tells whether a field may have this name without quotation marks.
fn is_bare(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(is_of_bare_name)
        && !RESERVED.contains(&name)
}

/// Tells whether a byte may be in a name without quotation marks.
fn is_of_bare_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.:#-".contains(&byte)
}

/// Tells whether a character is written as an escape: it would end the quotation marks or the line,
/// drive a terminal, or change the direction of writing.
fn is_escaped(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '"' | '\\'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// How important an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The least important.
    Trace,
    /// Of use for finding a fault.
    Debug,
    /// Of use to all.
    Info,
    /// Something may be wrong.
    Warn,
    /// Something is wrong.
    Error,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Trace,
        Self::Debug,
        Self::Info,
        Self::Warn,
        Self::Error,
    ];

    /// Returns the word for the level: `TRACE`, `DEBUG`, `INFO`, `WARN` or `ERROR`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }

    /// Returns the level of this word.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word() == word)
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// An `i64`, or a shorter one.
    Signed(i64),
    /// A `u64`, or a shorter one.
    Unsigned(u64),
    /// An `i128`.
    LongSigned(i128),
    /// A `u128`.
    LongUnsigned(u128),
    /// An `f64`, or an `f32`.
    Float(f64),
    /// A truth value.
    Flag(bool),
    /// Text.
    Text(Cow<'a, str>),
    /// How `Debug` or `Display` show it.
    Debug(Cow<'a, str>),
    /// An error, and each one that the one before comes from.
    Error(Vec<Cow<'a, str>>),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<'a> {
    /// The field's name.
    pub name: Cow<'a, str>,
    /// The field's value.
    pub value: Value<'a>,
}
