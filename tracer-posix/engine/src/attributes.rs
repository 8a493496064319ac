//! The attributes of a stream (`trace_attr_t`), and the policies that they choose. The standard
//! names every value of a policy, so the enums are closed.

use std::ffi::c_int;

use crate::event::RealtimeNs;
use crate::{TraceName, sizes};

/// Name and version of the implementation that makes traces.
const GENERATION_VERSION: &[u8] = concat!("libposixtrace ", env!("CARGO_PKG_VERSION")).as_bytes();

/// Policy of a full trace stream for the next event (`stream-full-policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StreamFullPolicy {
    /// The oldest events make space.
    Loop,
    /// The stream stops, and starts again when it has been emptied.
    UntilFull,
    /// As `UntilFull`, with regular flushes to the log.
    Flush,
}

/// Policy of a full trace log for the next event (`log-full-policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LogFullPolicy {
    /// The oldest events make space.
    Loop,
    /// Events flushed from then on are discarded.
    UntilFull,
    /// The log has no limit.
    Append,
}

/// Whether children of the target are traced into the same stream (`inheritance`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Inheritance {
    /// Children are not traced.
    CloseForChild,
    /// Children are traced from their first instruction on.
    Inherited,
}

/// Attributes a stream is made with. A stream keeps a copy of its own.
///
/// The fields themselves are for the C interface and for logs, which take a value over as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    #[doc(hidden)]
    pub generation_version: TraceName,
    #[doc(hidden)]
    pub name: TraceName,
    #[doc(hidden)]
    pub creation_time: RealtimeNs,
    #[doc(hidden)]
    pub clock_resolution_ns: u64,
    #[doc(hidden)]
    pub stream_min_size: usize,
    #[doc(hidden)]
    pub stream_full_policy: Option<StreamFullPolicy>,
    #[doc(hidden)]
    pub max_data_size: usize,
    #[doc(hidden)]
    pub inheritance: Inheritance,
    #[doc(hidden)]
    pub log_max_size: usize,
    #[doc(hidden)]
    pub log_full_policy: LogFullPolicy,
    #[doc(hidden)]
    pub kernel_events: Option<bool>,
}

/// Why a stream cannot be made with these attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAttribute {
    /// `EINVAL`.
    #[error("max-data-size is {value}, and at most {max} is possible")]
    MaxDataSize {
        /// The value asked for, in bytes.
        value: usize,
        /// The most that is possible, in bytes.
        max: usize,
    },
    /// `EINVAL`.
    #[error("the policy POSIX_TRACE_FLUSH needs a stream with a log")]
    FlushWithoutLog,
    /// `ENOMEM`.
    #[error("stream-min-size is {value}, and at most {max} is possible")]
    StreamMinSize {
        /// The value asked for, in bytes.
        value: usize,
        /// The most that is possible, in bytes.
        max: usize,
    },
}

impl InvalidAttribute {
    /// Returns the error number that the C functions return.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::MaxDataSize { .. } | Self::FlushWithoutLog => libc::EINVAL,
            Self::StreamMinSize { .. } => libc::ENOMEM,
        }
    }
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            generation_version: TraceName::truncated_from(GENERATION_VERSION),
            name: TraceName::EMPTY,
            creation_time: RealtimeNs(0),
            clock_resolution_ns: 1,
            stream_min_size: 256 * 1024,
            stream_full_policy: None,
            max_data_size: 1024,
            inheritance: Inheritance::CloseForChild,
            log_max_size: 16 * 1024 * 1024,
            log_full_policy: LogFullPolicy::Loop,
            kernel_events: None,
        }
    }
}

