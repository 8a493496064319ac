//! Writing fields, within a bound and without allocation.

use std::error::Error;
use std::fmt::{self, Write as _};

use super::parse::{Part, parts};
use super::{Level, MARK, is_bare, is_escaped};

/// Most bytes that a [`Writer`] writes: as many as a stream records of an event where its
/// attributes do not ask for more.
pub const MOST_BYTES: usize = 1024;

/// Space for the tail that says that something is missing: a quotation mark or a space, and the
/// mark.
const TAIL_BYTES: usize = 1 + MARK.len();

/// Most errors that are written of a chain of errors that come from each other.
const MOST_ERRORS: usize = 16;

/// Kind of place where text may end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Between words.
    Between,
    /// Within quotation marks.
    Inside,
}

/// Fields as text, on the stack; what does not fit is left out, and the text says so.
///
/// ```
/// use tracer_engine::fields::{Level, Record, Value, Writer};
///
/// let mut data = Writer::new();
/// data.level(Level::Info);
/// data.message(format_args!("it {}", "works"));
/// data.unsigned("bytes", 12);
/// data.text("user", "bob admin=true\nlevel=ERROR");
/// assert_eq!(
///     data.as_str(),
///     r#"level=INFO "it works" bytes=12u user="bob admin=true\nlevel=ERROR""#
/// );
///
/// let record = Record::parse(data.as_bytes()).unwrap();
/// assert_eq!(record.message.as_deref(), Some("it works"));
/// assert_eq!(record.field("bytes"), Some(&Value::Unsigned(12)));
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: [u8; MOST_BYTES],
    length: usize,
    most: usize,
    /// The last place where the text may end, so that there is space for the tail.
    last_end: (usize, End),
    is_truncated: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// Makes a writer without fields.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [0; MOST_BYTES],
            length: 0,
            most: MOST_BYTES,
            last_end: (0, End::Between),
            is_truncated: false,
        }
    }

    /// Makes a writer without fields, for at most `most` bytes, where other fields come in front of
    /// its own later.
    #[must_use]
    pub fn within(most: usize) -> Self {
        Self {
            most: most.min(MOST_BYTES),
            ..Self::new()
        }
    }

    /// Adds the name of the event.
    pub fn name(&mut self, name: fmt::Arguments<'_>) {
        self.word(|text| {
            text.raw("name=");
            text.quoted(name);
        });
    }

    /// Adds how important the event is.
    pub fn level(&mut self, level: Level) {
        self.word(|text| {
            text.raw("level=");
            text.raw(level.word());
        });
    }

    /// Adds the span of the event.
    pub fn span(&mut self, id: u64) {
        self.word(|text| text.plain(format_args!("span={id}")));
    }

    /// Adds the span that contains the one of the event.
    pub fn parent(&mut self, id: u64) {
        self.word(|text| text.plain(format_args!("parent={id}")));
    }

    /// Adds a span that the one of the event follows from.
    pub fn follows(&mut self, id: u64) {
        self.word(|text| text.plain(format_args!("follows={id}")));
    }

    /// Adds the message.
    pub fn message(&mut self, message: fmt::Arguments<'_>) {
        self.word(|text| text.quoted(message));
    }

    /// Adds a signed integer.
    pub fn signed(&mut self, name: &str, value: i64) {
        self.field(name, |text| text.plain(format_args!("{value}")));
    }

    /// Adds an unsigned integer.
    pub fn unsigned(&mut self, name: &str, value: u64) {
        self.field(name, |text| text.plain(format_args!("{value}u")));
    }

    /// Adds a long signed integer.
    pub fn long_signed(&mut self, name: &str, value: i128) {
        self.field(name, |text| text.plain(format_args!("{value}i128")));
    }

    /// Adds a long unsigned integer.
    pub fn long_unsigned(&mut self, name: &str, value: u128) {
        self.field(name, |text| text.plain(format_args!("{value}u128")));
    }

    /// Adds a floating-point value. NaN is read back as NaN, whichever it was.
    pub fn float(&mut self, name: &str, value: f64) {
        // This has a point, an exponent, or a word: it is not read as an integer.
        self.field(name, |text| text.plain(format_args!("{value:?}")));
    }

    /// Adds a truth value.
    pub fn flag(&mut self, name: &str, value: bool) {
        self.field(name, |text| text.plain(format_args!("{value}")));
    }

    /// Adds text.
    pub fn text(&mut self, name: &str, value: &str) {
        self.field(name, |text| text.quoted(format_args!("{value}")));
    }

    /// Adds a value as `Debug` or `Display` shows it.
    pub fn debug(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.field(name, |text| {
            text.raw("?");
            text.quoted(value);
        });
    }

    /// Adds an error, and the errors that it comes from.
    pub fn error(&mut self, name: &str, error: &(dyn Error + 'static)) {
        self.field(name, |text| {
            let mut next = Some(error);
            for _ in 0..MOST_ERRORS {
                let Some(error) = next else {
                    return;
                };
                text.raw("!");
                text.quoted(format_args!("{error}"));
                next = error.source();
            }
        });
    }

    /// Adds bytes.
    pub fn bytes(&mut self, name: &str, value: &[u8]) {
        self.field(name, |text| {
            text.raw("x\"");
            text.may_end(End::Inside);
            for byte in value {
                if text.is_truncated {
                    return;
                }
                let _ = write!(Raw(text), "{byte:02x}");
                text.may_end(End::Inside);
            }
            text.raw("\"");
        });
    }

    /// Adds words that another writer has written. They have to be the last.
    pub fn words(&mut self, words: &str) {
        let separator = usize::from(self.length > 0);
        if self.length + separator + words.len() <= self.most {
            if !words.is_empty() {
                self.word(|text| text.raw(words));
            }
            return;
        }
        let mut lacks_any = false;
        for part in parts(words) {
            lacks_any |= self.part(&part);
        }
        self.mark(lacks_any);
    }

    /// Adds the fields `old`, except those that are also among `new`, and then the fields `new`.
    /// Both are words that other writers have written.
    pub fn replaced(&mut self, old: &str, new: &str) {
        let is_new = |name: &str| parts(new).any(|part| part.name.as_deref() == Some(name));
        let stays = |part: &Part<'_>| !part.name.as_deref().is_some_and(is_new);
        let mut lacks_any = false;
        for part in parts(old).filter(stays).chain(parts(new)) {
            lacks_any |= self.part(&part);
        }
        self.mark(lacks_any);
    }

    /// Adds a word of another writer. Returns whether something is missing of it, or behind it.
    fn part(&mut self, part: &Part<'_>) -> bool {
        if !part.text.is_empty() {
            self.word(|text| text.raw(part.text));
        }
        part.is_short
    }

    /// Marks that something is missing, if `lacks_any` says so.
    fn mark(&mut self, lacks_any: bool) {
        if lacks_any && !self.is_truncated {
            self.word(|text| text.raw(MARK));
            self.is_truncated = true;
        }
    }

    /// Tells whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Tells whether something did not fit.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns all that was written, as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Returns all that was written, as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    fn field(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.word(|text| {
            if is_bare(name) {
                text.raw(name);
            } else {
                // A name is left out as a whole: part of a name is no name.
                let _ = write!(Raw(text), "@\"{}\"", Escaped(name));
            }
            text.raw("=");
            value(text);
        });
    }

    fn word(&mut self, write: impl FnOnce(&mut Self)) {
        if self.length > 0 {
            self.raw(" ");
        }
        write(self);
        self.may_end(End::Between);
    }

    fn plain(&mut self, value: fmt::Arguments<'_>) {
        let _ = Raw(self).write_fmt(value);
    }

    fn quoted(&mut self, value: fmt::Arguments<'_>) {
        self.raw("\"");
        self.may_end(End::Inside);
        // A value may fail to show itself: what it has shown until then stays.
        let _ = Inside(self).write_fmt(value);
        self.raw("\"");
    }

    /// Notes that the text may end here.
    fn may_end(&mut self, end: End) {
        if !self.is_truncated && self.length + TAIL_BYTES <= self.most {
            self.last_end = (self.length, end);
        }
    }

    /// Adds all of `text`, or ends the text where it may end.
    fn raw(&mut self, text: &str) {
        if self.is_truncated {
            return;
        }
        if self.append(text).is_some() {
            return;
        }
        self.is_truncated = true;
        let (length, end) = self.last_end;
        self.length = length;
        let before = match end {
            End::Inside => "\"",
            // Where nothing stays of the text, the mark needs no separator.
            End::Between if length == 0 => "",
            End::Between => " ",
        };
        let _fits = self.append(before).and_then(|()| self.append(MARK));
    }

    fn append(&mut self, text: &str) -> Option<()> {
        let end = self.length + text.len();
        let to = self.bytes.get_mut(..self.most)?.get_mut(self.length..end)?;
        to.copy_from_slice(text.as_bytes());
        self.length = end;
        Some(())
    }
}

