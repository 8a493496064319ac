//! From the numbers of an area's event types to a stream's identifiers.

use tracer_common::area::{FILTER_WORDS, TYPE_NUMBERS, type_number};
use tracer_common::event_type::{EventTypeId, UNNAMED_USEREVENT_NAME};

use crate::emit::own_types;
use crate::layout::mapping::Parts;
use crate::layout::names;
use tracer_engine::EventSet;
use tracer_engine::source::Batch;

/// Limit on the names of event types that an area may bring into a stream.
pub trait NameShare: Send + std::fmt::Debug {
    /// Takes one name from the share; `false` where the area may bring no more.
    fn take(&self) -> bool;
    /// Notes that a type of the area is shown without its name.
    fn note_unnamed(&self);
    /// Counts `count` more names that no type got, since the area had no space for them.
    fn note_refused(&self, count: u64);
}

/// Origin of the identifiers that the stream uses for event types, where it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Whose {
    /// The identifiers of the process that emits first.
    #[default]
    Anybodys,
    /// The identifiers of this process, which is traced and whose area this is.
    Own,
    /// The identifiers of another process, which is traced.
    Targets(i32),
}

/// The event type, as a record states it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UntrustedType {
    /// The number in the area.
    pub(super) number: u32,
    /// The identifier that the type has in the process that emitted the event.
    pub(super) id: EventTypeId,
    /// The process that emitted the event.
    pub(super) pid: i32,
}

/// Identifier that no user type has.
const NO_PREFERENCE: EventTypeId = EventTypeId(0);

/// The stream's identifiers for the area's user event types.
#[derive(Debug, Default)]
pub(super) struct TypeIds {
    /// Limit on the names that the area may bring; `None` where there is no limit.
    pub(super) share: Option<Box<dyn NameShare>>,
    pub(super) whose: Whose,
    /// Identifiers by the area's numbers; 0 for a type that was not asked for yet.
    ids: Vec<u32>,
    /// This process's types that the stream was told of.
    told_own: EventSet,
    /// Number of the area's types that the stream was told of.
    told: usize,
    /// Number of names that the area had no space for, as far as the share was told.
    refused: u64,
    pub(super) filter: Option<EventSet>,
    /// Whether the area's copy of the filter has to be written anew.
    pub(super) is_changed: bool,
}

impl TypeIds {
    /// Returns the stream's identifier for the area's type with this number, if it was asked for
    /// before.
    fn known(&self, number: u32) -> Option<EventTypeId> {
        if number == type_number::UNNAMED {
            return Some(EventTypeId::UNNAMED_USEREVENT);
        }
        let id = *self.ids.get(usize::try_from(number).ok()?)?;
        (id != 0).then_some(EventTypeId(id))
    }

    /// Returns the stream's identifier for the type of a record; `None` when the area has no such
    /// type.
    pub(super) fn id_of(
        &mut self,
        parts: Parts<'_>,
        untrusted: UntrustedType,
        batch: &mut Batch<'_>,
    ) -> Option<EventTypeId> {
        let number = untrusted.number;
        if let Some(id) = self.known(number) {
            return Some(id);
        }
        let name = names::name(parts, number)?;
        // A type that its process records by its number alone prefers no identifier.
        let is_identified = untrusted.id != EventTypeId::UNNAMED_USEREVENT;
        let fixed = || names::fixed_id(number).filter(|_| is_identified);
        let preferred = match self.whose {
            Whose::Own => own_types::id(number).or_else(fixed),
            Whose::Targets(pid) if pid != untrusted.pid => fixed(),
            Whose::Targets(_) | Whose::Anybodys => Some(untrusted.id).filter(|_| is_identified),
        };
        let id = self.define(&name, preferred, batch);
        self.learn(number, id);
        Some(id)
    }

    /// Returns the stream's identifier for a name that this area brings; that of the type without a
    /// name where the area may bring no more.
    fn define(
        &self,
        name: &[u8],
        preferred: Option<EventTypeId>,
        batch: &mut Batch<'_>,
    ) -> EventTypeId {
        let Some(share) = &self.share else {
            return batch.user_event_type(name, preferred);
        };
        let id = if batch.knows_user_event_type(name) || share.take() {
            batch.user_event_type(name, preferred)
        } else {
            EventTypeId::UNNAMED_USEREVENT
        };
        if id == EventTypeId::UNNAMED_USEREVENT && name != UNNAMED_USEREVENT_NAME.as_bytes() {
            share.note_unnamed();
        }
        id
    }

