//! An active stream with a log (option TRL).
//!
//! Streams with a log must be completed however their controller ends, by SIGKILL or exec too. So
//! such a stream lives in a process of its own, the *recorder*: it collects, flushes, and completes
//! the log when the controller asks for it or is no more. It is a small program inside this
//! library, or a fork of the controller where that may start no program. It keeps nothing of the
//! controller open but the log, and it is no child of the controller: `wait()` never sees it.
//!
//! - `Recording`: the stream and its log, wherever they live.
//! - `making`: making the recorder, by `program` or, by `process` alone, as a fork.
//! - `order`, `rights`: what the program is given, and what a fork would have of its controller by
//!   itself.
//! - `record`, `serve`: what the recorder does.
//! - `protocol`, `conversation`: what controller and recorder say to each other.
//! - `activity`: how stream and log are, in shared memory, for those who cannot wait.
//! - `lending`: the priority of those who wait.
//! - [`LoggedStream`]: the controller's side.

mod activity;
mod client;
mod conversation;
mod lending;
mod making;
mod order;
mod process;
mod program;
mod protocol;
mod record;
mod recording;
mod rights;
mod serve;
mod thread_names;

#[doc(hidden)]
pub use activity::Activity;
pub use client::{LogCallError, LoggedStream};
#[doc(hidden)]
pub use client::{ask_recorder, hear_recorder};
pub use conversation::RecorderGone;
pub(crate) use process::BlockedSignals;
pub use protocol::LoggedStatus;
#[doc(hidden)]
pub use record::be_the_recorder;
#[doc(hidden)]
pub use recording::LogRecording;
