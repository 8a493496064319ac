//! An active stream with a log (option TRL).
//!
//! Streams with a log must be completed however their controller ends, by SIGKILL or exec too. So
//! such a stream lives in a process of its own, the *recorder*, a fork of the controller: it collects,
//! flushes, and completes the log when the controller asks for it or is no more. It keeps nothing of
//! the controller open but the log, and it is no child of the controller: `wait()` never sees it.
//!
//! - [`Recording`]: the stream and its log, wherever they live.
//! - `protocol`: what controller and recorder say to each other.
//! - `process`: making the recorder.
//! - `serve`: what the recorder does.
//! - `activity`: what it is about, for those who cannot wait.
//! - [`LoggedStream`]: the controller's side.

mod activity;
mod client;
mod process;
mod protocol;
mod recording;
mod serve;
mod thread_names;

pub(crate) use activity::Activity;
pub use client::{LogCallError, LoggedStream, RecorderGone};
#[doc(hidden)]
pub use client::{ask_recorder, hear_recorder};
pub use protocol::LoggedStatus;
pub use recording::Recording;
