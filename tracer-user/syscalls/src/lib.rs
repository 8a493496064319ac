//! System calls as people read them, in the words of strace.
//!
//! `table.txt` has a line a call, of which the build makes a table by number.
//!
//! - [`names`] knows the calls by their numbers, for each machine, and the names of errors;
//! - [`arguments`] knows how many arguments they take, what these are called, and their values;
//!   [`flags`] has the flags and constants, [`calls`] the decoders, a file a family;
//! - [`pointer_data`] is the data that was recorded of an argument, [`descriptors`] that of
//!   descriptors;
//! - [`shape`] decides which arguments are shown and how, [`results`] what a call returned;
//! - [`choice`] reads a list of calls that are chosen, such as `%file,!openat`.
//!
//! Nothing here knows streams, loads programs, or writes to a terminal.

// No input from outside may end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]
// The table has lines for 32-bit programs of x86-64 alone.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only those lines name some decoders")
)]

pub mod arguments;
pub mod calls;
pub mod choice;
pub mod descriptors;
pub mod flags;
pub mod names;
pub mod pointer_data;
pub mod results;
pub mod shape;
pub mod shown;
mod table;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