/// Choosing attributes, one at a time.
impl Attributes {
    /// Names the stream; at most `{TRACE_NAME_MAX}` - 1 bytes are stored.
    #[doc(alias = "posix_trace_attr_setname")]
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = TraceName::truncated_from(name.as_bytes());
        self
    }

    /// Sets the bytes for events, at least.
    #[doc(alias = "posix_trace_attr_setstreamsize")]
    #[must_use]
    pub fn with_stream_min_size(mut self, bytes: usize) -> Self {
        self.stream_min_size = bytes;
        self
    }

    /// Sets the policy of a full stream.
    #[doc(alias = "posix_trace_attr_setstreamfullpolicy")]
    #[must_use]
    pub fn with_stream_full_policy(mut self, policy: StreamFullPolicy) -> Self {
        self.stream_full_policy = Some(policy);
        self
    }

    /// Sets the most bytes of data stored of one user event.
    #[doc(alias = "posix_trace_attr_setmaxdatasize")]
    #[must_use]
    pub fn with_max_data_size(mut self, bytes: usize) -> Self {
        self.max_data_size = bytes;
        self
    }

    /// Sets the most bytes for events in a log.
    #[doc(alias = "posix_trace_attr_setlogsize")]
    #[must_use]
    pub fn with_log_max_size(mut self, bytes: usize) -> Self {
        self.log_max_size = bytes;
        self
    }

    /// Sets the policy of a full log.
    #[doc(alias = "posix_trace_attr_setlogfullpolicy")]
    #[must_use]
    pub fn with_log_full_policy(mut self, policy: LogFullPolicy) -> Self {
        self.log_full_policy = policy;
        self
    }

    /// Sets whether the stream gets the kernel's events too.
    #[doc(alias = "posix_trace_attr_setkernelevents_np")]
    #[must_use]
    pub fn with_kernel_events(mut self, wanted: bool) -> Self {
        self.kernel_events = Some(wanted);
        self
    }

    /// Sets whether children of the target are traced too.
    #[doc(alias = "posix_trace_attr_setinherited")]
    #[must_use]
    pub fn with_inheritance(mut self, inheritance: Inheritance) -> Self {
        self.inheritance = inheritance;
        self
    }

    /// Says when the stream was made.
    #[must_use]
    pub fn with_creation_time(mut self, time: RealtimeNs) -> Self {
        self.creation_time = time;
        self
    }

    /// Sets the resolution that events' timestamps are said to have.
    #[must_use]
    pub fn with_clock_resolution_ns(mut self, resolution_ns: u64) -> Self {
        self.clock_resolution_ns = resolution_ns;
        self
    }
}

/// The attributes as they were chosen.
impl Attributes {
    /// Returns the origin and version of the trace system.
    #[doc(alias = "posix_trace_attr_getgenversion")]
    #[must_use]
    pub fn generation_version(&self) -> &TraceName {
        &self.generation_version
    }

    /// Returns the stream's name.
    #[doc(alias = "posix_trace_attr_getname")]
    #[must_use]
    pub fn name(&self) -> &TraceName {
        &self.name
    }

    /// Returns when the stream was made; 0 before it is.
    #[doc(alias = "posix_trace_attr_getcreatetime")]
    #[must_use]
    pub fn creation_time(&self) -> RealtimeNs {
        self.creation_time
    }

    /// Returns the resolution of the timestamps, in nanoseconds.
    #[doc(alias = "posix_trace_attr_getclockres")]
    #[must_use]
    pub fn clock_resolution_ns(&self) -> u64 {
        self.clock_resolution_ns
    }

    /// Returns the number of bytes for events; in a stream's own attributes, what it really has.
    #[doc(alias = "posix_trace_attr_getstreamsize")]
    #[must_use]
    pub fn stream_min_size(&self) -> usize {
        self.stream_min_size
    }

    /// Returns the policy of a full stream. `POSIX_TRACE_LOOP` where none was chosen: a stream with
    /// a log then gets `POSIX_TRACE_FLUSH` when it is made.
    #[doc(alias = "posix_trace_attr_getstreamfullpolicy")]
    #[must_use]
    pub fn stream_full_policy(&self) -> StreamFullPolicy {
        self.stream_full_policy.unwrap_or(StreamFullPolicy::Loop)
    }

    /// Returns the most bytes of data stored of one user event.
    #[doc(alias = "posix_trace_attr_getmaxdatasize")]
    #[must_use]
    pub fn max_data_size(&self) -> usize {
        self.max_data_size
    }

    /// Tells whether children of the target are traced too.
    #[doc(alias = "posix_trace_attr_getinherited")]
    #[must_use]
    pub fn inheritance(&self) -> Inheritance {
        self.inheritance
    }

    /// Returns the most bytes for events in a log.
    #[doc(alias = "posix_trace_attr_getlogsize")]
    #[must_use]
    pub fn log_max_size(&self) -> usize {
        self.log_max_size
    }

    /// Returns the policy of a full log.
    #[doc(alias = "posix_trace_attr_getlogfullpolicy")]
    #[must_use]
    pub fn log_full_policy(&self) -> LogFullPolicy {
        self.log_full_policy
    }

