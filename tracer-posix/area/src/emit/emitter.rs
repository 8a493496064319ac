//! A trace point: the way of an event from the program into its chunks.
//!
//! Wait-free and async-signal-safe: no lock, no allocation, no system call and no locked
//! instruction, except where a thread emits to a stream for the first time or has filled its chunk.
//! (Then there are locked instructions, and a call that maps memory where it is new to the
//! process.)
//!
//! A handler may interrupt an emission anywhere and leave it for good. So no function here has a
//! value whose destructor has work to do: a thread that unwinds the function from one of its
//! instructions (`pthread_exit()` in a handler) finds nothing to do.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use tracer_common::area::{StreamControl, TYPE_NUMBERS, emitters, pool_mode, type_number};
use tracer_common::event_type::EventTypeId;

use super::enabled;
use super::own_types::Kind;
use super::process;
use super::sequence::{self, Outcome};
use super::start;
use super::thread::{self, PerStream, Role, ThreadState};
use super::tls;
use crate::layout::chunk::{Moment, Refusal};
use crate::layout::gate;
use crate::layout::mapping::Parts;
use crate::layout::record::Emission;
use crate::layout::ticks::{HAS_LONG_TICKS, wait_for_earlier_loads};
use crate::layout::wake;
use crate::system::thread::HeldBack;

/// Number of times that an interrupted emission is begun again. Only a debugger that stops at each
/// instruction interrupts it more often.
const TRIES: usize = 100;

/// Tells whether a stream runs that may trace this process. `true` also where that is not known
/// yet.
#[inline(always)]
pub fn is_traced() -> bool {
    enabled::is_set()
}

/// Records an event of a user type in every stream that wants it. The caller has found that the
/// process may be traced. All but user types are ignored: a program cannot forge the system's
/// events.
#[inline(never)]
pub fn emit(event_type: EventTypeId, data: &[u8], address: u64) {
    let kind = Kind::beside(event_type).unwrap_or_else(|| Kind::own(event_type));
    emit_point(&TracePoint {
        kind,
        data,
        address,
    });
}

/// Does the same as [`emit`], inline, for types that have an identifier in the process.
#[inline(always)]
pub fn emit_enabled(event_type: EventTypeId, data: &[u8], address: u64) {
    emit_point(&TracePoint {
        kind: Kind::own(event_type),
        data,
        address,
    });
}

#[inline(always)]
fn emit_point(point: &TracePoint<'_>) {
    if emit_fast(point).is_none() {
        emit_slow(point.kind, point.data, point.address);
    }
}

/// Arguments that the program passed at a trace point.
struct TracePoint<'a> {
    kind: Kind,
    data: &'a [u8],
    address: u64,
}

impl TracePoint<'_> {
    /// Returns the event as it is recorded, with at most `max_data` bytes of its data.
    #[inline(always)]
    fn emission(&self, max_data: usize) -> Emission<'_> {
        let data = self.data.get(..max_data).unwrap_or(self.data);
        Emission {
            event_type: self.kind.id(),
            number: self.kind.number(),
            address: self.address,
            data,
            is_truncated: data.len() < self.data.len(),
        }
    }
}

/// Records an event in the way of nearly every event: a single stream runs, the thread has a chunk
/// in it with space, and all of the data is recorded. `None` where one of these does not hold; then
/// no event was recorded.
///
/// This calls no function, so that no register has to be saved for a call: each instruction counts
/// here, since the fence of the next event waits for it.
#[inline(always)]
fn emit_fast(point: &TracePoint<'_>) -> Option<()> {
    let parts = process::parts_if_ready()?;
    let active = parts.header().active.load(Relaxed);
    if active & active.wrapping_sub(1) != 0 {
        return None;
    }
    let slot = usize::try_from(active.trailing_zeros()).ok()?;
    let control = parts.stream(slot)?;
    if !is_wanted(parts, slot, point.kind.number()) {
        return Some(());
    }
    let state = thread::known()?;
    let per_stream = state.streams.get(slot)?;
    let is_usual = per_stream.generation.get() == control.generation.load(Relaxed)
        && !gate::is_shut(control)
        && state.is_restartable()
        && point.data.len() <= per_stream.max_data.get();
    if !is_usual {
        return None;
    }
    let emission = Emission {
        event_type: point.kind.id(),
        number: point.kind.number(),
        address: point.address,
        data: point.data,
        is_truncated: false,
    };
    // SAFETY: the structure and the slot are this thread's. A slot whose generation is that of a
    // stream is filled in, or else its chunk is null.
    let outcome = unsafe { sequence::emit(state.rseq, per_stream, &emission) };
    if outcome != Outcome::Recorded {
        if matches!(outcome, Outcome::Interrupted | Outcome::Stale) {
            state.note_mark(slot);
        }
        return None;
    }
    let_tick_pass(control);
    if wake::is_awaited(control) {
        wake::wake(control);
    }
    Some(())
}

