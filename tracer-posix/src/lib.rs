//! The tracing option of IEEE 1003.1 for Linux.
//!
//! A program emits events; a stream records them, together with those of the kernel; the program
//! that made the stream reads them, at once or from a log.
//!
//! ```
//! use std::time::SystemTime;
//! use tracer_posix::{Attributes, Stream, UserEvent};
//!
//! let request = UserEvent::open("request")?;
//! let mut stream = Stream::create_for_self(&Attributes::default())?;
//! stream.start();
//! request.emit(b"hello");
//! stream.stop();
//! while let Some(traced) = stream.try_next() {
//!     println!("{:?} {} {:?}", SystemTime::from(traced.realtime), traced.name(), traced.event);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Memory comes from the program's allocator. When that has none left, Rust's own handling applies.
//! The C library has an allocator of its own, and never ends its program.
//!
//! - [`UserEvent`]: trace points; [`UserSpan`]: spans; `layer()`: spans and events of the `tracing`
//!   crate as user events, behind the feature `tracing`.
//! - [`Stream`], [`LoggedStream`], [`LogReader`]: the three kinds of streams, see [`stream`].
//! - [`Attributes`], [`EventSet`], [`Event`]: what streams are made with, what they filter, and
//!   what they hold.
//! - [`agent`]: the kernel's events in streams, from a privileged process; [`stream_limit`]: how
//!   many streams there are.
//!
//! # Reading events
//!
//! A stream lends an event until the next call, so the event needs no memory of its own. It comes
//! with the name of its type:
//!
//! ```
//! # use tracer_posix::{Attributes, Stream, UserEvent};
//! # let request = UserEvent::open("request")?;
//! # let mut stream = Stream::create_for_self(&Attributes::default())?;
//! # stream.start();
//! # request.emit(b"hello");
//! while let Some(traced) = stream.try_next() {
//!     let header = traced.event.header;
//!     println!("{} of thread {}: {:?}", traced.name(), header.tid, traced.event.data);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`next`](Stream::next) waits for an event, [`next_within`](Stream::next_within) no longer than
//! its timeout. Both return `None` when no event can come any more: the stream is stopped and
//! empty, or the process that it traces has ended.
//!
//! ```
//! # use tracer_posix::{Attributes, Stream, UserEvent};
//! use std::time::Duration;
//! # let request = UserEvent::open("request")?;
//! # let mut stream = Stream::create_for_self(&Attributes::default())?;
//! # stream.start();
//! # let emitting = std::thread::spawn(move || request.emit(b"hello"));
//! while let Some(traced) = stream.next_within(Duration::from_secs(1)) {
//!     println!("{}", traced.name());
//!     # if traced.name() == "request" { break; }
//! }
//! # emitting.join().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`events`](Stream::events) is an iterator that waits, [`try_events`](Stream::try_events) one
//! that does not. Their events are [`OwnedEvent`]s, which have memory of their own: a program can
//! collect them, sort them, and send them to another thread; or to a file, with the feature
//! `serde`.
//!
//! ```
//! # use tracer_posix::{Attributes, OwnedEvent, Stream, UserEvent};
//! # let request = UserEvent::open("request")?;
//! # let mut stream = Stream::create_for_self(&Attributes::default())?;
//! # stream.start();
//! # request.emit(b"hello");
//! # stream.stop();
//! let events: Vec<OwnedEvent> = stream.events().collect();
//! let longest = events.iter().max_by_key(|event| event.data.len());
//! println!("{:?}", longest.map(|event| &event.name));
//! # assert!(events.iter().any(|event| event.name == "request"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program that waits for sockets as well polls a descriptor
//! ([`into_pollable`](Stream::into_pollable)). For asynchronous functions, with any executor, there
//! is a stream of the crate `futures` (`into_async`, with the feature `async`).
//!
//! Events of the `tracing` layer have [`fields`] with names and types, and so has data that a
//! program makes with a [`Writer`](fields::Writer):
//!
//! ```
//! # use tracer_posix::{Attributes, Stream, UserEvent};
//! use tracer_posix::fields::{Value, Writer};
//!
//! let request = UserEvent::open("request")?;
//! # let mut stream = Stream::create_for_self(&Attributes::default())?;
//! # stream.start();
//! let mut data = Writer::new();
//! data.text("user", "bob admin=true");
//! data.unsigned("bytes", 12);
//! request.emit(data.as_bytes());
//!
//! # let mut count = 0;
//! while let Some(traced) = stream.try_next() {
//!     if let Some(record) = traced.fields() {
//!         assert_eq!(record.field("bytes"), Some(&Value::Unsigned(12)));
//!         # count += 1;
//!     }
//! }
//! # assert_eq!(count, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A stream with a log is a [`LoggedStream`]; a [`LogReader`] reads a log, in the same ways.

// No function of this crate ends the program that calls it.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::wildcard_enum_match_arm
    )
)]
#![deny(missing_debug_implementations)]
// The recorder needs only a part of this crate.
#![cfg_attr(
    tracer_recorder,
    allow(
        dead_code,
        unused_imports,
        reason = "the C functions and trace points are left out"
    )
)]

pub mod agent;
#[doc(hidden)]
pub mod descriptors;
pub mod emit;
#[cfg(feature = "tracing")]
mod layer;
pub mod logged;
mod span;
pub mod stream;
pub mod stream_limit;
#[doc(hidden)]
pub mod wire;

pub use emit::{PrefaultError, UserEvent, prefault};
#[cfg(feature = "tracing")]
pub use layer::{TraceLayer, layer};
pub use span::{SpanGuard, UserSpan};
#[cfg(feature = "async")]
pub use stream::AsyncStream;
pub use stream::{LogReader, LoggedStream, PollableStream, Stream, Traced};
pub use tracer_common::event_type::EventTypeId;
pub use tracer_engine::event::{
    Event, EventHeader, EventName, MonotonicNs, OwnedEvent, RealtimeNs, Truncation,
};
pub use tracer_engine::fields;
pub use tracer_engine::{
    Attributes, EventSet, EventTypes, Filtering, Inheritance, InvalidAttribute, LogFullPolicy,
    SetKind, Status, StreamFullPolicy, TraceName,
};
