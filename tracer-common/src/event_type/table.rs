//! The table itself.

use super::{
    EVENT_ID_LIMIT, EVENT_SET_WORDS, EventTypeId, FIRST_USER_EVENT, FieldKind, SystemEventType,
    SystemField,
};
use crate::kernel::KERNEL_EVENT_TYPES;

const fn stream(
    id: EventTypeId,
    constant: &'static str,
    name: &'static str,
    fields: &'static [SystemField],
    about: &'static str,
) -> SystemEventType {
    SystemEventType::stream(id, constant, name, fields, about)
}

const fn field(name: &'static str, offset: usize, kind: FieldKind) -> SystemField {
    SystemField { name, offset, kind }
}

const SET_BYTES: usize = EVENT_SET_WORDS * 8;

/// The types of the standard, in order of identifier.
const STREAM_EVENT_TYPES: &[SystemEventType] = &[
    stream(
        EventTypeId::ERROR,
        "POSIX_TRACE_ERROR",
        "posix_trace_error",
        &[field("error", 0, FieldKind::I32)],
        "an internal error of the trace system",
    )
    .always()
    .without_process(),
    stream(
        EventTypeId::START,
        "POSIX_TRACE_START",
        "posix_trace_start",
        &[field("filter", 0, FieldKind::EventSet)],
        "the stream was started",
    ),
    stream(
        EventTypeId::STOP,
        "POSIX_TRACE_STOP",
        "posix_trace_stop",
        &[field("auto", 0, FieldKind::I32)],
        "the stream was stopped, or stopped itself because it was full",
    ),
    stream(
        EventTypeId::FILTER,
        "POSIX_TRACE_FILTER",
        "posix_trace_filter",
        &[
            field("old_filter", 0, FieldKind::EventSet),
            field("new_filter", SET_BYTES, FieldKind::EventSet),
        ],
        "the filter was changed while the stream ran",
    ),
    stream(
        EventTypeId::OVERFLOW,
        "POSIX_TRACE_OVERFLOW",
        "posix_trace_overflow",
        &[],
        "events are missing from here on",
    )
    .always()
    .without_process(),
    stream(
        EventTypeId::RESUME,
        "POSIX_TRACE_RESUME",
        "posix_trace_resume",
        &[],
        "events are complete again from here on",
    )
    .always()
    .without_process(),
    stream(
        EventTypeId::FLUSH_START,
        "POSIX_TRACE_FLUSH_START",
        "posix_trace_flush_start",
        &[],
        "the stream is being copied to its log",
    )
    .without_process(),
    stream(
        EventTypeId::FLUSH_STOP,
        "POSIX_TRACE_FLUSH_STOP",
        "posix_trace_flush_stop",
        &[],
        "the stream was copied to its log",
    )
    .without_process(),
];

/// Every system event type, in order of identifier. Those of the kernel are declared with their
/// data, in [`kernel`](crate::kernel).
pub const SYSTEM_EVENT_TYPES: &[SystemEventType] =
    &all::<{ STREAM_EVENT_TYPES.len() + KERNEL_EVENT_TYPES.len() }>();

#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const fn all<const COUNT: usize>() -> [SystemEventType; COUNT] {
    let mut all = [STREAM_EVENT_TYPES[0]; COUNT];
    let streams = STREAM_EVENT_TYPES.len();
    let mut i = 0;
    while i < COUNT {
        all[i] = if i < streams {
            STREAM_EVENT_TYPES[i]
        } else {
            KERNEL_EVENT_TYPES[i - streams].entry
        };
        i += 1;
    }
    all
}

/// Returns the entry of a system event type, or `None` for a user type or an unknown identifier.
#[must_use]
pub fn system_event_type(id: EventTypeId) -> Option<&'static SystemEventType> {
    SYSTEM_EVENT_TYPES.iter().find(|entry| entry.id == id)
}

/// Name that `posix_trace_eventid_get_name()` returns for the predefined user event type.
pub const UNNAMED_USEREVENT_NAME: &str = "posix_trace_unnamed_userevent";

/// Returns the predefined type of this name: a system type, or the user type without a name of its
/// own. Names and types are one to one, so that opening such a name gives the type that has it.
#[must_use]
pub fn predefined_event_type(name: &[u8]) -> Option<EventTypeId> {
    if name == UNNAMED_USEREVENT_NAME.as_bytes() {
        return Some(EventTypeId::UNNAMED_USEREVENT);
    }
    let entry = SYSTEM_EVENT_TYPES
        .iter()
        .find(|entry| entry.name.as_bytes() == name);
    entry.map(|entry| entry.id)
}

#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const _: () = {
    assert!(
        EVENT_ID_LIMIT.is_multiple_of(64),
        "the set has no partly used word"
    );
    let mut i = 1;
    while i < SYSTEM_EVENT_TYPES.len() {
        assert!(
            SYSTEM_EVENT_TYPES[i - 1].id.0 < SYSTEM_EVENT_TYPES[i].id.0,
            "in order"
        );
        assert!(SYSTEM_EVENT_TYPES[i].id.0 < FIRST_USER_EVENT);
        i += 1;
    }
};
