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
mod error;
mod poll;
mod traced;
mod wait;

pub use crate::agent::AgentError;
pub use crate::logged::{LogCallError, LoggedStatus, LoggedStream, RecorderGone};
pub use crate::stream_limit::TooManyStreams;
pub use active::Stream;
#[doc(hidden)]
pub use active::caller;
#[cfg(feature = "async")]
pub use asynchronous::AsyncStream;
pub use error::CreateError;
pub use poll::PollableStream;
pub(crate) use traced::RealtimeClock;
pub use traced::Traced;
pub use tracer_area::{NameTooLong, TargetError};
pub use tracer_log::LogReader;
pub use wait::{Events, TryEvents};
