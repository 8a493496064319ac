//! Fields and their values.

use std::borrow::Cow;

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

    /// Returns the word for it: `TRACE`, `DEBUG`, `INFO`, `WARN` or `ERROR`.
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
