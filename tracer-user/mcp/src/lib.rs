//! A server of the Model Context Protocol over the standard input and output.
//!
//! Thin: each tool is a command of `tracer-user`, which runs as a process of its own, without a
//! shell. So an answer is the one that a person gets, a log that is damaged or too large ends no
//! server, and a call that is cancelled ends its command.
//!
//! - [`tools`] is the table of tools: their fields, and the options that these become;
//! - `call` checks what a client has sent, by that table, and makes words of it;
//! - `child` runs them; `cache` remembers what was answered about a log while that is the same;
//! - `answer` marks what traced programs have said as data, and cuts it to its budget;
//! - `server` speaks the protocol.
//!
//! No tool records anything, or looks at a process, unless [`ServerSetup::may_record`] says so.
//! Logs are named by paths that are made absolute: none is taken for an option or a pid.

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

mod answer;
mod cache;
mod call;
mod child;
mod refusal;
mod server;
pub mod tools;

use std::path::PathBuf;

pub use server::serve;

/// Setup of a server.
#[derive(Clone, Debug)]
pub struct ServerSetup {
    /// The program `tracer-user`.
    pub program: PathBuf,
    /// Whether tools may record, and look at processes.
    pub may_record: bool,
    /// How to work with the tools, which clients are told as they connect.
    pub instructions: String,
}
