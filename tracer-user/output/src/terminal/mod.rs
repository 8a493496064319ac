//! Communication with people: where lines go, messages, how a command ended.
//!
//! Commands that follow processes and those that look at logs share this, and nothing else.

mod blocking_file;
mod outcome;
pub mod output;
mod signal;

pub use blocking_file::BlockingFile;
pub use outcome::Outcome;
pub use signal::{is_ignored, survive_file_limit};
