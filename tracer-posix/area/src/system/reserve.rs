//! Memory for when the program has none left: the allocator of `libposixtrace` and of the recorder.
//!
//! Rust's collections end the program where an allocation fails, and a library must not: a program
//! that is out of memory has to be able to stop tracing all the same. So memory comes from the C
//! library as always, and where that has none, from a *reserve*. The reserve was mapped when
//! streams were made, as a [`Share`] for each; where there is no memory for a share, no stream is
//! made. A share is untouched until it is needed, so that it costs addresses (and commitment, where
//! the kernel counts that), but no pages; not even under `mlockall(MCL_FUTURE)`.
//!
//! The caller says how large a share has to be: as large as the most that the calls on its stream
//! may need. Calls on a stream are made one at a time, so that the shares together suffice for all
//! streams. Where a share is too small for what has been added since (threads above all), a call
//! [enlarges](Share::enlarge_to) it before it begins, and learns where that fails.
//!
//! Blocks follow each other in a share, each with a header. To find a free block, the allocator
//! walks through all of them. That is slow, but the code is short, and a program that has memory
//! does not come here. Small blocks are taken from the front and large ones from the end, so that
//! small blocks that stay do not lie between large ones.
//!
//! A lock protects the reserve, with the kernel's priority inheritance. A forked child begins
//! without a reserve: its copy of its parent's may be in any state, so the child neither takes
//! blocks of it nor gives any back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize};

use super::pids::own_pid;

/// Allocator for the `#[global_allocator]` of a program that is never to end for want of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Number of blocks of the reserve that are in use. While it is 0, a thread that frees memory does
/// not look into the reserve.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The mapping that was made last.
static NEWEST: AtomicPtr<Segment> = AtomicPtr::new(ptr::null_mut());

/// The process to which the list, the lock and the count belong.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The thread that has the lock, or 0, as the kernel wants it (`FUTEX_LOCK_PI`).
static LOCK: AtomicI32 = AtomicI32::new(0);

/// Bytes of a header. Blocks begin and end at multiples of it.
const UNIT: usize = 16;

/// Bytes from which on a block is large.
const LARGE: usize = 32 << 10;

/// Bytes that are mapped at least where the reserve does not suffice.
const LEAST_SEGMENT: usize = 1 << 20;

/// The start of a mapping. Blocks follow, up to its end.
#[repr(C, align(16))]
struct Segment {
    older: AtomicPtr<Segment>,
    bytes: usize,
    /// The process that has mapped it. A forked child leaves it as it is.
    owner: i32,
    /// Blocks in use.
    in_use: usize,
    /// Whether it is part of a share. A segment that is not goes when nothing is in use there.
    is_shared: bool,
}

/// Header in front of each block.
#[repr(C, align(16))]
struct Header {
    /// Bytes from this header to the next.
    bytes: usize,
    is_used: bool,
}

/// A stream's part of the reserve, until it is dropped.
#[derive(Debug)]
pub struct Share {
    segments: [Option<NonNull<Segment>>; Self::MOST],
    bytes: usize,
    owner: i32,
}

// SAFETY: the segments belong to the process, and are reached under the lock alone.
unsafe impl Send for Share {}
// SAFETY: as above.
unsafe impl Sync for Share {}

/// Error: there is no memory for a share.
#[derive(Debug)]
pub struct NoMemory;

impl Share {
    /// Most segments of a share. Each is at least as large as those before together, so no more are
    /// ever needed.
    const MOST: usize = 32;

