//! `posix_trace_attr_…()`: the attributes object.
//!
//! Each returns 0, or `EINVAL` for a null pointer, an object that is not initialised, or a value
//! that the standard does not name.

use std::ffi::{CStr, c_char, c_int};

use tracer_engine::sizes::MAX_USER_DATA;
use tracer_engine::{Attributes, Inheritance, LogFullPolicy, StreamFullPolicy, TraceName};

use super::codes::{Invalid, NamedValue, status};
use super::types::{TraceAttr, kernel_events_code, kernel_events_of};

/// # Safety
///
/// `attr` is null or a valid object.
unsafe fn read(attr: *const TraceAttr) -> Result<Attributes, Invalid> {
    // SAFETY: as promised by the caller; every bit pattern is a valid object.
    unsafe { attr.as_ref() }.ok_or(Invalid)?.attributes()
}

/// Stores what `get` finds in the attributes.
///
/// # Safety
///
/// `attr` is null or a valid object, `destination` null or valid for writes.
unsafe fn get<T>(
    attr: *const TraceAttr,
    destination: *mut T,
    get: impl FnOnce(&Attributes) -> T,
) -> c_int {
    // SAFETY: as promised by the caller.
    status(unsafe { read(attr) }.and_then(|attributes| {
        if destination.is_null() {
            return Err(Invalid);
        }
        // SAFETY: as promised by the caller.
        unsafe { destination.write(get(&attributes)) };
        Ok(())
    }))
}

/// Changes the attributes by `set`.
///
/// # Safety
///
/// `attr` is null or a valid object.
unsafe fn set(
    attr: *mut TraceAttr,
    set: impl FnOnce(&mut Attributes) -> Result<(), Invalid>,
) -> c_int {
    // SAFETY: as promised by the caller.
    status(unsafe { read(attr) }.and_then(|mut attributes| {
        set(&mut attributes)?;
        // SAFETY: not null, or it could not have been read.
        unsafe { attr.write(TraceAttr::new(&attributes)) };
        Ok(())
    }))
}

/// Gives every attribute its default.
///
/// # Safety
///
/// `attr` is null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_attr_init(attr: *mut TraceAttr) -> c_int {
    if attr.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: as promised by the caller.
    unsafe { attr.write(TraceAttr::new(&super::clock::default_attributes())) };
    0
}

/// Destroys the object.
///
/// # Safety
///
/// `attr` is null or a valid object.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_attr_destroy(attr: *mut TraceAttr) -> c_int {
    // SAFETY: as promised by the caller.
    status(unsafe { read(attr) }.map(|_| {
        // SAFETY: not null, or it could not have been read.
        unsafe { &mut *attr }.destroy();
    }))
}

/// Returns a time given in nanoseconds as C has it.
fn timespec(nanoseconds: u64) -> libc::timespec {
    super::clock::timespec(tracer_engine::event::RealtimeNs(nanoseconds))
}

/// Returns `bytes`, if a stream can be asked to record as much data of a user event.
fn possible_data_size(bytes: usize) -> Result<usize, Invalid> {
    (bytes <= MAX_USER_DATA).then_some(bytes).ok_or(Invalid)
}

/// Returns the most bytes that a system event takes. The environment may ask for the kernel's
/// events.
fn max_system_event_size(attributes: &Attributes) -> usize {
    let has_kernel_events = tracer_posix::agent::are_wanted(attributes);
    attributes.max_system_event_size_with(has_kernel_events)
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident($type:ty) = |$attributes:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// `attr` is null or a valid object, `destination` null or valid for writes.
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(attr: *const TraceAttr, destination: *mut $type) -> c_int {
            // SAFETY: as promised by the caller.
            unsafe { get(attr, destination, |$attributes| $value) }
        }
    )*};
}

getters! {
    /// Stores the resolution of timestamps.
    posix_trace_attr_getclockres(libc::timespec) = |attributes| timespec(attributes.clock_resolution_ns);
    /// Stores when the stream was made; zero for an object that is not from a stream.
    posix_trace_attr_getcreatetime(libc::timespec) = |attributes| timespec(attributes.creation_time.0);
    /// Stores whether children are traced.
    posix_trace_attr_getinherited(c_int) = |attributes| attributes.inheritance.code();
    /// Stores what the log does when it is full.
    posix_trace_attr_getlogfullpolicy(c_int) = |attributes| attributes.log_full_policy.code();
    /// Stores what the stream does when it is full.
    posix_trace_attr_getstreamfullpolicy(c_int) = |attributes| attributes.stream_full_policy().code();
    /// Stores the most bytes of events in the log.
    posix_trace_attr_getlogsize(usize) = |attributes| attributes.log_max_size;
    /// Stores the most bytes of data recorded of a user event.
    posix_trace_attr_getmaxdatasize(usize) = |attributes| attributes.max_data_size;
    /// Stores the most bytes that a system event takes.
    posix_trace_attr_getmaxsystemeventsize(usize) = |attributes| max_system_event_size(attributes);
    /// Stores whether the stream gets the kernel's events too.
    posix_trace_attr_getkernelevents_np(c_int) = |attributes| kernel_events_code(attributes.kernel_events);
    /// Stores the size of the stream, in bytes.
    posix_trace_attr_getstreamsize(usize) = |attributes| attributes.stream_min_size;
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($type:ty) = |$attributes:ident, $value:ident| $change:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// `attr` is null or a valid object.
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(attr: *mut TraceAttr, $value: $type) -> c_int {
            // SAFETY: as promised by the caller.
            unsafe { set(attr, |$attributes| { $change; Ok(()) }) }
        }
    )*};
}

