//! Any messages as what a recorder is asked.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tracer_posix::logged::ask_recorder(bytes));
