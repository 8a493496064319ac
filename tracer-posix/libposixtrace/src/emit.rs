//! `posix_trace_event()`, `posix_trace_eventid_open()`, and the functions that prepare a thread for
//! emitting.

use std::ffi::{CStr, c_char, c_int, c_void};

use tracer_common::event_type::EventTypeId;

use tracer_area::{self as area, ErrnoGuard, emitter, prefault};

use crate::trace_point::trace_point;

trace_point! {
    /// Records an event in every stream that traces this process, runs, and does not filter its
    /// type.
    posix_trace_event => event_at
}

// A signal handler that interrupts this function may unwind it (`pthread_exit()`). Without
// `C-unwind`, a guard against that would end the program.
pub(crate) unsafe extern "C-unwind" fn event_at(
    id: u32,
    data: *const c_void,
    length: usize,
    address: u64,
) {
    if data.is_null() {
        return event_without_data(id, address);
    }
    if length > isize::MAX.unsigned_abs() {
        return event_with_too_much(id, data, address);
    }
    // SAFETY: the caller vouches for the data; the length was checked.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
    emitter::emit_enabled(EventTypeId(id), data, address);
}

#[cold]
fn event_without_data(id: u32, address: u64) {
    emitter::emit_enabled(EventTypeId(id), &[], address);
}

/// Emits an event with more data than an object can have, with the length of the largest object. As
/// always, only the beginning that a record has space for is read.
#[cold]
fn event_with_too_much(id: u32, data: *const c_void, address: u64) {
    let length = isize::MAX.unsigned_abs();
    // SAFETY: the caller vouches for the data.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
    emitter::emit_enabled(EventTypeId(id), data, address);
}

/// Maps a name to a user event type of this process.
///
/// # Errors
///
/// Returns `ENAMETOOLONG` for a name of more than `{TRACE_EVENT_NAME_MAX}` bytes; `EINVAL` for a
/// null pointer.
///
/// # Safety
///
/// `name` is a string ended by a null and `id` valid for writes, or either is null.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventid_open(name: *const c_char, id: *mut u32) -> c_int {
    if name.is_null() || id.is_null() {
        return libc::EINVAL;
    }
    let _errno = ErrnoGuard::keep();
    // SAFETY: the caller vouches for the string.
    let name = unsafe { CStr::from_ptr(name) };
    match area::define_own_name(name.to_bytes()) {
        Ok(defined) => {
            // SAFETY: the caller vouches for the pointer.
            unsafe { id.write(defined.0) };
            0
        }
        Err(area::NameTooLong { .. }) => libc::ENAMETOOLONG,
    }
}

/// Prepares the calling thread and its process: from now on the thread emits without a page fault
/// and without a system call, in streams that live now and in further ones of 16 MiB together.
///
/// # Errors
///
/// Returns `ENOMEM`.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_prefault_np() -> c_int {
    prefault_for(prefault::DEFAULT_BYTES)
}

/// Prepares like [`posix_trace_prefault_np`], for further streams of `bytes` bytes together.
///
/// # Errors
///
/// Returns `ENOMEM`.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_prefault_size_np(bytes: usize) -> c_int {
    prefault_for(bytes)
}

fn prefault_for(bytes: usize) -> c_int {
    match prefault::prefault(bytes) {
        Ok(()) => 0,
        Err(error) => error.error_number(),
    }
}
