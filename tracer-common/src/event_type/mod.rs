//! The one table of system event types.
//!
//! `trace.h`, the text and JSON output, the filter and the command line all take numbers, names
//! and fields from [`SYSTEM_EVENT_TYPES`].

mod field;
mod id;
mod table;

pub use field::{CostClass, Field, FieldKind, Origin, SystemEventType};
pub use id::{
    EVENT_ID_LIMIT, EVENT_SET_WORDS, EventTypeId, FIRST_USER_EVENT, TRACE_EVENT_NAME_MAX,
    TRACE_USER_EVENT_MAX,
};
pub use table::{
    SYSTEM_EVENT_TYPES, UNNAMED_USEREVENT_NAME, predefined_event_type, system_event_type,
};