    /// Reports the types that the stream was not told of yet, and learns their identifiers there:
    /// first this process's own types, where the stream has this process's identifiers, and then
    /// all of the area's. So types of processes of the family that the stream does not trace are
    /// listed too: a type has its place in the list from the first process on that opens its name.
    pub(super) fn report(
        &mut self,
        parts: Parts<'_>,
        report: &mut dyn FnMut(&[u8], EventTypeId) -> Option<EventTypeId>,
    ) {
        let is_own = self.whose == Whose::Own;
        for (id, number) in own_types::all().filter(|_| is_own) {
            if !self.told_own.contains(id) {
                self.told_own.insert(id);
                self.tell(parts, (id, number), report);
            }
        }
        // Where the stream has this process's identifiers, a name that another process has opened
        // gets its fixed one. Without one it comes with its first event, or when it is asked for:
        // here the stream takes such a name only where it knows the name already.
        let mut are_all_there = true;
        for number in names::numbers_from(parts, self.told) {
            let first = names::first_id(parts, number);
            let usable = first.and_then(|first| match is_own {
                true => names::fixed_id(number),
                false => Some(first),
            });
            // A name that is still being written comes the next time.
            let id = usable.unwrap_or(NO_PREFERENCE);
            are_all_there &= self.tell(parts, (id, number), report);
            self.told += usize::from(are_all_there);
        }
    }

    /// Reports one type; `false` where its name is not there.
    fn tell(
        &mut self,
        parts: Parts<'_>,
        (id, number): (EventTypeId, u32),
        report: &mut dyn FnMut(&[u8], EventTypeId) -> Option<EventTypeId>,
    ) -> bool {
        let Some(name) = names::name(parts, number) else {
            return false;
        };
        if let Some(id) = report(&name, id) {
            self.learn(number, id);
        }
        true
    }

    /// Tells the share how many names the area had no space for since this was last called.
    pub(super) fn note_refused(&mut self, untrusted: u64) {
        if let Some(share) = &self.share {
            share.note_refused(untrusted.saturating_sub(self.refused));
        }
        self.refused = self.refused.max(untrusted);
    }

    /// Has all types reported again: the stream will know one that it did not know when it was told
    /// of it.
    pub(super) fn tell_again(&mut self) {
        self.told_own = EventSet::EMPTY;
        self.told = 0;
    }

    /// Notes the stream's identifier for the area's user type with this number.
    fn learn(&mut self, number: u32, id: EventTypeId) {
        let Some(index) = usize::try_from(number)
            .ok()
            .filter(|index| *index < TYPE_NUMBERS)
        else {
            return;
        };
        if self.ids.len() <= index {
            self.ids.resize(index + 1, 0);
        }
        if let Some(slot) = self.ids.get_mut(index)
            && *slot != id.0
        {
            *slot = id.0;
            self.is_changed = true;
        }
    }

    /// Returns the words of the area's copy of the filter. A type whose identifier in the stream is
    /// not known yet passes, unless the filter holds all types that the stream does not know yet.
    /// The engine filters again.
    pub(super) fn filter_words(&self, filter: &EventSet) -> impl Iterator<Item = u64> {
        let known = |number| self.known(number);
        let all_known: EventSet = self.ids.iter().map(|id| EventTypeId(*id)).collect();
        let others = filter.holds_all_but(&all_known);
        (0..FILTER_WORDS).map(move |word| {
            let first = u32::try_from(word * 64).unwrap_or(u32::MAX);
            (0..64).fold(first_bits(word), |bits, bit| {
                let is_in =
                    known(first.saturating_add(bit)).map_or(others, |id| filter.contains(id));
                bits | u64::from(is_in) << bit
            })
        })
    }
}

/// Returns the words of a filter that lets every type pass.
pub(super) fn no_filter() -> impl Iterator<Item = u64> {
    (0..FILTER_WORDS).map(first_bits)
}

/// Returns the bits that a word of every filter has: the number that is no type's.
fn first_bits(word: usize) -> u64 {
    u64::from(word == 0) << type_number::NONE
}
