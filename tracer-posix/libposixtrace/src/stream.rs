//! Starting, stopping, flushing, clearing and ending streams; their attributes, status and filter.

use std::ffi::c_int;

use tracer_area::ErrnoGuard;
use tracer_engine::{EventSet, Filtering};
use tracer_posix::logged::Activity;
use tracer_posix::stream::caller;

use super::codes::{ErrorNumber, Invalid, NamedValue, constants, status};
use super::table::{self, Stream};
use super::types::{StatusInfo, TraceAttr, TraceId};

/// Defines a C function that passes its arguments on to another one, and adds the return address of
/// the call, which says where the call is in the program. On machines other than x86-64 and arm64
/// the address is 0.
///
/// `$x86_64` and `$aarch64` are the registers that carry the added argument by the C calling
/// conventions of these machines.
macro_rules! with_call_address {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $target:ident, $x86_64:literal, $aarch64:literal) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            std::arch::naked_asm!(
                concat!("mov ", $x86_64, ", qword ptr [rsp]"),
                "jmp {}",
                sym $target
            )
        }

        $(#[$doc])*
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            std::arch::naked_asm!(
                concat!("mov ", $aarch64, ", x30"),
                "b {}",
                sym $target
            )
        }

        $(#[$doc])*
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's promises are those of the target.
            unsafe { $target($($argument,)* 0) }
        }
    };
}

/// Calls `act` with the stream that an identifier names.
pub(super) fn with_stream<T>(
    trid: TraceId,
    act: impl FnOnce(&mut Stream) -> Result<T, Invalid>,
) -> Result<T, Invalid> {
    let _errno = ErrnoGuard::keep();
    act(table::find(trid)?.lock()?.stream()?)
}

/// Calls `act` like [`with_stream`], for a call that collects what was recorded, as far as there is
/// memory for that.
fn with_collecting_stream(
    trid: TraceId,
    act: impl FnOnce(&mut Stream) -> Result<c_int, Invalid>,
) -> c_int {
    let _errno = ErrnoGuard::keep();
    returned(table::find(trid).and_then(|found| {
        let mut held = found.lock()?;
        let stream = held.stream()?;
        stream.prepare();
        let result = act(stream);
        held.show_filter()?;
        result
    }))
}

with_call_address! {
    /// Starts a stream.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` if `trid` is no active stream.
    ///
    /// # Safety
    ///
    /// Nothing is asked of the caller.
    posix_trace_start(trid: TraceId) -> c_int = start_at, "rsi", "x1"
}

unsafe extern "C" fn start_at(trid: TraceId, address: u64) -> c_int {
    with_collecting_stream(trid, |stream| {
        stream.kind.start(caller(address)).map(|()| 0)
    })
}

with_call_address! {
    /// Stops a stream.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` if `trid` is no active stream.
    ///
    /// # Safety
    ///
    /// Nothing is asked of the caller.
    posix_trace_stop(trid: TraceId) -> c_int = stop_at, "rsi", "x1"
}

unsafe extern "C" fn stop_at(trid: TraceId, address: u64) -> c_int {
    with_collecting_stream(trid, |stream| stream.kind.stop(caller(address)).map(|()| 0))
}

/// Drops all that a stream holds, its filter, and what is in its log.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no active stream, and the error of the system if the log cannot be
/// cleared.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_clear(trid: TraceId) -> c_int {
    with_collecting_stream(trid, |stream| stream.kind.clear())
}

with_call_address! {
    /// Copies what a stream holds to its log; returns when that is done.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` if `trid` is no active stream with a log; `EFBIG` and `ENOSPC` where there
    /// is no space for the log.
    ///
    /// # Safety
    ///
    /// Nothing is asked of the caller.
    posix_trace_flush(trid: TraceId) -> c_int = flush_at, "rsi", "x1"
}

unsafe extern "C" fn flush_at(trid: TraceId, address: u64) -> c_int {
    let _errno = ErrnoGuard::keep();
    returned(table::find(trid).and_then(|found| {
        let activity = found.activity();
        let _asking = activity.as_deref().map(Activity::asking);
        found.lock()?.stream()?.kind.flush(caller(address))
    }))
}

with_call_address! {
    /// Ends a stream, frees all that it has, and completes its log, if it has one.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` if `trid` is no active stream; `EFBIG` and `ENOSPC` where there was no
    /// space for the log: the stream is ended all the same.
    ///
    /// # Safety
    ///
    /// Nothing is asked of the caller.
    posix_trace_shutdown(trid: TraceId) -> c_int = shutdown_at, "rsi", "x1"
}

unsafe extern "C" fn shutdown_at(trid: TraceId, address: u64) -> c_int {
    let _errno = ErrnoGuard::keep();
    returned(table::find(trid).and_then(|found| {
        let mut held = found.lock()?;
        if !held.stream()?.kind.is_active() {
            return Err(Invalid);
        }
        held.remove()?.kind.shut_down(caller(address))
    }))
}

