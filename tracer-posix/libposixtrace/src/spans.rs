//! `posix_trace_begin_np()` and `posix_trace_end_np()`.
//!
//! A span of the type `x` lies between two events, of the types `x begin` and `x end`, so that
//! every reader of events recognises it. A table has these types once they have been opened.

use std::ffi::c_void;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use tracer_area as area;
use tracer_common::event_type::{EVENT_ID_LIMIT, EventTypeId};

use crate::emit::event_at;
use crate::trace_point::trace_point;

/// The types of the beginnings and of the ends of spans, by the types of the spans; 0 where they
/// have not been opened.
static BEGINS: Borders = [const { AtomicU32::new(0) }; EVENT_ID_LIMIT as usize];
static ENDS: Borders = [const { AtomicU32::new(0) }; EVENT_ID_LIMIT as usize];

type Borders = [AtomicU32; EVENT_ID_LIMIT as usize];

trace_point! {
    /// Records that a span of this type begins, in every stream that traces this process, runs, and
    /// does not filter the type of its beginning.
    posix_trace_begin_np => begin_at
}
trace_point! {
    /// Records the end of the span of this type that began last on this thread.
    posix_trace_end_np => end_at
}

// As for an event: a signal handler may unwind it.
unsafe extern "C-unwind" fn begin_at(id: u32, data: *const c_void, length: usize, address: u64) {
    // SAFETY: the caller vouches for the data.
    unsafe { event_at(border(&BEGINS, id, "begin"), data, length, address) }
}

unsafe extern "C-unwind" fn end_at(id: u32, data: *const c_void, length: usize, address: u64) {
    // SAFETY: the caller vouches for the data.
    unsafe { event_at(border(&ENDS, id, "end"), data, length, address) }
}

/// Returns the type of the beginning, or of the end, of spans of type `id`. For a type without a
/// name that is the type itself.
fn border(borders: &Borders, id: u32, word: &str) -> u32 {
    let known = usize::try_from(id).ok().and_then(|id| borders.get(id));
    match known {
        None => id,
        Some(known) => match known.load(Relaxed) {
            0 => open(known, id, word),
            of_border => of_border,
        },
    }
}

#[cold]
fn open(known: &AtomicU32, id: u32, word: &str) -> u32 {
    let _errno = area::ErrnoGuard::keep();
    let of_border = area::define_own_border(EventTypeId(id), word).0;
    // Another thread may have done the same.
    known.store(of_border, Relaxed);
    of_border
}
