//! Log as a page that is one file: a timeline, and the tables of `stat`.
//!
//! - `recording` gathers the content of the page, by the engine of `stat`, `why` and `read`;
//! - `columns`, `code`, `intervals` and `guess` make it short, `header` describes the
//!   columns;
//! - `flames` makes graphs of the stacks that a log has;
//! - `letters` encodes bytes within the page;
//! - `page` puts it into one file with the program that shows it, which is in the folder `page/` of
//!   this crate;
//! - `run` makes it of a log, or of a trace that is still to happen.

mod code;
mod columns;
pub(crate) mod flames;
mod guess;
mod header;
mod intervals;
mod letters;
pub(crate) mod page;
mod recording;
mod run;

pub use run::{PageSetup, TracePage};
pub use run::{ReportSetup, SLOWEST, make};
