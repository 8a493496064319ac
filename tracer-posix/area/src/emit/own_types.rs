//! The user event types of this process: its identifiers, and the numbers that they have in the
//! area.
//!
//! They are in this process's own memory. A forked child has a copy of them, so the types that its
//! parent has opened have the same identifiers in the child. Types that the child opens are its own
//! alone, and a program that is run by exec begins without any. For that reason the limit
//! (`{TRACE_USER_EVENT_MAX}`) counts for each process by itself.
//!
//! A child that shares its parent's memory, as `vfork()` makes one, shares these types too, and
//! emits under its parent's name.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use tracer_common::area::type_number;
use tracer_common::event_type::{
    EVENT_ID_LIMIT, EventTypeId, FIRST_USER_EVENT, TRACE_EVENT_NAME_MAX, TRACE_USER_EVENT_MAX,
    predefined_event_type,
};

use crate::layout::mapping::Parts;
use crate::layout::names::{self, FIXED_IDS, NameTooLong, Use};

const MOST: usize = TRACE_USER_EVENT_MAX as usize;

/// A type as trace points have it: its number in the area (low half), and its identifier in this
/// process (high half). One load brings both, and a record has both in the same places.
#[derive(Clone, Copy)]
pub(super) struct Kind(u64);

impl Kind {
    /// No type: none was opened with this identifier yet.
    const NONE: Self = Self(type_number::NONE as u64);
    /// The predefined type without a name of its own.
    const UNNAMED: Self = Self::new(EventTypeId::UNNAMED_USEREVENT, type_number::UNNAMED);

    const fn new(id: EventTypeId, number: u32) -> Self {
        Self((id.0 as u64) << 32 | number as u64)
    }

    /// Returns the type of this process with this identifier.
    #[inline(always)]
    pub(super) fn own(id: EventTypeId) -> Self {
        let index = id.0.wrapping_sub(FIRST_USER_EVENT);
        let kind = usize::try_from(index)
            .ok()
            .and_then(|index| KINDS.get(index));
        kind.map_or(Self::NONE, |kind| Self(kind.load(Relaxed)))
    }

    /// Returns the type with this identifier that was [defined beside](define_beside) those of the
    /// process, if it is one.
    #[inline(always)]
    pub(super) fn beside(id: EventTypeId) -> Option<Self> {
        let number = id.0.checked_sub(EVENT_ID_LIMIT)?;
        Some(Self::new(EventTypeId::UNNAMED_USEREVENT, number))
    }

    /// Returns its number in the area.
    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        // The low half.
        (self.0 & 0xffff_ffff) as u32
    }

    /// Returns its identifier in this process, or that of the unnamed type where it has none.
    #[inline(always)]
    pub(super) fn id(self) -> EventTypeId {
        EventTypeId((self.0 >> 32) as u32)
    }
}

/// The process's types in the order of their identifiers, with the unnamed type as the first. A
/// type whose number has a [fixed](names::fixed_id) identifier is in the slot of that one, in the
/// first half. Others fill the second half from its beginning, so that they come last to those that
/// a stream gives to types of other processes, and after it what is left. Never emptied.
static KINDS: [AtomicU64; MOST] = {
    let mut kinds = [const { AtomicU64::new(Kind::NONE.0) }; MOST];
    let [unnamed, ..] = &mut kinds;
    *unnamed = AtomicU64::new(Kind::UNNAMED.0);
    kinds
};

/// Returns the identifier of the type with this number in this process, if it has one.
pub(crate) fn id(number: u32) -> Option<EventTypeId> {
    let fixed = names::fixed_id(number).filter(|id| Kind::own(*id).number() == number);
    fixed.or_else(|| all().find(|(_, known)| *known == number).map(|(id, _)| id))
}

/// Returns the identifiers and numbers of this process's types that have names.
pub(crate) fn all() -> impl Iterator<Item = (EventTypeId, u32)> {
    slots()
        .map(|(id, slot)| (id, Kind(slot.load(Acquire)).number()))
        .filter(|(_, number)| *number != type_number::NONE)
}

