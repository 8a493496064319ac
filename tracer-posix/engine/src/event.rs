//! Events as they are in a stream.

use std::fmt;
use std::sync::Arc;

pub use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::COMM_BYTES;

use crate::EventTypes;
use crate::fields::Record;

/// Nanoseconds on `CLOCK_MONOTONIC`. Turned into `CLOCK_REALTIME` only where an event leaves
/// the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(transparent)]
pub struct MonotonicNs(pub u64);

/// Nanoseconds on `CLOCK_REALTIME`: what leaves the library as a timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(transparent)]
pub struct RealtimeNs(pub u64);

impl From<RealtimeNs> for std::time::SystemTime {
    fn from(time: RealtimeNs) -> Self {
        Self::UNIX_EPOCH + std::time::Duration::from_nanos(time.0)
    }
}

/// Whether an event's data is whole (`posix_truncation_status` as recorded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Truncation {
    /// The data is whole.
    None,
    /// The data was truncated when the event was recorded.
    Record,
}

/// Values of `auto`, the data of a `POSIX_TRACE_STOP`.
pub mod stop {
    /// A call stopped the stream.
    pub const CALLED: i32 = 0;
    /// The stream, or its log, was full.
    pub const AUTOMATIC: i32 = 1;
}

/// Name that an event has in the place of a process that its reader may not see. The pid and the
/// tid are 0 then, as for the idle task, which has another name. The agent writes this name, and
/// what shows events recognises it.
#[doc(hidden)]
pub const ANOTHER_PROCESS: [u8; COMM_BYTES] = *b"another process\0";

/// Everything of an event but its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EventHeader {
    /// When it was generated.
    pub time: MonotonicNs,
    /// Identifier of its type, in the stream.
    #[cfg_attr(feature = "serde", serde(with = "id_as_integer"))]
    pub event_type: EventTypeId,
    /// Process it concerns; 0 for none.
    pub pid: i32,
    /// Thread it concerns, by the kernel's identifier; 0 for none.
    pub tid: i32,
    /// CPU on which it was generated, where known.
    pub cpu: Option<u32>,
    /// The thread's `pthread_t`; 0 for none.
    pub thread_id: u64,
    /// Address of the trace point or of the system call, in the process; 0 for none.
    pub program_address: u64,
    /// Whether the data is whole.
    pub truncation: Truncation,
}

/// An event with its data, lent by the stream until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Everything but the data.
    pub header: EventHeader,
    /// The data as recorded.
    pub data: &'a [u8],
}

impl<'a> Event<'a> {
    /// Returns the fields in its data, where it has any: those of the crate `tracing`, and what a
    /// [`Writer`](crate::fields::Writer) has written.
    #[must_use]
    pub fn fields(&self) -> Option<Record<'a>> {
        record(self.data, self.header.truncation)
    }
}

fn record(data: &[u8], truncation: Truncation) -> Option<Record<'_>> {
    match truncation {
        Truncation::None => Record::parse(data),
        Truncation::Record => Record::parse_beginning(data),
    }
}

/// The name of an event type: any bytes. Cloning it takes no memory.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventName(Arc<[u8]>);

impl EventName {
    /// Returns a name of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the name of a type; its identifier, as in `#300`, where it has none.
    #[must_use]
    pub fn from_types(types: &EventTypes, id: EventTypeId) -> Self {
        match types.name(id) {
            Some(name) => Self::new(name),
            None => Self::new(format!("#{}", id.0).as_bytes()),
        }
    }

    /// Returns its bytes, without a terminating null.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for EventName {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq<str> for EventName {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for EventName {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

/// Shows the name as text, with the replacement character for bytes that are no UTF-8.
impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.as_bytes()), f)
    }
}

/// An event that lives as long as its holder wants, with the name of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OwnedEvent {
    /// Everything of the event that the other fields do not have.
    pub header: EventHeader,
    /// When it was generated (`posix_timestamp`).
    pub realtime: RealtimeNs,
    /// The name of its type; its identifier, as in `#300`, where that has none.
    pub name: EventName,
    /// The name of its thread at that time, where a log has it.
    pub comm: Option<Vec<u8>>,
    /// The data as recorded.
    pub data: Vec<u8>,
}

