//! The one table of system event types.
//!
//! `trace.h`, the text and JSON output, the filter and the command line all take identifiers, names
//! and fields from [`SYSTEM_EVENT_TYPES`]. The kernel's types are declared where their data is, in
//! [`kernel`](crate::kernel).

mod data;
pub(crate) mod declare;
mod field;
mod id;
mod kernel_type;
mod table;

pub use data::{CType, DataLayout, DataMember, EventData, MemberType, Scalar, read_grown};
pub use field::{CostClass, EventOrigin, FieldKind, SystemEventType, SystemField};
pub use id::{
    EVENT_ID_LIMIT, EVENT_SET_WORDS, EventTypeId, FIRST_USER_EVENT, STREAM_EVENT_ID_LIMIT,
    TRACE_EVENT_NAME_MAX, TRACE_USER_EVENT_MAX,
};
pub use kernel_type::KernelEventType;
pub use table::{
    SYSTEM_EVENT_TYPES, UNNAMED_USEREVENT_NAME, predefined_event_type, system_event_type,
};
