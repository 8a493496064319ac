//! A trace point: the way of an event from the program into the rings.
//!
//! Wait-free and async-signal-safe: no lock, no allocation, no system call and no locked
//! instruction after a thread's first event in a stream.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use tracer_common::area::{NESTING_LEVELS, StreamControl, emitters};
use tracer_common::event_type::{EVENT_ID_LIMIT, EventTypeId};

use super::gate;
use super::mapping::Parts;
use super::process;
use super::record::Emission;
use super::ring::Producer;
use super::thread::{self, Lane};
use super::ticks::{TickSource, wait_for_earlier_loads};
use super::tls;

/// Records an event of a user type in every stream that wants it. Anything else than a user type
/// is ignored: a program does not forge the system's events.
#[inline(always)]
pub(crate) fn emit(event_type: EventTypeId, data: &[u8], address: u64) {
    if gate::is_open() {
        emit_out_of_line(event_type, data, address);
    }
}

/// Whether any stream runs that this process may be traced by, or that cannot be told yet.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn is_traced() -> bool {
    gate::is_open()
}

#[inline(never)]
fn emit_out_of_line(event_type: EventTypeId, data: &[u8], address: u64) {
    emit_through_gate(event_type, data, address);
}

/// As [`emit`], when the gate was found open.
#[inline(always)]
pub(crate) fn emit_through_gate(event_type: EventTypeId, data: &[u8], address: u64) {
    if !event_type.is_user() || event_type.0 >= EVENT_ID_LIMIT {
        return;
    }
    let point = TracePoint {
        event_type,
        data,
        address,
    };
    if emit_plainly(&point).is_none() {
        emit_in_any_case(event_type, data, address);
    }
}

/// What the program said at a trace point.
struct TracePoint<'a> {
    event_type: EventTypeId,
    data: &'a [u8],
    address: u64,
}

/// The way of nearly every event: a single stream runs, the thread has a ring in it, nothing is
/// interrupted, all of the data is kept, and the record does not go on at the ring's start. `None`
/// where it is not so; then nothing was done. It calls no function, so that nothing has to be kept
/// for after one: each instruction counts here, since the fence of the next event waits for it.
#[inline(always)]
fn emit_plainly(point: &TracePoint<'_>) -> Option<()> {
    let parts = process::parts_if_ready()?;
    let active = parts.header().active.load(Relaxed);
    if active & active.wrapping_sub(1) != 0 || process::tick_source() != TickSource::CycleCounter {
        return None;
    }
    let slot = active.trailing_zeros();
    let control = stream(parts, slot)?;
    if !is_wanted(control, point.event_type) {
        return Some(());
    }
    let mut nested = thread::Nested::enter_outermost()?;
    let rseq_offset = nested.rseq_offset();
    let place = nested.lane_if_known(slot, control)?;
    let Lane::Open(producer) = &mut place.lane else {
        return None;
    };
    if point.data.len() > producer.max_data {
        return None;
    }
    let place_in_ring = producer.place(point.data.len())?;
    producer.begin();
    // The fence and the counter side by side: what stands between them would not run beside the
    // counter's latency.
    if !is_alone(control) {
        wait_for_earlier_loads();
    }
    let ticks = TickSource::CycleCounter.now_after_wait();
    let is_as_before = control.generation.load(Relaxed) == place.generation
        && parts.header().active.load(Relaxed) == active;
    if !is_as_before {
        producer.abandon();
        return None;
    }
    if is_left_alone(control, ticks) {
        producer.refuse();
        return Some(());
    }
    producer.record_at(
        place_in_ring,
        ticks,
        &Emission {
            event_type: point.event_type,
            address: point.address,
            cpu_plus_one: tls::cpu_plus_one(rseq_offset),
            data: point.data,
            is_cut: false,
        },
    );
    compiler_fence(SeqCst);
    Some(())
}

