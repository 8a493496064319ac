//! An area as its controller reads it, in which another process writes.

#![no_main]

#[path = "../hostile_area.rs"]
mod hostile_area;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_area::area_read(bytes));
