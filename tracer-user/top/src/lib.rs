//! Live view in the terminal: the current states of threads, and why spans take as long as they do.
//!
//! - `model` takes events and returns a snapshot of the state at a moment ([`Shot`]). It uses the
//!   engine of `stat` and `why`;
//! - `source` feeds a model: from a running trace, or from a log that is played;
//! - `json` writes a shot for programs;
//! - `view` draws parts of a shot, independently of its source;
//! - `screen` holds the user's choices: keys and the mouse in, a buffer out;
//! - `terminal` takes the terminal and gives it back, whatever happens; `show` waits for keys and
//!   shots, in a thread of its own: events are read however long that takes.

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

mod json;
mod model;
mod once;
mod screen;
mod show;
mod source;
mod terminal;
mod view;

pub use model::{Model, Shot, Window};
pub use once::{OnceForm, show_once};
pub use show::{show_live, show_log};
pub use source::{PlayedLog, TopSetup};
