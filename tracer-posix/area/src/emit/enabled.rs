//! The word that a trace point looks at first: whether any stream traces the process.
//!
//! Once the area is there, the word is the area's own (`AreaHeader::active`), found through a
//! pointer. The pointer exists twice. One copy is hidden in the library, for its own trace points.
//! The other is exported for `trace.h`, whose inline check reads it: it may lie in the program's
//! memory instead of the library's, where a program is linked to fixed addresses.
//!
//! The word is right, too, in a child that was made without the C library's `fork()`, since parent
//! and child share the area. A trace point that finds the word set finds out whether the process is
//! such a child, and has to forget other things.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

/// Word before the area is made. It is not 0, so that trace points ask the library.
static ASK: AtomicU32 = AtomicU32::new(1);
/// Word of a process that can have no area: no stream ever traces it.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// Pointer that `trace.h` reads. Where the word that it leads to is not 0, the function has to be
/// called.
// SAFETY: the name is reserved for this library by its prefix.
#[unsafe(no_mangle)]
pub static __linux_trace_enabled: AtomicPtr<AtomicU32> =
    AtomicPtr::new((&raw const ASK).cast_mut());

/// The library's own copy.
pub static OWN: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const ASK).cast_mut());

/// Tells whether a trace point has to do anything.
#[inline(always)]
pub fn is_set() -> bool {
    let word = OWN.load(Relaxed);
    // SAFETY: the pointer is to one of the words above, or to one of the area, which stays mapped
    // as long as the process lives.
    unsafe { &*word }.load(Relaxed) != 0
}

/// Makes `active` the enabled word from now on.
pub(super) fn follow(active: &'static AtomicU32) {
    set(active);
}

/// Notes that the process has no area: the enabled word stays 0.
pub(super) fn close() {
    set(&NEVER);
}

fn set(word: &'static AtomicU32) {
    let word = std::ptr::from_ref(word).cast_mut();
    OWN.store(word, Release);
    __linux_trace_enabled.store(word, Release);
}
