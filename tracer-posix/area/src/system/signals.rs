//! Holding a thread's signals back for a moment.

use std::ffi::c_int;

/// Signals that the processor raises at an instruction: held back, they would end the process.
const RAISED_BY_INSTRUCTIONS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

/// The thread's signal mask from before its signals were held back. Copied, never dropped.
#[derive(Clone, Copy)]
pub struct HeldBack {
    mask: libc::sigset_t,
}

impl HeldBack {
    /// Holds the thread's signals back.
    pub fn new() -> Self {
        // SAFETY: a set of signals is plain integers.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `all` may be written to.
        unsafe { libc::sigfillset(&raw mut all) };
        for signal in RAISED_BY_INSTRUCTIONS {
            // SAFETY: a valid set and signal.
            unsafe { libc::sigdelset(&raw mut all, signal) };
        }
        let mut mask = all;
        // SAFETY: both sets are valid.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask) };
        Self { mask }
    }

    /// Lets them through again.
    pub fn let_through(self) {
        let nowhere = std::ptr::null_mut();
        // SAFETY: the set is valid, and the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, nowhere) };
    }
}
