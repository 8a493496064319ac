//! Memory for the calls on a stream, whatever the program has left.
//!
//! A program that is out of memory can stop tracing, ask for the status, and read what there is:
//! the standard has no error for that. So each stream has a share of a
//! [reserve](tracer_area::reserve), which is mapped when it is made; that may fail (`ENOMEM`), and
//! nothing after it does. It has to suffice for what the calls on one stream take at most, one at a
//! time:
//!
//! - what the stream holds, and what a collection takes ([`Kind::memory_needed`]): it grows with
//!   the threads that emit, and so the share does, before a call collects. Where it cannot, the
//!   call does not collect, and does the rest with what is there: a reader gets `ENOMEM`; what is
//!   not collected before the stream stops, or its filter changes, is counted when it is;
//! - all else ([`CALL_BYTES`]): the names of event types, of which a stream has a thousand at most
//!   (300 KiB with their table); an event's data, three times (192 KiB); a message of the recorder
//!   (70 KiB); a packet of a log (1 MiB) and its events, for which more is asked of the reserve, by
//!   a way that may fail (`ENOMEM`, and the packet is read by a later call).
//!
//! A thread's own variables are no allocation either, also in a program that loads the library
//! while it runs: the shared library asks the loader to have space for them in each thread
//! (`DF_STATIC_TLS`).
//!
//! No call takes memory that has no stream, but those that make one.

use std::ffi::c_int;

use tracer_area::reserve::{Allocator, NoMemory, Share};

use super::kind::Kind;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// See above.
const CALL_BYTES: usize = 2 << 20;

/// A share is so many times as large as what is needed at once: blocks of many sizes leave holes.
const SPARE: usize = 2;

/// A stream's part of the reserve.
pub(super) struct Memory(Share);

impl Memory {
    /// Takes the memory that a call needs that makes a stream, before there is one.
    pub(super) fn take() -> Result<Self, c_int> {
        let share = Share::take(CALL_BYTES);
        share.map(Self).map_err(|NoMemory| libc::ENOMEM)
    }

    /// Takes what the calls on a stream need as it is now; fails with `ENOMEM` where there is too
    /// little memory for what they collect.
    pub(super) fn suffice_for(&mut self, kind: &Kind) -> Result<(), c_int> {
        let collecting = kind.memory_needed().saturating_mul(SPARE);
        let bytes = collecting.saturating_add(CALL_BYTES);
        let enlarged = self.0.enlarge_to(bytes);
        enlarged.map_err(|NoMemory| libc::ENOMEM)
    }
}
