//! Reading fields.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use super::{Field, Level, MARK, Value, is_of_bare_name};

/// The fields of an event, and what comes in front of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record<'a> {
    /// The name of the event, where its type has none of its own.
    pub name: Option<Cow<'a, str>>,
    /// How important it is.
    pub level: Option<Level>,
    /// The span that it is of, or in. Ids are used again when spans are over.
    pub span: Option<u64>,
    /// The span that contains that one.
    pub parent: Option<u64>,
    /// Spans that it follows from.
    pub follows: Vec<u64>,
    /// The message.
    pub message: Option<Cow<'a, str>>,
    /// Its fields, in order.
    pub fields: Vec<Field<'a>>,
    /// Whether something did not fit: the end of the last field or of the message, or fields behind
    /// it.
    pub is_truncated: bool,
}

/// A word.
enum Word<'a> {
    Name(Cow<'a, str>),
    Level(Level),
    Span(u64),
    Parent(u64),
    Follows(u64),
    Message(Cow<'a, str>),
    Field(Field<'a>),
    /// A mark that something is missing.
    Mark,
}

/// An error: the text is not written as it has to be.
struct Malformed;

type Parsed<T> = Result<T, Malformed>;

impl<'a> Record<'a> {
    /// Reads the data of an event; `None` where it is not written in this way.
    #[must_use]
    pub fn parse(untrusted: &'a [u8]) -> Option<Self> {
        Self::read(std::str::from_utf8(untrusted).ok()?, false)
    }

    /// Reads data of which the stream has recorded only the beginning
    /// ([`Truncation::Record`](crate::event::Truncation)): a value that may be incomplete is text,
    /// or is left out.
    #[must_use]
    pub fn parse_beginning(untrusted: &'a [u8]) -> Option<Self> {
        let text = match std::str::from_utf8(untrusted) {
            Ok(text) => text,
            // The end of the last character is missing.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(untrusted.get(..error.valid_up_to())?).ok()?
            }
            Err(_not_text) => return None,
        };
        let mut record = Self::read(text, true)?;
        record.is_truncated = true;
        Some(record)
    }

    /// Returns the value of the field `name`; of several, the last.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value<'a>> {
        let of_name = self.fields.iter().rev().find(|field| field.name == name);
        of_name.map(|field| &field.value)
    }

    /// Tells whether this is the data of an event of `tracing`, or of an event that is written as
    /// those are: such an event has a level, or a span.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.level.is_some() || self.span.is_some()
    }

    fn read(text: &'a str, is_beginning: bool) -> Option<Self> {
        let mut record = Self::default();
        let mut words = Words {
            rest: text,
            is_beginning,
            is_short: false,
        };
        loop {
            match words.next() {
                Ok(Some(word)) => record.add(word),
                Ok(None) => break,
                Err(Malformed) if words.is_short => break,
                Err(Malformed) => return None,
            }
        }
        record.is_truncated |= words.is_short;
        (!text.is_empty()).then_some(record)
    }

    fn add(&mut self, word: Word<'a>) {
        match word {
            Word::Name(name) => self.name = Some(name),
            Word::Level(level) => self.level = Some(level),
            Word::Span(id) => self.span = Some(id),
            Word::Parent(id) => self.parent = Some(id),
            Word::Follows(id) => self.follows.push(id),
            Word::Message(message) => self.message = Some(message),
            Word::Field(field) => self.fields.push(field),
            Word::Mark => self.is_truncated = true,
        }
    }
}

/// Returns the span in the data of an event, where only the span is of interest. What follows the
/// span is not looked at.
#[must_use]
pub fn span_id(untrusted: &[u8]) -> Option<u64> {
    let beginning = match std::str::from_utf8(untrusted) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(untrusted.get(..error.valid_up_to())?).ok()?,
    };
    let mut words = Words {
        rest: beginning,
        is_beginning: false,
        is_short: false,
    };
    loop {
        match words.next() {
            Ok(Some(Word::Span(id))) => return Some(id),
            Ok(Some(Word::Name(_) | Word::Level(_))) => {}
            _ => return None,
        }
    }
}

/// A word as it was written.
pub(super) struct Part<'a> {
    /// Name of a field.
    pub name: Option<Cow<'a, str>>,
    /// The word, without a mark.
    pub text: &'a str,
    /// Whether something is missing of it, or behind it.
    pub is_short: bool,
}

