//! Trace streams for Rust programs: three kinds, three types.
//!
//! | kind | type | made by |
//! |---|---|---|
//! | active, without a log | [`Stream`] | [`Stream::create`] |
//! | active, with a log | [`LoggedStream`] | [`LoggedStream::create`] |
//! | pre-recorded | [`LogReader`] | [`LogReader::open`] |
//!
//! A call that the standard allows for one kind only is a method of that type only: a call that
//! `trace.h` would answer with `EINVAL` does not compile here.
//!
//! ```
//! use tracer_posix::{Attributes, Stream, UserEvent};
//!
//! let request = UserEvent::open("request")?;
//! let mut stream = Stream::create_for_self(&Attributes::default())?;
//! stream.start();
//! request.emit(b"hello");
//! stream.stop();
//! while let Some(traced) = stream.try_next() {
//!     println!("{:?} {} {:?}", traced.realtime, traced.name(), traced.event);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active;
#[cfg(feature = "async")]
mod asynchronous;
mod poll;
mod traced;
mod wait;

use std::ffi::c_int;
use std::io;

use tracer_engine::InvalidAttribute;
use tracer_log::WriteError;

pub use crate::agent::AgentError;
pub use crate::logged::{LogCallError, LoggedStatus, LoggedStream, RecorderGone};
pub use crate::stream_limit::TooManyStreams;
pub use active::Stream;
pub use poll::PollableStream;
pub use traced::Traced;
pub use tracer_area::{NameTooLong, TargetError};
pub use tracer_log::LogReader;
pub use wait::{Events, TryEvents};

pub(crate) use traced::RealtimeClock;

#[doc(hidden)]
pub use active::caller;

#[cfg(feature = "async")]
pub use asynchronous::AsyncStream;

/// Why a stream could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// An attribute is not available.
    #[error(transparent)]
    Attribute(#[from] InvalidAttribute),
    /// The process cannot be traced.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The kernel's events are asked for and not available.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// There are too many streams.
    #[error(transparent)]
    Count(#[from] TooManyStreams),
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] WriteError),
    /// `EMFILE` or `ENFILE` where no descriptor is left for a recorder, else `ENOMEM`.
    #[error("cannot make the process that records")]
    Recorder(#[source] io::Error),
    /// The recorder could not make the stream; this is the standard's error number.
    #[error("the recorder cannot make the stream: {}", io::Error::from_raw_os_error(*.0))]
    Refused(i32),
}

impl CreateError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::Attribute(error) => error.error_number(),
            Self::Target(error) => error.error_number(),
            Self::Log(error) => error.error_number(),
            Self::Agent(error) => error.error_number(),
            Self::Count(error) => error.error_number(),
            Self::Recorder(error) => match error.raw_os_error() {
                Some(number @ (libc::EMFILE | libc::ENFILE)) => number,
                _ => libc::ENOMEM,
            },
            Self::Refused(error) => *error,
        }
    }
}
