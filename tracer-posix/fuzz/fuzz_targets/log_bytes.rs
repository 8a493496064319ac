//! Any bytes as a log: opening and reading them ends, without a panic. Checksums are made right, or
//! hardly anything would come past them.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../shared.rs"]
mod shared;

use shared::{file_of, read_all, repair};

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how much is repaired: nothing, the header, packets too.
    let Some((how, bytes)) = bytes.split_first() else {
        return;
    };
    let mut log = bytes.to_vec();
    repair(&mut log, how % 3);
    read_all(file_of(&log));
});