    /// Maps a share of so many bytes.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn take(bytes: usize) -> Result<Self, NoMemory> {
        let mut share = Self {
            segments: [None; Self::MOST],
            bytes: 0,
            owner: own_pid(),
        };
        share.enlarge_to(bytes).map(|()| share)
    }

    /// Enlarges it to so many bytes, or more.
    ///
    /// # Errors
    ///
    /// The kernel has no more: the share is as large as before.
    pub fn enlarge_to(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let Some(missing) = bytes.checked_sub(self.bytes).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let missing = missing.max(self.bytes).max(LEAST_SEGMENT);
        let free = self.segments.iter_mut().find(|segment| segment.is_none());
        let entry = free.ok_or(NoMemory)?;
        let _locked = Locked::lock();
        let segment = map(missing, true).ok_or(NoMemory)?;
        *entry = Some(segment);
        self.bytes = self.bytes.saturating_add(missing);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // A forked child has a copy.
        if self.owner != own_pid() {
            return;
        }
        let _locked = Locked::lock();
        for mut segment in self.segments.into_iter().flatten() {
            // SAFETY: mapped until now, and reached under the lock alone.
            let part = unsafe { segment.as_mut() };
            part.is_shared = false;
            if part.in_use == 0 {
                unmap(segment);
            }
        }
    }
}

