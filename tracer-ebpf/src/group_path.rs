//! The path of a control group, put together in the space of a CPU.
//!
//! The names come from the innermost group to the outermost, so the path grows from its end. Only
//! for programs that nothing interrupts on their CPU that does the same.

use core::mem::offset_of;

use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_kernel_str};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

use tracer_common::kernel::CGROUP_PATH_BYTES;

use crate::descriptors::space::word_at;
use crate::offsets::{NODE_NAME, NODE_PARENT};

/// Groups that are within each other at most: of those further out nothing is said.
const DEEPEST: u32 = 16;

/// Beginning of a path whose outermost groups are left out.
const CUT: [u8; 4] = *b"...\0";

/// Bytes of [`CUT`] that count.
const CUT_BYTES: usize = 3;

/// Bytes of a path with its null.
const BYTES: usize = CGROUP_PATH_BYTES;

/// [`BYTES`], as the helpers take it.
#[expect(clippy::cast_possible_truncation, reason = "256")]
const SIZE: u32 = BYTES as u32;

/// Where the null of a path is: before it is space for each path that is recorded whole.
const END: usize = BYTES - 1;

#[repr(C)]
struct OfCpu {
    /// Where the path begins. What the verifier follows as a value, it follows for each way through
    /// a loop.
    at: u64,
    /// A slash, and the name of a group behind it.
    name: [u8; 2 * BYTES],
    /// The path, and as much again: it is copied from wherever it begins.
    path: [u8; 3 * BYTES],
}

#[map]
static GROUP_PATH: PerCpuArray<OfCpu> = PerCpuArray::with_max_entries(1, 0);

/// Makes the path of the control group with this `struct kernfs_node`: 1 where it was cut.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn make_group_path(node: u64) -> i32 {
    let Some(space) = GROUP_PATH.get_ptr_mut(0).map(<*mut OfCpu>::cast::<u8>) else {
        return 0;
    };
    set(space, offset_of!(OfCpu, at), END as u64);
    let end = space.wrapping_add(offset_of!(OfCpu, path) + END);
    // SAFETY: inside the entry.
    unsafe { end.write_volatile(0) };
    let mut node = node;
    let mut depth = 0;
    while depth < DEEPEST {
        depth += 1;
        let parent = add_group_name(node);
        if parent == 0 {
            break;
        }
        node = parent;
    }
    let is_whole = word_at(node, NODE_PARENT.load()) == 0;
    if !is_whole || get(space, offset_of!(OfCpu, at)) == END as u64 {
        add_before(space, !is_whole);
    }
    i32::from(!is_whole)
}

/// Puts a slash and the name of a group before the path: the group that it is in, or 0 where it is
/// the root, which has no name, or there is no space.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_group_name(node: u64) -> u64 {
    let Some(space) = GROUP_PATH.get_ptr_mut(0).map(<*mut OfCpu>::cast::<u8>) else {
        return 0;
    };
    let parent = word_at(node, NODE_PARENT.load());
    if parent == 0 {
        return 0;
    }
    let name = word_at(node, NODE_NAME.load());
    let slash = space.wrapping_add(offset_of!(OfCpu, name));
    // SAFETY: inside the entry.
    unsafe { slash.write_volatile(b'/') };
    let to = slash.wrapping_add(1);
    // SAFETY: the helper writes at most so many bytes, for which there is space, and checks the
    // address.
    let read = unsafe { bpf_probe_read_kernel_str(to.cast(), SIZE, name as *const _) };
    let at = get(space, offset_of!(OfCpu, at));
    // The null is as long as the slash.
    if read <= 1 || read.cast_unsigned() + CUT_BYTES as u64 > at {
        return 0;
    }
    put(space, slash, read.cast_unsigned());
    parent
}

/// Puts what a path begins with that has no group, or not all.
#[inline(always)]
fn add_before(space: *mut u8, is_cut: bool) {
    let name = space.wrapping_add(offset_of!(OfCpu, name));
    let (bytes, length) = if is_cut {
        (CUT, CUT_BYTES as u64)
    } else {
        (*b"/\0\0\0", 1)
    };
    // SAFETY: inside the entry.
    unsafe { name.cast::<u32>().write_volatile(u32::from_ne_bytes(bytes)) };
    put(space, name, length);
}

/// Copies `length` bytes before the path.
#[inline(always)]
fn put(space: *mut u8, from: *const u8, length: u64) {
    let length = length & 0xff;
    let at = get(space, offset_of!(OfCpu, at)).wrapping_sub(length) & 0xff;
    let (to, length) = (
        space.wrapping_add(offset_of!(OfCpu, path) + at as usize),
        length as u32,
    );
    // SAFETY: the helper writes so many bytes, for which there is space, and checks the address.
    let _ = unsafe { bpf_probe_read_kernel(to.cast(), length, from.cast()) };
    set(space, offset_of!(OfCpu, at), at);
}

/// Copies the path that was made last on this CPU.
#[inline(always)]
pub fn copy(to: &mut [u8; BYTES]) {
    let Some(space) = GROUP_PATH.get_ptr_mut(0).map(<*mut OfCpu>::cast::<u8>) else {
        return;
    };
    let at = get(space, offset_of!(OfCpu, at)) & 0xff;
    let from = space.wrapping_add(offset_of!(OfCpu, path) + at as usize);
    // SAFETY: the helper writes as many bytes as `to` has, and the entry has as many from there.
    let _ = unsafe { bpf_probe_read_kernel(to.as_mut_ptr().cast(), SIZE, from.cast()) };
}

#[inline(always)]
fn get(space: *mut u8, offset: usize) -> u64 {
    // SAFETY: inside the entry that the look-up gave.
    unsafe { space.wrapping_add(offset).cast::<u64>().read_volatile() }
}

#[inline(always)]
fn set(space: *mut u8, offset: usize, value: u64) {
    // SAFETY: inside the entry that the look-up gave.
    unsafe {
        space
            .wrapping_add(offset)
            .cast::<u64>()
            .write_volatile(value)
    };
}
