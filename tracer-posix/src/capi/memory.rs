//! Whether there is memory for a call.
//!
//! Many small things are made in a call, by ways that end the program where memory cannot be had. So as much as they take
//! together is asked for before, by a way that fails, and given back: a call begins when it can end. Other threads may take
//! the memory meanwhile, and what a call reads may be more.

use std::ffi::c_int;
use std::hint::black_box;

/// More than a call takes beside the events that it reads.
const CALL_BYTES: usize = 96 << 10;

/// Fails with `ENOMEM` where there is too little memory for a call.
pub(super) fn check() -> Result<(), c_int> {
    let mut room: Vec<u8> = Vec::new();
    let reserved = room.try_reserve_exact(CALL_BYTES);
    // Or the compiler sees that nobody uses it.
    black_box(&mut room);
    reserved.map_err(|_none| libc::ENOMEM)
}
