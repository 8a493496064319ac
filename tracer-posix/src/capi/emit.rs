//! `posix_trace_event()` and `posix_trace_eventid_open()`.

use std::ffi::{CStr, c_char, c_int, c_void};

use tracer_common::event_type::EventTypeId;

use crate::area::{self, ErrnoKept, emitter};

use super::call_address::with_call_address;

with_call_address! {
    /// Records an event in every stream that traces this process, runs, and does not filter its type.
    ///
    /// # Safety
    ///
    /// `data` is readable for `length` bytes, or null, which records no data.
    posix_trace_event(id: u32, data: *const c_void, length: usize) = event_at, "rcx"
}

unsafe extern "C" fn event_at(id: u32, data: *const c_void, length: usize, address: u64) {
    let data = if data.is_null() || length > isize::MAX.unsigned_abs() {
        &[]
    } else {
        // SAFETY: the caller vouches for the data; the length was checked.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) }
    };
    emitter::emit(EventTypeId(id), data, address);
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
/// `name` is a string ended by a null and `id` a valid place, or either is null.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventid_open(name: *const c_char, id: *mut u32) -> c_int {
    if name.is_null() || id.is_null() {
        return libc::EINVAL;
    }
    let _errno = ErrnoKept::new();
    // SAFETY: the caller vouches for the string.
    let name = unsafe { CStr::from_ptr(name) };
    match area::define_own_name(name.to_bytes()) {
        Ok(defined) => {
            // SAFETY: the caller vouches for the place.
            unsafe { id.write(defined.0) };
            0
        }
        Err(area::NameTooLong { .. }) => libc::ENAMETOOLONG,
    }
}