/// Returns the identifier of `name` in this process, or a new one where it has none yet. A
/// predefined name gives the predefined identifier. Returns `POSIX_TRACE_UNNAMED_USEREVENT` where
/// the process has as many names as a process may have, or the area has no entry left.
///
/// Async-signal-safe.
pub(crate) fn define(parts: Parts<'_>, name: &[u8]) -> Result<EventTypeId, NameTooLong> {
    NameTooLong::check(name)?;
    if let Some(id) = predefined_event_type(name) {
        return Ok(id);
    }
    if let Some(known) = names::find(parts, name).and_then(id) {
        return Ok(known);
    }
    let next = slots_of_others().find(|(_, slot)| slot.load(Acquire) == Kind::NONE.0);
    let defined = next.and_then(|(next, _)| note(names::add(parts, name, Use::Identified(next))?));
    Ok(defined.unwrap_or(EventTypeId::UNNAMED_USEREVENT))
}

/// Returns a type called `name` that is recorded by its number alone, and so does not count among
/// the `{TRACE_USER_EVENT_MAX}` types of the process. Returns `POSIX_TRACE_UNNAMED_USEREVENT` where
/// the area has no entry left.
pub(crate) fn define_beside(parts: Parts<'_>, name: &[u8]) -> Result<EventTypeId, NameTooLong> {
    NameTooLong::check(name)?;
    if let Some(id) = predefined_event_type(name) {
        return Ok(id);
    }
    let number = names::find(parts, name).or_else(|| names::add(parts, name, Use::Beside));
    Ok(number.map_or(EventTypeId::UNNAMED_USEREVENT, |number| {
        EventTypeId(EVENT_ID_LIMIT.saturating_add(number))
    }))
}

/// Returns the type whose name is that of the type `id`, followed by `word`, and opens it where the
/// process has none. Returns `id` where that type has no name. Where both are too long for a name,
/// `word` comes first, and the end is truncated. Allocates no memory, since trace points call it.
pub(crate) fn define_border(parts: Parts<'_>, id: EventTypeId, word: &str) -> EventTypeId {
    let Some(name) = names::bytes_of(parts, Kind::own(id).number()) else {
        return id;
    };
    let word = word.bytes();
    let space = std::iter::once(b' ');
    let mut whole = [0; TRACE_EVENT_NAME_MAX];
    let length = if name.len() + 1 + word.len() <= TRACE_EVENT_NAME_MAX {
        fill(&mut whole, name.chain(space).chain(word))
    } else {
        fill(&mut whole, word.chain(space).chain(name))
    };
    define(parts, whole.get(..length).unwrap_or_default()).unwrap_or(id)
}

/// Writes as many of the bytes as `space` has space for. Returns how many these are.
fn fill(space: &mut [u8], bytes: impl Iterator<Item = u8>) -> usize {
    let mut length = 0;
    for (to, byte) in space.iter_mut().zip(bytes) {
        *to = byte;
        length += 1;
    }
    length
}

/// Gives the number an identifier, if it has none yet and one is left. Threads and handlers that do
/// the same at this moment all look at the same slots in the same order, so no number gets two
/// identifiers.
fn note(number: u32) -> Option<EventTypeId> {
    let fixed = names::fixed_id(number).into_iter().flat_map(slot_of);
    fixed
        .chain(slots_of_others())
        .find(|(id, slot)| {
            let kind = Kind::new(*id, number).0;
            let taken = slot.compare_exchange(Kind::NONE.0, kind, AcqRel, Acquire);
            taken.is_ok() || taken == Err(kind)
        })
        .map(|(id, _)| id)
}

/// A place for a type, and the identifier that the type has there.
type Slot = (EventTypeId, &'static AtomicU64);

/// Returns the places for types with names, in the order of their identifiers.
fn slots() -> impl Iterator<Item = Slot> {
    (FIRST_USER_EVENT..).map(EventTypeId).zip(&KINDS).skip(1)
}

/// Returns the places for types with names in the order in which they are taken by types whose
/// numbers have no fixed identifiers: last those that others have.
fn slots_of_others() -> impl Iterator<Item = Slot> {
    let is_fixed = |slot: &Slot| slot.0.0 - FIRST_USER_EVENT <= FIXED_IDS;
    let fixed = slots().filter(is_fixed);
    slots().filter(move |slot| !is_fixed(slot)).chain(fixed)
}

fn slot_of(id: EventTypeId) -> Option<Slot> {
    let index = id.0.checked_sub(FIRST_USER_EVENT)?;
    Some((id, KINDS.get(usize::try_from(index).ok()?)?))
}

const _: () = assert!(type_number::NONE == 0);