/// Records an event, whatever the case.
#[inline(never)]
fn emit_slow(kind: Kind, data: &[u8], address: u64) {
    let number = kind.number();
    if number == type_number::NONE {
        return;
    }
    start::notice_child();
    let Some(parts) = process::parts_if_ready().or_else(start::parts_made_ready) else {
        return;
    };
    let known = thread::known().map(|state| (state, false));
    let Some((state, is_ending)) = known.or_else(thread::register) else {
        count_refused(parts, number);
        return;
    };
    let point = TracePoint {
        kind,
        data,
        address,
    };
    let mut left = parts.header().active.load(Relaxed);
    while left != 0 {
        let slot = usize::try_from(left.trailing_zeros()).unwrap_or(0);
        left &= left - 1;
        if let Some(control) = parts.stream(slot)
            && is_wanted(parts, slot, number)
        {
            emit_to_stream(parts, (slot, control), state, &point);
        }
    }
    if state.marked.get() != 0 {
        state.take_marks_back();
    }
    if is_ending {
        thread::end_now(state);
    }
}

/// Counts an event as refused in each stream that wants it: its thread can have no memory of its
/// own, and so cannot emit.
#[cold]
fn count_refused(parts: Parts<'static>, number: u32) {
    let active = parts.header().active.load(Relaxed);
    for (slot, control) in parts.streams() {
        let generation = control.generation.load(Acquire);
        if active >> slot & 1 == 1
            && is_wanted(parts, slot, number)
            && process::is_traced_by(slot, control, generation)
        {
            control.refused_no_chunk.fetch_add(1, Relaxed);
            shut_where_nothing_is_overwritten(control);
        }
    }
}

/// Shuts the gate after an event was refused for want of space of any kind. A stream that
/// overwrites its oldest events goes on without the event instead.
#[cold]
pub(super) fn shut_where_nothing_is_overwritten(control: &StreamControl) {
    if control.mode.load(Relaxed) != pool_mode::OVERWRITE_OLDEST {
        shut(control);
    }
}

/// Shuts the gate after an event came when the stream took none any more. Where the gate was not
/// shut for want of space before, the controller gave no sign of life for too long. Does nothing
/// where the controller has opened the gate meanwhile.
#[cold]
fn shut_where_it_was_late(control: &StreamControl) {
    if process::tick_source().now() > control.accepts_until.load(Relaxed) {
        shut(control);
    }
}

/// Shuts the stream's gate, and wakes the reader, who has something to report.
fn shut(control: &StreamControl) {
    gate::shut(control, process::tick_source().now());
    if wake::is_awaited(control) {
        wake::wake(control);
    }
}

#[inline(always)]
fn is_wanted(parts: Parts<'_>, slot: usize, number: u32) -> bool {
    // The remainder is less than the number of types, so no bound has to be checked.
    let number = usize::try_from(number).unwrap_or(0) % TYPE_NUMBERS;
    let word = parts.filter_word(slot, number / 64);
    word.is_some_and(|word| word.load(Relaxed) >> (number % 64) & 1 == 0)
}

/// Tells whether the stream has no event that this thread could have seen the effect of, so that it
/// need not wait for its loads. (`sequence::emit` asks the same.)
///
/// Another emitter notes itself before it emits, and x86-64 does its loads in order: a thread that
/// has seen what the other did sees the note too. On processors that do not, threads always wait.
/// Events that the controller records are not later than the last barrier that it made this thread
/// pass (`ActiveStream::settle`).
#[inline(always)]
fn is_sole_emitter(control: &StreamControl) -> bool {
    cfg!(target_arch = "x86_64") && control.emitters.load(Relaxed) == emitters::ONE
}

/// Waits where ticks are long, so that the effect of an event that was recorded has a later time,
/// whichever thread records it. A thread that emits alone need not wait: its own events stay in
/// order, and another thread notes itself long before its first event is recorded.
#[inline(always)]
fn let_tick_pass(control: &StreamControl) {
    if HAS_LONG_TICKS && control.emitters.load(Relaxed) != emitters::ONE {
        process::tick_source().let_tick_pass();
    }
}

