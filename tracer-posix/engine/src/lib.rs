//! What the standard says about streams, as logic without effects: no shared memory, no files, no
//! clock of its own.
//!
//! - [`event`]: what an event is once it is in a stream.
//! - [`fields`]: data of events as text, with names and types.
//! - [`source`]: where a stream gets its events from.
//! - [`Attributes`], [`EventSet`], [`EventTypes`]: what a stream is made with and knows.
//! - [`StreamCore`]: one stream's state machine and buffer; time is an argument.
//! - [`ActiveStream`]: a stream with its sources: collects, merges by time, applies filter and
//!   policy.

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]
// Whatever comes from outside is no reason to end the program.
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

mod active_stream;
mod attributes;
mod clock_pair;
pub mod event;
mod event_set;
mod event_types;
pub mod fields;
#[cfg(test)]
mod flush_model;
mod ledger;
mod merge;
#[cfg(test)]
mod merge_model;
mod policy;
pub mod sizes;
pub mod source;
mod stream;
mod ties;
mod trace_name;

pub use active_stream::{ActiveStream, Flush, NoLog};
pub use attributes::{Attributes, InvalidAttribute};
pub use clock_pair::ClockPair;
pub use event_set::{EventSet, SetKind};
pub use event_types::EventTypes;
pub use ledger::Ledger;
pub use policy::{Inheritance, LogFullPolicy, StreamFullPolicy};
pub use stream::{Filtering, Origin, Status, StreamCore};
pub use trace_name::TraceName;
