//! How an event gets into the ring.
//!
//! The record is reserved first and the clock is read after that. So the agent can say how far
//! its events are complete: it reads the clock, then the ring's end; whatever is reserved beyond
//! that end later also has a later time.

use core::mem::MaybeUninit;

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_ringbuf_query};

use aya_ebpf::maps::ring_buf::RingBufEntry;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{RecordHeader, sample};

use crate::cpu::this_cpu;
use crate::maps::{Ring, count_ring_full, ring};
use crate::offsets::RING_WAKE_BYTES;
use crate::subject::Subject;

/// When the agent is to hear of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Now, for it has to act.
    Now,
    /// When its timer runs out or the ring has filled.
    InTime,
}

/// Records an event about `subject`, or counts that it could not.
///
/// `make` gets the header and makes the record from it.
#[inline(always)]
pub fn record<R: 'static>(
    subject: &impl Subject,
    event_type: EventTypeId,
    make: impl FnOnce(RecordHeader) -> R,
) {
    record_by(subject, event_type, Wake::InTime, |space, header| {
        space.write(make(header));
    });
}

/// Records as [`record`] does, for a record too large for the stack: `fill` writes every byte of
/// it.
#[inline(always)]
pub fn record_by<R: 'static>(
    subject: &impl Subject,
    event_type: EventTypeId,
    wake: Wake,
    fill: impl FnOnce(&mut MaybeUninit<R>, RecordHeader),
) {
    // As a function of its own, which returns nothing, it may leave an address of its stack where
    // the verifier looks for what it returns.
    let fill = #[inline(always)]
    |space: &mut MaybeUninit<R>, time_ns, cpu| {
        let header = header(subject, event_type, time_ns, cpu);
        fill(space, header);
    };
    record_on(this_cpu(), 1, wake, fill);
}

/// Records as [`record_by`] does, where a smaller record is made if there is no space for this one:
/// false then.
#[inline(always)]
pub fn record_if_it_fits<R: 'static>(
    subject: &impl Subject,
    event_type: EventTypeId,
    wake: Wake,
    fill: impl FnOnce(&mut MaybeUninit<R>, RecordHeader),
) -> bool {
    let cpu = this_cpu();
    let Some((ring, mut space)) = reserve::<R>(cpu) else {
        return false;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    fill(&mut space, header(subject, event_type, time_ns, cpu));
    space.submit(flags(wake, ring, time_ns));
    true
}

/// Records what `fill` makes of space, time and CPU, and returns the time; `None` when the ring was
/// full, of which the record counts as so many events.
#[inline(always)]
pub fn record_on<R: 'static>(
    cpu: u32,
    events: u64,
    wake: Wake,
    fill: impl FnOnce(&mut MaybeUninit<R>, u64, u32),
) -> Option<u64> {
    let Some((ring, mut space)) = reserve::<R>(cpu) else {
        count_ring_full(cpu, events);
        return None;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    fill(&mut space, time_ns, cpu);
    space.submit(flags(wake, ring, time_ns));
    Some(time_ns)
}

#[inline(always)]
fn flags(wake: Wake, ring: &Ring, time_ns: u64) -> u64 {
    match wake {
        Wake::Now => u64::from(BPF_RB_FORCE_WAKEUP),
        Wake::InTime => submit_flags(ring, time_ns),
    }
}

/// Reserves space for a record in the ring of this CPU; `None` when the ring is full.
#[inline(always)]
pub fn reserve<R: 'static>(cpu: u32) -> Option<(&'static Ring, RingBufEntry<R>)> {
    let ring = ring(cpu)?;
    Some((ring, ring.reserve_untyped::<R>(0)?))
}

/// Returns the header of an event about `subject`.
#[inline(always)]
pub fn header(
    subject: &impl Subject,
    event_type: EventTypeId,
    time_ns: u64,
    cpu: u32,
) -> RecordHeader {
    RecordHeader {
        time_ns,
        thread_id: subject.thread_id(),
        program_address: 0,
        pid: subject.pid().shown(),
        tid: subject.tid().shown(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "system event types are below 256"
        )]
        event_type: event_type.0 as u16,
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the kernel supports at most 8192 CPUs"
        )]
        cpu: cpu as u16,
        truncated: 0,
    }
}

/// Returns how to submit a record of this time: without a wake-up, which costs several times what
/// the record costs, until the ring holds so much that the reader should come before its timer. How
/// much it holds is asked for a sample, since asking costs about as much as a quarter of a record.
#[inline(always)]
pub fn submit_flags(ring: &Ring, time_ns: u64) -> u64 {
    if sample::has(time_ns) && fill(ring) >= u64::from(RING_WAKE_BYTES.load()) {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        u64::from(BPF_RB_NO_WAKEUP)
    }
}

/// Returns how many bytes wait in the ring to be read.
#[inline(always)]
fn fill(ring: &Ring) -> u64 {
    let ring = core::ptr::from_ref(ring).cast_mut().cast();
    // SAFETY: the helper takes a ring.
    unsafe { bpf_ringbuf_query(ring, u64::from(BPF_RB_AVAIL_DATA)) }
}
