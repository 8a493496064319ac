//! One stream: what it holds, and what the standard says happens to it.
//!
//! Nothing here knows the time or where events come from: both are arguments.

mod buffer;
mod core;
#[cfg(test)]
mod model;
#[cfg(test)]
mod own_events;
mod packed;

pub use self::core::{Filtering, Origin, Status, StreamCore};
