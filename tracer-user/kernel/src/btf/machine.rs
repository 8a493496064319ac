//! Facts about the machine, and its C library, that the kernel's types do not give.

/// The bit by which a task says that it is in a system call of a 32-bit program; 0 where none is
/// known.
pub const COMPAT_STATUS: u32 = if cfg!(target_arch = "x86_64") {
    /// `TS_COMPAT`, in `thread_info.status`.
    const TS_COMPAT: u32 = 2;
    TS_COMPAT
} else if cfg!(target_arch = "aarch64") {
    /// `TIF_32BIT`, in `thread_info.flags`.
    const TIF_32BIT: u32 = 22;
    1 << TIF_32BIT
} else {
    0
};

/// Returns how far below the thread pointer the C library has the place that a `pthread_t` points
/// to, in bytes. This is measured in this program: programs with another C library may have another
/// distance.
pub fn thread_id_below() -> u32 {
    #[cfg(target_arch = "aarch64")]
    {
        let pointer: u64;
        // SAFETY: reads a register.
        unsafe {
            std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem));
        }
        // SAFETY: takes nothing, and cannot fail.
        let thread = unsafe { libc::pthread_self() };
        let below = pointer.checked_sub(thread);
        below.and_then(|below| below.try_into().ok()).unwrap_or(0)
    }
    // A `pthread_t` is the thread pointer on these machines.
    #[cfg(not(target_arch = "aarch64"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_its_pthread_t_as_far_below() {
        let here = thread_id_below();
        let there = std::thread::spawn(thread_id_below).join().unwrap();
        assert_eq!(here, there);
        // On arm64, a structure of some kilobytes lies in between.
        assert!(here < 1 << 16);
        assert_eq!(here > 0, cfg!(target_arch = "aarch64"));
    }
}
