//! Finding the area of a process, and what is known of that process and its threads.

pub(crate) mod alive;
pub(crate) mod beginning;
pub(crate) mod belonging;
pub(crate) mod find;
pub(crate) mod liveness;
pub(crate) mod reader_windows;
