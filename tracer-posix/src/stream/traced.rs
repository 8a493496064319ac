//! Events as a stream reports them, at times of the clock that people see.

use std::borrow::Cow;

use tracer_engine::EventTypes;
use tracer_engine::event::{Event, EventName, MonotonicNs, OwnedEvent, RealtimeNs};
use tracer_engine::fields::Record;
use tracer_log::clocks_now;

/// An event as a stream reports it, lent until the next call.
#[derive(Clone, Copy)]
pub struct Traced<'a> {
    /// The event.
    pub event: Event<'a>,
    /// When it was generated (`posix_timestamp`).
    pub realtime: RealtimeNs,
    types: &'a EventTypes,
}

impl std::fmt::Debug for Traced<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traced")
            .field("name", &self.name())
            .field("event", &self.event)
            .field("realtime", &self.realtime)
            .finish()
    }
}

impl<'a> Traced<'a> {
    #[inline(always)]
    pub(super) fn new(event: Event<'a>, realtime: RealtimeNs, types: &'a EventTypes) -> Self {
        Self {
            event,
            realtime,
            types,
        }
    }

    /// Returns the name of the event's type as text. A type without a name gives its identifier, as
    /// in `#300`.
    #[must_use]
    pub fn name(&self) -> Cow<'a, str> {
        match self.name_bytes() {
            Some(name) => String::from_utf8_lossy(name),
            None => Cow::Owned(format!("#{}", self.event.header.event_type.0)),
        }
    }

    /// Returns the name of the event's type, if it has one. It may be any bytes.
    #[must_use]
    pub fn name_bytes(&self) -> Option<&'a [u8]> {
        self.types.name(self.event.header.event_type)
    }

    /// Returns the fields in its data, if it has any ([`fields`](tracer_engine::fields)).
    #[must_use]
    pub fn fields(&self) -> Option<Record<'a>> {
        self.event.fields()
    }

    /// Returns the event types of the stream.
    #[must_use]
    pub fn event_types(&self) -> &'a EventTypes {
        self.types
    }

    /// Copies the event into memory of its own.
    #[must_use]
    pub fn to_owned(&self) -> OwnedEvent {
        let name = EventName::from_types(self.types, self.event.header.event_type);
        OwnedEvent::new(&self.event, self.realtime, name)
    }
}

/// Turns event times into `CLOCK_REALTIME`. Within one stream they never decrease, though the
/// realtime clock may be set back.
#[derive(Debug)]
pub(crate) struct RealtimeClock {
    /// Realtime less monotonic, in nanoseconds.
    offset: i64,
    last: RealtimeNs,
}

impl RealtimeClock {
    pub(crate) fn new() -> Self {
        Self {
            offset: clocks_now().realtime_offset(),
            last: RealtimeNs(0),
        }
    }

    /// Looks at both clocks again.
    pub(crate) fn look(&mut self) {
        self.offset = clocks_now().realtime_offset();
    }

    pub(crate) fn time(&mut self, time: MonotonicNs) -> RealtimeNs {
        self.last = self
            .last
            .max(RealtimeNs(time.0.saturating_add_signed(self.offset)));
        self.last
    }
}
