//! What the event types of callsites are called.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tracer_common::event_type::TRACE_EVENT_NAME_MAX;
use tracing::Metadata;

/// Which event of a callsite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Border {
    /// Entering a span; an event itself.
    Begin,
    /// Leaving a span.
    End,
}

/// The name of a callsite's event type, as long as one may be.
pub(super) fn type_name(metadata: &Metadata<'_>, border: Border) -> String {
    shortened(full_name(metadata, border), line_of(metadata))
}

/// Its whole name.
pub(super) fn full_name(metadata: &Metadata<'_>, border: Border) -> String {
    match (metadata.is_span(), border) {
        (true, Border::Begin) => format!("enter {}", metadata.name()),
        (true, Border::End) => format!("exit {}", metadata.name()),
        (false, _) => match line_of(metadata) {
            Some(line) => format!("{}:{line}", metadata.target()),
            None => metadata.name().to_owned(),
        },
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
fn shortened(name: String, line: Option<u32>) -> String {
    if name.len() <= TRACE_EVENT_NAME_MAX {
        return name;
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&name) >> 32;
    let line = line.map_or_else(String::new, |line| format!(":{line}"));
    let tail = format!("~{hash:08x}{line}");
    let mut end = TRACE_EVENT_NAME_MAX - tail.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().to_owned() + &tail
}

#[cfg(test)]
mod tests {
    use super::*;

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
