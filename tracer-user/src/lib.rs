//! Agent and command line of POSIX tracing for Linux.

pub mod kernel;