impl OwnedEvent {
    /// Returns a copy of an event of this name.
    #[must_use]
    pub fn new(event: &Event<'_>, realtime: RealtimeNs, name: EventName) -> Self {
        Self {
            header: event.header,
            realtime,
            name,
            comm: None,
            data: event.data.to_vec(),
        }
    }

    /// Returns the event as it was in the stream.
    #[must_use]
    pub fn as_event(&self) -> Event<'_> {
        Event {
            header: self.header,
            data: &self.data,
        }
    }

    /// Returns the fields in its data, as in [`Event::fields`].
    #[must_use]
    pub fn fields(&self) -> Option<Record<'_>> {
        record(&self.data, self.header.truncation)
    }
}

/// Names of types that were asked for before.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct KnownNames {
    names: Vec<Option<EventName>>,
}

impl KnownNames {
    /// Returns the name of a type, as in [`EventName::from_types`].
    pub fn name(&mut self, types: &EventTypes, id: EventTypeId) -> EventName {
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        if index >= MOST_KNOWN {
            return EventName::from_types(types, id);
        }
        if self.names.len() <= index {
            self.names.resize(index + 1, None);
        }
        let Some(known) = self.names.get_mut(index) else {
            return EventName::from_types(types, id);
        };
        // Another log may have replaced the one before, with other names.
        let now = types.name(id);
        match known {
            Some(name) if now.is_none_or(|now| now == name.as_bytes()) => name.clone(),
            _ => {
                let name = EventName::from_types(types, id);
                // A type may get its name later.
                *known = now.map(|_| name.clone());
                name
            }
        }
    }
}

/// Bound of the identifiers whose names are kept: there are far fewer types.
const MOST_KNOWN: usize = 1 << 20;

/// Serialization of a type's identifier as a plain integer.
#[cfg(feature = "serde")]
mod id_as_integer {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use tracer_common::event_type::EventTypeId;

    pub fn serialize<S: Serializer>(id: &EventTypeId, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(id.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<EventTypeId, D::Error> {
        u32::deserialize(from).map(EventTypeId)
    }
}

/// Serializes the name as text in formats for people, where bytes that are no UTF-8 are lost; as
/// bytes in all others.
#[cfg(feature = "serde")]
impl serde::Serialize for EventName {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.collect_str(self)
        } else {
            self.as_bytes().serialize(to)
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for EventName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            String::deserialize(from).map(|name| Self::new(name.as_bytes()))
        } else {
            Vec::<u8>::deserialize(from).map(|name| Self::new(&name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_gets_a_name_is_called_so() {
        let mut types = EventTypes::default();
        let mut known = KnownNames::default();
        let id = EventTypeId(300);
        assert_eq!(known.name(&types, id), "#300");
        types.define_user(b"later", Some(id));
        assert_eq!(known.name(&types, id), "later");

        let mut others = EventTypes::default();
        others.define_user(b"other", Some(id));
        assert_eq!(known.name(&others, id), "other");
        let most = EventTypeId(u32::MAX);
        assert_eq!(known.name(&types, most), format!("#{}", u32::MAX).as_str());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn an_event_is_what_it_was_after_it_was_sent() {
        let header = EventHeader {
            time: MonotonicNs(1),
            event_type: EventTypeId(300),
            pid: 2,
            tid: 3,
            cpu: Some(4),
            thread_id: 5,
            program_address: 6,
            truncation: Truncation::Record,
        };
        let data = b"\xff\0";
        let event = Event { header, data };
        let owned = OwnedEvent::new(&event, RealtimeNs(7), EventName::new(b"a name"));

        let json = serde_json::to_string(&owned).unwrap();
        assert!(json.contains("\"name\":\"a name\""), "{json}");
        assert!(json.contains("\"event_type\":300"), "{json}");
        assert_eq!(serde_json::from_str::<OwnedEvent>(&json).unwrap(), owned);

        let bytes = postcard::to_stdvec(&owned).unwrap();
        assert_eq!(postcard::from_bytes::<OwnedEvent>(&bytes).unwrap(), owned);
    }
}