/// Writes text as it is.
struct Raw<'a>(&'a mut Writer);

impl fmt::Write for Raw<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.raw(text);
        Ok(())
    }
}

/// Writes text within quotation marks, which may end between any two characters.
struct Inside<'a>(&'a mut Writer);

impl fmt::Write for Inside<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Self(writer) = self;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if writer.is_truncated {
                // The value need not go on showing itself.
                return Err(fmt::Error);
            }
            let plain = rest
                .bytes()
                .take_while(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
                .count();
            let space = writer.most.saturating_sub(TAIL_BYTES + writer.length);
            let unit = if plain > 0 {
                // As many as leave space for the tail, and then one by one: otherwise all of them
                // would be left out.
                plain.min(space).max(1)
            } else {
                first.len_utf8()
            };
            let (unit, after) = rest.split_at_checked(unit).unwrap_or((rest, ""));
            if plain > 0 || !is_escaped(first) {
                writer.raw(unit);
            } else {
                // An escape is added in one piece.
                let mut escape = Short::default();
                let _ = push_escape(&mut escape, first);
                writer.raw(escape.as_str());
            }
            writer.may_end(End::Inside);
            rest = after;
        }
        Ok(())
    }
}

/// A name as it is written within quotation marks.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if is_escaped(character) {
                push_escape(f, character)?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

fn push_escape(out: &mut impl fmt::Write, character: char) -> fmt::Result {
    match character {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '"' => out.write_str("\\\""),
        '\\' => out.write_str("\\\\"),
        other => write!(out, "\\u{{{:x}}}", u32::from(other)),
    }
}

/// Space for one escape.
#[derive(Default)]
struct Short {
    bytes: [u8; 10],
    length: usize,
}

impl Short {
    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let to = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
