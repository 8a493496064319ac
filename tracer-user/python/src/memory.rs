//! Memory of the module: blocks that are large are mapped one by one, and go back to the system as
//! soon as they are freed.
//!
//! glibc maps large blocks too at first, but fewer and fewer of them once some were freed, and then
//! holds what is freed: a stream of batches would grow the process by half as much again.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

/// Allocator of the module.
pub struct MappedMemory;

/// Least size of a block that is mapped by itself: that of glibc at first.
const LARGE: usize = 128 << 10;

/// Largest alignment that a mapping has on every machine.
const PAGE: usize = 4096;

/// Tells whether a block is mapped by itself. It depends on the layout alone, so that it is known
/// where a block is freed.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// Maps bytes that are 0; null without memory.
fn map(bytes: usize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses an address at which there is nothing.
    let block = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    if block == libc::MAP_FAILED {
        ptr::null_mut()
    } else {
        block.cast()
    }
}

// SAFETY: a block is mapped, or the system's allocator has it, as its layout says; all of them are
// as large and as aligned as asked for, and no block is given twice.
unsafe impl GlobalAlloc for MappedMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size());
        }
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size());
        }
        // SAFETY: as the caller has promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // It cannot fail but without memory for what the kernel notes of it: then it stays.
            // SAFETY: the block was mapped with this size, and is not used any more.
            unsafe { libc::munmap(block.cast(), layout.size()) };
            return;
        }
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller has promised that the size is a possible one.
        let next = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (is_mapped(layout), is_mapped(next)) {
            // SAFETY: as the caller has promised.
            (false, false) => unsafe { System.realloc(block, layout, bytes) },
            (true, true) => {
                // SAFETY: the block was mapped with this size; it may be used where it is moved to.
                let moved = unsafe {
                    libc::mremap(block.cast(), layout.size(), bytes, libc::MREMAP_MAYMOVE)
                };
                if moved == libc::MAP_FAILED {
                    ptr::null_mut()
                } else {
                    moved.cast()
                }
            }
            _ => {
                // SAFETY: the size is not 0.
                let moved = unsafe { self.alloc(next) };
                if !moved.is_null() {
                    // SAFETY: both have as many bytes, and are different blocks.
                    unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes)) };
                    // SAFETY: as the caller has promised; it does not use the block any more.
                    unsafe { self.dealloc(block, layout) };
                }
                moved
            }
        }
    }
}
