//! An active stream with a log (option TRL).
//!
//! A log must be completed however its controller ends, even by SIGKILL or exec. So a stream with a
//! log lives in a process of its own, the *recorder*: it collects, flushes, and completes the log
//! when the controller asks for it or is no more. The recorder is a small program inside this
//! library, or a fork of the controller if that may start no program. It keeps nothing of the
//! controller open but the log, and it is no child of the controller: `wait()` never sees it.
//!
//! - `Recording`: the stream and its log, wherever they live.
//! - `making`: making the recorder, by `program` or, by `process` alone, as a fork.
//! - `order`, `rights`: what the controller gives the program. A fork has all of that already.
//! - `record`, `serve`: what the recorder does.
//! - `protocol`, `conversation`: what controller and recorder say to each other.
//! - `activity`: the status of stream and log in shared memory, for threads that cannot wait.
//! - `lending`: the priority that a waiting thread lends to the recorder.
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