    /// Tells whether the stream gets the kernel's events too; `None` where nothing was chosen, so
    /// that the environment decides.
    #[doc(alias = "posix_trace_attr_getkernelevents_np")]
    #[must_use]
    pub fn kernel_events(&self) -> Option<bool> {
        self.kernel_events
    }

    /// Returns the number of bytes that a user event takes that is generated with `data_length`
    /// bytes.
    #[doc(alias = "posix_trace_attr_getmaxusereventsize")]
    #[must_use]
    pub fn max_user_event_size(&self, data_length: usize) -> usize {
        sizes::event_size(data_length.min(self.max_data_size))
    }

    /// Returns the most bytes that a system event takes.
    #[doc(alias = "posix_trace_attr_getmaxsystemeventsize")]
    #[must_use]
    pub fn max_system_event_size(&self) -> usize {
        self.max_system_event_size_with(self.kernel_events == Some(true))
    }

    /// Returns the most bytes that a system event takes, where the caller knows whether the stream
    /// gets the kernel's events.
    #[doc(hidden)]
    #[must_use]
    pub fn max_system_event_size_with(&self, has_kernel_events: bool) -> usize {
        sizes::event_size(if has_kernel_events {
            sizes::MAX_KERNEL_DATA
        } else {
            sizes::MAX_SYSTEM_DATA
        })
    }
}

impl Attributes {
    /// Returns the attributes that a stream without a log is really made with: the policy decided,
    /// the size rounded up to the least that one event and the control events need.
    ///
    /// # Errors
    ///
    /// See [`InvalidAttribute`].
    pub fn for_stream_without_log(&self) -> Result<Self, InvalidAttribute> {
        if self.stream_full_policy() == StreamFullPolicy::Flush {
            return Err(InvalidAttribute::FlushWithoutLog);
        }
        self.checked(StreamFullPolicy::Loop)
    }

    /// Returns the attributes that a stream with a log is really made with, as
    /// [`for_stream_without_log`](Self::for_stream_without_log) does for others. The log itself
    /// checks whether its size is enough.
    ///
    /// # Errors
    ///
    /// See [`InvalidAttribute`].
    pub fn for_stream_with_log(&self) -> Result<Self, InvalidAttribute> {
        self.checked(StreamFullPolicy::Flush)
    }

    fn checked(&self, default_policy: StreamFullPolicy) -> Result<Self, InvalidAttribute> {
        if self.max_data_size > sizes::MAX_USER_DATA {
            return Err(InvalidAttribute::MaxDataSize {
                value: self.max_data_size,
                max: sizes::MAX_USER_DATA,
            });
        }
        if self.stream_min_size > sizes::MAX_STREAM_BYTES {
            return Err(InvalidAttribute::StreamMinSize {
                value: self.stream_min_size,
                max: sizes::MAX_STREAM_BYTES,
            });
        }
        let mut rounded = self.clone();
        let least = sizes::least_stream(rounded.max_data_size);
        rounded.stream_min_size = rounded.stream_min_size.max(least).next_multiple_of(8);
        rounded.stream_full_policy = Some(self.stream_full_policy.unwrap_or(default_policy));
        Ok(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_string_is_stored_whole() {
        let attributes = Attributes::default();

        assert_eq!(
            attributes.generation_version().as_bytes(),
            GENERATION_VERSION
        );
    }

    #[test]
    fn a_tiny_stream_is_made_large_enough_for_an_event_and_the_control_events() {
        let tiny = Attributes::default().with_stream_min_size(1);

        let made = tiny.for_stream_without_log().unwrap();

        let needed = made.max_user_event_size(1024) + made.max_system_event_size();
        assert!(made.stream_min_size() > needed);
    }

    #[test]
    fn flush_needs_a_log() {
        let flush = Attributes::default().with_stream_full_policy(StreamFullPolicy::Flush);

        assert_eq!(
            flush.for_stream_without_log(),
            Err(InvalidAttribute::FlushWithoutLog)
        );
    }

    #[test]
    fn data_that_no_ring_can_carry_is_refused() {
        let large = Attributes::default().with_max_data_size(sizes::MAX_USER_DATA + 1);

        assert!(matches!(
            large.for_stream_without_log(),
            Err(InvalidAttribute::MaxDataSize { .. })
        ));
    }
}
