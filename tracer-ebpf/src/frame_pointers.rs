//! Where a program is, by its frame pointers.
//!
//! The kernel's own helper reads two words of each frame by themselves, and goes on until one
//! cannot be read: what a function without frame pointers has in that register is mostly a small
//! count, and the fault of reading there takes longer than all of the rest. Here much of the stack
//! is read at once, and what can be no frame is not read.

#![expect(clippy::cast_possible_truncation, reason = "sizes that are limited")]

use core::mem::offset_of;

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_user};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

use tracer_common::kernel::MOST_FRAMES;

use crate::offsets::CODE_ADDRESS_BITS;

/// Bytes of the stack that are read at once: as many as some functions have together.
const WINDOW: usize = 512;

/// A frame: where that of its caller is, and where the caller goes on. So it is on x86-64 and on
/// arm64.
const FRAME: usize = 16;

/// Lowest address that a stack may have: the kernel maps nothing below.
const LOWEST: u64 = 0x1_0000;

#[repr(C)]
struct Walk {
    /// The thread whose stack it is. Another one on this CPU may come between.
    by: u64,
    frames: [u64; MOST_FRAMES],
    /// Memory that was read, and space for a frame that begins at its end.
    window: [u8; WINDOW + FRAME],
}

#[map]
static WALK: PerCpuArray<Walk> = PerCpuArray::with_max_entries(1, 0);

/// Returns the thread that runs.
#[inline(always)]
fn thread() -> u64 {
    bpf_get_current_pid_tgid()
}

/// Walks the stack of the thread that runs: how many addresses there are, at most so many. A
/// function of its own, so that the verifier walks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn walk_frames(address: u64, frame: u64, most: u32) -> u32 {
    let Some(walk) = WALK.get_ptr_mut(0) else {
        return 0;
    };
    let walk = walk.cast::<u8>();
    let frames = walk.wrapping_add(offset_of!(Walk, frames)).cast::<u64>();
    let window = walk.wrapping_add(offset_of!(Walk, window));
    // SAFETY: inside the entry that the look-up gave, as its first member.
    unsafe { walk.cast::<u64>().write_volatile(thread()) };
    // SAFETY: inside that entry too.
    unsafe { frames.write_volatile(address) };
    let mask = u64::MAX >> (64 - CODE_ADDRESS_BITS.load().clamp(1, 64));
    let (mut at, mut begin, mut bytes) = (frame, 0_u64, 0_u64);
    let mut count = 1;
    while count < MOST_FRAMES {
        if count as u32 >= most || at < LOWEST || at % 8 != 0 {
            break;
        }
        let mut offset = at.wrapping_sub(begin);
        if offset.wrapping_add(FRAME as u64) > bytes || offset > WINDOW as u64 {
            bytes = fill(window, at);
            if bytes == 0 {
                break;
            }
            (begin, offset) = (at, 0);
        }
        let entry = window
            .wrapping_add(offset as usize & (WINDOW - 8))
            .cast::<[u64; 2]>();
        // SAFETY: inside the window.
        let [next, returns_to] = unsafe { entry.read_volatile() };
        let returns_to = returns_to & mask;
        if returns_to == 0 {
            break;
        }
        // SAFETY: as many as there is space for.
        unsafe { frames.wrapping_add(count).write_volatile(returns_to) };
        at = next;
        count += 1;
    }
    count as u32
}

/// Reads the stack from there on: how many bytes.
#[inline(always)]
fn fill(window: *mut u8, at: u64) -> u64 {
    for bytes in [WINDOW, FRAME] {
        // SAFETY: the helper writes so many bytes, for which there is space, and checks the
        // address.
        let read = unsafe { bpf_probe_read_user(window.cast(), bytes as u32, at as *const _) };
        if read == 0 {
            return bytes as u64;
        }
    }
    0
}

/// Copies the addresses that were found last, of which there are so many, to where there is space
/// for `N`: false where another thread has come between.
#[inline(always)]
pub fn copy_frames<const N: usize>(to: *mut u8) -> bool {
    let Some(walk) = WALK.get_ptr_mut(0) else {
        return false;
    };
    let walk = walk.cast::<u8>();
    let from = walk.wrapping_add(offset_of!(Walk, frames));
    // SAFETY: the helper writes that many bytes, for which there is space; the entry has more.
    unsafe { bpf_probe_read_kernel(to.cast(), (N * size_of::<u64>()) as u32, from.cast()) };
    // SAFETY: inside the entry that the look-up gave.
    let by = unsafe { walk.cast::<u64>().read_volatile() };
    by == thread()
}

const _: () = assert!(offset_of!(Walk, by) == 0 && MOST_FRAMES < WINDOW);
