//! Records of system calls in a ring of the CPU's own: see [`cpu_ring`].
//!
//! No helper of the kernel's is needed, which reserves and submits: these two took as long as
//! everything else that recording a call takes. It is where the agent asks for it, and in the
//! programs that read the kernel's memory directly.
//!
//! The ring is marked as busy, then the clock is read, and the mark is taken away once the record
//! can be read. So the agent can say how far its events are complete: it reads the clock, then the
//! mark, and then up to where there are records. One that is later than that has a later time than
//! the clock showed, less by as long as a processor keeps what it has stored to itself; the agent's
//! watermark stays behind the clock by far more.
//!
//! The ring needs a processor whose stores are seen in their order, and programs of calls that are
//! not interrupted by others of them.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of, size_of};

use aya_ebpf::bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::{bpf_ringbuf_discard, bpf_ringbuf_submit};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{CpuRingEnds, RecordHeader, cpu_ring};

use crate::context::Tracepoint;
use crate::cpu::this_cpu;
use crate::maps::{self, count_ring_full};
use crate::offsets::{CPU_RING_BYTES, CPU_RING_CHUNKS};
use crate::record::{header, reserve, submit_flags};
use crate::task::Task;

/// Part of a ring that may be filled before its reader is woken: one in this many.
const WAKE_AT_ONE_IN: u32 = 4;

