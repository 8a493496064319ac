//! Memory barriers of other threads, and of other processes.

/// Makes every running thread of the processes that have the library pass a memory barrier: what
/// they stored before is visible to this thread, and what they do next comes after.
pub(crate) fn barrier() {
    const GLOBAL_EXPEDITED: libc::c_long = 1 << 1;
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL_EXPEDITED, 0, 0) };
}
