//! The three functions that read the next event.
//!
//! A trace point that has an event for a waiting reader wakes it ([`Bell`]). While events come, the
//! reader looks for them instead, unless it is a real-time thread. If not all events of its stream
//! come from trace points, or another thread waits there already, the reader looks again and again,
//! at first after a fifth of a millisecond and then less often, up to every five. It holds no lock
//! while it sleeps.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::time::Duration;

use tracer_area::{Bell, ErrnoGuard, ErrnoOnlyGuard, realtime_now};
use tracer_engine::event::{Event, Truncation};

use super::clock::{self, nanoseconds};
use super::codes::{Invalid, constants};
use super::kind::{Effort, Kind, Next};
use super::stream::store;
use super::table::{self, Held};
use super::types::{EventInfo, TraceId};
use super::wait::holding_back_signals;

const SHORTEST_WAIT: Duration = Duration::from_micros(200);
const LONGEST_WAIT: Duration = Duration::from_millis(5);
/// Longest sleep of a reader, even where a trace point wakes it: the clock may have been set, and
/// the thread that recorded an event may have been killed before it woke the reader.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Where the caller wants an event to be written.
#[derive(Clone, Copy)]
struct Destination {
    event: *mut EventInfo,
    data: *mut c_void,
    num_bytes: usize,
    data_len: *mut usize,
    unavailable: *mut c_int,
}

/// Result of a look at a stream.
enum Look {
    Reported,
    NotYet,
    AtEnd,
    /// There may be an event, but there is no memory to collect it.
    NoMemory,
}

/// Kinds of streams that may be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Any,
    Active,
}

impl Destination {
    /// Reports an event if one is there. Holds no lock when it returns.
    fn look(&self, trid: TraceId, which: Which, effort: Effort) -> Result<Look, Invalid> {
        let _errno = ErrnoOnlyGuard::keep();
        let is_null = self.event.is_null() || self.data_len.is_null() || self.unavailable.is_null();
        if is_null {
            return Err(Invalid);
        }
        let Some(mut held) = table::find(trid)?.lock_at_once()? else {
            return Ok(Look::NotYet);
        };
        let stream = held.stream()?;
        let kind = &mut stream.kind;
        if which == Which::Active && !kind.is_active() {
            return Err(Invalid);
        }
        // Handled here, since this case is the most frequent: each further function would copy the
        // event.
        if let Kind::Active(stream) = kind
            && let Some(traced) = stream.next_held()
        {
            self.fill(&traced.event, clock::timespec(traced.realtime))?;
            return Ok(Look::Reported);
        }
        let _guard = ErrnoGuard::keep();
        if effort == Effort::Collect && !stream.prepare() {
            return Ok(Look::NoMemory);
        }
        let table::Stream { kind, lent, .. } = stream;
        match kind.next(lent, effort)? {
            Next::Event(event, time) => {
                self.fill(&event, clock::timespec(time))?;
                Ok(Look::Reported)
            }
            Next::NotYet => Ok(Look::NotYet),
            Next::NoMemory => Ok(Look::NoMemory),
            Next::AtEnd => Ok(Look::AtEnd),
        }
    }

    /// Reports that there is no event.
    fn report_unavailable(&self) -> c_int {
        // SAFETY: `look` has found it not to be null, and the caller vouches for it.
        unsafe { self.unavailable.write(1) };
        0
    }

