//! Event types of callsites. They are looked up without a lock, since the process may fork at any
//! time, and without allocation.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use tracer_common::event_type::EventTypeId;
use tracing::Metadata;

use super::Types;
use super::names::{Moment, type_name};
use crate::emit::UserEvent;

/// Slots: a power of two, and many more than programs have callsites.
const SLOTS: usize = 1 << 15;

/// A callsite and its types; key 0 while it is free.
#[derive(Debug)]
struct Slot {
    key: AtomicUsize,
    /// Identifiers of the types for entering and leaving, one in each half; 0 until they are
    /// defined.
    borders: AtomicU64,
    /// Identifiers of the types for new and for closed spans; written before `borders`.
    lifetime: AtomicU64,
}

/// Every callsite that the layer has seen. Callsites are added and never removed.
#[derive(Debug)]
pub(super) struct Callsites {
    slots: [Slot; SLOTS],
    /// Number of callsites.
    count: AtomicUsize,
}

/// Returns the callsites of this process.
pub(super) fn all() -> &'static Callsites {
    static ALL: Callsites = Callsites {
        slots: [const {
            Slot {
                key: AtomicUsize::new(0),
                borders: AtomicU64::new(0),
                lifetime: AtomicU64::new(0),
            }
        }; SLOTS],
        count: AtomicUsize::new(0),
    };
    &ALL
}

impl Callsites {
    /// Returns the types of a callsite; `None` for one that is not defined.
    #[inline]
    pub(super) fn find(&self, metadata: &'static Metadata<'static>) -> Option<Types> {
        let key = key(metadata);
        for slot in self.slots_of(key) {
            match slot.key.load(Acquire) {
                0 => return None,
                found if found == key => {
                    let (enter, exit) = unpacked(slot.borders.load(Acquire))?;
                    let (new, close) = unpacked(slot.lifetime.load(Relaxed))?;
                    return Some(Types {
                        new,
                        enter,
                        exit,
                        close,
                    });
                }
                _ => {}
            }
        }
        None
    }

    /// Defines the types of a callsite. Threads that define a callsite at the same moment get the
    /// same types. When no slot is left, the callsite is defined again the next time; when no names
    /// are left, its events have none.
    pub(super) fn define(&self, metadata: &'static Metadata<'static>) -> Types {
        let types = types_of(metadata);
        if self.count.load(Relaxed) >= SLOTS / 2 {
            return types;
        }
        let key = key(metadata);
        for slot in self.slots_of(key) {
            let taken = slot.key.compare_exchange(0, key, AcqRel, Acquire);
            if taken.is_ok() {
                self.count.fetch_add(1, Relaxed);
            }
            if taken.is_ok() || taken == Err(key) {
                let lifetime = packed(types.new, types.close);
                slot.lifetime.store(lifetime, Relaxed);
                let borders = packed(types.enter, types.exit);
                slot.borders.store(borders, Release);
                break;
            }
        }
        types
    }

    /// Returns the slots where a key may be, in the order in which they are taken.
    fn slots_of(&self, key: usize) -> impl Iterator<Item = &Slot> {
        // Metadata lie close together: the upper half of the product spreads them.
        let spread = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = usize::try_from(spread).unwrap_or(0);
        (0..SLOTS).filter_map(move |step| self.slots.get((first + step) % SLOTS))
    }
}

/// Returns the key of a callsite: its metadata is a static, whose address names it.
fn key(metadata: &'static Metadata<'static>) -> usize {
    std::ptr::from_ref(metadata).addr()
}

fn packed(first: UserEvent, second: UserEvent) -> u64 {
    u64::from(first.id().0) << 32 | u64::from(second.id().0)
}

/// Returns both types; `None` before they are known.
fn unpacked(types: u64) -> Option<(UserEvent, UserEvent)> {
    let half = |shift: u32| u32::try_from(types >> shift & u64::from(u32::MAX)).unwrap_or(0);
    let event = |shift| UserEvent::from_id(EventTypeId(half(shift)));
    (types != 0).then(|| (event(32), event(0)))
}

fn types_of(metadata: &Metadata<'_>) -> Types {
    let open =
        |moment| UserEvent::open_beside(&type_name(metadata, moment)).unwrap_or(UserEvent::UNNAMED);
    if metadata.is_span() {
        // `new` and `close` are opened first: a reader that knows `enter` or `exit` then knows
        // these too, and sees that they belong together.
        let (new, close) = (open(Moment::New), open(Moment::Close));
        return Types {
            new,
            enter: open(Moment::Enter),
            exit: open(Moment::Exit),
            close,
        };
    }
    let enter = open(Moment::Enter);
    Types {
        new: enter,
        enter,
        exit: enter,
        close: enter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_out_as_they_went_in() {
        let (first, second) = (EventTypeId(300), EventTypeId(301));
        let types = (UserEvent::from_id(first), UserEvent::from_id(second));

        assert_eq!(unpacked(packed(types.0, types.1)), Some(types));
        assert_eq!(unpacked(0), None);
    }
}
