//! From events to answers: what threads did, and what they waited for.
//!
//! Events in, in order; answers out. Nothing here reads a file or a clock: who has a log and who
//! follows processes feed it alike.
//!
//! - [`ThreadStates`]: what each thread does at any time, as intervals ([`Interval`]) that leave no
//!   time out and never overlap;
//! - [`ThreadTotals`]: what they sum up to, thread by thread;
//! - [`Calls`]: system calls, with how long they took;
//! - [`Durations`]: many durations, of which percentiles are asked.

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

mod calls;
mod durations;
mod state;
mod thread_states;
mod totals;

pub use calls::{CallKey, CallTotal, Calls};
pub use durations::Durations;
pub use state::{Interval, State, Thread, Wait};
pub use thread_states::ThreadStates;
pub use totals::{ThreadTotal, ThreadTotals};
