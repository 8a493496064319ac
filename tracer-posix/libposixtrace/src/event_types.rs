//! Event types of a stream: identifiers, names, the list; and sets of them.

use std::ffi::{CStr, c_char, c_int};

use tracer_common::event_type::{
    EVENT_ID_LIMIT, EventTypeId, TRACE_EVENT_NAME_MAX, system_event_type,
};

use tracer_area::NameTooLong;
use tracer_engine::{EventSet, SetKind};

use super::codes::{Invalid, NamedValue, status};
use super::stream::{store, with_stream};
use super::types::{EventId, TraceId};

/// Maps a name to a user event type of the processes that a stream traces.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no active stream, or for a null pointer; `ENAMETOOLONG` for a name
/// of more than `{TRACE_EVENT_NAME_MAX}` bytes.
///
/// # Safety
///
/// `name` is null or a string ended by a null, `event` null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_trid_eventid_open(
    trid: TraceId,
    name: *const c_char,
    event: *mut EventId,
) -> c_int {
    if name.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: as promised by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let is_too_long = name.len() > TRACE_EVENT_NAME_MAX;
    let result = with_stream(trid, |stream| {
        if is_too_long {
            return stream.kind.filter().map(drop).ok_or(Invalid);
        }
        let id = stream.kind.define_event_type(name)?;
        // SAFETY: as promised by the caller.
        unsafe { store(event, id.0) }
    });
    match status(result) {
        0 if is_too_long => NameTooLong { length: name.len() }.error_number(),
        code => code,
    }
}

/// Stores the name of a type.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no stream, for a type without a name, or for a null pointer.
///
/// # Safety
///
/// `name` is null or an array of `{TRACE_EVENT_NAME_MAX}` + 1 characters.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventid_get_name(
    trid: TraceId,
    event: EventId,
    name: *mut c_char,
) -> c_int {
    status(with_stream(trid, |stream| {
        let found = stream.kind.event_type_name(EventTypeId(event))?;
        if name.is_null() || found.len() > TRACE_EVENT_NAME_MAX {
            return Err(Invalid);
        }
        let destination = name.cast::<u8>();
        // SAFETY: the caller's array has space for the longest name and its null.
        unsafe { destination.copy_from_nonoverlapping(found.as_ptr(), found.len()) };
        // SAFETY: as above.
        let end = unsafe { destination.add(found.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
        Ok(())
    }))
}

/// Tells whether two identifiers are of the same type.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_eventid_equal(_trid: TraceId, one: EventId, other: EventId) -> c_int {
    c_int::from(one == other)
}

/// Stores the next type of the stream's list.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no stream, or for a null pointer.
///
/// # Safety
///
/// `event` and `unavailable` are null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventtypelist_getnext_id(
    trid: TraceId,
    event: *mut EventId,
    unavailable: *mut c_int,
) -> c_int {
    status(with_stream(trid, |stream| {
        let next = stream
            .kind
            .event_type_from(EventTypeId(stream.list_position))?;
        if let Some(id) = next {
            // SAFETY: as promised by the caller.
            unsafe { store(event, id.0) }?;
        }
        // SAFETY: as promised by the caller.
        unsafe { store(unavailable, c_int::from(next.is_none())) }?;
        // A call that fails takes no type from the list.
        if let Some(id) = next {
            stream.list_position = id.0 + 1;
        }
        Ok(())
    }))
}

/// Returns to the first type of the stream's list.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no stream.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_eventtypelist_rewind(trid: TraceId) -> c_int {
    status(with_stream(trid, |stream| {
        stream.list_position = 0;
        Ok(())
    }))
}

/// Empties a set.
///
/// # Errors
///
/// Returns `EINVAL` for a null pointer.
///
/// # Safety
///
/// `set` is null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventset_empty(set: *mut EventSet) -> c_int {
    // SAFETY: as promised by the caller.
    status(unsafe { store(set, EventSet::EMPTY) })
}

/// Fills a set with types of a kind.
///
/// # Errors
///
/// Returns `EINVAL` for a null pointer or an unknown kind.
///
/// # Safety
///
/// `set` is null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventset_fill(set: *mut EventSet, what: c_int) -> c_int {
    status(SetKind::from_code(what).and_then(|kind| {
        // SAFETY: as promised by the caller.
        unsafe { store(set, EventSet::filled(kind)) }
    }))
}

/// Checks a type that a caller gives for a set: one of the system's, or one that a process can have
/// opened.
fn possible(event: EventId) -> Result<EventTypeId, Invalid> {
    let id = EventTypeId(event);
    let is_possible = if id.is_user() {
        event < EVENT_ID_LIMIT
    } else {
        system_event_type(id).is_some()
    };
    is_possible.then_some(id).ok_or(Invalid)
}

/// Puts a type into a set.
///
/// # Errors
///
/// Returns `EINVAL` for a null pointer or an impossible type.
///
/// # Safety
///
/// `set` is null or a valid object.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventset_add(event: EventId, set: *mut EventSet) -> c_int {
    status(possible(event).and_then(|event| {
        // SAFETY: as promised by the caller.
        unsafe { set.as_mut() }.ok_or(Invalid)?.insert(event);
        Ok(())
    }))
}

/// Takes a type out of a set.
///
/// # Errors
///
/// Returns `EINVAL` for a null pointer or an impossible type.
///
/// # Safety
///
/// `set` is null or a valid object.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventset_del(event: EventId, set: *mut EventSet) -> c_int {
    status(possible(event).and_then(|event| {
        // SAFETY: as promised by the caller.
        unsafe { set.as_mut() }.ok_or(Invalid)?.remove(event);
        Ok(())
    }))
}

/// Stores whether a type is in a set.
///
/// # Errors
///
/// Returns `EINVAL` for a null pointer or an impossible type.
///
/// # Safety
///
/// `set` is null or a valid object, `ismember` null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_eventset_ismember(
    event: EventId,
    set: *const EventSet,
    ismember: *mut c_int,
) -> c_int {
    status(possible(event).and_then(|event| {
        // SAFETY: as promised by the caller.
        let is_in = unsafe { set.as_ref() }.ok_or(Invalid)?.contains(event);
        // SAFETY: as promised by the caller.
        unsafe { store(ismember, c_int::from(is_in)) }
    }))
}
