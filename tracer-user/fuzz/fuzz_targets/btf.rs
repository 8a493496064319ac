//! Any bytes as a kernel's BTF.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tracer_user::fuzz_entry::btf(bytes));
