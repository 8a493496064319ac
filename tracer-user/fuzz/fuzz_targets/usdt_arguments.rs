//! Any bytes as the description of a static probe's arguments.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tracer_user::fuzz_entry::usdt_arguments(bytes));
