//! Any bytes as the data of an event.

#![no_main]

#[path = "../read_fields.rs"]
mod read_fields;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| read_fields::read_fields(bytes));
