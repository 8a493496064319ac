//! Any bytes as the notes of static probes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tracer_user::fuzz_entry::usdt_notes(bytes));
