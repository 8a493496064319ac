//! This process's view of its area's windows: each is mapped when a thread first needs it, and
//! stays mapped.

use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use tracer_common::area::{DATA_OFFSET, StreamControl, WINDOW_BYTES, WINDOW_SLOTS};

use super::process;
use crate::layout::mapping;
use crate::layout::overcommit;
use crate::layout::pool::Windows;
use crate::system::errno;

/// Where each window is mapped, if it is.
static MAPPED: [AtomicPtr<u8>; WINDOW_SLOTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; WINDOW_SLOTS];

/// The windows as this process has them, for one change of a pool by one of its threads. In a child
/// that a handler has made amid the change there are none any more: what the child's copy of that
/// code still does must not be done twice.
#[derive(Clone, Copy)]
pub(super) struct ChangeWindows {
    /// [`process::forks`] as the change began.
    forks: u32,
}

impl ChangeWindows {
    pub(super) fn new() -> Self {
        Self {
            forks: process::forks(),
        }
    }
}

impl Windows for ChangeWindows {
    fn count(&self) -> usize {
        OwnWindows.count()
    }

    fn base(&self, index: usize) -> Option<NonNull<u8>> {
        let base = OwnWindows.base(index)?;
        // Mapping it may take long.
        (!self.is_left()).then_some(base)
    }

    fn provide(&self, base: NonNull<u8>, bytes: usize) -> bool {
        OwnWindows.provide(base, bytes) && !self.is_left()
    }

    fn ticks(&self) -> Option<u64> {
        OwnWindows.ticks()
    }

    fn note_overwritten(&self, control: &StreamControl, first: Option<u64>, closed_at: u64) {
        if !self.is_left() {
            OwnWindows.note_overwritten(control, first, closed_at);
        }
    }

    #[inline(always)]
    fn is_left(&self) -> bool {
        process::forks() != self.forks
    }
}

/// The windows as this process has them. Async-signal-safe.
#[derive(Clone, Copy)]
pub(crate) struct OwnWindows;

impl Windows for OwnWindows {
    fn count(&self) -> usize {
        process::window_count()
    }

    fn base(&self, index: usize) -> Option<NonNull<u8>> {
        let mapped = MAPPED.get(index)?;
        if let Some(base) = NonNull::new(mapped.load(Acquire)) {
            return Some(base);
        }
        if index >= self.count() {
            return None;
        }
        let base = map(index)?;
        match mapped.compare_exchange(std::ptr::null_mut(), base.as_ptr(), AcqRel, Acquire) {
            Ok(_) => Some(base),
            Err(others) => {
                // SAFETY: just mapped, and not used yet.
                unsafe { libc::munmap(base.as_ptr().cast(), WINDOW_BYTES) };
                NonNull::new(others)
            }
        }
    }

    fn provide(&self, base: NonNull<u8>, bytes: usize) -> bool {
        is_prepared(base)
            || process::parts_if_ready()
                .is_none_or(|parts| overcommit::provide_if_strict(parts, base, bytes))
    }

    fn ticks(&self) -> Option<u64> {
        Some(process::tick_source().now())
    }

    fn note_overwritten(&self, control: &StreamControl, first: Option<u64>, closed_at: u64) {
        // A reader that finds the second finds the first too.
        control
            .lost_since
            .fetch_min(first.unwrap_or(closed_at), AcqRel);
        control.lost_until.fetch_max(closed_at, AcqRel);
    }
}

/// Puts private, empty memory in place of the window that has this address, and forgets the window,
/// in a forked child. Returns whether code that still has the address does not reach the area by it
/// any more.
pub(super) fn make_private(address: NonNull<u8>) -> bool {
    let start = address.addr().get() / WINDOW_BYTES * WINDOW_BYTES;
    let mut mapped = MAPPED.iter();
    let Some(window) = mapped.find(|mapped| mapped.load(Relaxed).addr() == start) else {
        return true;
    };
    // SAFETY: the window is a mapping of this library, all of which is replaced by one that may be
    // read and written as well.
    let private = unsafe {
        libc::mmap(
            window.load(Relaxed).cast(),
            WINDOW_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    let is_private = private != libc::MAP_FAILED;
    if is_private {
        window.store(std::ptr::null_mut(), Relaxed);
    }
    is_private
}

/// Tells whether an address is in a window that the process has filled with memory.
fn is_prepared(address: NonNull<u8>) -> bool {
    let prepared = process::prepared();
    if prepared == 0 {
        return false;
    }
    let window = address.addr().get() / WINDOW_BYTES * WINDOW_BYTES;
    let mut mapped = MAPPED.iter().take(prepared);
    mapped.any(|mapped| mapped.load(Relaxed).addr() == window)
}

/// Maps a window where its address is a multiple of its size.
#[cold]
fn map(index: usize) -> Option<NonNull<u8>> {
    let before = errno::get();
    let mapped = map_anywhere(index);
    errno::set(before);
    mapped
}

fn map_anywhere(index: usize) -> Option<NonNull<u8>> {
    let offset = DATA_OFFSET + index * WINDOW_BYTES;
    let start = mapping::reserve_aligned(WINDOW_BYTES)?;
    // Without a descriptor: another thread of the program may count on getting the lowest
    // descriptor that is free.
    if let Some(parts) = process::parts_if_ready()
        && mapping::map_again_at(start, WINDOW_BYTES, parts.base(), offset)
    {
        return Some(start);
    }
    // That way maps all of the area up to the window's end for a moment, for which there may be too
    // few addresses.
    if let Some(file) = process::open_file() {
        let is_mapped = mapping::map_file_at(start, WINDOW_BYTES, file.as_raw_fd(), offset);
        mapping::close(file);
        if is_mapped {
            return Some(start);
        }
    }
    // SAFETY: just reserved, and not used yet.
    unsafe { libc::munmap(start.as_ptr().cast(), WINDOW_BYTES) };
    None
}
