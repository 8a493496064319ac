//! Making, starting, stopping, clearing and ending streams; their attributes, status and filter.

use std::ffi::c_int;

use crate::area::{self, ErrnoKept, RingMode, StreamRequest, TargetSource, monotonic_now};
use crate::engine::{
    ActiveStream, Attributes, EventSet, Filtering, Inheritance, Origin, StreamFullPolicy,
};

use super::call_address::with_call_address;
use super::clock::{self, RealtimeClock};
use super::numbers::{ErrorNumber, Invalid, NamedValue, constants, status};
use super::table::{self, Stream};
use super::types::{StatusInfo, TraceAttr, TraceId};

/// Makes a stream without a log for tracing process `pid`; 0 for the caller's.
///
/// # Errors
///
/// Returns `ESRCH`, `EPERM`, `EINVAL`, `EAGAIN` or `ENOMEM` as the standard says.
///
/// # Safety
///
/// `attr` is null or a valid object, `trid` null or a valid place.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_create(
    pid: libc::pid_t,
    attr: *const TraceAttr,
    trid: *mut TraceId,
) -> c_int {
    // SAFETY: as promised by the caller.
    let attributes = match unsafe { attr.as_ref() } {
        Some(attr) => attr.attributes(),
        None => Ok(clock::default_attributes()),
    };
    match create(pid, attributes) {
        Ok(made) if !trid.is_null() => {
            // SAFETY: as promised by the caller.
            unsafe { trid.write(made) };
            0
        }
        Ok(made) => status(table::remove(made).and(Err(Invalid))),
        Err(error) => error,
    }
}

/// The standard gives no order among the errors: the target first, then the attributes.
fn create(pid: libc::pid_t, attributes: Result<Attributes, Invalid>) -> Result<TraceId, c_int> {
    let _errno = ErrnoKept::new();
    let pid = if pid == 0 { area::own_pid() } else { pid };
    let wanted = match attributes {
        Ok(attributes) => attributes
            .for_stream_without_log()
            .map_err(|error| error.error_number()),
        Err(error) => Err(error.error_number()),
    };
    let mut attributes = match wanted {
        Ok(attributes) => attributes,
        // Only whether it may be traced at all.
        Err(error) => {
            return Err(match area::Area::find(pid) {
                Err(target) => area::TargetError::from(target).error_number(),
                Ok(_) => error,
            });
        }
    };
    let policy = attributes.stream_full_policy();
    let request = StreamRequest {
        target: Some(pid),
        inherit: attributes.inheritance() == Inheritance::Inherited,
        ring_bytes: attributes.stream_min_size(),
        mode: match policy {
            StreamFullPolicy::Loop => RingMode::OverwriteOldest,
            StreamFullPolicy::UntilFull | StreamFullPolicy::Flush => RingMode::KeepOldest,
        },
        max_data: attributes.max_data_size(),
        lease: None,
    };
    let source = TargetSource::open(pid, request).map_err(|error| error.error_number())?;
    attributes.creation_time = clock::now();
    let mut stream = ActiveStream::new(policy, attributes.stream_min_size(), monotonic_now);
    stream.add_source(Box::new(source));
    let clock = RealtimeClock::new();
    table::enter(Stream {
        stream,
        attributes,
        clock,
        list_position: 0,
    })
    .ok_or(libc::EAGAIN)
}

/// Does something with the stream that an identifier stands for.
pub(super) fn with_stream<T>(
    trid: TraceId,
    act: impl FnOnce(&mut Stream) -> Result<T, Invalid>,
) -> Result<T, Invalid> {
    let _errno = ErrnoKept::new();
    act(&mut *table::find(trid)?.lock()?)
}

/// Who calls, and from where.
fn caller(address: u64) -> Origin {
    Origin {
        pid: area::own_pid(),
        // SAFETY: takes nothing and cannot fail.
        tid: unsafe { libc::gettid() },
        thread_id: area::own_thread_id(),
        program_address: address,
    }
}

with_call_address! {
    /// Starts a stream.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` for what is no active stream.
    ///
    /// # Safety
    ///
    /// Nothing is asked of the caller.
    posix_trace_start(trid: TraceId) -> c_int = start_at, "rsi"
}

unsafe extern "C" fn start_at(trid: TraceId, address: u64) -> c_int {
    status(with_stream(trid, |stream| {
        stream.stream.start(caller(address));
        Ok(())
    }))
}

with_call_address! {
    /// Stops a stream.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` for what is no active stream.
    ///
    /// # Safety
    ///
    /// Nothing is asked of the caller.
    posix_trace_stop(trid: TraceId) -> c_int = stop_at, "rsi"
}

