//! Description of a log, and of the stream that it was made from.

use tracer_engine::{Attributes, ClockPair, LogFullPolicy};

/// How a log is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Policy of the log when it is full.
    pub policy: LogFullPolicy,
    /// Most bytes for events; ignored with [`LogFullPolicy::Append`].
    pub max_size: u64,
}

impl LogOptions {
    /// Returns the smallest limit of a log with `LOOP` or `UNTIL_FULL` for a stream with these
    /// attributes: it holds a packet with one event of max-data-size, and a STOP.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn least_size(attributes: &Attributes) -> u64 {
        super::writer::least_size(attributes.max_data_size())
    }
}

/// The system that a log was made on. Both fields are empty in logs of the format's first version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct System {
    /// The kernel's release, as `uname -r` shows it; truncated at 39 bytes.
    pub kernel_release: Vec<u8>,
    /// The machine, as `uname -m` shows it.
    pub machine: Vec<u8>,
}

#[cfg(target_os = "linux")]
impl System {
    /// Returns the system that this program runs on.
    #[must_use]
    pub fn detect() -> Self {
        crate::sys::system()
    }
}

/// Contents of the start of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The attributes of the stream, creation time included.
    pub attributes: Attributes,
    /// The clocks when the log was made.
    pub anchor: ClockPair,
}

/// The status of the stream and the log when the log was completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FinalStatus {
    /// The stream was full.
    pub is_full: bool,
    /// Events of the stream were lost since the controller last asked.
    pub is_overrun: bool,
    /// The first error of a flush since the controller last asked; 0 for none.
    pub flush_error: i32,
    /// The log was full.
    pub is_log_full: bool,
    /// Events of the log were overwritten or discarded since the controller last asked.
    pub is_log_overrun: bool,
}
