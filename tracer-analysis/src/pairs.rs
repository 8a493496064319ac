//! Pairs of user event types that are a beginning and its end, by their names.
//!
//! `x begin` and `x end`, `x-start` and `x-done`, `x__start` and `x__done`, `enter x` and `exit x`
//! (the spans of the `tracing` layer), `probe:x` and `retprobe:x`. Both have to be in the log: a
//! beginning without an end is an event as any other.

use std::collections::HashMap;

use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT, TRACE_EVENT_NAME_MAX};
use tracer_engine::EventTypes;

/// Words for beginnings, each with those for its end.
const WORDS: [(&str, &[&str]); 7] = [
    ("begin", &["end", "done"]),
    ("start", &["done", "end", "stop", "finish"]),
    ("enter", &["exit", "leave"]),
    ("entry", &["exit", "return"]),
    ("started", &["finished", "done", "ended", "stopped"]),
    ("begun", &["ended", "done"]),
    ("acquire", &["release"]),
];

/// Side of a pair that a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The beginning, and what the pair is called.
    Begin(usize, Box<[u8]>),
    /// The end.
    End(usize),
}

/// The pairs of a log.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    sides: HashMap<EventTypeId, Side>,
}

impl Pairs {
    /// Finds the pairs among the user event types of which `is_wanted` is true.
    pub fn among(types: &EventTypes, is_wanted: impl Fn(EventTypeId, &[u8]) -> bool) -> Self {
        let first = EventTypeId(FIRST_USER_EVENT);
        let ids = std::iter::successors(types.next_from(first), |id| {
            types.next_from(EventTypeId(id.0.saturating_add(1)))
        });
        let named: Vec<(EventTypeId, &[u8])> = ids
            .filter_map(|id| Some((id, types.name(id)?)))
            .filter(|(id, name)| is_wanted(*id, name))
            .collect();
        let by_name: HashMap<&[u8], EventTypeId> =
            named.iter().map(|(id, name)| (*name, *id)).collect();
        let mut pairs = Self::default();
        for (pair, (begin, name)) in named.iter().enumerate() {
            let found = ends_of(name).find_map(|(end, stem)| {
                let id = by_name.get(end.as_slice()).copied();
                // A long name was truncated to what a name may have: its end's was truncated
                // elsewhere.
                let is_truncated = name.len() == TRACE_EVENT_NAME_MAX;
                let id = id.or_else(|| {
                    let is_end = |other: &&[u8]| {
                        is_truncated
                            && other.len() == TRACE_EVENT_NAME_MAX
                            && other.starts_with(&end)
                    };
                    let found = named.iter().find(|(_, other)| is_end(other));
                    found.map(|(id, _)| *id)
                });
                Some((id?, stem))
            });
            if let Some((end, stem)) = found
                && !pairs.sides.contains_key(&end)
            {
                pairs.sides.insert(*begin, Side::Begin(pair, stem.into()));
                pairs.sides.insert(end, Side::End(pair));
            }
        }
        pairs
    }

    /// Returns all pairs: what each is called, its beginning and its end, in order of the
    /// beginnings.
    #[must_use]
    pub fn all(&self) -> Vec<(&[u8], EventTypeId, EventTypeId)> {
        let mut ends = HashMap::new();
        for (id, side) in &self.sides {
            if let Side::End(pair) = side {
                ends.insert(*pair, *id);
            }
        }
        let begins = self.sides.iter().filter_map(|(id, side)| match side {
            Side::Begin(pair, stem) => Some((&**stem, *id, *ends.get(pair)?)),
            Side::End(_) => None,
        });
        let mut all: Vec<_> = begins.collect();
        all.sort_by_key(|(_, begin, _)| begin.0);
        all
    }

    /// Returns the side that a type is, and of which pair.
    pub fn side(&self, id: EventTypeId) -> Option<&Side> {
        self.sides.get(&id)
    }
}

/// Returns possible names of the end of a beginning called `name`, each with the name that the pair
/// has then.
pub fn ends_of(name: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let probe = name.strip_prefix(b"probe:").map(|function| {
        let mut whole = [b"retprobe:", function].concat();
        whole.truncate(TRACE_EVENT_NAME_MAX);
        (whole, function.to_vec())
    });
    let pairs = WORDS.iter().flat_map(move |(begin, ends)| {
        ends.iter().flat_map(move |end| {
            let in_front = with_word_in_front(name, begin, end);
            in_front
                .into_iter()
                .chain(with_word_behind(name, begin, end))
        })
    });
    probe.into_iter().chain(pairs)
}