    #[inline]
    fn fill(&self, event: &Event<'_>, timestamp: libc::timespec) -> Result<(), Invalid> {
        let header = &event.header;
        let capacity = if self.data.is_null() {
            0
        } else {
            self.num_bytes
        };
        let copied = event.data.len().min(capacity);
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

    /// Waits for an event. `deadline` returns the time that is left, or the code to return when it
    /// is over. The thread may be cancelled while it sleeps here.
    fn fill_waiting(
        self,
        trid: TraceId,
        deadline: impl Fn() -> Result<Duration, c_int> + Copy,
    ) -> c_int {
        // An event that is held already is reported without a system call.
        let at_hand = || Ok(Duration::ZERO);
        if let Step::Done(code) = self.step(trid, Effort::AtHand, at_hand) {
            return code;
        }
        // Signals are held back until the call returns: a handler that ran between two looks would
        // go unnoticed.
        holding_back_signals(|signals| {
            let mut wait = SHORTEST_WAIT;
            loop {
                let left = match self.step(trid, Effort::Collect, deadline) {
                    Step::Done(code) => return code,
                    Step::Wait(left) => left,
                };
                if let Some(nap) = Self::nap(trid) {
                    let slept = signals.sleep(left.min(nap), -1);
                    if slept != 0 {
                        return slept;
                    }
                    continue;
                }
                let slept = match self.take_bell(trid) {
                    Some(bell) => {
                        // A thread that emits from here on rings the bell; this step looks for
                        // events that came before.
                        let step = self.step(trid, Effort::Collect, deadline);
                        let slept = match &step {
                            Step::Done(_) => 0,
                            Step::Wait(left) => signals.sleep((*left).min(LONGEST_SLEEP), bell),
                        };
                        Self::leave_bell(trid, bell);
                        if let Step::Done(code) = step {
                            return code;
                        }
                        slept
                    }
                    None => signals.sleep(left.min(wait), -1),
                };
                if slept != 0 {
                    return slept;
                }
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        })
    }

    /// Returns for how long this thread sleeps before it looks again, while events come; otherwise
    /// `None`.
    fn nap(trid: TraceId) -> Option<Duration> {
        let _errno = ErrnoGuard::keep();
        let mut held = table::find(trid).ok()?.lock().ok()?;
        held.stream().ok()?.kind.nap()
    }

    /// Makes this thread the one that the stream's emitters wake. Returns the descriptor that
    /// becomes readable then; `None` where the thread has to look again and again: another thread
    /// sleeps there, or no emitter can wake it.
    fn take_bell(&self, trid: TraceId) -> Option<RawFd> {
        let _errno = ErrnoGuard::keep();
        let mut held = table::find(trid).ok()?.lock().ok()?;
        let bell = held.stream().ok()?.kind.announce_sleep()?;
        let file = bell.file()?;
        bell.take().then_some(file)
    }

    fn leave_bell(trid: TraceId, file: RawFd) {
        let _errno = ErrnoGuard::keep();
        let mut held = table::find(trid).and_then(|found| found.lock());
        match held.as_mut().map(Held::stream) {
            Ok(Ok(stream)) => {
                if let Some(bell) = stream.kind.bell() {
                    bell.leave();
                }
            }
            _ => Bell::give_back(file),
        }
    }

    fn step(
        self,
        trid: TraceId,
        effort: Effort,
        deadline: impl Fn() -> Result<Duration, c_int>,
    ) -> Step {
        match self.look(trid, Which::Any, effort) {
            Ok(Look::Reported) => Step::Done(0),
            Ok(Look::AtEnd) => Step::Done(self.report_unavailable()),
            Ok(Look::NoMemory) => Step::Done(libc::ENOMEM),
            Ok(Look::NotYet) => deadline().map_or_else(Step::Done, Step::Wait),
            Err(Invalid) => Step::Done(libc::EINVAL),
        }
    }
}

/// The next step of a reader that may wait.
enum Step {
    /// The call returns this.
    Done(c_int),
    /// The reader sleeps, for this long at most.
    Wait(Duration),
}

/// Reports the next event; waits for it, but not at the end of a log.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no stream, also when it is shut down meanwhile, or for a null
/// pointer; `EINTR` when a signal handler ran; `ENOMEM`, and nothing is lost.
///
/// # Safety
///
/// `data` is null or has `num_bytes` bytes; the other pointers are null or valid for writes.
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
    let destination = Destination {
        event,
        data,
        num_bytes,
        data_len,
        unavailable,
    };
    destination.fill_waiting(trid, || Ok(Duration::MAX))
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
    let destination = Destination {
        event,
        data,
        num_bytes,
        data_len,
        unavailable,
    };
    // The clock may be set during a sleep: it is read before each of the short sleeps.
    destination.fill_waiting(trid, || match until {
        None => Err(libc::EINVAL),
        Some(until) => match until.checked_sub(realtime_now().0) {
            None | Some(0) => Err(libc::ETIMEDOUT),
            Some(left) => Ok(Duration::from_nanos(left)),
        },
    })
}

/// Reports the next event if one is there.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no active stream, or for a null pointer; `ENOMEM`, and nothing is
/// lost.
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
    let destination = Destination {
        event,
        data,
        num_bytes,
        data_len,
        unavailable,
    };
    match destination.look(trid, Which::Active, Effort::Collect) {
        Ok(Look::Reported) => 0,
        Ok(Look::NotYet | Look::AtEnd) => destination.report_unavailable(),
        Ok(Look::NoMemory) => libc::ENOMEM,
        Err(Invalid) => libc::EINVAL,
    }
}
