//! The tracing option of IEEE 1003.1 for Linux.
//!
//! - [`engine`]: what the standard says about streams, as pure logic over [`source::Source`]s.
//! - [`area`]: the trace area: emitting into it, finding it, reading it.
//! - [`event`]: what an event is once it is in a stream.
//! - `capi`: the C functions of `trace.h`.

pub mod area;
pub mod capi;
pub mod emit;
pub mod engine;
pub mod event;
pub mod log;
pub mod source;

pub use tracer_common::event_type::EventTypeId;
