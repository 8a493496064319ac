//! From an area's event type identifiers to a stream's.

use tracer_common::event_type::{EVENT_ID_LIMIT, EventTypeId, UNNAMED_USEREVENT_NAME};

use crate::layout::mapping::Parts;
use crate::layout::names;
use tracer_engine::EventSet;
use tracer_engine::source::Batch;

/// Says how many names of event types an area may bring into a stream, which has [so
/// many](tracer_common::event_type::TRACE_USER_EVENT_MAX) in all.
pub trait NameShare: Send + std::fmt::Debug {
    /// Takes one of them; `false` where the area may have no more.
    fn take(&self) -> bool;
    /// A type of the area is shown without its name.
    fn note_unnamed(&self);
}

/// The stream's identifiers for the area's user event types.
#[derive(Debug, Default)]
pub(super) struct TypeIds {
    /// `None`: as many as there are.
    pub(super) share: Option<Box<dyn NameShare>>,
    /// By the area's identifier less `FIRST_USER_EVENT`; 0 for one not asked for yet.
    ids: Vec<u32>,
    pub(super) filter: Option<EventSet>,
    /// Whether the area's copy of the filter lags behind.
    pub(super) is_changed: bool,
}

impl TypeIds {
    /// The stream's identifier for the area's type `own`, if it was asked for before.
    pub(super) fn known(&self, own: EventTypeId) -> Option<EventTypeId> {
        if own == EventTypeId::UNNAMED_USEREVENT {
            return Some(own);
        }
        let index = own.0.checked_sub(EventTypeId::UNNAMED_USEREVENT.0)?;
        let id = *self.ids.get(usize::try_from(index).ok()?)?;
        (id != 0).then_some(EventTypeId(id))
    }

    /// The stream's identifier for the area's type `untrusted`; `None` when the area has no such
    /// type.
    pub(super) fn id_of(
        &mut self,
        parts: Parts<'_>,
        untrusted: EventTypeId,
        batch: &mut Batch<'_>,
    ) -> Option<EventTypeId> {
        if let Some(id) = self.known(untrusted) {
            return Some(id);
        }
        if !untrusted.is_user() || untrusted.0 >= EVENT_ID_LIMIT {
            return None;
        }
        let name = names::name(parts, untrusted)?;
        let id = self.define(&name, untrusted, batch);
        self.learn(untrusted, id);
        Some(id)
    }

    /// The stream's identifier for a name that this area has brought; the type without a name where
    /// it may bring no more.
    fn define(&self, name: &[u8], own: EventTypeId, batch: &mut Batch<'_>) -> EventTypeId {
        let Some(share) = &self.share else {
            return batch.user_event_type(name, own);
        };
        let id = if batch.knows_user_event_type(name) || share.take() {
            batch.user_event_type(name, own)
        } else {
            EventTypeId::UNNAMED_USEREVENT
        };
        if id == EventTypeId::UNNAMED_USEREVENT && name != UNNAMED_USEREVENT_NAME.as_bytes() {
            share.note_unnamed();
        }
        id
    }

    /// Notes the stream's identifier for the area's user type `own`.
    pub(super) fn learn(&mut self, own: EventTypeId, id: EventTypeId) {
        let index = own.0.checked_sub(EventTypeId::UNNAMED_USEREVENT.0);
        let Some(index) = index.and_then(|index| usize::try_from(index).ok()) else {
            return;
        };
        if own.0 >= EVENT_ID_LIMIT {
            return;
        }
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
}
