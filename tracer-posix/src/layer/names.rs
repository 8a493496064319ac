//! Names of the event types of callsites.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tracer_common::event_type::TRACE_EVENT_NAME_MAX;
use tracing::Metadata;

/// Kind of event of a callsite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A span was made.
    New,
    /// Entering a span. For an event of the program: the event itself.
    Enter,
    /// Leaving a span.
    Exit,
    /// A span is over.
    Close,
}

impl Moment {
    /// Returns the prefix of a span's name.
    const fn prefix(self) -> &'static str {
        match self {
            Self::New => "new ",
            Self::Enter => "enter ",
            Self::Exit => "exit ",
            Self::Close => "close ",
        }
    }
}

/// Length of the longest prefix. A span's name is shortened alike for all prefixes, so that its
/// types are seen to belong together.
const MOST_PREFIX: usize = 6;

/// Returns the name of a callsite's event type, shortened to the length that a name may have.
pub(super) fn type_name(metadata: &Metadata<'_>, moment: Moment) -> String {
    if metadata.is_span() {
        let most = TRACE_EVENT_NAME_MAX - MOST_PREFIX;
        return moment.prefix().to_owned() + &shortened(metadata.target(), metadata.name(), most);
    }
    match line_of(metadata) {
        Some(line) => {
            let end = format!(":{line}");
            shortened_before(metadata.target(), &end, TRACE_EVENT_NAME_MAX)
        }
        None => shortened(metadata.target(), metadata.name(), TRACE_EVENT_NAME_MAX),
    }
}

/// Returns the whole name of a callsite's event type.
pub(super) fn full_name(metadata: &Metadata<'_>, moment: Moment) -> String {
    let (target, name) = (metadata.target(), metadata.name());
    if metadata.is_span() {
        return format!("{}{target}::{name}", moment.prefix());
    }
    match line_of(metadata) {
        Some(line) => format!("{target}:{line}"),
        None => format!("{target}::{name}"),
    }
}

/// Returns the line of an event that has no name of its own: the macros call it "event FILE:LINE",
/// and its target says more.
fn line_of(metadata: &Metadata<'_>) -> Option<u32> {
    metadata
        .line()
        .filter(|_| metadata.is_event() && metadata.name().starts_with("event "))
}

/// Returns `TARGET::NAME`. Where that is too long, a hash of all of it replaces the end of the
/// target, or the target and the end of the name: names that differ stay different.
fn shortened(target: &str, name: &str, most: usize) -> String {
    /// Fewest bytes of a target that are worth more than the end of a name.
    const LEAST_TARGET: usize = 1;
    let end = format!("::{name}");
    if target.len() + end.len() <= most {
        return target.to_owned() + &end;
    }
    if LEAST_TARGET + HASH_BYTES + end.len() <= most {
        return shortened_before(target, &end, most);
    }
    let hash = hash_of(&format!("{target}{end}"));
    beginning(name, most - HASH_BYTES).to_owned() + &hash
}

/// Returns `text` and `end`. If both are too long, a hash replaces the end of `text`.
fn shortened_before(text: &str, end: &str, most: usize) -> String {
    let whole = text.to_owned() + end;
    if whole.len() <= most {
        return whole;
    }
    let tail = hash_of(&whole) + end;
    beginning(text, most.saturating_sub(tail.len())).to_owned() + &tail
}

/// Bytes of a hash, with its mark.
const HASH_BYTES: usize = 9;

fn hash_of(name: &str) -> String {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(name) >> 32;
    format!("~{hash:08x}")
}

/// Returns as much as fits, whole characters only.
fn beginning(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = TRACE_EVENT_NAME_MAX;

    #[test]
    fn a_name_that_fits_is_left_as_it_is() {
        assert_eq!(shortened("target", "short", MOST), "target::short");
        let longest = "x".repeat(MOST - "target::".len());
        assert_eq!(
            shortened("target", &longest, MOST),
            format!("target::{longest}")
        );
    }

    #[test]
    fn names_that_differ_anywhere_stay_different() {
        let long = "ä".repeat(MOST);
        let all = [
            shortened("a", &format!("x{long}one"), MOST),
            shortened("a", &format!("x{long}other"), MOST),
            shortened("b", &format!("x{long}one"), MOST),
            shortened(&format!("x{long}a"), "one", MOST),
            shortened(&format!("x{long}b"), "one", MOST),
            shortened(&format!("x{long}b"), "other", MOST),
            shortened_before(&format!("x{long}b"), ":7", MOST),
        ];
        for (index, name) in all.iter().enumerate() {
            assert!(name.len() <= MOST, "{name}");
            assert!(name.len() > MOST - 2, "{name}");
            assert!(!all[..index].contains(name), "{name}");
        }
        assert_eq!(all[0], shortened("a", &format!("x{long}one"), MOST));
    }

    #[test]
    fn the_name_of_a_span_stays_rather_than_its_target() {
        let name = shortened(&"a::module".repeat(20), "request", MOST);

        assert!(name.starts_with("a::modulea::"), "{name}");
        assert!(name.ends_with("::request"), "{name}");
        assert_eq!(name.len(), MOST);
    }

    #[test]
    fn a_line_stays() {
        let name = shortened_before(&"a::module".repeat(20), ":4711", MOST);

        assert!(name.ends_with(":4711"), "{name}");
        assert_eq!(name.len(), MOST);
    }
}
