//! What a log says of the stream that it was made from.

#[cfg(target_os = "linux")]
use super::sys;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_engine::{Attributes, LogFullPolicy};

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAnchor {
    /// On `CLOCK_MONOTONIC`.
    pub monotonic: MonotonicNs,
    /// The same moment on `CLOCK_REALTIME`.
    pub realtime: RealtimeNs,
}

/// Of how many readings the best is taken.
#[cfg(target_os = "linux")]
const READINGS: usize = 5;

#[cfg(target_os = "linux")]
impl ClockAnchor {
    /// Now. A thread that loses its processor between two clocks reads them far apart: so they are read several times, and
    /// the reading that took least counts.
    #[must_use]
    pub fn now() -> Self {
        let first = Self::read();
        let others = (1..READINGS).map(|_| Self::read());
        let (_, best) = others.fold(
            first,
            |best, next| if next.0 < best.0 { next } else { best },
        );
        best
    }

    /// A reading, and how long it took in nanoseconds: the error is no more than half of that.
    fn read() -> (u64, Self) {
        let before = sys::monotonic_now().0;
        let realtime = sys::realtime_now();
        let width = sys::monotonic_now().0.saturating_sub(before);
        let anchor = Self {
            monotonic: MonotonicNs(before + width / 2),
            realtime,
        };
        (width, anchor)
    }
}

impl ClockAnchor {
    /// What has to be added to a time on `CLOCK_MONOTONIC` to have it on `CLOCK_REALTIME`.
    #[must_use]
    pub fn realtime_offset(self) -> i64 {
        self.realtime.0.wrapping_sub(self.monotonic.0).cast_signed()
    }
}

/// How a log is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// What the log does when it is full.
    pub policy: LogFullPolicy,
    /// Most bytes for events; ignored with [`LogFullPolicy::Append`].
    pub max_size: u64,
}

impl LogOptions {
    /// The smallest limit of a log with `LOOP` or `UNTIL_FULL` for a stream with these attributes: it holds a packet with
    /// one event of max-data-size, and a STOP.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn least_size(attributes: &Attributes) -> u64 {
        super::writer::least_size(attributes.max_data_size())
    }
}

/// The system that a log was made on. Both are empty in logs of the format's first version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// The kernel's release, as `uname -r` shows it; truncated at 39 bytes.
    pub kernel_release: Vec<u8>,
    /// The machine, as `uname -m` shows it.
    pub machine: Vec<u8>,
}

/// What the start of a log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The attributes of the stream, creation time included.
    pub attributes: Attributes,
    /// The clocks when the log was made.
    pub anchor: ClockAnchor,
}

/// The status of the stream and the log when the log was completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