setters! {
    /// Sets whether children are traced.
    posix_trace_attr_setinherited(c_int) =
        |attributes, value| attributes.inheritance = Inheritance::from_code(value)?;
    /// Sets what the log does when it is full.
    posix_trace_attr_setlogfullpolicy(c_int) =
        |attributes, value| attributes.log_full_policy = LogFullPolicy::from_code(value)?;
    /// Sets what the stream does when it is full.
    posix_trace_attr_setstreamfullpolicy(c_int) =
        |attributes, value| attributes.stream_full_policy = Some(StreamFullPolicy::from_code(value)?);
    /// Sets the most bytes of events in the log.
    posix_trace_attr_setlogsize(usize) = |attributes, value| attributes.log_max_size = value;
    /// Sets the most bytes of data recorded of a user event: 65,528 at most.
    posix_trace_attr_setmaxdatasize(usize) =
        |attributes, value| attributes.max_data_size = possible_data_size(value)?;
    /// Sets whether the stream gets the kernel's events too.
    posix_trace_attr_setkernelevents_np(c_int) =
        |attributes, value| attributes.kernel_events = kernel_events_of(value)?;
    /// Sets the size of the stream, in bytes.
    posix_trace_attr_setstreamsize(usize) = |attributes, value| attributes.stream_min_size = value;
}

/// Stores the bytes that a user event with this much data takes. `destination` may be
/// the variable that `data_length` was read from.
///
/// # Safety
///
/// `attr` is null or a valid object, `destination` null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_attr_getmaxusereventsize(
    attr: *const TraceAttr,
    data_length: usize,
    destination: *mut usize,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe {
        get(attr, destination, |attributes| {
            attributes.max_user_event_size(data_length)
        })
    }
}

/// Copies a name with its null into an array of `{TRACE_NAME_MAX}` characters.
///
/// # Safety
///
/// `attr` is null or a valid object, `destination` null or such an array.
unsafe fn copy_name(
    attr: *const TraceAttr,
    destination: *mut c_char,
    name: impl FnOnce(&Attributes) -> TraceName,
) -> c_int {
    // SAFETY: as promised by the caller.
    status(unsafe { read(attr) }.and_then(|attributes| {
        if destination.is_null() {
            return Err(Invalid);
        }
        let name = name(&attributes);
        let length = name.as_bytes().len() + 1;
        // SAFETY: the name with its null is at most `{TRACE_NAME_MAX}` bytes long, and the
        // caller's array is not part of our copy.
        unsafe {
            destination
                .cast::<u8>()
                .copy_from_nonoverlapping(name.padded().as_ptr(), length)
        };
        Ok(())
    }))
}

/// Stores the version of the trace system.
///
/// # Safety
///
/// `attr` is null or a valid object, `version` null or an array of `{TRACE_NAME_MAX}` characters.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_attr_getgenversion(
    attr: *const TraceAttr,
    version: *mut c_char,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { copy_name(attr, version, |attributes| attributes.generation_version) }
}

/// Stores the stream's name.
///
/// # Safety
///
/// `attr` is null or a valid object, `name` null or an array of `{TRACE_NAME_MAX}` characters.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_attr_getname(
    attr: *const TraceAttr,
    name: *mut c_char,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { copy_name(attr, name, |attributes| attributes.name) }
}

/// Names the stream; a name that is too long is truncated.
///
/// # Safety
///
/// `attr` is null or a valid object, `name` null or a string ended by a null.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_attr_setname(
    attr: *mut TraceAttr,
    name: *const c_char,
) -> c_int {
    if name.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: as promised by the caller.
    let name = TraceName::truncated_from(unsafe { CStr::from_ptr(name) }.to_bytes());
    // SAFETY: as promised by the caller.
    unsafe {
        set(attr, |attributes| {
            attributes.name = name;
            Ok(())
        })
    }
}