/// Records an event in one stream, or counts that it could not.
fn emit_to_stream(
    parts: Parts<'static>,
    (slot, control): (usize, &'static StreamControl),
    state: &ThreadState,
    point: &TracePoint<'_>,
) {
    // Each time that the chunk is full, the thread gets another one, which has space.
    for _ in 0..TRIES {
        let Some(per_stream) = state.per_stream(parts, slot, control) else {
            return;
        };
        if per_stream.role.get() != Role::Emitter {
            return;
        }
        // The gate is looked at before this sets a mark, since a reader would wait for the mark. An
        // interrupted emission may have left one, which is taken back here.
        if gate::is_shut(control)
            && let Some(chunk) = state.chunk(per_stream)
        {
            chunk.take_mark_back();
            state.count_refused_in_chunk(per_stream, parts, slot);
            return;
        }
        let emission = point.emission(per_stream.max_data.get());
        match record(state, per_stream, control, &emission) {
            Ok(()) => {
                let_tick_pass(control);
                if wake::is_awaited(control) {
                    wake::wake(control);
                }
                return;
            }
            Err(Refused::NoSpace) => {
                if !state.refill(per_stream, parts, (slot, control), emission.data.len()) {
                    return;
                }
            }
            Err(Refused::Stale) => {
                state.note_mark(slot);
                return;
            }
            Err(Refused::NotAccepted) => {
                // Otherwise a reader would wait for the mark.
                if let Some(chunk) = state.chunk(per_stream) {
                    chunk.take_mark_back();
                }
                state.count_refused_in_chunk(per_stream, parts, slot);
                shut_where_it_was_late(control);
                return;
            }
            Err(Refused::Nested) => {
                control.refused_nested.fetch_add(1, Relaxed);
                return;
            }
        }
    }
    control.refused_no_chunk.fetch_add(1, Relaxed);
    shut_where_nothing_is_overwritten(control);
}

/// Why an event was not recorded.
enum Refused {
    NoSpace,
    Stale,
    NotAccepted,
    Nested,
}

/// Records an event in the thread's chunk.
fn record(
    state: &ThreadState,
    per_stream: &PerStream,
    control: &StreamControl,
    emission: &Emission<'_>,
) -> Result<(), Refused> {
    if state.is_restartable() {
        for _ in 0..TRIES {
            // SAFETY: the structure and the slot are this thread's, and the slot was filled in.
            match unsafe { sequence::emit(state.rseq, per_stream, emission) } {
                Outcome::Recorded => return Ok(()),
                Outcome::NoSpace => return Err(Refused::NoSpace),
                Outcome::Stale => return Err(Refused::Stale),
                Outcome::NotAccepted => return Err(Refused::NotAccepted),
                Outcome::Interrupted => {}
            }
        }
        return record_undisturbed(state, per_stream, control, emission);
    }
    record_marked(state, per_stream, control, emission)
}

/// As [`record`], for a thread that is interrupted again and again, as by a debugger that stops at
/// each instruction: no handler runs meanwhile, and readers look at the mark.
#[cold]
fn record_undisturbed(
    state: &ThreadState,
    per_stream: &PerStream,
    control: &StreamControl,
    emission: &Emission<'_>,
) -> Result<(), Refused> {
    let held = HeldBack::new();
    state.mark_is_needed(per_stream);
    let recorded = record_marked(state, per_stream, control, emission);
    held.let_through();
    recorded
}

/// As [`record`], by a mark alone.
#[cold]
fn record_marked(
    state: &ThreadState,
    per_stream: &PerStream,
    control: &StreamControl,
    emission: &Emission<'_>,
) -> Result<(), Refused> {
    let now = ThisMoment {
        per_stream,
        control,
    };
    let Some(busy) = state.begin_marked() else {
        return Err(Refused::Nested);
    };
    let written = state
        .chunk(per_stream)
        .map_or(Err(Refusal::NoSpace), |chunk| chunk.write(emission, &now));
    state.end_marked(busy);
    written.map_err(|refusal| match refusal {
        Refusal::NoSpace => Refused::NoSpace,
        Refusal::Stale => Refused::Stale,
        Refusal::NotAccepted => Refused::NotAccepted,
    })
}

struct ThisMoment<'a> {
    per_stream: &'a PerStream,
    control: &'a StreamControl,
}

impl Moment for ThisMoment<'_> {
    fn is_current(&self) -> bool {
        self.control.generation.load(Relaxed) == self.per_stream.generation.get()
    }

    fn ticks(&self) -> u64 {
        if !is_sole_emitter(self.control) {
            wait_for_earlier_loads();
        }
        process::tick_source().now_after_wait()
    }

    fn accepts(&self, ticks: u64) -> bool {
        ticks <= self.control.accepts_until.load(Relaxed)
    }

    fn cpu_plus_one(&self) -> u16 {
        tls::current_cpu_plus_one()
    }
}
