//! Robots: what the events of `libtracetools` say of nodes, topics and callbacks.
//!
//! - [`Graph`] learns which callback is of which node and topic;
//! - [`Callbacks`] is a stage before a consumer, in which the events of callbacks and messages get
//!   types that are called after them: so whatever knows spans by the names of their types knows
//!   callbacks;
//! - [`Nodes`] says behind that stage which node an event is of.

mod callbacks;
mod graph;
mod nodes;

pub use callbacks::{Callbacks, DELIVERY, DELIVERY_KEYS};
pub use graph::Graph;
pub use nodes::{NodeEvent, Nodes, data_as_emitted};

/// Prefix of the names of robots' events.
pub const PREFIX: &[u8] = b"ros2:";
