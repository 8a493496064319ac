//! Logs of `tracer-user`: written, gone through, shown, counted.
//!
//! - [`Walk`] goes through a log once, in order, and gives the chosen events to the consumer that
//!   shows or exports them; its memory does not grow with the log;
//! - [`WantedEvents`] is what the command line chooses, [`TimePoint`] where it begins and ends;
//! - [`read`] shows events, [`Inventory`] counts them;
//! - [`Log`] is what all of this needs of a log;
//! - [`LogRecorder`] is the consumer that writes a log, [`log_output`] its file, as it was asked
//!   for; [`snapshots`] names those of a flight recorder.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

mod filtered_walk;
mod gaps;
mod held_names;
mod inventory;
mod inventory_json;
mod inventory_text;
mod log;
pub mod log_output;
mod log_recorder;
mod output;
mod read;
mod recorded_time;
pub mod snapshots;
#[cfg(any(test, feature = "test-log"))]
pub mod test_log;
mod thread_names;
mod time_point;
mod type_table;
mod walk;
mod wanted;
mod writer;

pub use gaps::GapWatch;
pub use inventory::Inventory;
pub use inventory_json::json;
pub use inventory_text::text;
pub use log::{Log, open};
pub use log_recorder::LogRecorder;
pub use output::Output;
pub use read::{ReadFormat, ReadLimit, ReadSetup, outcome, read, report_missing};
pub use time_point::{Moment, TimePoint};
pub use type_table::TypeTable;
#[cfg(any(test, feature = "test-log"))]
pub use walk::view_of;
pub use walk::{EventSpan, Gaps, Pause, Walk, losses_of};
pub use wanted::WantedEvents;
pub use writer::Writers;