fn with_word_in_front(name: &[u8], begin: &str, end: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (word, rest) = name.split_at_checked(begin.len())?;
    let other = in_case_of(word, begin, end)?;
    let stem = without_separators(rest, true);
    if stem.len() == rest.len() {
        return None;
    }
    let mut whole = [&other, rest].concat();
    whole.truncate(TRACE_EVENT_NAME_MAX);
    Some((whole, stem.to_vec()))
}

fn with_word_behind(name: &[u8], begin: &str, end: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (rest, word) = name.split_at_checked(name.len().checked_sub(begin.len())?)?;
    let other = in_case_of(word, begin, end)?;
    let stem = without_separators(rest, false);
    // "restart" is no start of "re"; but "__start" alone is one.
    if !rest.is_empty() && stem.len() == rest.len() {
        return None;
    }
    let stem = if stem.is_empty() { rest } else { stem };
    let called = if stem.is_empty() {
        begin.as_bytes()
    } else {
        stem
    };
    Some(([rest, &other].concat(), called.to_vec()))
}

/// Returns the word `end` in the case in which `word` has `begin`; `None` when it is another word.
fn in_case_of(word: &[u8], begin: &str, end: &str) -> Option<Vec<u8>> {
    if !word.eq_ignore_ascii_case(begin.as_bytes()) {
        return None;
    }
    let mut other = end.as_bytes().to_vec();
    if word.iter().all(u8::is_ascii_uppercase) {
        other.make_ascii_uppercase();
    } else if let Some(first) = other.first_mut()
        && word.first().is_some_and(u8::is_ascii_uppercase)
    {
        first.make_ascii_uppercase();
    }
    Some(other)
}

fn without_separators(name: &[u8], in_front: bool) -> &[u8] {
    let is_separator = |byte: &u8| b" _-.:/".contains(byte);
    if in_front {
        let count = name.iter().take_while(|byte| is_separator(byte)).count();
        name.get(count..).unwrap_or_default()
    } else {
        let last = name.iter().rposition(|byte| !is_separator(byte));
        let other = last.and_then(|last| name.get(..=last));
        other.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the pairs of these types, with the names of both.
    fn pairs(names: &[&str]) -> Vec<(String, String, String)> {
        let mut types = EventTypes::default();
        let ids: Vec<_> = names
            .iter()
            .map(|name| types.define_user(name.as_bytes(), None))
            .collect();
        let pairs = Pairs::among(&types, |_, _| true);
        let mut found = Vec::new();
        for (begin, name) in ids.iter().zip(names) {
            let Some(Side::Begin(pair, stem)) = pairs.side(*begin) else {
                continue;
            };
            let end = ids
                .iter()
                .position(|id| pairs.side(*id) == Some(&Side::End(*pair)))
                .unwrap();
            let stem = String::from_utf8(stem.to_vec()).unwrap();
            found.push((stem, (*name).to_owned(), names[end].to_owned()));
        }
        found
    }

    #[test]
    fn pairs_are_known_by_their_words() {
        for (begin, end, stem) in [
            ("parse begin", "parse end", "parse"),
            ("query-start", "query-done", "query"),
            (
                "usdt:pg:query__start",
                "usdt:pg:query__done",
                "usdt:pg:query",
            ),
            ("__start", "__done", "__"),
            ("enter request", "exit request", "request"),
            ("exit handler begin", "exit handler end", "exit handler"),
            ("GC_START", "GC_END", "GC"),
            ("Load.Begin", "Load.End", "Load"),
            ("probe:read_row", "retprobe:read_row", "read_row"),
            ("begin", "end", "begin"),
        ] {
            let expected = (stem.to_owned(), begin.to_owned(), end.to_owned());
            assert_eq!(pairs(&[begin, end]), std::slice::from_ref(&expected));
            assert_eq!(pairs(&[end, begin]), [expected]);
        }
    }

    #[test]
    fn what_only_looks_so_is_none() {
        for names in [
            ["restart", "redone"],
            ["x begin", "y end"],
            ["x begin", "x middle"],
            ["end", "x end"],
            ["request", "answer"],
            ["enter", "exit hall"],
            ["entered x", "exit x"],
        ] {
            assert_eq!(pairs(&names), [], "{names:?}");
        }
    }

    #[test]
    fn a_span_with_a_long_name_is_a_pair_although_its_names_were_truncated() {
        let long = "n".repeat(80);
        let long = |word: &str| {
            let name = format!("{word} {long}");
            name[..TRACE_EVENT_NAME_MAX].to_owned()
        };
        assert_eq!(pairs(&[&long("enter"), &long("exit")]).len(), 1);
    }

    #[test]
    fn a_pair_needs_both_to_be_wanted() {
        let mut types = EventTypes::default();
        let begin = types.define_user(b"x begin", None);
        types.define_user(b"x end", None);
        let pairs = Pairs::among(&types, |_, name| name != b"x end");
        assert_eq!(pairs.side(begin), None);
    }
}
