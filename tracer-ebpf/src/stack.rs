//! Stacks: what called what where an event happens.
//!
//! The record of a stack comes right before that of its event, into the same ring. The agent joins
//! both, so the stack's own time counts for nothing.

use core::mem::offset_of;

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{BPF_F_USER_STACK, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::bpf_get_stack;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    MOST_FRAMES, RecordHeader, STACK_RECORD, StackRecord, USUAL_FRAMES, stacks, wanted,
};

use crate::cpu::this_cpu;
use crate::maps::count_ring_full;
use crate::offsets::{STACK_KERNEL_FRAMES, STACK_TYPES_HIGH, STACK_TYPES_LOW, STACK_USER_FRAMES};
use crate::record::{header, reserve, submit_flags};
use crate::subject::Subject;

/// Whether stacks of these bits are recorded. It is known when the program is loaded: where none
/// is, the verifier drops what would record it.
#[inline(always)]
fn is_wanted(bits: u64) -> bool {
    let wanted = u64::from(STACK_TYPES_HIGH.load()) << 32 | u64::from(STACK_TYPES_LOW.load());
    wanted & bits != 0
}

/// Records the stack of the running thread for an event of this type about `subject`, if it is
/// wanted.
#[inline(always)]
pub fn of_event(ctx: &impl EbpfContext, subject: &impl Subject, event_type: EventTypeId) {
    if is_wanted(wanted::bit(event_type)) {
        take(ctx, subject, event_type.0);
    }
}

/// The same for a probe with this record type.
#[inline(always)]
pub fn of_probe(ctx: &impl EbpfContext, subject: &impl Subject, record_type: u32) {
    if is_wanted(stacks::PROBES) {
        take(ctx, subject, record_type);
    }
}

/// The same for a tracepoint by name.
#[inline(always)]
pub fn of_tracepoint(ctx: &impl EbpfContext, subject: &impl Subject, record_type: u32) {
    if is_wanted(stacks::TRACEPOINTS) {
        take(ctx, subject, record_type);
    }
}

/// A deep stack is taken twice: how deep it is nobody knows before, and space that is not used
/// would be that of several events.
#[inline(always)]
fn take(ctx: &impl EbpfContext, subject: &impl Subject, record_type: u32) {
    if take_in::<USUAL_FRAMES>(ctx, subject, record_type, is_deep()) {
        take_in::<MOST_FRAMES>(ctx, subject, record_type, false);
    }
}

/// Whether more may be wanted than a usual stack has.
#[inline(always)]
fn is_deep() -> bool {
    STACK_KERNEL_FRAMES.load() as usize > USUAL_FRAMES
        || STACK_USER_FRAMES.load() as usize > USUAL_FRAMES
}

/// Takes the stack; where `may_be_deeper`, one that fills the space is dropped, and the answer is
/// true.
#[inline(always)]
fn take_in<const N: usize>(
    ctx: &impl EbpfContext,
    subject: &impl Subject,
    record_type: u32,
    may_be_deeper: bool,
) -> bool {
    let cpu = this_cpu();
    let Some((ring, mut space)) = reserve::<StackRecord<N>>(cpu) else {
        count_ring_full(cpu, 1);
        return false;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    let record = space.as_mut_ptr().cast::<u8>();
    let header = header(subject, EventTypeId(u32::from(STACK_RECORD)), time_ns, cpu);
    // SAFETY: it is where the record begins.
    unsafe { record.cast::<RecordHeader>().write(header) };
    let kernel_at = record.wrapping_add(offset_of!(StackRecord<N>, kernel));
    let user_at = record.wrapping_add(offset_of!(StackRecord<N>, user));
    let kernel_bytes = frames::<N>(ctx, kernel_at, STACK_KERNEL_FRAMES.load(), 0);
    let user_flag = u64::from(BPF_F_USER_STACK);
    let user_bytes = frames::<N>(ctx, user_at, STACK_USER_FRAMES.load(), user_flag);
    if may_be_deeper && (is_full::<N>(kernel_bytes) || is_full::<N>(user_bytes)) {
        space.discard(u64::from(BPF_RB_NO_WAKEUP));
        return true;
    }
    let words = record.wrapping_add(offset_of!(StackRecord<N>, event_type));
    #[expect(clippy::cast_sign_loss, reason = "the same bits")]
    let words_of_record = [record_type, kernel_bytes as u32, user_bytes as u32, 0];
    // SAFETY: inside the record: four words.
    unsafe { words.cast::<[u32; 4]>().write(words_of_record) };
    let times = record.wrapping_add(offset_of!(StackRecord<N>, off_cpu_ns));
    // SAFETY: inside the record: both times.
    unsafe { times.cast::<[u64; 2]>().write([0, 0]) };
    space.submit(submit_flags(ring, time_ns));
    false
}

/// Whether there may be more than `N`.
#[inline(always)]
fn is_full<const N: usize>(bytes: i32) -> bool {
    bytes as i64 >= (N * 8) as i64
}

/// Writes at most `wanted` and `N` addresses: how many bytes those are, or an error.
#[inline(always)]
fn frames<const N: usize>(ctx: &impl EbpfContext, to: *mut u8, wanted: u32, flags: u64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "127 at most")]
    let size = wanted.min(N as u32) * 8;
    if size == 0 {
        return 0;
    }
    // SAFETY: the helper writes at most `size` bytes, for which there is space.
    let written = unsafe { bpf_get_stack(ctx.as_ptr(), to.cast(), size, flags) };
    #[expect(clippy::cast_possible_truncation, reason = "a size or an error")]
    let written = written as i32;
    written
}
