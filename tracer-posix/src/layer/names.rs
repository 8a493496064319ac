//! What the event types of callsites are called.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tracer_common::event_type::TRACE_EVENT_NAME_MAX;
use tracing::Metadata;

/// Which event of a callsite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A span was made.
    New,
    /// Entering a span; an event itself.
    Enter,
    /// Leaving a span.
    Exit,
    /// A span is over.
    Close,
}

impl Moment {
    /// What is in front of a span's name.
    const fn prefix(self) -> &'static str {
        match self {
            Self::New => "new ",
            Self::Enter => "enter ",
            Self::Exit => "exit ",
            Self::Close => "close ",
        }
    }
}

/// The longest of the prefixes: a name is shortened to one and the same for all of them, so that it
/// shows what belongs together.
const MOST_PREFIX: usize = 6;

/// The name of a callsite's event type, as long as one may be.
pub(super) fn type_name(metadata: &Metadata<'_>, moment: Moment) -> String {
    if metadata.is_span() {
        let most = TRACE_EVENT_NAME_MAX - MOST_PREFIX;
        return moment.prefix().to_owned() + &shortened(metadata.name().to_owned(), None, most);
    }
    let line = line_of(metadata);
    shortened(full_name(metadata, moment), line, TRACE_EVENT_NAME_MAX)
}

/// Its whole name.
pub(super) fn full_name(metadata: &Metadata<'_>, moment: Moment) -> String {
    if metadata.is_span() {
        return moment.prefix().to_owned() + metadata.name();
    }
    match line_of(metadata) {
        Some(line) => format!("{}:{line}", metadata.target()),
        None => metadata.name().to_owned(),
    }
}

/// The line of an event that has no name of its own: the macros call it "event FILE:LINE", and its
/// target says more.
fn line_of(metadata: &Metadata<'_>) -> Option<u32> {
    metadata
        .line()
        .filter(|_| metadata.is_event() && metadata.name().starts_with("event "))
}

/// A name that is too long loses its middle to a hash of all of it: names that differ stay
/// different, and a line stays.
fn shortened(name: String, line: Option<u32>, most: usize) -> String {
    if name.len() <= most {
        return name;
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&name) >> 32;
    let line = line.map_or_else(String::new, |line| format!(":{line}"));
    let tail = format!("~{hash:08x}{line}");
    let mut end = most - tail.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().to_owned() + &tail
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(name: String, line: Option<u32>) -> String {
        super::shortened(name, line, TRACE_EVENT_NAME_MAX)
    }

    #[test]
    fn a_name_that_fits_is_left_as_it_is() {
        assert_eq!(shortened("short".to_owned(), None), "short");
        let longest = "x".repeat(TRACE_EVENT_NAME_MAX);
        assert_eq!(shortened(longest.clone(), Some(3)), longest);
    }

    #[test]
    fn names_that_differ_at_their_ends_stay_different() {
        let name = |end: &str| shortened(format!("x{}{end}", "ä".repeat(64)), None);

        assert_ne!(name("one"), name("other"));
        assert_eq!(name("one"), name("one"));
        assert!(name("one").len() <= TRACE_EVENT_NAME_MAX);
    }

    #[test]
    fn a_line_stays() {
        let name = shortened("a::module".repeat(20) + ":4711", Some(4711));

        assert!(name.ends_with(":4711"), "{name}");
        assert_eq!(name.len(), TRACE_EVENT_NAME_MAX);
    }
}
