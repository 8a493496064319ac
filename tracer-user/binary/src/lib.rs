//! Programs as files and as processes: their symbols, probe locations, and stacks by function.
//!
//! - [`probes`] reads the files of programs: functions, static probes, variables, and finds the
//!   locations where probes go;
//! - [`stacks`] names the functions of addresses, of processes that run and of recorded ones;
//! - [`unwind`] walks the stacks of programs without frame pointers;
//! - [`python`] finds functions of Python in them;
//! - [`process_memory`] reads the memory of processes;
//! - [`mod@thread_local`] finds thread-local variables, and [`thread_context`] what OpenTelemetry
//!   publishes by one;
//! - [`bounded_proc`] asks the kernel for what a process may keep it from answering.
//!
//! Bytes that a traced process has written are untrusted: reading them is bounded, comes to an end
//! and does not panic.

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

pub mod bounded_proc;
pub mod probes;
pub mod process_memory;
pub mod python;
mod scheduling;
pub mod stacks;
pub mod thread_context;
pub mod thread_local;
pub mod unwind;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
