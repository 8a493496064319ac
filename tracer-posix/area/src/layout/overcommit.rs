//! Memory where the kernel promises no more than it has (`vm.overcommit_memory=2`).
//!
//! When the limit is reached, the first touch of a page of shared memory is SIGBUS, not an error.
//! So under this setting, and only then, the library asks the kernel for pages before it touches
//! them: that may fail, and ends no process.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use tracer_common::area::{AreaHeader, NAME_BUCKETS_OFFSET, STREAM_WINDOWS_OFFSET};

use super::mapping::Parts;
use crate::system::errno;

/// Tells whether the kernel refuses memory beyond its limit. `false` where `/proc` does not say:
/// the next stream that is opened asks again.
///
/// Async-signal-safe.
fn is_strict() -> bool {
    const STRICT: u8 = b'2';
    let path = c"/proc/sys/vm/overcommit_memory".as_ptr();
    let mut mode = 0_u8;
    // SAFETY: the path is a string ended by a null.
    let file = unsafe { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return false;
    }
    // SAFETY: the buffer has one byte.
    let read = unsafe { libc::read(file, (&raw mut mode).cast(), 1) };
    // SAFETY: a descriptor of this function's own, which is not used any more.
    unsafe { libc::close(file) };
    read == 1 && mode == STRICT
}

/// Provides the parts of a new area that a process touches before it is traced. `false` where there
/// is no memory.
pub(crate) fn provide_new(parts: Parts<'_>) -> bool {
    !is_strict() || (provide(parts.base(), STREAM_WINDOWS_OFFSET) && note(parts.header()))
}

/// Provides all fixed parts of an area in which a stream is about to be opened, but for the names,
/// which are provided one by one. `false` where there is no memory.
pub(crate) fn provide_opened(parts: Parts<'_>) -> bool {
    !is_strict() || (provide(parts.base(), NAME_BUCKETS_OFFSET) && note(parts.header()))
}

fn note(header: &AreaHeader) -> bool {
    header.provides.store(1, Relaxed);
    true
}

/// Provides some pages, if the area says that they are to be provided. `false` where there is no
/// memory. Keeps `errno`.
///
/// A hostile process that changes what the area says causes a system call, or takes the protection
/// from memory of its own.
pub(crate) fn provide_if_strict(parts: Parts<'_>, base: NonNull<u8>, bytes: usize) -> bool {
    if parts.header().provides.load(Relaxed) == 0 {
        return true;
    }
    let before = errno::get();
    let is_provided = provide(base, bytes);
    errno::set(before);
    is_provided
}

/// Asks the kernel for some pages. Linux before 5.14 cannot be asked: there the pages are touched
/// without that.
fn provide(base: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the advice changes nothing in memory, and whatever is not mapped is an error.
    let result = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
    result == 0 || errno::get() == libc::EINVAL
}
