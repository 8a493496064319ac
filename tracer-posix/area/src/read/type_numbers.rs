//! From an area's numbers of event types to a stream's.

use tracer_common::event_type::{EVENT_ID_LIMIT, EventTypeId, UNNAMED_USEREVENT_NAME};

use crate::layout::mapping::Parts;
use crate::layout::names;
use tracer_engine::EventSet;
use tracer_engine::source::Batch;

/// Says how many names of event types an area may bring into a stream, which has [so many](tracer_common::event_type::TRACE_USER_EVENT_MAX) in all.
pub trait NameShare: Send + std::fmt::Debug {
    /// Takes a place for a name; `false` where the area may have no more.
    fn take(&self) -> bool;
    /// A type of the area is shown without its name.
    fn note_unnamed(&self);
}

/// The stream's numbers for the area's user event types.
#[derive(Debug, Default)]
pub(super) struct TypeNumbers {
    /// `None`: as many as there are.
    pub(super) share: Option<Box<dyn NameShare>>,
    /// By the area's number less `FIRST_USER_EVENT`; 0 for one not asked for yet.
    numbers: Vec<u32>,
    pub(super) filter: Option<EventSet>,
    /// Whether the area's copy of the filter lags behind.
    pub(super) is_changed: bool,
}

impl TypeNumbers {
    /// The stream's number for the area's type `own`, if it was asked for before.
    pub(super) fn known(&self, own: EventTypeId) -> Option<EventTypeId> {
        if own == EventTypeId::UNNAMED_USEREVENT {
            return Some(own);
        }
        let index = own.0.checked_sub(EventTypeId::UNNAMED_USEREVENT.0)?;
        let number = *self.numbers.get(usize::try_from(index).ok()?)?;
        (number != 0).then_some(EventTypeId(number))
    }

    /// The stream's number for the area's type `untrusted`; `None` when the area has no such type.
    pub(super) fn number(
        &mut self,
        parts: Parts<'_>,
        untrusted: EventTypeId,
        batch: &mut Batch<'_>,
    ) -> Option<EventTypeId> {
        if let Some(number) = self.known(untrusted) {
            return Some(number);
        }
        if !untrusted.is_user() || untrusted.0 >= EVENT_ID_LIMIT {
            return None;
        }
        let name = names::name(parts, untrusted)?;
        let number = self.define(&name, untrusted, batch);
        self.learn(untrusted, number);
        Some(number)
    }

    /// The stream's number for a name that this area has brought; the type without a name where it may bring no more.
    fn define(&self, name: &[u8], own: EventTypeId, batch: &mut Batch<'_>) -> EventTypeId {
        let Some(share) = &self.share else {
            return batch.user_event_type(name, own);
        };
        let number = if batch.knows_user_event_type(name) || share.take() {
            batch.user_event_type(name, own)
        } else {
            EventTypeId::UNNAMED_USEREVENT
        };
        if number == EventTypeId::UNNAMED_USEREVENT && name != UNNAMED_USEREVENT_NAME.as_bytes() {
            share.note_unnamed();
        }
        number
    }

    /// Notes the stream's number for the area's user type `own`.
    pub(super) fn learn(&mut self, own: EventTypeId, number: EventTypeId) {
        let index = own.0.checked_sub(EventTypeId::UNNAMED_USEREVENT.0);
        let Some(index) = index.and_then(|index| usize::try_from(index).ok()) else {
            return;
        };
        if own.0 >= EVENT_ID_LIMIT {
            return;
        }
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, 0);
        }
        if let Some(place) = self.numbers.get_mut(index)
            && *place != number.0
        {
            *place = number.0;
            self.is_changed = true;
        }
    }
}
