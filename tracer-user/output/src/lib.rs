//! Output of `tracer-user`: events as lines, and the files and terminals that these are for.
//!
//! - [`report`] shows events, to people as text and to programs as JSON lines or CSV;
//! - [`terminal`] is what talks to people: where lines go, messages, exit codes;
//! - [`output_file`] makes files with the right owner; [`destination`] ensures that nothing is
//!   overwritten unasked and that a half-written output is never taken for a whole one,
//!   [`unfinished`] that a command that is killed leaves nothing for good, [`interruption`] that a
//!   signal leaves nothing at all; [`progress`] shows how far it is.

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

pub mod destination;
pub mod interruption;
pub mod output_file;
pub mod progress;
pub mod report;
pub mod terminal;
pub mod unfinished;
