//! From an area's numbers of event types to a stream's.

use tracer_common::event_type::{EVENT_ID_LIMIT, EventTypeId};

use super::mapping::Parts;
use super::names;
use crate::engine::EventSet;
use crate::source::Batch;

/// The stream's numbers for the area's user event types.
#[derive(Debug, Default)]
pub(super) struct TypeNumbers {
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
        let number = batch.user_event_type(&name, untrusted);
        self.learn(untrusted, number);
        Some(number)
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