/// The way of every event, whatever the case.
#[inline(never)]
fn emit_in_any_case(event_type: EventTypeId, data: &[u8], address: u64) {
    let Some(parts) = process::parts_if_ready().or_else(process::parts_made_ready) else {
        return;
    };
    let Some(mut nested) = thread::Nested::enter() else {
        return;
    };
    let point = TracePoint {
        event_type,
        data,
        address,
    };
    let mut has_waited = false;
    let mut left = parts.header().active.load(Relaxed);
    while left != 0 {
        let slot = left.trailing_zeros();
        left &= left - 1;
        let Some(control) = stream(parts, slot) else {
            continue;
        };
        if is_wanted(control, event_type) {
            // What the program has seen before this point, the clock is read after. Once is enough
            // for all streams.
            if !has_waited {
                wait_for_earlier_loads();
                has_waited = true;
            }
            emit_to_stream(parts, (slot, control), &mut nested, &point);
        }
    }
}

#[inline(always)]
fn stream(parts: Parts<'static>, slot: u32) -> Option<&'static StreamControl> {
    usize::try_from(slot)
        .ok()
        .and_then(|slot| parts.stream(slot))
}

#[inline(always)]
fn is_wanted(control: &StreamControl, event_type: EventTypeId) -> bool {
    let word = usize::try_from(event_type.0 / 64)
        .ok()
        .and_then(|index| control.filter.get(index));
    word.is_some_and(|word| word.load(Relaxed) >> (event_type.0 % 64) & 1 == 0)
}

/// Whether a stream still is the one that the thread's ring was made for, and runs.
///
/// Only under the ring's mark is it certain that the ring is still ours: whoever takes a
/// stream away changes its generation, and then waits until no mark is set.
#[inline(always)]
fn is_current(
    parts: Parts<'static>,
    (slot, control): (u32, &StreamControl),
    generation: u32,
) -> bool {
    control.generation.load(Relaxed) == generation
        && parts.header().active.load(Relaxed) >> slot & 1 == 1
}

/// Whether the stream has no event that this thread could have seen the effect of, so that it need
/// not wait for its loads.
///
/// Another emitter notes itself before it emits, and processors with a cycle counter do their loads in
/// order: a thread that has seen what the other did sees the note too. What the controller records is
/// not later than the last barrier that it made this thread pass (`ActiveStream::settle`).
#[inline(always)]
fn is_alone(control: &StreamControl) -> bool {
    control.emitters.load(Relaxed) == emitters::ONE
}

/// Whether nobody has looked after the stream for so long that its controller must be dead.
#[inline(always)]
fn is_left_alone(control: &StreamControl, ticks: u64) -> bool {
    ticks > control.lease_until.load(Relaxed)
}

/// What is kept of an event's data, and whether that is less than all.
#[inline(always)]
fn kept(data: &[u8], max_data: usize) -> (&[u8], bool) {
    data.get(..max_data)
        .map_or((data, false), |kept| (kept, kept.len() < data.len()))
}

#[inline(always)]
fn emit_to_stream(
    parts: Parts<'static>,
    (slot, control): (u32, &StreamControl),
    nested: &mut thread::Nested,
    point: &TracePoint<'_>,
) {
    if nested.level() >= NESTING_LEVELS {
        control.refused_nesting.fetch_add(1, Relaxed);
        return;
    }
    let rseq_offset = nested.rseq_offset();
    let Some(place) = nested.lane(parts, (slot, control)) else {
        return;
    };
    let Lane::Open(producer) = &mut place.lane else {
        if matches!(place.lane, Lane::NoRing) {
            control.refused_no_ring.fetch_add(1, Relaxed);
        }
        return;
    };
    producer.begin();
    if is_current(parts, (slot, control), place.generation) {
        record(producer, control, rseq_offset, point);
    } else {
        producer.abandon();
    }
}

#[inline(always)]
fn record(
    producer: &mut Producer<'_>,
    control: &StreamControl,
    rseq_offset: isize,
    point: &TracePoint<'_>,
) {
    let ticks = process::tick_source().now_after_wait();
    if is_left_alone(control, ticks) {
        producer.refuse();
        return;
    }
    let (data, is_cut) = kept(point.data, producer.max_data);
    producer.record(
        ticks,
        &Emission {
            event_type: point.event_type,
            address: point.address,
            cpu_plus_one: tls::cpu_plus_one(rseq_offset),
            data,
            is_cut,
        },
    );
    compiler_fence(SeqCst);
}
