//! Any bytes as a program that is looked at for probes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tracer_user::fuzz_entry::elf(bytes);
});
