//! Keeps this thread on one CPU for a while.

use std::io;
use std::mem::size_of;

/// The thread stays on the CPU as long as this lives.
pub struct Pinned {
    before: libc::cpu_set_t,
}

impl Pinned {
    /// Pins the thread to the last CPU that it may have: that the first one is 0, as much else is,
    /// says little.
    pub fn to_last() -> io::Result<Self> {
        // SAFETY: all-zero bytes are an empty set.
        let mut before: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `before` is a set of the size that the call is given.
        let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&before), &raw mut before) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        let cpus = 0..8 * size_of::<libc::cpu_set_t>();
        // SAFETY: the index is within the set.
        let last = cpus
            .rev()
            .find(|cpu| unsafe { libc::CPU_ISSET(*cpu, &before) });
        // SAFETY: all-zero bytes are an empty set.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the index is within the set.
        unsafe { libc::CPU_SET(last.unwrap_or(0), &mut one) };
        set(&one)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = set(&self.before);
    }
}

fn set(cpus: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `cpus` is a set of the size that the call is given.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(cpus), std::ptr::from_ref(cpus)) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
