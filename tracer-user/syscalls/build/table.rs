//! Lines of the table.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::is_known;
use super::structs::{Definition, camel};

/// The table.
#[derive(Debug, Default)]
pub struct Table<'a> {
    /// Its structs.
    pub structs: BTreeMap<&'a str, Definition<'a>>,
    /// Its classes in their order, each with the classes that are part of it.
    pub classes: Vec<(&'a str, Vec<&'a str>)>,
    /// Its calls.
    pub calls: Vec<Line<'a>>,
}

/// A line about a call.
#[derive(Clone, Debug, Default)]
pub struct Line<'a> {
    /// The programs that it is for; empty for all.
    pub mark: &'a str,
    /// Name of the call.
    pub name: &'a str,
    /// Arguments; `None` where they are not known.
    pub arguments: Option<Vec<Argument<'a>>>,
    /// Arguments that are read together: the word that says how, and the first and the last one.
    pub together: Option<(&'a str, usize, usize)>,
    /// Attributes (`shows`, `returns`, `result`, `reads`) with their values.
    pub attributes: BTreeMap<&'a str, &'a str>,
    /// Classes that it is in.
    pub classes: Vec<&'a str>,
}

/// An argument.
#[derive(Clone, Debug)]
pub struct Argument<'a> {
    /// Its name.
    pub name: &'a str,
    /// Kind of it.
    pub kind: Kind<'a>,
    /// Names of its values: a set of flags, or a function.
    pub names: Option<&'a str>,
}

/// Kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// One without an address, in words of the table.
    Value(&'a str),
    /// An address behind which something is read: its name, whether the call is given it, whether
    /// the call fills it in, and whether it is always that of 32-bit programs.
    Pointed(&'a str, bool, bool, bool),
}

const ATTRIBUTES: [&str; 4] = ["shows", "returns", "result", "reads"];
const VALUES: [&str; 17] = [
    "fd",
    "pid",
    "signal",
    "int",
    "uint",
    "hex",
    "mode",
    "new_mode",
    "mode_flags",
    "long",
    "split",
    "rest",
    "pages",
    "size",
    "set_size",
    "word",
    "ptr",
];

impl<'a> Table<'a> {
    /// Reads the table.
    pub fn read(text: &'a str) -> Self {
        let mut table = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            if !line.starts_with('#') && !line.is_empty() {
                let read = table.read_line(line);
                read.unwrap_or_else(|| panic!("table.txt:{number}: is no line: {line}"));
            }
        }
        table.check();
        table
    }

    /// Fails on a call that no machine has, and on one of which there are two lines.
    fn check(&self) {
        let mut known = BTreeSet::new();
        for Line { mark, name, .. } in &self.calls {
            assert!(is_known(name), "table.txt: no machine has a call {name}");
            assert!(known.insert((mark, name)), "table.txt: two lines of {name}");
        }
    }

    fn read_line(&mut self, line: &'a str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        match words.next()? {
            "struct" => self.define(words.next()?),
            "class" => {
                self.classes.push((words.next()?, words.collect()));
                Some(())
            }
            first => {
                let (mark, name) = if first.starts_with('@') {
                    (first, words.next()?)
                } else {
                    ("", first)
                };
                let mut call = Line {
                    mark,
                    name,
                    arguments: Some(Vec::new()),
                    ..Line::default()
                };
                for word in words {
                    self.read_word(&mut call, word)?;
                }
                self.calls.push(call);
                Some(())
            }
        }
    }

    fn define(&mut self, word: &'a str) -> Option<()> {
        let definition = Definition::read(word)?;
        let before = self.structs.insert(definition.name, definition);
        before.is_none().then_some(())
    }

    /// Reads a word behind the name of a call.
    fn read_word(&mut self, call: &mut Line<'a>, word: &'a str) -> Option<()> {
        let count = call.arguments.as_ref().map_or(0, Vec::len);
        if word == "?" {
            call.arguments = None;
        } else if word.starts_with('%') {
            self.classes.iter().find(|(class, _)| *class == word)?;
            call.classes.push(word);
        } else if let Some(shape) = word.strip_prefix('{') {
            call.together = Some((shape, count, count));
        } else if word == "}" {
            call.together.as_mut()?.2 = count.checked_sub(1)?;
        } else if let Some((name, value)) = attribute(word) {
            call.attributes.insert(name, value);
        } else {
            let argument = self.argument(word)?;
            call.arguments.as_mut()?.push(argument);
        }
        Some(())
    }

    fn argument(&mut self, word: &'a str) -> Option<Argument<'a>> {
        let (name, rest) = word.split_once(':')?;
        let (mut kind, names) = match rest.split_once('=') {
            Some((kind, names)) => (kind, Some(names)),
            None => (rest, None),
        };
        let is_given = kind.starts_with('<');
        let is_filled = kind.starts_with('>') || kind.ends_with('>');
        if !is_given && !is_filled {
            VALUES.contains(&kind).then_some(())?;
            let kind = Kind::Value(kind);
            return Some(Argument { name, kind, names });
        }
        kind = kind.trim_matches(['<', '>']);
        let is_narrow = kind.starts_with('~');
        kind = kind.trim_start_matches('~');
        // A struct that is defined here.
        if kind.ends_with(']') {
            self.define(kind)?;
            kind = kind.split_once('[')?.0;
        }
        let kind = Kind::Pointed(kind, is_given, is_filled, is_narrow);
        Some(Argument { name, kind, names })
    }

    /// Tells whether a struct has other members in 32-bit programs.
    fn is_narrow(&self, name: &str) -> bool {
        self.structs.get(name).is_some_and(Definition::is_narrow)
    }

    /// Returns an argument's kind as Rust; `is_compat`: of 32-bit programs.
    pub fn kind(&self, kind: Kind<'_>, is_compat: bool) -> String {
        let (name, is_given, is_filled, is_narrow) = match kind {
            Kind::Value("ptr") => return "Kind::Pointer(Pointed::Unread)".to_owned(),
            Kind::Value(word) => return format!("Kind::{}", camel(word)),
            Kind::Pointed(name, is_given, is_filled, is_narrow) => {
                (name, is_given, is_filled, is_narrow)
            }
        };
        let pointed = match (name, is_filled) {
            ("text", false) => "Text".to_owned(),
            ("text", true) => "FilledText".to_owned(),
            ("bytes" | "datagram", false) => "Bytes".to_owned(),
            ("bytes" | "bytes_or_size" | "datagram", true) => "Filled".to_owned(),
            _ => {
                assert!(self.structs.contains_key(name), "no struct: {name}");
                let is_narrow = is_narrow || is_compat && self.is_narrow(name);
                let constant = Definition::constant(name);
                format!(
                    "Struct(Given {{ kind: &{constant}, is_given: {is_given}, \
                     is_filled: {is_filled}, is_narrow: {is_narrow} }})"
                )
            }
        };
        format!("Kind::Pointer(Pointed::{pointed})")
    }
}

fn attribute(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    ATTRIBUTES.contains(&name).then_some((name, value))
}
