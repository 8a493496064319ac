//! The tracing option of IEEE 1003.1 for Linux.
//!
//! - [`stream`]: streams for Rust programs; [`logged`] are those with a log.
//! - [`agent`]: the kernel's events in streams, from a privileged process.
//! - [`stream_limit`]: how many streams there are in the system.
//! - [`emit`]: trace points for Rust programs.
//! - `layer()`: spans and events of the `tracing` crate as user events, behind the feature `tracing`.

// The program that records needs a part of it.
#![cfg_attr(
    tracer_recorder,
    allow(
        dead_code,
        unused_imports,
        reason = "the C functions and trace points are left out"
    )
)]

pub mod agent;
pub mod emit;
#[cfg(feature = "tracing")]
mod layer;
pub mod logged;
pub mod stream;
pub mod stream_limit;
pub mod wire;

#[cfg(feature = "tracing")]
pub use layer::{TraceLayer, layer};
pub use tracer_common::event_type::EventTypeId;
