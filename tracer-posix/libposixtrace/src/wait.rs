//! Waiting without missing a signal.
//!
//! A reader that waits looks at its stream again and again. A handler that runs while the reader
//! looks, and not while it sleeps, has to end the waiting all the same: so signals are held back
//! while it looks, and the call that sleeps lets them through.
//!
//! A thread may be cancelled while it sleeps. The C library then unwinds its frames, so they hold
//! nothing that would have to be dropped, and all belong to functions that may be left in this way.
//! If the thread was asked to end before it slept, its signals are still held back: a clean-up
//! handler lets them through before any clean-up handler of the program runs.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::time::Duration;

/// A clean-up handler, as the C library stores it. Both C libraries begin with these two fields.
/// The others are the C library's own, and take no more space than this.
#[repr(C)]
struct CleanUp {
    routine: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    theirs: [usize; 4],
}

unsafe extern "C" {
    /// Registers a handler until it is popped, or the frame in which it lies is left.
    fn _pthread_cleanup_push(
        clean_up: *mut CleanUp,
        routine: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(clean_up: *mut CleanUp, execute: c_int);
}

unsafe extern "C-unwind" {
    /// Waits for files; a cancellation point.
    fn ppoll(
        files: *mut libc::pollfd,
        count: libc::nfds_t,
        time: *const libc::timespec,
        signals: *const libc::sigset_t,
    ) -> c_int;
}

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
pub(super) struct HeldBack {
    mask: libc::sigset_t,
}

/// Calls `act` with the thread's signals held back. They are let through again when it returns, or
/// when the thread ends in it.
pub(super) fn holding_back_signals(act: impl FnOnce(HeldBack) -> c_int) -> c_int {
    let mut held = HeldBack::new();
    let mut clean_up = CleanUp {
        routine: None,
        argument: std::ptr::null_mut(),
        theirs: [0; 4],
    };
    let argument = (&raw mut held.mask).cast();
    // SAFETY: both objects outlive the registration, which ends below or with this frame.
    unsafe { _pthread_cleanup_push(&raw mut clean_up, let_through, argument) };
    let code = act(held);
    // SAFETY: this handler was registered last, or those that were registered since have been
    // popped.
    unsafe { _pthread_cleanup_pop(&raw mut clean_up, 1) };
    code
}

/// Gives the calling thread the signal mask behind `mask`.
unsafe extern "C" fn let_through(mask: *mut c_void) {
    let mask = mask.cast::<libc::sigset_t>();
    // SAFETY: `holding_back_signals` gives a valid set; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

impl HeldBack {
    fn new() -> Self {
        // SAFETY: a set of signals is plain integers.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: valid for writes.
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

    /// Sleeps for at most `time`, or until `bell` can be read if that is a descriptor, and lets
    /// signals through meanwhile; `EINTR` when a handler ran, 0 otherwise.
    pub(super) fn sleep(self, time: Duration, bell: RawFd) -> c_int {
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(time.subsec_nanos()),
        };
        let mut bell = libc::pollfd {
            fd: bell,
            events: libc::POLLIN,
            revents: 0,
        };
        let before = errno();
        // SAFETY: the file, the time and the set are valid; a negative descriptor is ignored.
        let result = unsafe { ppoll(&raw mut bell, 1, &raw const time, &raw const self.mask) };
        let error = if result < 0 { errno() } else { 0 };
        set_errno(before);
        error
    }
}

fn errno() -> c_int {
    // SAFETY: takes nothing and cannot fail.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: the location is the thread's own.
    unsafe { location.read() }
}

fn set_errno(value: c_int) {
    // SAFETY: takes nothing and cannot fail.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: the location is the thread's own.
    unsafe { location.write(value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn ignore(_signal: c_int) {}

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    fn a_signal_that_came_while_they_were_held_back_ends_the_sleep() {
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGUSR2, ignore as *const () as libc::sighandler_t) };
        let slept = holding_back_signals(|held| {
            assert_eq!(held.sleep(Duration::from_millis(1), -1), 0);
            // SAFETY: takes nothing and cannot fail.
            let own = unsafe { libc::pthread_self() };
            // SAFETY: a signal with a handler, to this thread.
            unsafe { libc::pthread_kill(own, libc::SIGUSR2) };

            set_errno(77);
            held.sleep(Duration::from_millis(900), -1)
        });

        assert_eq!(slept, libc::EINTR);
        assert_eq!(errno(), 77, "it is the program's");
        assert!(!is_held_back(libc::SIGUSR2));
    }

    fn is_held_back(signal: c_int) -> bool {
        // SAFETY: a set of signals is plain integers.
        let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: valid for writes.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut mask) };
        // SAFETY: a valid set and signal.
        unsafe { libc::sigismember(&raw const mask, signal) == 1 }
    }
}
