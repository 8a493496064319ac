//! Trace streams for Rust programs: three kinds, three types.
//!
//! | kind | type | made by |
//! |---|---|---|
//! | active, without a log | [`Stream`] | [`Stream::create`] |
//! | active, with a log | [`LoggedStream`] | [`LoggedStream::create`] |
//! | pre-recorded | [`LogReader`] | [`LogReader::open`] |
//!
//! What the standard allows for one kind only is a method of that type only: a call that `trace.h`
//! would answer with `EINVAL` does not compile here.
//!
//! ```no_run
//! use tracer_posix::{Attributes, Stream, UserEvent};
//!
//! let request = UserEvent::open("request")?;
//! let mut stream = Stream::create_for_self(&Attributes::default())?;
//! stream.start();
//! request.emit(b"hello");
//! stream.stop();
//! while let Some(traced) = stream.try_next() {
//!     println!("{:?} {:?}", traced.realtime, traced.event);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active;
mod caller;
mod clock;
mod error;

pub use crate::agent::AgentError;
pub use crate::logged::{LogCallError, LoggedStatus, LoggedStream, RecorderGone};
pub use crate::stream_limit::TooManyStreams;
pub use active::{Stream, Traced};
#[doc(hidden)]
pub use caller::caller;
pub(crate) use clock::RealtimeClock;
pub use error::CreateError;
pub use tracer_area::{NameTooLong, TargetError};
pub use tracer_log::LogReader;
