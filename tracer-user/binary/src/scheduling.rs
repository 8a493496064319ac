//! Scheduling of threads of this process.

use std::ffi::c_int;

/// Gives the calling thread its share of the CPUs, where it gives way to others (`SCHED_IDLE`) as
/// the thread that began it does: there is a time limit for its work. Where that is not permitted,
/// it stays as it is.
pub fn give_way_to_none() {
    // SAFETY: takes no pointers. The function of musl's C library only fails.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if policy != i64::from(libc::SCHED_IDLE) {
        return;
    }
    let (policy, priority): (c_int, c_int) = (libc::SCHED_OTHER, 0);
    let priority = &raw const priority;
    // SAFETY: the kernel's `struct sched_param` has the priority alone, which lives.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, priority) };
}
