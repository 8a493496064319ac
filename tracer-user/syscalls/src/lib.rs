//! System calls as people read them, in the words of strace.
//!
//! - [`names`] knows the calls by their numbers, for each machine, and the names of errors;
//! - [`arguments`] knows how many arguments they take, what these are called, and their values;
//!   [`flags`] has the flags and constants, [`calls`] what pointers lead to;
//! - [`texts`] is the data that was recorded of an argument, [`descriptors`] that of descriptors;
//! - [`shape`] decides which arguments are shown and how, [`results`] what a call returned;
//! - [`choice`] reads a list of calls that are chosen, such as `%file,!openat`.
//!
//! Nothing here knows streams, loads programs, or writes to a terminal.

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

pub mod arguments;
pub mod calls;
pub mod choice;
pub mod descriptors;
pub mod flags;
pub mod names;
pub mod results;
pub mod shape;
pub mod shown;
pub mod texts;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
