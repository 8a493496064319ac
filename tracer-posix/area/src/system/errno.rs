//! Keeping the calling thread's state as it was, through what this library does unseen by the
//! program.

/// Guard of `errno` and of cancellation. While it lives the library may change `errno`, and the
/// thread is not cancelled: the C library ends a cancelled thread in the middle of a call such as
/// `open()`, and no call of Rust may be left in that way.
pub struct ErrnoGuard {
    errno: libc::c_int,
    cancel_state: libc::c_int,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of Linux's C libraries.
const PTHREAD_CANCEL_DISABLE: libc::c_int = 1;

/// Returns the thread's `errno`. For code that a handler may leave at any moment, so that it must
/// have nothing to drop, and that makes no call that can be cancelled.
pub(crate) fn get() -> libc::c_int {
    // SAFETY: `errno` is the thread's own.
    unsafe { errno().read() }
}

/// Sets the thread's `errno`.
pub(crate) fn set(error: libc::c_int) {
    // SAFETY: `errno` is the thread's own.
    unsafe { errno().write(error) };
}

fn errno() -> *mut libc::c_int {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::__errno_location() }
}

impl ErrnoGuard {
    /// Notes what `errno` is, and puts cancellation off.
    pub fn keep() -> Self {
        // SAFETY: `errno` is the thread's own.
        let errno = unsafe { errno().read() };
        let mut cancel_state = 0;
        // SAFETY: `cancel_state` may be written to. The C libraries change a word of the thread's
        // own and no more, so that a signal handler may do so too.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut cancel_state) };
        Self {
            errno,
            cancel_state,
        }
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        // SAFETY: as in `keep`; nothing is written to the null pointer.
        unsafe { pthread_setcancelstate(self.cancel_state, std::ptr::null_mut()) };
        // SAFETY: `errno` is the thread's own.
        unsafe { errno().write(self.errno) };
    }
}

/// Guard of `errno` alone, for code that makes no call at which a thread can be cancelled. While it
/// lives the library may change `errno`.
pub struct ErrnoOnlyGuard(libc::c_int);

impl ErrnoOnlyGuard {
    /// Notes what `errno` is.
    #[inline]
    pub fn keep() -> Self {
        Self(get())
    }
}

impl Drop for ErrnoOnlyGuard {
    #[inline]
    fn drop(&mut self) {
        set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_and_the_cancel_state_come_back() {
        // SAFETY: `errno` is the thread's own.
        unsafe { errno().write(4711) };
        let outer = ErrnoGuard::keep();
        assert_eq!(outer.cancel_state, 0);
        let inner = ErrnoGuard::keep();
        assert_eq!(inner.cancel_state, PTHREAD_CANCEL_DISABLE);
        // SAFETY: `errno` is the thread's own.
        unsafe { errno().write(1) };

        drop(inner);
        drop(outer);

        // SAFETY: `errno` is the thread's own.
        assert_eq!(unsafe { errno().read() }, 4711);
        assert_eq!(ErrnoGuard::keep().cancel_state, 0);
    }
}