/// Returns the words that a [`Writer`](super::Writer) has written.
pub(super) fn parts(written: &str) -> impl Iterator<Item = Part<'_>> {
    let mut words = Words {
        rest: written,
        is_beginning: false,
        is_short: false,
    };
    std::iter::from_fn(move || {
        let before = words.rest;
        let word = words.next().ok().flatten()?;
        let length = before.len().checked_sub(words.rest.len())?;
        let text = before.get(..length)?.trim_end_matches(' ');
        let name = match &word {
            Word::Field(field) => Some(field.name.clone()),
            Word::Name(_)
            | Word::Level(_)
            | Word::Span(_)
            | Word::Parent(_)
            | Word::Follows(_)
            | Word::Message(_)
            | Word::Mark => None,
        };
        let whole = text.strip_suffix(MARK).filter(|_| words.rest.is_empty());
        Some(Part {
            name,
            text: whole.unwrap_or(text),
            is_short: words.is_short || matches!(word, Word::Mark),
        })
    })
}

/// The words of a text.
struct Words<'a> {
    rest: &'a str,
    /// Whether the text may end anywhere.
    is_beginning: bool,
    /// Whether something is missing of the last word.
    is_short: bool,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Parsed<Option<Word<'a>>> {
        if self.rest.is_empty() || self.is_short {
            return Ok(None);
        }
        let word = self.word()?;
        if self.is_short && !self.rest.is_empty() {
            // Nothing may follow a truncated word.
            self.is_short = false;
            return Err(Malformed);
        }
        if self.rest.is_empty() {
            return Ok(Some(word));
        }
        self.expect(" ")?;
        // A space only stands between two words.
        if self.rest.is_empty() && !self.ends() {
            return Err(Malformed);
        }
        Ok(Some(word))
    }

    fn word(&mut self) -> Parsed<Word<'a>> {
        if self.rest == MARK {
            self.rest = "";
            return Ok(Word::Mark);
        }
        if self.rest.starts_with('"') {
            return self.quoted().map(Word::Message);
        }
        if self.takes("@") {
            let name = self.quoted()?;
            // Part of a name is no name.
            self.expect("=")?;
            return self.field(name);
        }
        let name = self.bare()?;
        self.expect("=")?;
        match name {
            "name" => Ok(Word::Name(self.quoted()?)),
            "level" => {
                let level = self.token()?;
                Level::from_word(level).map(Word::Level).ok_or(Malformed)
            }
            "span" => self.id().map(Word::Span),
            "parent" => self.id().map(Word::Parent),
            "follows" => self.id().map(Word::Follows),
            _ => self.field(Cow::Borrowed(name)),
        }
    }

    fn field(&mut self, name: Cow<'a, str>) -> Parsed<Word<'a>> {
        let value = self.value()?;
        Ok(Word::Field(Field { name, value }))
    }

    fn value(&mut self) -> Parsed<Value<'a>> {
        if self.rest.starts_with('"') {
            return self.quoted().map(Value::Text);
        }
        if self.takes("?") {
            return self.quoted().map(Value::Debug);
        }
        if self.rest.starts_with('!') {
            let mut errors = Vec::new();
            while !self.is_short && self.takes("!") {
                errors.push(self.quoted()?);
            }
            return Ok(Value::Error(errors));
        }
        if self.rest.starts_with("x\"") {
            self.expect("x")?;
            let digits = self.quoted()?;
            return bytes_of(&digits, self.is_short)
                .map(Value::Bytes)
                .ok_or(Malformed);
        }
        plain_value(self.token()?).ok_or(Malformed)
    }

    fn id(&mut self) -> Parsed<u64> {
        let digits = self.token()?;
        unsigned(digits).ok_or(Malformed)
    }

    /// Takes the text up to a space. Where the text may end anywhere, a token that goes on to its
    /// end may not be all.
    fn token(&mut self) -> Parsed<&'a str> {
        let end = self.rest.find(' ').unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at_checked(end).ok_or(Malformed)?;
        self.rest = rest;
        if rest.is_empty() && self.ends() {
            return Err(Malformed);
        }
        Ok(token)
    }

    fn bare(&mut self) -> Parsed<&'a str> {
        let length = self.rest.bytes().take_while(|byte| is_of_bare_name(*byte));
        let (name, rest) = self
            .rest
            .split_at_checked(length.count())
            .ok_or(Malformed)?;
        let first = name.bytes().next();
        if !first.is_some_and(|first| first.is_ascii_alphabetic() || first == b'_') {
            return Err(Malformed);
        }
        self.rest = rest;
        Ok(name)
    }

    /// Takes the text in quotation marks, without them.
    fn quoted(&mut self) -> Parsed<Cow<'a, str>> {
        self.expect("\"")?;
        let inside = self.rest;
        let plain = inside
            .find(|character: char| matches!(character, '"' | '\\') || character.is_control());
        let (plain, rest) = inside
            .split_at_checked(plain.unwrap_or(inside.len()))
            .ok_or(Malformed)?;
        self.rest = rest;
        if self.rest.starts_with('"') || (self.rest.is_empty() && self.is_beginning) {
            self.end_of_quoted()?;
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        loop {
            let mut characters = self.rest.chars();
            match characters.next() {
                Some('"') | None => {
                    self.end_of_quoted()?;
                    return Ok(Cow::Owned(text));
                }
                Some('\\') => {
                    self.rest = characters.as_str();
                    match self.escaped() {
                        Ok(character) => text.push(character),
                        // The text ends within the escape.
                        Err(Malformed) if self.is_short => return Ok(Cow::Owned(text)),
                        Err(Malformed) => return Err(Malformed),
                    }
                }
                Some(character) if character.is_control() => return Err(Malformed),
                Some(character) => {
                    text.push(character);
                    self.rest = characters.as_str();
                }
            }
        }
    }

    fn end_of_quoted(&mut self) -> Parsed<()> {
        self.expect("\"")?;
        if self.takes(MARK) {
            self.is_short = true;
        }
        Ok(())
    }

    /// Returns the character of an escape, after its backslash.
    fn escaped(&mut self) -> Parsed<char> {
        let mut characters = self.rest.chars();
        let Some(kind) = characters.next() else {
            self.ends();
            return Err(Malformed);
        };
        self.rest = characters.as_str();
        match kind {
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            '"' | '\\' => Ok(kind),
            'u' => {
                self.expect("{")?;
                let Some((digits, rest)) = self.rest.split_once('}') else {
                    // A truncated escape has some of its digits.
                    if self.rest.len() <= 6
                        && self.rest.bytes().all(|byte| byte.is_ascii_hexdigit())
                    {
                        self.rest = "";
                        self.ends();
                    }
                    return Err(Malformed);
                };
                self.rest = rest;
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
                code.and_then(char::from_u32).ok_or(Malformed)
            }
            _ => Err(Malformed),
        }
    }

    /// Takes `text`, which has to follow.
    fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.takes(text) {
            return Ok(());
        }
        if text.starts_with(self.rest) && self.ends() {
            // Within truncated quotation marks, the text that is there counts.
            return (text == "\"").then_some(()).ok_or(Malformed);
        }
        Err(Malformed)
    }

    /// Takes `text` where it follows.
    fn takes(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Notes that the text has ended where more has to follow. Returns whether it may end there.
    fn ends(&mut self) -> bool {
        self.is_short |= self.is_beginning;
        self.is_beginning
    }
}

