//! Memory for the calls on a stream, whatever the program has left.
//!
//! A program that is out of memory can stop tracing, ask for the status, and read what there is:
//! the standard has no error for that. So each stream has a share of a
//! [reserve](tracer_area::reserve), which is mapped when the stream is made. Making a stream may
//! fail for want of it (`ENOMEM`); calls after that do not. The share has to suffice for what the
//! calls on one stream take at most, one at a time:
//!
//! - what the stream holds, and what a collection takes ([`Kind::memory_needed`]): both grow with
//!   the threads that emit, and so does the share, before a call collects. If it cannot grow, the
//!   call does not collect, and does the rest with what is there: a reader gets `ENOMEM`. Events
//!   that are collected only after the stream was stopped, or its filter changed, count as late;
//! - all else ([`CALL_BYTES`]): the names of event types (a thousand take 300 KiB with their
//!   table); an event's data, three times (192 KiB); a message of the recorder (70 KiB); a packet
//!   of a log (1 MiB) and its events, for which the reader asks the reserve for more in a way that
//!   may fail (`ENOMEM`, and a later call reads the packet).
//!
//! Thread-local variables need no allocation either, even in a program that loads the library while
//! it runs: the shared library asks the loader for space in each thread (`DF_STATIC_TLS`).
//!
//! A call without a stream takes no memory, unless it makes one.

use std::ffi::c_int;

use tracer_area::reserve::{Allocator, NoMemory, Share};

use super::kind::Kind;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Bytes for everything but collecting: see above.
const CALL_BYTES: usize = 2 << 20;

/// A share is so many times as large as what is needed at once, since blocks of many sizes leave
/// holes.
const SPARE: usize = 2;

/// A stream's part of the reserve.
pub(super) struct Memory(Share);

impl Memory {
    /// Takes the memory for a call that makes a stream, before there is one.
    pub(super) fn take() -> Result<Self, c_int> {
        let share = Share::take(CALL_BYTES);
        share.map(Self).map_err(|NoMemory| libc::ENOMEM)
    }

    /// Enlarges the share to what the calls on a stream need now. Fails with `ENOMEM` if there is
    /// too little memory for what they collect.
    pub(super) fn suffice_for(&mut self, kind: &Kind) -> Result<(), c_int> {
        let collecting = kind.memory_needed().saturating_mul(SPARE);
        let bytes = collecting.saturating_add(CALL_BYTES);
        let enlarged = self.0.enlarge_to(bytes);
        enlarged.map_err(|NoMemory| libc::ENOMEM)
    }
}
