//! `libtracetools.so`: the instrumentation of ROS 2, without LTTng.
//!
//! The libraries of ROS 2 call a function of this interface where something happens: a node begins,
//! a message is published or taken, a callback starts or ends. Here each call is a user event of
//! POSIX tracing, with the name and the fields that LTTng's event has. So nodes are traced as any
//! program is: `LD_PRELOAD=libtracetools.so`, and `tracer-user attach` or `run`.
//!
//! - [`tracepoints`] is the table of events, and makes the functions of it;
//! - [`argument`] are the types of arguments, and how each is recorded;
//! - [`record`] puts an event together, as typed data;
//! - [`posix`] are the functions that this library calls;
//! - [`symbols`] are the C++ functions that find the names of callbacks.
//!
//! A call never waits, allocates or fails, and leaves `errno` alone; it may be made in signal
//! handlers and on real-time threads, as `posix_trace_event()` may be.

// A program is never ended by a function that it calls.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout
    )
)]

pub mod argument;
pub mod posix;
pub mod record;
pub mod symbols;
pub mod tracepoints;

#[cfg(test)]
mod tests;