/// Stores the attributes of a stream.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no stream, or for a null pointer.
///
/// # Safety
///
/// `attr` is null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_get_attr(trid: TraceId, attr: *mut TraceAttr) -> c_int {
    status(with_stream(trid, |stream| {
        // SAFETY: as promised by the caller.
        unsafe { store(attr, TraceAttr::new(stream.kind.attributes()?)) }
    }))
}

/// Stores the status of a stream. Losses are reported once, but always for a log that is read. The
/// call does not wait for a flush, and for the recorder less than a millisecond.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no stream, or for a null pointer.
///
/// # Safety
///
/// `info` is null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_get_status(trid: TraceId, info: *mut StatusInfo) -> c_int {
    use constants::{
        POSIX_TRACE_FLUSHING, POSIX_TRACE_FULL, POSIX_TRACE_NO_OVERRUN, POSIX_TRACE_NOT_FLUSHING,
        POSIX_TRACE_NOT_FULL, POSIX_TRACE_OVERRUN, POSIX_TRACE_RUNNING, POSIX_TRACE_SUSPENDED,
    };
    let choose = |is_so, yes, no| if is_so { yes } else { no };
    let _errno = ErrnoGuard::keep();
    returned(table::find(trid).and_then(|found| {
        if info.is_null() {
            return Err(Invalid);
        }
        let now = match found.status_of_flush() {
            Some(status) => status,
            None => match found.lock_at_once()? {
                Some(mut held) => {
                    let stream = held.stream()?;
                    stream.prepare();
                    stream.kind.status()?
                }
                None => found.activity().ok_or(Invalid)?.status(),
            },
        };
        let status = StatusInfo {
            stream_status: choose(now.is_running, POSIX_TRACE_RUNNING, POSIX_TRACE_SUSPENDED),
            stream_full_status: choose(now.is_full, POSIX_TRACE_FULL, POSIX_TRACE_NOT_FULL),
            stream_overrun_status: choose(
                now.is_overrun,
                POSIX_TRACE_OVERRUN,
                POSIX_TRACE_NO_OVERRUN,
            ),
            stream_flush_status: choose(
                now.is_flushing,
                POSIX_TRACE_FLUSHING,
                POSIX_TRACE_NOT_FLUSHING,
            ),
            stream_flush_error: now.flush_error,
            log_overrun_status: choose(
                now.is_log_overrun,
                POSIX_TRACE_OVERRUN,
                POSIX_TRACE_NO_OVERRUN,
            ),
            log_full_status: choose(now.is_log_full, POSIX_TRACE_FULL, POSIX_TRACE_NOT_FULL),
        };
        // SAFETY: as promised by the caller.
        unsafe { store(info, status) }.map(|()| 0)
    }))
}

/// Stores the filter of a stream, without waiting for another thread or process. While another
/// thread changes the filter, this is the one before.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no active stream, or for a null pointer.
///
/// # Safety
///
/// `set` is null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_get_filter(trid: TraceId, set: *mut EventSet) -> c_int {
    let _errno = ErrnoGuard::keep();
    status(table::find(trid).and_then(|found| {
        let filter = found.filter()?;
        // SAFETY: as promised by the caller.
        unsafe { store(set, filter) }
    }))
}

with_call_address! {
    /// Changes the filter of a stream.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` if `trid` is no active stream, for a null pointer, or for an unknown `how`.
    ///
    /// # Safety
    ///
    /// `set` is null or a valid object.
    posix_trace_set_filter(trid: TraceId, set: *const EventSet, how: c_int) -> c_int = set_filter_at, "rcx", "x3"
}

/// # Safety
///
/// As [`posix_trace_set_filter`].
unsafe extern "C" fn set_filter_at(
    trid: TraceId,
    set: *const EventSet,
    how: c_int,
    address: u64,
) -> c_int {
    with_collecting_stream(trid, |stream| {
        // SAFETY: as promised by the caller.
        let set = unsafe { set.as_ref() }.ok_or(Invalid)?;
        let how = Filtering::from_code(how)?;
        let changed = stream.kind.set_filter(set, how, caller(address));
        changed.map(|()| 0)
    })
}

/// Converts the result of a call that brings an error number of its own into the value that the
/// call returns.
fn returned(result: Result<c_int, Invalid>) -> c_int {
    result.unwrap_or_else(|error| error.error_number())
}

/// Writes a result, unless the caller gave a null pointer for it.
///
/// # Safety
///
/// `destination` is null or valid for writes.
pub(super) unsafe fn store<T>(destination: *mut T, value: T) -> Result<(), Invalid> {
    if destination.is_null() {
        return Err(Invalid);
    }
    // SAFETY: as promised by the caller.
    unsafe { destination.write(value) };
    Ok(())
}
