//! Looking at logs: choosing events, showing them, reporting what a log holds.
//!
//! - [`Walk`] goes through a log once, in order, and gives the chosen events to the code that shows
//!   or [exports](crate::export) them; its memory does not grow with the log;
//! - [`Wanted`] is what the command line chooses, [`TimePoint`] where it begins and ends;
//! - [`read`] shows events, [`Inventory`] counts them;
//! - [`Log`] is what all of this needs of a log.

mod gaps;
mod inventory;
mod inventory_json;
mod inventory_text;
mod log;
#[cfg(test)]
pub mod made_up;
mod output;
mod read;
mod sieved;
mod symbols;
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
pub use output::Output;
pub use read::{Format, ReadSetup, outcome, read, report_missing};
pub use time_point::{Moment, TimePoint};
pub use type_table::TypeTable;
#[cfg(test)]
pub(crate) use walk::view_of;
pub use walk::{Gaps, Pause, Span, Walk};
pub use wanted::Wanted;
