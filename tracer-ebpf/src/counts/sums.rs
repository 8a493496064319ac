//! The sums, by what is counted and by whose it is: a map whose values each CPU has for itself.
//!
//! Each kind is counted by one program, which nothing interrupts that counts the same on that CPU:
//! so a sum needs no atomic instruction. Where programs may be preempted, it is given one, and the
//! longest time may be a little short.

use core::arch::asm;
use core::mem::offset_of;

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_NOEXIST};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray, PerCpuHashMap};

use tracer_common::kernel::{
    CALLS_OF_ALL, COUNT_RANGES, CountKey, CountSum, NotCounted, SUMS_OF_ALL, counted, counting,
};

use super::Value;
use crate::context::Tracepoint;
use crate::offsets::{COUNTS_ARE_PREEMPTED, COUNTS_BY};
use crate::subject::Subject;
use crate::task::Task;

/// See [`CountKey`] and [`CountSum`]. The agent sets the number of entries, or leaves it at 1 where
/// nothing is counted.
#[map]
static SUMS: PerCpuHashMap<CountKey, CountSum> = PerCpuHashMap::with_max_entries(1, 0);

/// See [`SUMS_OF_ALL`]. The agent sets the number of entries, or leaves it at 1 where nothing is
/// counted of all together.
#[map]
static OF_ALL: PerCpuArray<CountSum> = PerCpuArray::with_max_entries(1, 0);

/// A sum of nothing, which is too large for the stack. It is never written.
#[map]
static NO_SUM: Array<CountSum> = Array::with_max_entries(1, 0);

/// See [`NotCounted`].
#[map]
static NOT_COUNTED: Array<NotCounted> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Time of an event that has none, or whose time is unknown. (An `Option` would be put on the stack
/// by some compilations of what follows, and not each verifier sees what is in it.)
pub const NO_TIME: u64 = u64::MAX;

/// Counts an event of this thread: also as its kind says, and how long it took, or [`NO_TIME`].
#[inline(always)]
pub fn count<C: Tracepoint>(task: &Task<C>, of: (u32, u32), also: u64, took_ns: u64) {
    let Some(sum) = sum_of(task, of) else {
        return;
    };
    add(sum.word(offset_of!(CountSum, count)), 1);
    add(sum.word(offset_of!(CountSum, also)), also);
    if took_ns != NO_TIME {
        add_time(sum, took_ns);
    }
}

/// Counts that an event's time is not known, as there are too many threads.
#[inline(always)]
pub fn count_without_thread() {
    not_counted(offset_of!(NotCounted, threads));
}

#[inline(always)]
fn add_time(sum: Value, took_ns: u64) {
    const LONGEST: usize = offset_of!(CountSum, longest_ns);
    add(sum.word(offset_of!(CountSum, total_ns)), took_ns);
    if took_ns > sum.get::<u64>(LONGEST) {
        sum.set(LONGEST, took_ns);
    }
    add(range(sum.word(offset_of!(CountSum, ranges)), took_ns), 1);
}

/// Returns the sum of this kind and number to which the thread belongs, on this CPU; counts that
/// there is none.
#[inline(always)]
fn sum_of<C: Tracepoint>(task: &Task<C>, (kind, number): (u32, u32)) -> Option<Value> {
    if COUNTS_BY.load() == counting::BY_NONE {
        let index = match kind {
            counted::CALL | counted::COMPAT_CALL if number < CALLS_OF_ALL => {
                kind * CALLS_OF_ALL + number
            }
            counted::CALL | counted::COMPAT_CALL => SUMS_OF_ALL,
            counted::PROBE | counted::TRACEPOINT => SUMS_OF_ALL,
            kind => 2 * CALLS_OF_ALL + kind,
        };
        if let Some(sum) = OF_ALL.get_ptr_mut(index) {
            return Some(Value(sum.cast()));
        }
    }
    let key = CountKey {
        who: who(task),
        kind,
        number,
    };
    if let Some(sum) = SUMS.get_ptr_mut(key) {
        return Some(Value(sum.cast()));
    }
    if let Some(empty) = NO_SUM.get(0) {
        // Where another CPU was first, its entry is found.
        let _ = SUMS.insert(key, empty, u64::from(BPF_NOEXIST));
    }
    let sum = SUMS.get_ptr_mut(key);
    if sum.is_none() {
        not_counted(offset_of!(NotCounted, events));
    }
    sum.map(|sum| Value(sum.cast()))
}

/// Returns whose an event of this thread is.
#[inline(always)]
fn who<C: Tracepoint>(task: &Task<C>) -> [u64; 2] {
    match COUNTS_BY.load() {
        counting::BY_PROCESS => [u64::from(task.pid().shown()) << 32, 0],
        counting::BY_THREAD => {
            let pid = u64::from(task.pid().shown()) << 32;
            [pid | u64::from(task.tid().shown()), 0]
        }
        counting::BY_COMM => task.name(),
        _ => [0; 2],
    }
}

/// Number of bits of a number, by the upper bits of a product with it, where all of these are set:
/// a multiplication and a look-up, and no branch.
static BITS: [u8; 64] = {
    let mut bits = [0; 64];
    let mut log2 = 0;
    while log2 < 64 {
        let filled = u64::MAX >> (63 - log2);
        bits[(filled.wrapping_mul(SPREAD) >> 58) as usize] = log2;
        log2 += 1;
    }
    bits
};

/// A number by which the upper six bits of these products all differ.
const SPREAD: u64 = 0x03f6_eaf2_cd27_1461;

/// Returns the range of this duration.
#[inline(always)]
fn range(ranges: *mut u64, took_ns: u64) -> *mut u64 {
    // One bit more than the nanosecond below has, so that it is never 0.
    let mut value = took_ns.saturating_sub(1) << 1 | 1;
    value |= value >> 1;
    value |= value >> 2;
    value |= value >> 4;
    value |= value >> 8;
    value |= value >> 16;
    value |= value >> 32;
    let bits = u64::from(BITS[(value.wrapping_mul(SPREAD) >> 58) as usize]);
    let mut at = ranges;
    // Written out so that the verifier sees the limit of the very register that is added.
    // SAFETY: an addition, whose result is inside the ranges.
    unsafe {
        asm!(
            "if {bits} < {limit} goto 1f",
            "{bits} = {last}",
            "1:",
            "{bits} <<= 3",
            "{at} += {bits}",
            bits = inout(reg) bits => _,
            at = inout(reg) at,
            limit = const COUNT_RANGES,
            last = const COUNT_RANGES - 1,
            options(readonly, nostack),
        )
    };
    at
}

#[inline(always)]
fn not_counted(offset: usize) {
    if let Some(entry) = NOT_COUNTED.get_ptr_mut(0) {
        add_with_others(Value(entry.cast()).word(offset), 1);
    }
}

/// Adds to a count in a map that is this CPU's own.
#[inline(always)]
fn add(count: *mut u64, more: u64) {
    if COUNTS_ARE_PREEMPTED.load() != 0 {
        return add_with_others(count, more);
    }
    let at = Value(count.cast());
    at.set(0, at.get::<u64>(0).wrapping_add(more));
}

/// Adds to a count in a map that others add to at the same time.
#[inline(always)]
fn add_with_others(count: *mut u64, more: u64) {
    // SAFETY: a word of a map's value, as the callers see to.
    unsafe { crate::maps::add(count, more) };
}
