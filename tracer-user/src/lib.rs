//! Agent and command line of POSIX tracing for Linux.
//!
//! - [`stat`] sums events up; [`html_report`] shows them as a page that is one file;
//! - [`top`] shows in the terminal what threads do now;
//! - [`flame`] shows where time went, by stacks;
//! - [`cli`] is what was typed, checked.

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

pub mod answers;
pub mod cli;
pub mod flame;
pub mod html_report;
pub mod stat;
pub mod top;
pub mod trigger;
#[doc(hidden)]
pub mod untrusted;
pub mod why;
