//! Stacks: what called what where an event happens.
//!
//! The record of a stack comes right before that of its event, into the same ring. The agent joins
//! both, so the stack's own time counts for nothing; but for the stack of a waker, which has none.

use core::mem::offset_of;

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{BPF_F_USER_STACK, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::{bpf_get_stack, bpf_probe_read_kernel};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{
    BlockedStack, MOST_FRAMES, RecordHeader, STACK_RECORD, StackRecord, USUAL_FRAMES, stacks,
    wanted,
};

use crate::context::Tracepoint;
use crate::cpu::this_cpu;
use crate::frame_pointers::{copy_frames, walk_frames};
use crate::maps::count_ring_full;
use crate::offsets::{
    OFF_CPU_KERNEL_FRAMES, REGS_FRAME, STACK_KERNEL_FRAMES, STACK_TYPES_HIGH, STACK_TYPES_LOW,
    STACK_USER_FRAMES,
};
use crate::pid::Pid;
use crate::python;
use crate::record::{header, reserve, submit_flags};
use crate::subject::Subject;
use crate::unwind;
use crate::user::Registers;

/// Tells whether the look at a thread has its stack.
#[inline(always)]
pub fn is_of_looks() -> bool {
    is_wanted(wanted::bit(EventTypeId::THREAD_STATE))
}

/// Tells whether stacks of these bits are recorded. It is known when the program is loaded: where
/// none is, the verifier drops what would record it.
#[inline(always)]
fn is_wanted(bits: u64) -> bool {
    let wanted = u64::from(STACK_TYPES_HIGH.load()) << 32 | u64::from(STACK_TYPES_LOW.load());
    wanted & bits != 0
}

/// Records the stack of the running thread for an event of this type about `subject`, if it is
/// wanted.
#[inline(always)]
pub fn record_at_event(ctx: &impl EbpfContext, subject: &impl Subject, event_type: EventTypeId) {
    if is_wanted(wanted::bit(event_type)) {
        take(ctx, subject, &Reason::event(event_type.0));
    }
}

/// Records the stack of the running thread for the system call with these registers, if it is
/// wanted.
#[inline(always)]
pub fn record_at_call<C: Tracepoint>(
    ctx: &C,
    subject: &impl Subject,
    event_type: EventTypeId,
    registers: &Registers<C>,
    is_compat: bool,
) {
    if !is_wanted(wanted::bit(event_type)) {
        return;
    }
    let most = STACK_USER_FRAMES.load();
    // Of 32-bit programs the frames are others; and the verifier of 5.10, to which the other kind
    // of program goes, does not take both.
    let is_possible = C::IS_DIRECT && !is_compat && REGS_FRAME.load() != NO_OFFSET;
    let walked = if most > 0 && is_possible && !unwind::is_asked() {
        walk_frames(registers.address(), registers.frame(), most)
    } else {
        0
    };
    let reason = Reason {
        walked,
        ..Reason::event(event_type.0)
    };
    take(ctx, subject, &reason);
}

/// Tells whether the stacks of wakers are recorded.
#[inline(always)]
pub fn is_of_wakeups() -> bool {
    is_wanted(wanted::bit(EventTypeId::WAKEUP))
}

/// Records the stack of the running thread, `subject`, which asks for the wake-up of thread
/// `woken`, if it is wanted. The wake-up itself is recorded later, and often by another CPU.
#[inline(always)]
pub fn record_at_wakeup(ctx: &impl EbpfContext, subject: &impl Subject, woken: Pid) {
    if is_of_wakeups() {
        let reason = Reason {
            woken_tid: woken.shown(),
            ..Reason::event(EventTypeId::WAKEUP.0)
        };
        take(ctx, subject, &reason);
    }
}

/// Records the stack of the running thread for a sample that counts for so much time.
#[inline(always)]
pub fn record_at_sample(ctx: &impl EbpfContext, subject: &impl Subject, sampled_ns: u64) {
    let reason = Reason {
        sampled_ns,
        ..Reason::event(EventTypeId::SAMPLE.0)
    };
    take(ctx, subject, &reason);
}

/// Records the stack of the running thread for a probe with this record type, if it is wanted.
#[inline(always)]
pub fn record_at_probe(ctx: &impl EbpfContext, subject: &impl Subject, record_type: u32) {
    if is_wanted(stacks::PROBES) {
        take(ctx, subject, &Reason::event(record_type));
    }
}

/// Records the stack of the running thread for a tracepoint by name, if it is wanted.
#[inline(always)]
pub fn record_at_tracepoint(ctx: &impl EbpfContext, subject: &impl Subject, record_type: u32) {
    if is_wanted(stacks::TRACEPOINTS) {
        take(ctx, subject, &Reason::event(record_type));
    }
}

/// Reason for which a stack is recorded.
pub struct Reason {
    /// The type of the record of its event.
    record_type: u32,
    woken_tid: u32,
    sampled_ns: u64,
    /// Addresses of the program that were found by its frame pointers; 0: none was looked for.
    walked: u32,
}

impl Reason {
    /// Returns the reason that is an event of this record type.
    #[inline(always)]
    pub fn event(record_type: u32) -> Self {
        Self {
            record_type,
            woken_tid: 0,
            sampled_ns: 0,
            walked: 0,
        }
    }
}

/// Records a stack. A deep one is taken twice, as its depth is not known before: space that is not
/// used would be that of several events.
#[inline(always)]
fn take(ctx: &impl EbpfContext, subject: &impl Subject, reason: &Reason) {
    if python::is_asked() {
        python::record(subject, reason.record_type);
    }
    if unwind::is_asked() {
        return unwind::take(ctx, subject, reason);
    }
    // Python frames are all that is asked for.
    if STACK_KERNEL_FRAMES.load() == 0 && STACK_USER_FRAMES.load() == 0 {
        take_in::<0>(ctx, subject, reason, false);
        return;
    }
    let is_usual = !is_deep() || (reason.walked as usize) < USUAL_FRAMES;
    if !is_usual || take_in::<USUAL_FRAMES>(ctx, subject, reason, is_deep()) {
        take_in::<MOST_FRAMES>(ctx, subject, reason, false);
    }
}

/// Records a stack that was taken before, of `subject`, which has been blocked for `off_cpu_ns` and
/// gets a CPU now.
#[inline(always)]
pub fn record_blocked(subject: &impl Subject, taken: *const BlockedStack, off_cpu_ns: u64) {
    let taken = taken.cast::<u8>();
    // SAFETY: inside the entry of a map: two halves of a word.
    let [kernel_bytes, user_bytes] = unsafe {
        taken
            .wrapping_add(offset_of!(BlockedStack, kernel_bytes))
            .cast::<[i32; 2]>()
            .read_volatile()
    };
    let usual = (USUAL_FRAMES * 8) as i64;
    if kernel_bytes as i64 <= usual && user_bytes as i64 <= usual {
        copy_in::<USUAL_FRAMES>(subject, taken, [kernel_bytes, user_bytes], off_cpu_ns);
    } else {
        copy_in::<MOST_FRAMES>(subject, taken, [kernel_bytes, user_bytes], off_cpu_ns);
    }
}

#[inline(always)]
fn copy_in<const N: usize>(
    subject: &impl Subject,
    taken: *const u8,
    [kernel_bytes, user_bytes]: [i32; 2],
    off_cpu_ns: u64,
) {
    let cpu = this_cpu();
    let Some((ring, mut space)) = reserve::<StackRecord<N>>(cpu) else {
        count_ring_full(cpu, 1);
        return;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    let record = space.as_mut_ptr().cast::<u8>();
    let header = header(subject, EventTypeId(u32::from(STACK_RECORD)), time_ns, cpu);
    // SAFETY: it is where the record begins.
    unsafe { record.cast::<RecordHeader>().write(header) };
    let reason = Reason::event(EventTypeId::SWITCH_IN.0);
    write_rest(record, &reason, kernel_bytes, user_bytes, off_cpu_ns);
    for (from, to) in [
        (
            offset_of!(BlockedStack, kernel),
            offset_of!(StackRecord<N>, kernel),
        ),
        (
            offset_of!(BlockedStack, user),
            offset_of!(StackRecord<N>, user),
        ),
    ] {
        let (from, to) = (taken.wrapping_add(from), record.wrapping_add(to));
        #[expect(clippy::cast_possible_truncation, reason = "127 at most")]
        let bytes = (N * 8) as u32;
        // SAFETY: the helper writes that many bytes, which the record has, and checks the address.
        unsafe { bpf_probe_read_kernel(to.cast(), bytes, from.cast()) };
    }
    space.submit(submit_flags(ring, time_ns));
}

/// Tells whether more may be wanted than a usual stack has.
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
    reason: &Reason,
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
    let kernel_bytes = kernel_frames::<N>(ctx, kernel_at);
    let user_bytes = if reason.walked != 0 && copy_frames::<N>(user_at) {
        (reason.walked * 8).cast_signed()
    } else {
        user_frames::<N>(ctx, user_at)
    };
    if may_be_deeper && (is_full::<N>(kernel_bytes) || is_full::<N>(user_bytes)) {
        space.discard(u64::from(BPF_RB_NO_WAKEUP));
        return true;
    }
    write_rest(record, reason, kernel_bytes, user_bytes, 0);
    space.submit(submit_flags(ring, time_ns));
    false
}

/// Writes what lies between the header of a record and its addresses, which is the same in records
/// of any size.
#[inline(always)]
pub fn write_rest(
    record: *mut u8,
    reason: &Reason,
    kernel_bytes: i32,
    user_bytes: i32,
    off_cpu_ns: u64,
) {
    let words = record.wrapping_add(offset_of!(StackRecord<USUAL_FRAMES>, event_type));
    #[expect(clippy::cast_sign_loss, reason = "the same bits")]
    let (kernel_bytes, user_bytes) = (kernel_bytes as u32, user_bytes as u32);
    let words_of_record = [
        reason.record_type,
        kernel_bytes,
        user_bytes,
        reason.woken_tid,
    ];
    // SAFETY: inside the record: four words.
    unsafe { words.cast::<[u32; 4]>().write(words_of_record) };
    let times = record.wrapping_add(offset_of!(StackRecord<USUAL_FRAMES>, off_cpu_ns));
    // SAFETY: inside the record: both times.
    unsafe {
        times
            .cast::<[u64; 2]>()
            .write([off_cpu_ns, reason.sampled_ns])
    };
}

/// Tells whether there may be more than `N`.
#[inline(always)]
fn is_full<const N: usize>(bytes: i32) -> bool {
    bytes as i64 >= (N * 8) as i64
}

/// Writes where a thread is in the kernel.
#[inline(always)]
pub fn kernel_frames<const N: usize>(ctx: &impl EbpfContext, to: *mut u8) -> i32 {
    frames::<N>(ctx, to, STACK_KERNEL_FRAMES.load(), 0)
}

/// Writes where a thread is in the kernel that blocks.
#[inline(always)]
pub fn kernel_frames_of_blocked<const N: usize>(ctx: &impl EbpfContext, to: *mut u8) -> i32 {
    frames::<N>(ctx, to, OFF_CPU_KERNEL_FRAMES.load(), 0)
}

/// Writes where it is in its program.
#[inline(always)]
pub fn user_frames<const N: usize>(ctx: &impl EbpfContext, to: *mut u8) -> i32 {
    let flag = u64::from(BPF_F_USER_STACK);
    frames::<N>(ctx, to, STACK_USER_FRAMES.load(), flag)
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
