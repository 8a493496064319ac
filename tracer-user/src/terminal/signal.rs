//! Signals of the user who runs a command.

/// Tells whether the process that started us has set this signal to be ignored.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null pointer leaves the action as it is; the other is valid for a write.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    if failed != 0 {
        return false;
    }
    // SAFETY: all-zero bytes are a valid `sigaction`, and the kernel has written it.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}
