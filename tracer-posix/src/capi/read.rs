//! The three functions that read the next event.
//!
//! A trace point makes no system call, so nobody wakes a reader that waits: it looks again, at
//! first after a fifth of a millisecond and then less often, up to every five. No lock is held
//! while it sleeps, which is where a thread may be cancelled.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use crate::area::ErrnoKept;
use crate::event::{Event, Truncation};

use super::clock::{self, nanoseconds};
use super::numbers::{Invalid, constants, status};
use super::stream::store;
use super::table::{self, Stream};
use super::types::{EventInfo, TraceId};
use super::wait::HeldBack;

const SHORTEST_WAIT: Duration = Duration::from_micros(200);
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// Where the caller wants an event.
struct Places {
    event: *mut EventInfo,
    data: *mut c_void,
    num_bytes: usize,
    data_len: *mut usize,
    unavailable: *mut c_int,
}

impl Places {
    /// Reports an event if one is there; whether one was.
    fn try_fill(&self, stream: &mut Stream) -> Result<bool, Invalid> {
        let _errno = ErrnoKept::new();
        if self.event.is_null() || self.data_len.is_null() || self.unavailable.is_null() {
            return Err(Invalid);
        }
        if stream.stream.held() == 0 {
            stream.stream.sync();
            stream.clock.look();
        }
        let Stream { stream, clock, .. } = stream;
        let Some(event) = stream.next_event() else {
            return Ok(false);
        };
        let timestamp = clock::timespec(clock.time(event.header.time));
        self.fill(&event, timestamp)?;
        Ok(true)
    }

    fn fill(&self, event: &Event<'_>, timestamp: libc::timespec) -> Result<(), Invalid> {
        let header = &event.header;
        let room = if self.data.is_null() {
            0
        } else {
            self.num_bytes
        };
        let copied = event.data.len().min(room);
        if copied > 0 {
            // SAFETY: the caller vouches for `num_bytes` bytes, and they are not part of our copy
            // of the event.
            unsafe {
                self.data
                    .cast::<u8>()
                    .copy_from_nonoverlapping(event.data.as_ptr(), copied)
            };
        }
        let truncation_status = match header.truncation {
            _ if copied < event.data.len() => constants::POSIX_TRACE_TRUNCATED_READ,
            Truncation::Record => constants::POSIX_TRACE_TRUNCATED_RECORD,
            Truncation::None => constants::POSIX_TRACE_NOT_TRUNCATED,
        };
        let address = usize::try_from(header.program_address).unwrap_or(0);
        let info = EventInfo {
            event_id: header.event_type.0,
            pid: header.pid,
            prog_address: std::ptr::without_provenance_mut(address),
            truncation_status,
            tid: header.tid,
            timestamp,
            thread_id: header.thread_id,
            cpu: header
                .cpu
                .and_then(|cpu| c_int::try_from(cpu).ok())
                .unwrap_or(-1),
        };
        // SAFETY: checked above not to be null, and vouched for by the caller.
        unsafe { store(self.event, info) }?;
        // SAFETY: as above.
        unsafe { store(self.data_len, copied) }?;
        // SAFETY: as above.
        unsafe { store(self.unavailable, 0) }
    }

    /// Reports an event if one is there; else says how long to wait before the next look.
    fn look(&self, trid: TraceId, left: impl Fn() -> Result<Duration, c_int>) -> Look {
        let found = table::find(trid).and_then(|shared| {
            let mut stream = shared.lock()?;
            self.try_fill(&mut stream)
        });
        match found {
            Ok(true) => Look::Done(0),
            Ok(false) => left().map_or_else(Look::Done, Look::Wait),
            Err(error) => Look::Done(status(Err::<(), _>(error))),
        }
    }

    /// Waits for an event, until `left`, which tells what is left of the time, says that it is
    /// enough. The stream is looked up anew for each look.
    fn fill_waiting(&self, trid: TraceId, left: impl Fn() -> Result<Duration, c_int>) -> c_int {
        if let Look::Done(number) = self.look(trid, &left) {
            return number;
        }
        let mut wait = SHORTEST_WAIT;
        loop {
            let signals = HeldBack::new();
            let slept = match self.look(trid, &left) {
                Look::Done(number) => {
                    signals.let_through();
                    return number;
                }
                Look::Wait(left) => signals.sleep(left.min(wait)),
            };
            signals.let_through();
            if slept != 0 {
                return slept;
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// What a look at a stream led to.
enum Look {
    /// What the call returns.
    Done(c_int),
    /// Nothing there; this much of the time is left.
    Wait(Duration),
}

/// Reports the next event; waits for it.
///
/// # Errors
///
/// Returns `EINVAL` for what is no stream, also when it is shut down meanwhile, or a null pointer;
/// `EINTR` when a signal handler ran.
///
/// # Safety
///
/// `data` is null or has `num_bytes` bytes; the other pointers are null or valid places.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_trace_getnext_event(
    trid: TraceId,
    event: *mut EventInfo,
    data: *mut c_void,
    num_bytes: usize,
    data_len: *mut usize,
    unavailable: *mut c_int,
) -> c_int {
    let places = Places {
        event,
        data,
        num_bytes,
        data_len,
        unavailable,
    };
    places.fill_waiting(trid, || Ok(Duration::MAX))
}

/// Reports the next event; waits for it until `CLOCK_REALTIME` reaches `abstime`.
///
/// # Errors
///
/// As [`posix_trace_getnext_event`]; `ETIMEDOUT` when there is none in time; `EINVAL` when there is
/// none and `abstime` is no point of time.
///
/// # Safety
///
/// As [`posix_trace_getnext_event`]; `abstime` is null or a valid object.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_trace_timedgetnext_event(
    trid: TraceId,
    event: *mut EventInfo,
    data: *mut c_void,
    num_bytes: usize,
    data_len: *mut usize,
    unavailable: *mut c_int,
    abstime: *const libc::timespec,
) -> c_int {
    // SAFETY: as promised by the caller.
    let until = unsafe { abstime.as_ref() }.and_then(nanoseconds);
    let places = Places {
        event,
        data,
        num_bytes,
        data_len,
        unavailable,
    };
    // The clock may be set while we sleep: it is looked at before each of the short sleeps.
    places.fill_waiting(trid, || match until {
        None => Err(libc::EINVAL),
        Some(until) => match until.checked_sub(clock::now().0) {
            None | Some(0) => Err(libc::ETIMEDOUT),
            Some(left) => Ok(Duration::from_nanos(left)),
        },
    })
}

/// Reports the next event if one is there.
///
/// # Errors
///
/// Returns `EINVAL` for what is no active stream, or a null pointer.
///
/// # Safety
///
/// As [`posix_trace_getnext_event`].
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_trygetnext_event(
    trid: TraceId,
    event: *mut EventInfo,
    data: *mut c_void,
    num_bytes: usize,
    data_len: *mut usize,
    unavailable: *mut c_int,
) -> c_int {
    let places = Places {
        event,
        data,
        num_bytes,
        data_len,
        unavailable,
    };
    let found = table::find(trid).and_then(|shared| {
        shared
            .lock()
            .and_then(|mut stream| places.try_fill(&mut stream))
    });
    status(found.and_then(|found| {
        if found {
            return Ok(());
        }
        // SAFETY: as promised by the caller.
        unsafe { store(unavailable, 1) }
    }))
}
