//! A trace point: the way of an event from the program into the rings.
//!
//! Wait-free and async-signal-safe: no lock, no allocation, no system call and no locked
//! instruction after a thread's first event in a stream.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use tracer_common::area::{NESTING_LEVELS, StreamControl};
use tracer_common::event_type::{EVENT_ID_LIMIT, EventTypeId};

use super::gate;
use super::mapping::Parts;
use super::process;
use super::record::Emission;
use super::ring::Producer;
use super::thread::{self, Lane};
use super::ticks::wait_for_earlier_loads;
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
    // What the program has seen before this point, the clock is read after. All below runs while
    // the counter is being read.
    wait_for_earlier_loads();
    let Some(parts) = process::parts_if_ready().or_else(process::parts_made_ready) else {
        return;
    };
    if !event_type.is_user() || event_type.0 >= EVENT_ID_LIMIT {
        return;
    }
    let Some(mut nested) = thread::Nested::enter() else {
        return;
    };
    let point = TracePoint {
        event_type,
        data,
        address,
    };
    let mut left = parts.header().active.load(Relaxed);
    while left != 0 {
        let slot = left.trailing_zeros();
        left &= left - 1;
        let Some(control) = usize::try_from(slot)
            .ok()
            .and_then(|slot| parts.stream(slot))
        else {
            continue;
        };
        if is_wanted(control, event_type) {
            emit_to_stream(parts, (slot, control), &mut nested, &point);
        }
    }
}

/// What the program said at a trace point.
struct TracePoint<'a> {
    event_type: EventTypeId,
    data: &'a [u8],
    address: u64,
}

#[inline(always)]
fn is_wanted(control: &StreamControl, event_type: EventTypeId) -> bool {
    let word = usize::try_from(event_type.0 / 64)
        .ok()
        .and_then(|index| control.filter.get(index));
    word.is_some_and(|word| word.load(Relaxed) >> (event_type.0 % 64) & 1 == 0)
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
    // Only now, under the mark, is it certain that the ring is still ours: whoever takes a
    // stream away changes its generation, and then waits until no mark is set.
    let is_current = control.generation.load(Relaxed) == place.generation
        && parts.header().active.load(Relaxed) >> slot & 1 == 1;
    if is_current {
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
    if ticks > control.lease_until.load(Relaxed) {
        producer.refuse();
        return;
    }
    let kept = point.data.get(..producer.max_data);
    producer.record(
        ticks,
        &Emission {
            event_type: point.event_type,
            address: point.address,
            cpu_plus_one: tls::cpu_plus_one(rseq_offset),
            data: kept.unwrap_or(point.data),
            is_cut: kept.is_some_and(|kept| kept.len() < point.data.len()),
        },
    );
    compiler_fence(SeqCst);
}
