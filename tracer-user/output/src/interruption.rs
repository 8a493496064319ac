//! Signals of the user who runs a command. Those that end a conversion: its half-written output is
//! removed before it ends.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, ensure};

/// Signal that came; 0 for none.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Watcher for the signals by which people end programs.
#[derive(Debug)]
pub struct Interruption(());

impl Interruption {
    /// Installs the handlers: from now on such a signal ends nothing by itself.
    ///
    /// # Errors
    ///
    /// A handler cannot be installed.
    pub fn watch() -> anyhow::Result<Self> {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            if is_ignored(signal) {
                // `nohup` says that the end of the terminal is none of our business.
                continue;
            }
            // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = note as *const () as usize;
            // Once: a second one ends us at once, whatever is left behind.
            action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            // SAFETY: `action` is valid, and its handler does one store.
            let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
            ensure!(set == 0, io::Error::last_os_error());
        }
        Ok(Self(()))
    }

    /// Fails once a signal has come, and names the consequence.
    ///
    /// # Errors
    ///
    /// A signal has come.
    pub fn check(&self, consequence: &str) -> anyhow::Result<()> {
        let signal = CAME.load(Ordering::Relaxed);
        let name = match signal {
            0 => return Ok(()),
            libc::SIGINT => "SIGINT",
            libc::SIGTERM => "SIGTERM",
            libc::SIGQUIT => "SIGQUIT",
            _ => "SIGHUP",
        };
        Err(io::Error::from(io::ErrorKind::Interrupted))
            .with_context(|| format!("ended by {name}; {consequence}"))
    }
}

extern "C" fn note(signal: libc::c_int) {
    CAME.store(signal, Ordering::Relaxed);
}

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
