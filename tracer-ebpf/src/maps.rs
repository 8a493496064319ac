//! The maps, and what is asked of them on every event.

use core::arch::asm;

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray, RingBuf};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{TRACED_PAGE, lost, wanted};

/// The records. The agent sets the size.
#[map]
pub static RING: RingBuf = RingBuf::with_byte_size(4096, 0);

/// A byte a process: see [`tracer_common::kernel::traced`]. The agent sets the number of pages.
#[map]
static TRACED: Array<[u8; TRACED_PAGE as usize]> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`tracer_common::kernel::wanted`].
#[map]
static WANTED: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`tracer_common::kernel::lost`].
#[map]
static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(lost::SLOTS, 0);

/// The byte of process `pid`, unless its number is beyond all that were possible at loading.
#[inline(always)]
fn traced_byte(pid: u32) -> Option<*mut u8> {
    let mut byte = TRACED.get_ptr_mut(pid / TRACED_PAGE)?.cast::<u8>();
    let offset = u64::from(pid % TRACED_PAGE);
    // Written out because the compiler would add before it has asked whether there is such a
    // page, which is harmless to a processor, and refused by the verifier.
    // SAFETY: an addition, whose result is inside the page.
    unsafe {
        asm!("{byte} += {offset}", byte = inout(reg) byte, offset = in(reg) offset, options(readonly, nostack))
    };
    Some(byte)
}

/// The [`traced`](tracer_common::kernel::traced) bits of process `pid`.
#[inline(always)]
pub fn traced(pid: u32) -> u8 {
    match traced_byte(pid) {
        // SAFETY: inside the page; a byte is read whole, whoever writes it meanwhile.
        Some(byte) => unsafe { byte.read_volatile() },
        None => 0,
    }
}

/// Sets the [`traced`](tracer_common::kernel::traced) bits of process `pid`.
#[inline(always)]
pub fn set_traced(pid: u32, bits: u8) {
    if let Some(byte) = traced_byte(pid) {
        // SAFETY: inside the page; a byte is written whole.
        unsafe { byte.write_volatile(bits) };
    }
}

/// Whether events of this type are wanted. Not asked for lifecycle types.
#[inline(always)]
pub fn is_wanted(id: EventTypeId) -> bool {
    let Some(word) = WANTED.get_ptr(0) else {
        return false;
    };
    // SAFETY: the look-up gave the word's address; it is read whole.
    let word = unsafe { word.read_volatile() };
    word & wanted::bit(id) != 0
}

/// Counts an event that could not be recorded because the ring was full.
#[inline(always)]
pub fn count_ring_full() {
    if let Some(count) = LOST.get_ptr_mut(lost::RING_FULL) {
        // Atomic although each CPU has its own: a program that interrupts another one on the
        // same CPU must not undo its count. This target's atomics have no addition, so it is
        // written out.
        // SAFETY: the look-up gave the address of the word, which is aligned.
        unsafe {
            asm!("lock *(u64 *)({count} + 0) += {one}", count = in(reg) count, one = in(reg) 1_u64)
        };
    }
}
