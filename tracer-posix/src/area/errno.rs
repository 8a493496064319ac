//! Keeping the program's `errno` through what this library does behind its back.

/// Puts `errno` back to what it was when dropped.
pub(crate) struct ErrnoKept(libc::c_int);

impl ErrnoKept {
    /// Notes what `errno` is.
    pub(crate) fn new() -> Self {
        // SAFETY: takes nothing and cannot fail.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: the place is the thread's own.
        Self(unsafe { place.read() })
    }
}

impl Drop for ErrnoKept {
    fn drop(&mut self) {
        // SAFETY: takes nothing and cannot fail.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: the place is the thread's own.
        unsafe { place.write(self.0) };
    }
}
