//! The tracing option of IEEE 1003.1 for Linux.
//!
//! A program emits events; a stream records them, beside those of the kernel; whoever has the
//! stream reads them, at once or from a log.
//!
//! ```no_run
//! use std::time::SystemTime;
//! use tracer_posix::{Attributes, Stream, UserEvent};
//!
//! let request = UserEvent::open("request")?;
//! let mut stream = Stream::create_for_self(&Attributes::default())?;
//! stream.start();
//! request.emit(b"hello");
//! stream.stop();
//! while let Some(traced) = stream.try_next() {
//!     println!("{:?} {:?}", SystemTime::from(traced.realtime), traced.event);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`UserEvent`]: trace points; `layer()`: spans and events of the `tracing` crate as user
//!   events, behind the feature `tracing`.
//! - [`Stream`], [`LoggedStream`], [`LogReader`]: the three kinds of streams, see [`stream`].
//! - [`Attributes`], [`EventSet`], [`Event`]: what they are made with, filter, and hold.
//! - [`agent`]: the kernel's events in streams, from a privileged process; [`stream_limit`]: how
//!   many streams there are.

// A program is never ended by a function that it calls.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout,
        clippy::wildcard_enum_match_arm
    )
)]
#![deny(missing_debug_implementations)]
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
#[doc(hidden)]
pub mod wire;

pub use emit::{PrefaultError, UserEvent, prefault};
#[cfg(feature = "tracing")]
pub use layer::{TraceLayer, layer};
pub use stream::{LogReader, LoggedStream, Stream};
pub use tracer_common::event_type::EventTypeId;
pub use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs, Truncation};
pub use tracer_engine::{
    Attributes, EventSet, EventTypes, Filtering, Inheritance, InvalidAttribute, LogFullPolicy,
    SetKind, Status, StreamFullPolicy, TraceName,
};