/// Parses digits only: `+7` and the like are never written.
fn unsigned(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    digits.parse().ok()
}

/// Returns a value without quotation marks.
fn plain_value<'a>(token: &str) -> Option<Value<'a>> {
    match token {
        "true" => return Some(Value::Flag(true)),
        "false" => return Some(Value::Flag(false)),
        "NaN" => return Some(Value::Float(f64::NAN)),
        "inf" => return Some(Value::Float(f64::INFINITY)),
        "-inf" => return Some(Value::Float(f64::NEG_INFINITY)),
        _ => {}
    }
    let digits = token.strip_prefix('-').unwrap_or(token);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Some(value) = token.strip_suffix("i128") {
        return value.parse().ok().map(Value::LongSigned);
    }
    if let Some(value) = token.strip_suffix("u128") {
        return value.parse().ok().map(Value::LongUnsigned);
    }
    if let Some(digits) = token.strip_suffix('u') {
        return unsigned(digits).map(Value::Unsigned);
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return token.parse().ok().map(Value::Signed);
    }
    let value: f64 = token.parse().ok()?;
    // "1." is not such a value, only the beginning of one.
    let mut rest = Rest(token);
    let is_same = write!(rest, "{value:?}").is_ok() && rest.0.is_empty();
    is_same.then_some(Value::Float(value))
}

/// The rest of a text, from which each text written to it is taken off.
struct Rest<'a>(&'a str);

impl fmt::Write for Rest<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// Returns the bytes of hexadecimal digits. Half a byte at the end of truncated digits is left out.
fn bytes_of(digits: &str, is_short: bool) -> Option<Vec<u8>> {
    let is_whole = digits.len().is_multiple_of(2) || is_short;
    let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    if !is_whole || !digits.bytes().all(is_hex) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