unsafe extern "C" fn stop_at(trid: TraceId, address: u64) -> c_int {
    status(with_stream(trid, |stream| {
        stream.stream.stop(caller(address));
        Ok(())
    }))
}

/// Drops all that a stream holds, and its filter.
///
/// # Errors
///
/// Returns `EINVAL` for what is no active stream.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_clear(trid: TraceId) -> c_int {
    status(with_stream(trid, |stream| {
        stream.stream.clear();
        Ok(())
    }))
}

/// Ends a stream and frees all that it has.
///
/// # Errors
///
/// Returns `EINVAL` for what is no active stream.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_shutdown(trid: TraceId) -> c_int {
    let _errno = ErrnoKept::new();
    let ended = table::find(trid).and_then(|shared| {
        let mut stream = shared.lock()?;
        table::remove(trid)?;
        // A thread that waits for events may hold the stream for a moment longer; what it has in
        // the target's area is given back before this returns.
        stream.stream.end();
        Ok(())
    });
    status(ended)
}

/// Stores the attributes of a stream.
///
/// # Errors
///
/// Returns `EINVAL` for what is no stream, or a null pointer.
///
/// # Safety
///
/// `attr` is null or a valid place.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_get_attr(trid: TraceId, attr: *mut TraceAttr) -> c_int {
    status(with_stream(trid, |stream| {
        // SAFETY: as promised by the caller.
        unsafe { store(attr, TraceAttr::new(&stream.attributes)) }
    }))
}

/// Stores the status of a stream; that events were lost is told once.
///
/// # Errors
///
/// Returns `EINVAL` for what is no stream, or a null pointer.
///
/// # Safety
///
/// `info` is null or a valid place.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_get_status(trid: TraceId, info: *mut StatusInfo) -> c_int {
    use constants::{
        POSIX_TRACE_FULL, POSIX_TRACE_NO_OVERRUN, POSIX_TRACE_NOT_FLUSHING, POSIX_TRACE_NOT_FULL,
        POSIX_TRACE_OVERRUN, POSIX_TRACE_RUNNING, POSIX_TRACE_SUSPENDED,
    };
    let choose = |is_so, yes, no| if is_so { yes } else { no };
    status(with_stream(trid, |stream| {
        if info.is_null() {
            return Err(Invalid);
        }
        let now = stream.stream.status();
        let told = StatusInfo {
            stream_status: choose(now.is_running, POSIX_TRACE_RUNNING, POSIX_TRACE_SUSPENDED),
            stream_full_status: choose(now.is_full, POSIX_TRACE_FULL, POSIX_TRACE_NOT_FULL),
            stream_overrun_status: choose(
                now.is_overrun,
                POSIX_TRACE_OVERRUN,
                POSIX_TRACE_NO_OVERRUN,
            ),
            stream_flush_status: POSIX_TRACE_NOT_FLUSHING,
            stream_flush_error: 0,
            log_overrun_status: POSIX_TRACE_NO_OVERRUN,
            log_full_status: POSIX_TRACE_NOT_FULL,
        };
        // SAFETY: as promised by the caller.
        unsafe { store(info, told) }
    }))
}

/// Stores the filter of a stream.
///
/// # Errors
///
/// Returns `EINVAL` for what is no active stream, or a null pointer.
///
/// # Safety
///
/// `set` is null or a valid place.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_get_filter(trid: TraceId, set: *mut EventSet) -> c_int {
    status(with_stream(trid, |stream| {
        // SAFETY: as promised by the caller.
        unsafe { store(set, *stream.stream.filter()) }
    }))
}

with_call_address! {
    /// Changes the filter of a stream.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` for what is no active stream, a null pointer, or an unknown `how`.
    ///
    /// # Safety
    ///
    /// `set` is null or a valid object.
    posix_trace_set_filter(trid: TraceId, set: *const EventSet, how: c_int) -> c_int = set_filter_at, "rcx"
}

unsafe extern "C" fn set_filter_at(
    trid: TraceId,
    set: *const EventSet,
    how: c_int,
    address: u64,
) -> c_int {
    status(with_stream(trid, |stream| {
        // SAFETY: as promised by the caller.
        let set = unsafe { set.as_ref() }.ok_or(Invalid)?;
        stream
            .stream
            .set_filter(set, Filtering::from_number(how)?, caller(address));
        Ok(())
    }))
}

/// Writes a result, unless the caller gave no place for it.
///
/// # Safety
///
/// `place` is null or a valid place.
pub(super) unsafe fn store<T>(place: *mut T, value: T) -> Result<(), Invalid> {
    if place.is_null() {
        return Err(Invalid);
    }
    // SAFETY: as promised by the caller.
    unsafe { place.write(value) };
    Ok(())
}
