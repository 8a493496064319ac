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

/// Makes a file that may not grow further a failed write, which is reported: by default the kernel
/// ends the program (`SIGXFSZ`). A program that is started from here has the default again.
pub fn survive_file_limit() {
    if is_ignored(libc::SIGXFSZ) {
        return;
    }
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // Not `SIG_IGN`, which a program that is started would inherit.
    action.sa_sigaction = do_nothing as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is valid, and its handler does nothing. Where it cannot be set, it is as
    // before.
    unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut()) };
}

extern "C" fn do_nothing(_signal: libc::c_int) {}
