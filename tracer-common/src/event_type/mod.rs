//! The one table of system event types.
//!
//! `trace.h`, the text and JSON output, the filter and the command line all take identifiers, names
//! and fields from [`SYSTEM_EVENT_TYPES`]. The kernel's types are declared where their data is, in
//! [`kernel`](crate::kernel).

mod data;
pub(crate) mod declare;
mod field;
mod kernel_type;
mod table;

pub use data::{CType, DataLayout, DataMember, EventData, MemberType, Scalar, read_grown};
pub use field::{CostClass, EventOrigin, FieldKind, SystemEventType, SystemField};
pub use kernel_type::KernelEventType;
pub use table::{
    SYSTEM_EVENT_TYPES, UNNAMED_USEREVENT_NAME, predefined_event_type, system_event_type,
};

/// Where the identifiers of user event types start. The first is the predefined
/// `POSIX_TRACE_UNNAMED_USEREVENT`; named types follow in order of definition.
pub const FIRST_USER_EVENT: u32 = 256;

/// `{TRACE_USER_EVENT_MAX}`: user event types of one process, the unnamed one counted.
pub const TRACE_USER_EVENT_MAX: u32 = 1024;

/// Every identifier that a process can have is below this, and every one that a set of event types
/// has a bit for.
pub const EVENT_ID_LIMIT: u32 = FIRST_USER_EVENT + TRACE_USER_EVENT_MAX;

/// Every identifier in a stream or a log is below this. A stream of many processes has types beyond
/// [`EVENT_ID_LIMIT`] where these have more names in all than one of them can have.
pub const STREAM_EVENT_ID_LIMIT: u32 = 1 << 16;

/// Words of a bit set that holds every identifier of a process.
pub const EVENT_SET_WORDS: usize = (EVENT_ID_LIMIT / 64) as usize;

/// `{TRACE_EVENT_NAME_MAX}`: the longest event name, without the terminating null.
pub const TRACE_EVENT_NAME_MAX: usize = 64;

/// Identifies an event type. Unique within a process and its children, and within a stream; equal
/// names have equal identifiers there. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct EventTypeId(pub u32);

impl EventTypeId {
    /// An internal error that the trace system reports to the analyzer.
    pub const ERROR: Self = Self(1);
    /// The stream was started.
    pub const START: Self = Self(2);
    /// The stream was stopped, by a call or because it was full.
    pub const STOP: Self = Self(3);
    /// The filter was changed while the stream ran.
    pub const FILTER: Self = Self(4);
    /// An overflow condition began.
    pub const OVERFLOW: Self = Self(5);
    /// An overflow condition ended.
    pub const RESUME: Self = Self(6);
    /// A flush began.
    pub const FLUSH_START: Self = Self(7);
    /// A flush ended.
    pub const FLUSH_STOP: Self = Self(8);
    /// The predefined user event without a name of its own.
    pub const UNNAMED_USEREVENT: Self = Self(FIRST_USER_EVENT);

    /// Tells whether this is a user event type.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 >= FIRST_USER_EVENT
    }
}
