//! Memory shared with the kernel: pages of a BPF map.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Bytes of a page.
pub fn page_bytes() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Use of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading what the kernel writes.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// Part of a BPF map, mapped as long as this lives. It is accessed by atomics, since the kernel
/// reads and writes it at the same time, except for bytes that the protocol gives to the reader
/// alone.
#[derive(Debug)]
pub struct MapMemory {
    /// Page aligned; `length` bytes are mapped from here as long as `self` lives.
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and `base` is the only reason why
// this is not derived.
unsafe impl Send for MapMemory {}
// SAFETY: through a shared reference bytes are accessed as atomics, or while neither side writes
// them.
unsafe impl Sync for MapMemory {}

impl MapMemory {
    /// Maps the first `length` bytes of a map, rounded up to whole pages.
    pub fn new(map: BorrowedFd<'_>, length: usize, access: Access) -> io::Result<Self> {
        Self::window(map, 0, length, access)
    }

    /// Maps `length` bytes of a map from `start` on, a multiple of a page; the length is rounded
    /// up to whole pages.
    pub fn window(
        map: BorrowedFd<'_>,
        start: usize,
        length: usize,
        access: Access,
    ) -> io::Result<Self> {
        let start = libc::off_t::try_from(start).map_err(|_huge| io::ErrorKind::InvalidInput)?;
        let length = length.next_multiple_of(page_bytes());
        let protection = match access {
            Access::Read => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: the kernel chooses the address, so that no other memory is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                start,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, length })
    }

    /// Returns the byte at offset `at`. It may be stored to only in a mapping for
    /// [`Access::ReadWrite`].
    pub fn byte(&self, at: usize) -> Option<&AtomicU8> {
        if at >= self.length {
            return None;
        }
        // SAFETY: `at` is inside the mapping, as was just checked.
        let byte = unsafe { self.base.add(at) };
        // SAFETY: mapped while `self` lives, and both sides read and write whole bytes.
        Some(unsafe { AtomicU8::from_ptr(byte.as_ptr()) })
    }

    /// Writes bytes from the start on, as far as there is space.
    pub fn write(&self, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            if let Some(target) = self.byte(at) {
                target.store(*byte, Ordering::Relaxed);
            }
        }
    }

    /// Returns the 64-bit word at offset `at`, a multiple of 8. It may be stored to only in a
    /// mapping for [`Access::ReadWrite`].
    pub fn word(&self, at: usize) -> Option<&AtomicU64> {
        if !at.is_multiple_of(8) || at.checked_add(8)? > self.length {
            return None;
        }
        // SAFETY: `at` is inside the mapping, as was just checked.
        let word = unsafe { self.base.add(at) };
        // SAFETY: mapped while `self` lives; aligned, because the base is page aligned and the
        // offset a multiple of 8; and both sides read and write whole words.
        Some(unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) })
    }

    /// Returns the 32-bit word at offset `at`, a multiple of 4. It may be stored to only in a
    /// mapping for [`Access::ReadWrite`].
    pub fn half_word(&self, at: usize) -> Option<&AtomicU32> {
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.length {
            return None;
        }
        // SAFETY: `at` is inside the mapping, as was just checked.
        let word = unsafe { self.base.add(at) };
        // SAFETY: mapped while `self` lives; aligned, because the base is page aligned and the
        // offset a multiple of 4; and both sides read and write whole words.
        Some(unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) })
    }

    /// Returns the bytes from offset `at` on.
    ///
    /// # Safety
    ///
    /// They may not be written as long as they are borrowed.
    pub unsafe fn bytes(&self, at: usize, length: usize) -> Option<&[u8]> {
        if at.checked_add(length)? > self.length {
            return None;
        }
        // SAFETY: `at` is inside the mapping, or just behind it, as was just checked.
        let start = unsafe { self.base.add(at) };
        // SAFETY: all of it is mapped while `self` lives, and it is not written meanwhile, as the
        // caller promises.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), length) })
    }
}

impl Drop for MapMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
