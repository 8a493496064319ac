//! The standard's rules for streams, as logic without effects: no shared memory, no files, no clock
//! of its own.
//!
//! - [`event`]: what an event is once it is in a stream.
//! - [`fields`]: data of events as text, with names and types.
//! - [`source`]: where a stream gets its events from.
//! - [`Attributes`], [`EventSet`], [`EventTypes`]: what a stream is made with and knows.
//! - [`StreamCore`]: one stream's state machine and buffer; time is an argument.
//! - [`ActiveStream`]: a stream with its sources: collects, merges by time, applies filter and
//!   policy.
//!
//! # Reading events
//!
//! A stream collects from its sources when it is asked to. It lends out each event until the next
//! call, together with the types, which know the event's name:
//!
//! ```
//! use std::sync::mpsc::{Receiver, channel};
//! use std::time::Instant;
//! use tracer_engine::event::{EventHeader, EventTypeId, MonotonicNs, Truncation};
//! use tracer_engine::source::{Batch, Control, Source, Unread};
//! use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};
//!
//! /// Brings what another thread sends: a time, and data.
//! struct Sent {
//!     events: Receiver<(MonotonicNs, &'static [u8])>,
//!     newest: MonotonicNs,
//! }
//!
//! impl Source for Sent {
//!     fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
//!         for (time, data) in self.events.try_iter() {
//!             let event_type = batch.user_event_type(b"request", Some(EventTypeId(300)));
//!             let header = EventHeader {
//!                 time,
//!                 event_type,
//!                 pid: 1,
//!                 tid: 1,
//!                 cpu: None,
//!                 thread_id: 0,
//!                 program_address: 0,
//!                 truncation: Truncation::None,
//!             };
//!             batch.push(header, data);
//!             self.newest = time;
//!         }
//!         self.newest
//!     }
//!
//!     fn control(&mut self, _: &Control) {}
//!
//!     fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
//!         Unread::Nothing
//!     }
//! }
//!
//! let (sender, events) = channel();
//! let newest = MonotonicNs(10);
//! let clock = || MonotonicNs(10);
//! let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 1 << 20, clock);
//! stream.add_source(Box::new(Sent { events, newest }));
//! stream.start(Origin::NONE);
//! sender.send((MonotonicNs(20), b"hello")).unwrap();
//! stream.sync();
//! # let mut names = Vec::new();
//! while let Some((event, types)) = stream.next_event_and_types() {
//!     let name = types.name(event.header.event_type).unwrap_or_default();
//!     println!("{} {:?}", String::from_utf8_lossy(name), event.data);
//!     # names.push(String::from_utf8_lossy(name).into_owned());
//! }
//! # assert_eq!(names, ["posix_trace_start", "request"]);
//! ```
//!
//! An [`OwnedEvent`](event::OwnedEvent) has its name and its data with it for as long as it is
//! held; behind the feature `serde` it goes to and from other formats. The crate `tracer-posix` has
//! the sources, and with them waiting, iterators, a descriptor and asynchronous streams. A program
//! decides what the data of its events holds; [`fields`] reads what the crate `tracing` records.

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]
// Nothing that comes from outside may end the program.
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

mod active_stream;
mod attributes;
mod clock_pair;
pub mod event;
mod event_set;
mod event_types;
pub mod fields;
mod flow;
#[cfg(test)]
mod flush_model;
mod ledger;
mod merge;
#[cfg(test)]
mod merge_model;
pub mod sizes;
#[doc(hidden)]
pub mod sort;
pub mod source;
mod stream;
mod ties;
mod trace_name;

pub use active_stream::{ActiveStream, Flush, NoLog};
#[doc(hidden)]
pub use active_stream::{CallTerms, SettledStream};
pub use attributes::{Attributes, Inheritance, InvalidAttribute, LogFullPolicy, StreamFullPolicy};
pub use clock_pair::ClockPair;
pub use event_set::{EventSet, SetKind};
pub use event_types::EventTypes;
pub use flow::Flow;
pub use ledger::Ledger;
pub use stream::{Filtering, Origin, Status, StreamCore};
pub use trace_name::TraceName;
