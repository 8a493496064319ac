//! The tracing option of IEEE 1003.1 for Linux.
