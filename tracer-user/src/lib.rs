//! Agent and command line of POSIX tracing for Linux.
