//! Any bytes as messages: what is decoded can be said again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer_posix::agent::protocol::Answer;
use tracer_posix::wire::{framed, read_message};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(answer) = read_message::<Answer>(&mut rest) {
        assert!(framed(&answer).is_ok());
    }
});