// SAFETY: what `System` gives is a block of the layout, and so is what the reserve gives. A block
// of the reserve is recognised by its address.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        let block = unsafe { System.alloc(layout) };
        if block.is_null() {
            return from_reserve(layout);
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        let block = unsafe { System.alloc_zeroed(layout) };
        if block.is_null() {
            return zeroed_from_reserve(layout);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // A thread that has a block of the reserve got it after it was counted.
        if IN_USE.load(Relaxed) == 0 || !give_back(block) {
            // SAFETY: as promised by the caller, and the reserve does not have it.
            unsafe { System.dealloc(block, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if IN_USE.load(Relaxed) == 0 || !is_of_reserve(block) {
            // SAFETY: as promised by the caller, and the reserve does not have it.
            let moved = unsafe { System.realloc(block, layout, bytes) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: as promised by the caller.
        unsafe { moved(block, layout, bytes) }
    }
}

/// Moves a block to one of another size.
///
/// # Safety
///
/// As for [`GlobalAlloc::realloc`].
#[cold]
#[inline(never)]
unsafe fn moved(block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
    let Ok(new_layout) = Layout::from_size_align(bytes, layout.align()) else {
        return ptr::null_mut();
    };
    // SAFETY: not of size 0, as promised by the caller.
    let new = unsafe { Allocator.alloc(new_layout) };
    if !new.is_null() {
        // SAFETY: two blocks, each at least as large as what is copied.
        unsafe { new.copy_from_nonoverlapping(block, layout.size().min(bytes)) };
        // SAFETY: as promised by the caller.
        unsafe { Allocator.dealloc(block, layout) };
    }
    new
}

#[cold]
#[inline(never)]
fn zeroed_from_reserve(layout: Layout) -> *mut u8 {
    let block = from_reserve(layout);
    if !block.is_null() {
        // SAFETY: a block of the layout.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

/// Returns a block of the reserve; null where it has none either, and the kernel has no more.
#[cold]
#[inline(never)]
fn from_reserve(layout: Layout) -> *mut u8 {
    let _locked = Locked::lock();
    for mut segment in segments() {
        // SAFETY: mapped, and reached under the lock alone.
        let segment = unsafe { segment.as_mut() };
        if let Some(block) = segment.take(layout) {
            return block.as_ptr();
        }
    }
    // More is needed than was foreseen: what another process has written may ask for any amount.
    let bytes = layout.size().saturating_add(layout.align());
    let more = map(bytes.saturating_add(4 * UNIT).max(LEAST_SEGMENT), false);
    let block = more.and_then(|mut segment| {
        // SAFETY: just mapped.
        unsafe { segment.as_mut() }.take(layout)
    });
    block.map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// Gives a block back, if it is one of the reserve.
#[cold]
#[inline(never)]
fn give_back(block: *mut u8) -> bool {
    let _locked = Locked::lock();
    let Some(mut found) = segment_of(block) else {
        return false;
    };
    // SAFETY: mapped, and reached under the lock alone.
    let segment = unsafe { found.as_mut() };
    if segment.owner == OWNER.load(Relaxed) {
        let header = block.wrapping_sub(UNIT).cast::<Header>();
        // SAFETY: a block of the segment, as who frees it promises, has a header before it.
        unsafe { &mut *header }.is_used = false;
        segment.in_use -= 1;
        IN_USE.fetch_sub(1, Release);
        if segment.in_use == 0 && !segment.is_shared {
            unmap(found);
        }
    }
    true
}

#[cold]
#[inline(never)]
fn is_of_reserve(block: *mut u8) -> bool {
    let _locked = Locked::lock();
    segment_of(block).is_some()
}

impl Segment {
    /// Returns where its blocks begin and end.
    fn range(&self) -> (usize, usize) {
        let start = ptr::from_ref(self).addr();
        (start + size_of::<Self>(), start + self.bytes)
    }

    /// Returns a free block: the first one that fits for a small block, the last for a large one.
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        if self.owner != OWNER.load(Relaxed) {
            return None;
        }
        let align = layout.align().max(UNIT);
        let size = layout.size().max(1).checked_next_multiple_of(UNIT)?;
        let is_large = size >= LARGE;
        let (start, end) = self.range();
        let base = ptr::from_mut(self).cast::<u8>();
        let header_at = |address: usize| {
            // SAFETY: within the segment.
            unsafe { base.add(address - base.addr()) }.cast::<Header>()
        };
        let mut found = None;
        let mut at = start;
        while at < end {
            // SAFETY: headers follow each other from the segment's start to its end.
            let header = unsafe { &mut *header_at(at) };
            if !header.is_used {
                // The free blocks that follow become part of it.
                while at + header.bytes < end {
                    // SAFETY: as above.
                    let next = unsafe { &*header_at(at + header.bytes) };
                    if next.is_used {
                        break;
                    }
                    header.bytes += next.bytes;
                }
                let block_end = at + header.bytes;
                let first = (at + UNIT).next_multiple_of(align);
                let last = block_end.checked_sub(size).map(|last| last / align * align);
                // The space left before the block is enough for a header of its own: everything is
                // a multiple of `UNIT`.
                if let Some(last) = last.filter(|last| *last >= first) {
                    found = Some((at, block_end, if is_large { last } else { first }));
                    if !is_large {
                        break;
                    }
                }
            }
            at += header.bytes;
        }
        let (free, free_end, block) = found?;
        let header = block - UNIT;
        if header > free {
            // SAFETY: within the free block, whose first header stays.
            unsafe { &mut *header_at(free) }.bytes = header - free;
        }
        let mut block_end = block + size;
        if free_end - block_end >= 2 * UNIT {
            // SAFETY: within the free block.
            unsafe {
                header_at(block_end).write(Header {
                    bytes: free_end - block_end,
                    is_used: false,
                });
            }
        } else {
            block_end = free_end;
        }
        // SAFETY: within the free block.
        unsafe {
            header_at(header).write(Header {
                bytes: block_end - header,
                is_used: true,
            });
        }
        self.in_use += 1;
        IN_USE.fetch_add(1, Relaxed);
        // SAFETY: within the segment.
        NonNull::new(unsafe { base.add(block - base.addr()) })
    }
}

/// Returns the mappings, newest first. The caller has the lock.
fn segments() -> impl Iterator<Item = NonNull<Segment>> {
    let newest = NonNull::new(NEWEST.load(Acquire));
    std::iter::successors(newest, |segment| {
        // SAFETY: what is in the list is mapped.
        NonNull::new(unsafe { segment.as_ref() }.older.load(Acquire))
    })
}

fn segment_of(block: *mut u8) -> Option<NonNull<Segment>> {
    segments().find(|segment| {
        // SAFETY: what is in the list is mapped.
        let (start, end) = unsafe { segment.as_ref() }.range();
        (start..end).contains(&block.addr())
    })
}

/// Maps a segment and puts it into the list. The caller has the lock.
fn map(bytes: usize, is_shared: bool) -> Option<NonNull<Segment>> {
    const PAGE: usize = 4096;
    let bytes = bytes
        .checked_add(size_of::<Segment>())?
        .checked_next_multiple_of(PAGE)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // Where a process locks all that it maps, the kernel does not fill memory without permissions,
    // nor memory that is unlocked before it gets permissions. SAFETY: asks for a new mapping at an
    // address of the kernel's choice.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: a mapping of this function, which is not used yet.
    unsafe { libc::munlock(mapped, bytes) };
    // SAFETY: as above.
    let is_reached =
        unsafe { libc::mprotect(mapped, bytes, libc::PROT_READ | libc::PROT_WRITE) } == 0;
    let segment = NonNull::new(mapped.cast::<Segment>()).filter(|_| is_reached);
    let Some(segment) = segment else {
        // SAFETY: as above.
        unsafe { libc::munmap(mapped, bytes) };
        return None;
    };
    // SAFETY: the new mapping, large enough, and aligned to a page.
    unsafe {
        segment.write(Segment {
            older: AtomicPtr::new(NEWEST.load(Relaxed)),
            bytes,
            owner: own_pid(),
            in_use: 0,
            is_shared,
        });
    }
    let first = Header {
        bytes: bytes - size_of::<Segment>(),
        is_used: false,
    };
    let blocks = segment.as_ptr().wrapping_add(1).cast::<Header>();
    // SAFETY: what follows the segment's own words is one free block.
    unsafe { blocks.write(first) };
    NEWEST.store(segment.as_ptr(), Release);
    Some(segment)
}

/// Takes a segment with no block in use out of the list, and unmaps it. The caller has the lock.
fn unmap(segment: NonNull<Segment>) {
    // SAFETY: in the list, and so mapped.
    let (older, bytes) = unsafe {
        let segment = segment.as_ref();
        (segment.older.load(Relaxed), segment.bytes)
    };
    let before = segments().find(|other| {
        // SAFETY: what is in the list is mapped.
        unsafe { other.as_ref() }.older.load(Relaxed) == segment.as_ptr()
    });
    match before {
        // SAFETY: as above.
        Some(newer) => unsafe { newer.as_ref() }.older.store(older, Release),
        None => NEWEST.store(older, Release),
    }
    // SAFETY: no thread has a block of it, and none finds it any more.
    unsafe { libc::munmap(segment.as_ptr().cast(), bytes) };
}

/// The reserve's lock, while it is held.
struct Locked {
    tid: i32,
}

impl Locked {
    fn lock() -> Self {
        begin_in_this_process();
        // The kernel itself is asked: in a static program the C library's function may be missing,
        // since Rust's standard library names it as one that may be. SAFETY: takes nothing and
        // cannot fail.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) };
        let tid = i32::try_from(tid).unwrap_or(1);
        while LOCK.compare_exchange(0, tid, Acquire, Relaxed).is_err() {
            if futex(libc::FUTEX_LOCK_PI) {
                break;
            }
            // The kernel refuses such a wait, or the thread that had the lock is gone.
            std::thread::yield_now();
        }
        Self { tid }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if LOCK
            .compare_exchange(self.tid, 0, Release, Relaxed)
            .is_err()
        {
            futex(libc::FUTEX_UNLOCK_PI);
        }
    }
}

/// Begins anew in a forked child: nothing of its parent's reserve is used, and the lock is free.
fn begin_in_this_process() {
    let (own, owner) = (own_pid(), OWNER.load(Acquire));
    if owner == own {
        return;
    }
    // The first thread that comes does it; a child of `fork()` has one thread.
    let begun = OWNER.compare_exchange(owner, own, AcqRel, Acquire);
    if begun.is_ok_and(|before| before != 0) {
        LOCK.store(0, Release);
    }
}

fn futex(operation: libc::c_int) -> bool {
    // SAFETY: a word that is always there; no time is given.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            LOCK.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            0,
            ptr::null::<libc::timespec>(),
        ) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).unwrap()
    }

    /// Returns a new segment, from which no other test takes.
    fn segment(bytes: usize) -> NonNull<Segment> {
        let _locked = Locked::lock();
        let mut segment = map(bytes, true).unwrap();
        // SAFETY: just mapped.
        unsafe { segment.as_mut() }.is_shared = false;
        segment
    }

    fn take(mut segment: NonNull<Segment>, layout: Layout) -> Option<NonNull<u8>> {
        let _locked = Locked::lock();
        // SAFETY: mapped as long as a block is in use.
        unsafe { segment.as_mut() }.take(layout)
    }

    #[test]
    fn blocks_lie_apart_are_aligned_and_can_be_had_again() {
        let segment = segment(1 << 20);
        // A block that stays: without it the segment would go with the last of the others.
        let held = take(segment, layout(1, 1)).unwrap();
        let sizes = [1, 16, 17, 100, 4096, 40_000, 100_000];
        let aligns = [1, 16, 64, 4096];
        for round in 0..3 {
            let mut blocks: Vec<(usize, usize)> = Vec::new();
            for (index, bytes) in sizes.into_iter().enumerate() {
                let align = aligns[(index + round) % aligns.len()];
                let block = take(segment, layout(bytes, align)).unwrap();
                assert_eq!(block.addr().get() % align, 0);
                // SAFETY: a block of so many bytes.
                unsafe { block.write_bytes(0xa5, bytes) };
                let (start, end) = (block.addr().get(), block.addr().get() + bytes);
                let is_apart =
                    |&(other, other_end): &(usize, usize)| end <= other || other_end <= start;
                assert!(blocks.iter().all(is_apart));
                blocks.push((start, end));
            }
            for (start, _) in blocks {
                assert!(give_back(ptr::with_exposed_provenance_mut(start)));
            }
        }
        // The space of all of them is free again.
        let nearly_all = layout((1 << 20) - 4096, 16);
        let all = take(segment, nearly_all).unwrap();
        assert_eq!(take(segment, layout(8192, 16)), None);
        assert!(give_back(all.as_ptr()));
        assert!(give_back(held.as_ptr()));
    }

    #[test]
    fn large_blocks_leave_the_front_to_small_ones() {
        let segment = segment(1 << 20);
        let large = take(segment, layout(LARGE, 16)).unwrap();
        let small = take(segment, layout(64, 16)).unwrap();
        assert!(small < large);
        assert!(large.addr().get() - small.addr().get() > 900_000);
        assert!(give_back(large.as_ptr()) && give_back(small.as_ptr()));
    }

    #[test]
    fn what_is_not_of_the_reserve_is_not_given_back() {
        let mut own = 7_u64;
        assert!(!give_back((&raw mut own).cast()));
        assert!(!is_of_reserve((&raw mut own).cast()));
    }

    #[test]
    fn a_share_grows_and_never_shrinks() {
        let mut share = Share::take(3 << 20).unwrap();
        share.enlarge_to(1 << 20).unwrap();
        assert_eq!(share.bytes, 3 << 20);
        share.enlarge_to((3 << 20) + 1).unwrap();
        assert_eq!(share.bytes, 6 << 20);
        assert!(share.enlarge_to(usize::MAX / 2).is_err());
        assert_eq!(share.bytes, 6 << 20);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such processes")]
    fn a_forked_child_takes_nothing_of_its_parents() {
        let segment = segment(1 << 20);
        let block = take(segment, layout(100, 16)).unwrap();
        // SAFETY: the child looks and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = take(segment, layout(100, 16)).is_none()
                && give_back(block.as_ptr())
                && is_of_reserve(block.as_ptr());
            // SAFETY: takes no pointers, and does not return.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = 1;
        // SAFETY: valid for writes.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        assert!(give_back(block.as_ptr()));
    }

    #[test]
    fn threads_take_and_give_back_at_once() {
        let segment = segment(8 << 20);
        let held = take(segment, layout(1, 1)).unwrap();
        let address = segment.as_ptr().expose_provenance();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                scope.spawn(move || {
                    let at: *mut Segment = ptr::with_exposed_provenance_mut(address);
                    let segment = NonNull::new(at).unwrap();
                    for turn in 0..200_usize {
                        let bytes = 1 + turn * 37 % 50_000;
                        let block = take(segment, layout(bytes, 16)).unwrap();
                        // SAFETY: a block of so many bytes.
                        unsafe { block.write_bytes(thread, bytes) };
                        // SAFETY: as above.
                        let last =
                            unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) }[bytes - 1];
                        assert_eq!(last, thread);
                        assert!(give_back(block.as_ptr()));
                    }
                });
            }
        });
        assert!(give_back(held.as_ptr()));
    }
}
