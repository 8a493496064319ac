//! Robots: what the events of `libtracetools` say of nodes, topics and callbacks.
//!
//! - [`Graph`] learns to which node and topic each callback belongs;
//! - [`Callbacks`] is a stage before a consumer. It gives the events of callbacks and messages
//!   types with names of their own. A consumer that finds spans by the names of their types then
//!   finds callbacks too;
//! - [`Nodes`] tells, behind that stage, to which node an event belongs.

mod callbacks;
mod graph;
mod nodes;

pub use callbacks::{Callbacks, DELIVERY, DELIVERY_KEYS};
pub use graph::Graph;
pub use nodes::{NodeEvent, Nodes, data_as_emitted};

/// Prefix of the names of robots' events.
pub const PREFIX: &[u8] = b"ros2:";