/// Records an event of a system call of the running thread, or counts that it could not. `fill`
/// returns how many bytes of the record count, from its start on; `None` where it is not to be
/// recorded.
#[inline(always)]
pub fn record_call<C: Tracepoint, R: 'static>(
    task: &Task<C>,
    event_type: EventTypeId,
    fill: impl FnOnce(&mut MaybeUninit<R>, RecordHeader) -> Option<usize>,
) {
    let cpu = this_cpu();
    let space = if is_used::<C>() {
        Space::in_cpu_ring::<R>(cpu)
    } else {
        Space::in_ring::<R>(cpu)
    };
    let Some(space) = space else {
        count_ring_full(cpu, 1);
        return;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    // SAFETY: there is space for the record, which only this program uses.
    let record = unsafe { &mut *space.record.cast::<MaybeUninit<R>>() };
    // One call, so that it is no function of its own.
    let length = fill(record, header(task, event_type, time_ns, cpu));
    if is_used::<C>() {
        space.end_in_cpu_ring(length, cpu);
    } else {
        space.end_in_ring(length.is_some(), time_ns, cpu);
    }
}

/// Tells whether records of calls are in such rings. It is known when the program is loaded: the
/// verifier drops the other way.
#[inline(always)]
pub fn is_used<C: Tracepoint>() -> bool {
    C::IS_DIRECT && CPU_RING_BYTES.load() != 0
}

/// Space for a record in one of both kinds of rings.
struct Space {
    record: *mut u8,
    /// In a ring of the CPU, which is busy then: its [`CpuRingEnds`].
    ends: *mut u8,
    /// The position where the record begins.
    written: u64,
    /// The position up to which was read.
    read: u64,
}

impl Space {
    /// Returns space in the ring for this CPU and others; `None` when it is full.
    #[inline(always)]
    fn in_ring<R: 'static>(cpu: u32) -> Option<Self> {
        let (_, mut entry) = reserve::<R>(cpu)?;
        Some(Self {
            record: entry.as_mut_ptr().cast(),
            ends: core::ptr::null_mut(),
            written: 0,
            read: 0,
        })
    }

    /// Gives the record to the reader, or the space back.
    #[inline(always)]
    fn end_in_ring(self, is_record: bool, time_ns: u64, cpu: u32) {
        let record = self.record.cast();
        if !is_record {
            // SAFETY: the space was reserved, and is not used any more.
            unsafe { bpf_ringbuf_discard(record, u64::from(BPF_RB_NO_WAKEUP)) };
            return;
        }
        let flags = maps::ring(cpu).map_or(0, |ring| submit_flags(ring, time_ns));
        // SAFETY: as above.
        unsafe { bpf_ringbuf_submit(record, flags) };
    }

    /// Returns space in the ring of this CPU, which is busy then; `None` when it is full.
    #[inline(always)]
    fn in_cpu_ring<R>(cpu: u32) -> Option<Self> {
        let ends = maps::cpu_ring_ends(cpu)?;
        // SAFETY: words inside the entry, each of which is read whole.
        let word = |at: usize| unsafe { ends.wrapping_add(at).cast::<u64>().read_volatile() };
        let written = word(offset_of!(CpuRingEnds, written));
        let read = word(offset_of!(CpuRingEnds, read));
        let most = (cpu_ring::HEAD + size_of::<R>()) as u64;
        let is_full = written - read + most > u64::from(CPU_RING_BYTES.load());
        if is_full || word(offset_of!(CpuRingEnds, busy)) != 0 {
            return None;
        }
        let chunks = CPU_RING_CHUNKS.load();
        #[expect(clippy::cast_possible_truncation, reason = "limited by a mask")]
        let chunk = (written / u64::from(cpu_ring::CHUNK)) as u32 & chunks.wrapping_sub(1);
        let at = maps::cpu_ring_at(cpu.wrapping_mul(chunks).wrapping_add(chunk), written)?;
        let space = Self {
            record: at.wrapping_add(cpu_ring::HEAD),
            ends,
            written,
            read,
        };
        space.set_busy(1);
        Some(space)
    }

    /// Says whether the ring of the CPU is busy.
    #[inline(always)]
    fn set_busy(&self, busy: u64) {
        let word = self.ends.wrapping_add(offset_of!(CpuRingEnds, busy));
        // SAFETY: inside the entry that the look-up gave; the word is written whole.
        unsafe { word.cast::<u64>().write_volatile(busy) };
    }

    /// Gives the record, of which so many bytes count, to the reader; or the space back.
    #[inline(always)]
    fn end_in_cpu_ring(self, length: Option<usize>, cpu: u32) {
        let Some(length) = length else {
            return self.set_busy(0);
        };
        let head = self.record.wrapping_sub(cpu_ring::HEAD);
        // SAFETY: the word before the record.
        unsafe { head.cast::<u64>().write_volatile(length as u64) };
        let behind = cpu_ring::behind(self.written, length as u64);
        // Written out so that the compiler stores all of the record before.
        // SAFETY: inside the entry that the look-up gave: the word of this position.
        unsafe {
            asm!(
                "*(u64 *)({ends} + {offset}) = {behind}",
                ends = in(reg) self.ends,
                behind = in(reg) behind,
                offset = const offset_of!(CpuRingEnds, written),
                options(nostack),
            );
        };
        self.set_busy(0);
        self.wake_in_time(behind, cpu);
    }

    /// Wakes the reader where a part of the ring waits for it, and once for each such part: it
    /// takes a while to come, and a wake-up costs several times what a record costs.
    #[inline(always)]
    fn wake_in_time(&self, behind: u64, cpu: u32) {
        let part = u64::from(CPU_RING_BYTES.load() / WAKE_AT_ONE_IN);
        if behind - self.read < part {
            return;
        }
        let woken = self.ends.wrapping_add(offset_of!(CpuRingEnds, woken));
        let woken = woken.cast::<u64>();
        // SAFETY: inside the entry that the look-up gave; the word is read whole.
        if behind - unsafe { woken.read_volatile() } >= part {
            // SAFETY: as above, and written whole.
            unsafe { woken.write_volatile(behind) };
            wake(cpu);
        }
    }
}

/// Wakes the reader, which waits for the other kind of ring.
#[inline(always)]
fn wake(cpu: u32) {
    let space = maps::ring(cpu).and_then(|ring| ring.reserve_untyped::<u64>(0));
    // Where it is full, its reader has been woken.
    if let Some(space) = space {
        space.discard(u64::from(BPF_RB_FORCE_WAKEUP));
    }
}
