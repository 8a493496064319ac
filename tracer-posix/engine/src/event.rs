//! What an event is once it is in a stream.

use tracer_common::event_type::EventTypeId;

/// Nanoseconds on `CLOCK_MONOTONIC`. Turned into `CLOCK_REALTIME` only where an event leaves
/// the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct MonotonicNs(pub u64);

/// Nanoseconds on `CLOCK_REALTIME`: what leaves the library as a timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct RealtimeNs(pub u64);

impl From<RealtimeNs> for std::time::SystemTime {
    fn from(time: RealtimeNs) -> Self {
        Self::UNIX_EPOCH + std::time::Duration::from_nanos(time.0)
    }
}

/// Whether an event's data is whole (`posix_truncation_status` as recorded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Everything of an event but its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// When it was generated.
    pub time: MonotonicNs,
    /// Its type, by the stream's identifier.
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
