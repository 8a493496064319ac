//! Any messages as what a recorder answers its controller.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tracer_posix::logged::hear_recorder(bytes));
