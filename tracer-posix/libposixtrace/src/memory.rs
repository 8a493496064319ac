//! Whether there is memory for a call.
//!
//! Many small things are made in a call, by ways that end the program where no memory is available.
//! So a call first requests as much as they take together, by a way that fails, and frees it: it
//! begins when it can end. Other threads may take the memory meanwhile, and an allocator that fails
//! at random is not foreseen.

use std::ffi::c_int;
use std::hint::black_box;

/// More than a call takes beside the events that it reads.
const CALL_BYTES: usize = 96 << 10;

/// What the allocator is asked for. For more the kernel is: an allocator holds on to what it once
/// had.
const MOST_OF_ALLOCATOR: usize = 128 << 10;

/// Fails with `ENOMEM` where there is too little memory for a call.
pub(super) fn check() -> Result<(), c_int> {
    check_for(0)
}

/// As [`check`], for a call that takes so many bytes for events.
pub(super) fn check_for(events: usize) -> Result<(), c_int> {
    let bytes = events.saturating_add(CALL_BYTES);
    let mut buffer: Vec<u8> = Vec::new();
    let reserved = buffer.try_reserve_exact(bytes.min(MOST_OF_ALLOCATOR));
    // Or the compiler sees that nobody uses it.
    black_box(&mut buffer);
    if reserved.is_err() || bytes > MOST_OF_ALLOCATOR && !can_be_mapped(bytes) {
        return Err(libc::ENOMEM);
    }
    Ok(())
}

fn can_be_mapped(bytes: usize) -> bool {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: just mapped, and known to nobody.
    unsafe { libc::munmap(mapped, bytes) };
    true
}
