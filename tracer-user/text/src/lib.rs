//! Text that people type and read.
//!
//! - [`escape`] makes bytes of any program harmless: for terminals, for JSON, for a line;
//! - [`digits`] appends numbers, [`WallClock`] dates;
//! - [`quantity`] reads sizes and times; [`NamePattern`] is a pattern of names of processes;
//! - [`suggest`] finds the known word that a mistyped one may mean;
//! - [`shell_word`] quotes a word of a command that is to be typed;
//! - [`self_describing`] is data that says of itself what it consists of;
//! - [`signal_name`] and [`short_name`] are the names that people see of signals and event types;
//! - [`say`] reports something that is no event.
//!
//! Nothing here knows where events come from, or opens a file.

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

use std::io::{self, Write};

pub mod digits;
pub mod escape;
mod name_pattern;
mod names;
pub mod quantity;
pub mod self_describing;
mod shell;
mod suggestion;
mod wall_clock;

pub use name_pattern::{NamePattern, PatternError};
pub use names::{
    is_named, is_type_called, push_short_name, short_name, signal_name, signal_number, type_named,
};
pub use shell::shell_word;
pub use suggestion::suggest;
pub use wall_clock::WallClock;

/// Says something that is no event, to the person who runs a command. With the standard
/// error closed, no messages are wanted.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "tracer-user: {}", escape::harmless_line(line));
}
