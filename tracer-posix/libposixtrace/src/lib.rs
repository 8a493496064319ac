//! The C functions of `trace.h`.
//!
//! Each converts its arguments, calls one function of the engine, and converts the result: 0 or an
//! error number. It leaves `errno` alone.

// No function of this library ends the program that calls it.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod attr;
mod clock;
mod codes;
pub mod create;
pub mod emit;
pub mod event_types;
mod kind;
mod memory;
pub mod read;
mod reason;
mod sanitizer;
pub mod spans;
pub mod stream;
mod table;
mod trace_point;
mod types;
mod wait;

pub use codes::constants;
pub use types::{EventInfo, LAYOUTS, Layout, StatusInfo, TraceAttr};
