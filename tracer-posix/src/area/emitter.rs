//! A trace point: the way of an event from the program into the rings.
//!
//! Wait-free and async-signal-safe: no lock, no allocation, no system call and no locked
//! instruction after a thread's first event in a stream.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use tracer_common::area::{MAX_DATA_BYTES, NESTING_LEVELS, StreamControl};
use tracer_common::event_type::{EVENT_ID_LIMIT, EventTypeId};

use super::mapping::Parts;
use super::process;
use super::ring::{Emission, Producer};
use super::thread::{self, Lane};
use super::tls;

/// Records an event of a user type in every stream that wants it. Anything else than a user type
/// is ignored: a program does not forge the system's events.
#[inline(always)]
pub(crate) fn emit(event_type: EventTypeId, data: &[u8], address: u64) {
    let Some(parts) = process::parts_if_ready().or_else(process::parts_made_ready) else {
        return;
    };
    let active = parts.header().active.load(Relaxed);
    if active != 0 {
        let point = TracePoint {
            event_type,
            data,
            address,
        };
        emit_to(parts, active, &point);
    }
}

/// What the program said at a trace point.
struct TracePoint<'a> {
    event_type: EventTypeId,
    data: &'a [u8],
    address: u64,
}

#[inline(never)]
fn emit_to(parts: Parts<'static>, active: u32, point: &TracePoint<'_>) {
    if !point.event_type.is_user() || point.event_type.0 >= EVENT_ID_LIMIT {
        return;
    }
    let Some(mut nested) = thread::Nested::enter() else {
        return;
    };
    let mut left = active;
    while left != 0 {
        let slot = left.trailing_zeros();
        left &= left - 1;
        let Some(control) = usize::try_from(slot)
            .ok()
            .and_then(|slot| parts.stream(slot))
        else {
            continue;
        };
        if is_wanted(control, point.event_type) {
            emit_to_stream(parts, (slot, control), &mut nested, point);
        }
    }
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
    match &mut place.lane {
        Lane::Open(producer) => {
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
        Lane::NoRing => {
            control.refused_no_ring.fetch_add(1, Relaxed);
        }
        Lane::NotTraced | Lane::Unknown => {}
    }
}

#[inline(always)]
fn record(
    producer: &mut Producer<'_>,
    control: &StreamControl,
    rseq_offset: isize,
    point: &TracePoint<'_>,
) {
    let ticks = process::tick_source().now();
    if ticks > control.lease_until.load(Relaxed) {
        producer.refuse();
        return;
    }
    let most = control.max_data.load(Relaxed).min(MAX_DATA_BYTES);
    let kept = usize::try_from(most)
        .ok()
        .and_then(|most| point.data.get(..most));
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
