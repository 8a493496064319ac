//! The event types of callsites: found without a lock and without allocation.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use tracer_common::event_type::{EventTypeId, TRACE_EVENT_NAME_MAX, TRACE_USER_EVENT_MAX};
use tracing::Metadata;

use super::Types;
use crate::emit::UserEvent;

/// Places: a power of two, and many more than a process can have user event types.
const PLACES: usize = 4096;

/// A callsite and its types; key 0 while it is free.
#[derive(Debug)]
struct Place {
    key: AtomicUsize,
    /// The identifiers of both types, one in each half.
    types: AtomicU64,
}

/// Every callsite that the layer has seen. Only ever added to.
#[derive(Debug)]
pub(super) struct Callsites {
    places: [Place; PLACES],
    /// Held by whoever adds one.
    adding: Mutex<usize>,
}

/// The callsites of this process.
pub(super) fn all() -> &'static Callsites {
    static ALL: Callsites = Callsites {
        places: [const {
            Place {
                key: AtomicUsize::new(0),
                types: AtomicU64::new(0),
            }
        }; PLACES],
        adding: Mutex::new(0),
    };
    &ALL
}

impl Callsites {
    /// The types of a callsite; `None` for one that is not defined.
    #[inline]
    pub(super) fn find(&self, metadata: &'static Metadata<'static>) -> Option<Types> {
        let key = key(metadata);
        for place in self.places_of(key) {
            match place.key.load(Acquire) {
                0 => return None,
                found if found == key => return Some(unpacked(place.types.load(Relaxed))),
                _ => {}
            }
        }
        None
    }

    /// Defines the types of a callsite. When no more can be noted, or no names are left, its events
    /// have no name.
    pub(super) fn define(&self, metadata: &'static Metadata<'static>) -> Types {
        let mut count = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(types) = self.find(metadata) {
            return types;
        }
        let types = types_of(metadata);
        if *count < PLACES / 2 {
            let key = key(metadata);
            let free = self
                .places_of(key)
                .find(|place| place.key.load(Relaxed) == 0);
            if let Some(place) = free {
                place.types.store(packed(types), Relaxed);
                place.key.store(key, Release);
                *count += 1;
            }
        }
        types
    }

    /// The places where a key may be, in the order in which they are taken.
    fn places_of(&self, key: usize) -> impl Iterator<Item = &Place> {
        // Metadata lie close together: the upper half of the product spreads them.
        let spread = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = usize::try_from(spread).unwrap_or(0);
        (0..PLACES).filter_map(move |step| self.places.get((first + step) % PLACES))
    }
}

/// A callsite's metadata is a static: its address names it.
fn key(metadata: &'static Metadata<'static>) -> usize {
    std::ptr::from_ref(metadata).addr()
}

fn packed(types: Types) -> u64 {
    u64::from(types.begin.id().0) << 32 | u64::from(types.end.id().0)
}

fn unpacked(types: u64) -> Types {
    let half = |shift: u32| u32::try_from(types >> shift & u64::from(u32::MAX)).unwrap_or(0);
    Types {
        begin: UserEvent::from_id(EventTypeId(half(32))),
        end: UserEvent::from_id(EventTypeId(half(0))),
    }
}

fn types_of(metadata: &Metadata<'_>) -> Types {
    let open = |name: &str| UserEvent::open(cut(name)).unwrap_or(UserEvent::UNNAMED);
    if metadata.is_span() {
        return Types {
            begin: open(&format!("enter {}", metadata.name())),
            end: open(&format!("exit {}", metadata.name())),
        };
    }
    let event = open(&event_name(metadata));
    Types {
        begin: event,
        end: event,
    }
}

/// The macros call an event without a name "event FILE:LINE": its target tells more.
fn event_name(metadata: &Metadata<'_>) -> String {
    match metadata.line() {
        Some(line) if metadata.name().starts_with("event ") => {
            format!("{}:{line}", metadata.target())
        }
        _ => metadata.name().to_owned(),
    }
}

/// As much of a name as an event type can have.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(TRACE_EVENT_NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}

const _: () = assert!(PLACES >= 2 * TRACE_USER_EVENT_MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        let long = format!("x{}", "ä".repeat(64));

        assert_eq!(cut(&long).len(), TRACE_EVENT_NAME_MAX - 1);
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn types_come_out_as_they_went_in() {
        let types = Types {
            begin: UserEvent::from_id(EventTypeId(300)),
            end: UserEvent::from_id(EventTypeId(301)),
        };

        assert_eq!(unpacked(packed(types)), types);
    }
}
