//! Agent and command line of POSIX tracing for Linux.
//!
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

pub mod cli;
#[doc(hidden)]
pub mod fuzz_entry;
