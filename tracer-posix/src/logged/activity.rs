//! Status of a stream and its log, in memory that recorder and controller share. A status must not
//! wait for a flush, which may take as long as a disk does, nor for the recorder at all. Losses are
//! reported once: the recorder sets them, and the controller takes them out.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

use super::lending::Locks;
use super::protocol::LoggedStatus;

/// The stream records.
const RUNNING: u32 = 1;
/// The stream's space is used up.
const FULL: u32 = 1 << 1;
/// The log's space is used up.
const LOG_FULL: u32 = 1 << 2;
/// The recorder flushes, on demand or by itself.
const FLUSHING: u32 = 1 << 3;

/// The stream has lost events.
const OVERRUN: u32 = 1;
/// The log has lost events.
const LOG_OVERRUN: u32 = 1 << 1;

/// The shared words.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Written by the recorder alone.
    said: AtomicU32,
    /// Losses since the controller took this out.
    lost: AtomicU32,
    /// The number of the first error of a flush since the controller took it out; 0 for none.
    flush_error: AtomicI32,
    /// Locks by which a thread that waits for an answer lends its priority.
    locks: Locks,
}

/// Status of a stream and its log, as the controller reads it without asking the recorder.
#[derive(Debug)]
#[doc(hidden)]
pub struct Activity {
    words: NonNull<Words>,
    /// Threads of the controller that have asked for a flush and wait for its end.
    asking: AtomicU32,
}

// SAFETY: the shared memory belongs to the process, not to a thread, and is reached by atomics
// alone.
unsafe impl Send for Activity {}
// SAFETY: as above.
unsafe impl Sync for Activity {}

impl Activity {
    /// Makes the status of a suspended and empty stream, before there is a recorder. A forked child
    /// shares it.
    pub(super) fn new() -> io::Result<Self> {
        Self::map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// Makes it like [`new`](Self::new), with a file by which another program shares it.
    pub(super) fn in_file() -> io::Result<(Self, OwnedFd)> {
        let file = memory_file()?;
        Ok((Self::map_file(&file)?, file))
    }

    /// Maps the status that the recorder's program shares with its controller.
    pub(super) fn map_file(file: &OwnedFd) -> io::Result<Self> {
        Self::map(libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(flags: libc::c_int, file: RawFd) -> io::Result<Self> {
        // SAFETY: asks for a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Words>(),
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                file,
                0,
            )
        };
        match NonNull::new(address.cast()) {
            Some(words) if address != libc::MAP_FAILED => Ok(Self {
                words,
                asking: AtomicU32::new(0),
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn words(&self) -> &Words {
        // SAFETY: a page of zeroes to begin with, mapped as long as `self` lives, and only reached
        // by atomics.
        unsafe { self.words.as_ref() }
    }

    pub(super) fn locks(&self) -> &Locks {
        &self.words().locks
    }

    fn said(&self) -> &AtomicU32 {
        &self.words().said
    }

    /// Sets the status, in the recorder, and adds what was lost since the last report. Not called
    /// within a flush, whose mark it would replace.
    pub(super) fn report(&self, status: LoggedStatus) {
        let bit = |is_so, bit| if is_so { bit } else { 0 };
        let lost = bit(status.is_overrun, OVERRUN) | bit(status.is_log_overrun, LOG_OVERRUN);
        self.words().lost.fetch_or(lost, Relaxed);
        let error = &self.words().flush_error;
        // An earlier error that the controller has not taken out yet stays.
        let _earlier = error.compare_exchange(0, status.flush_error, Relaxed, Relaxed);
        let bits = bit(status.is_running, RUNNING)
            | bit(status.is_full, FULL)
            | bit(status.is_log_full, LOG_FULL)
            | bit(status.is_flushing, FLUSHING);
        self.said().store(bits, Release);
    }

    /// Forgets, in the recorder, all that was lost before.
    pub(super) fn forget_losses(&self) {
        self.words().lost.store(0, Relaxed);
        self.words().flush_error.store(0, Relaxed);
    }

    /// Notes, in the recorder, that a flush goes on until the returned value is dropped.
    pub(super) fn flushing(&self) -> Flushing<'_> {
        self.said().fetch_or(FLUSHING, AcqRel);
        Flushing(self)
    }

    /// Notes, in the controller, that a flush is asked for until the returned value is dropped.
    #[doc(hidden)]
    pub fn asking(&self) -> Asking<'_> {
        self.asking.fetch_add(1, AcqRel);
        Asking(self)
    }

    /// Returns, in the controller, the status while a flush that it asked for goes on; else `None`.
    #[doc(hidden)]
    pub fn status_of_flush(&self) -> Option<LoggedStatus> {
        (self.asking.load(Acquire) > 0).then(|| self.status())
    }

    /// Returns the status as it was reported last. What was lost, and an error of a flush, is
    /// reported once.
    #[doc(hidden)]
    pub fn status(&self) -> LoggedStatus {
        let said = self.said().load(Acquire);
        let lost = self.words().lost.swap(0, Relaxed);
        LoggedStatus {
            is_running: said & RUNNING != 0,
            is_full: said & FULL != 0,
            is_overrun: lost & OVERRUN != 0,
            is_flushing: said & FLUSHING != 0 || self.asking.load(Acquire) > 0,
            flush_error: self.words().flush_error.swap(0, Relaxed),
            is_log_full: said & LOG_FULL != 0,
            is_log_overrun: lost & LOG_OVERRUN != 0,
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), size_of::<Words>()) };
    }
}

/// Returns a file in memory with space for the words. Neither process makes it shorter.
fn memory_file() -> io::Result<OwnedFd> {
    const BYTES: libc::off_t = 4096;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: valid for writes.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    // Beyond the limit, the kernel would send the program a signal.
    if !is_known || limit.rlim_cur < BYTES.unsigned_abs() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let name = c"posix_trace_activity";
    let make = |flags| {
        // SAFETY: a string ended by a null.
        unsafe { libc::memfd_create(name.as_ptr(), flags | libc::MFD_CLOEXEC) }
    };
    let mut raw = make(libc::MFD_NOEXEC_SEAL);
    if raw < 0 {
        // Kernels before 6.3 do not know the flag.
        raw = make(0);
    }
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and no other value owns it.
    let file = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: takes no pointers.
    if unsafe { libc::ftruncate(file.as_raw_fd(), BYTES) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Mark of a flush that goes on.
pub(super) struct Flushing<'a>(&'a Activity);

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.said().fetch_and(!FLUSHING, AcqRel);
    }
}

/// Mark of a flush that a thread of the controller waits for.
#[doc(hidden)]
#[derive(Debug)]
pub struct Asking<'a>(&'a Activity);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING_AND_FULL: LoggedStatus = LoggedStatus {
        is_running: true,
        is_full: true,
        is_overrun: true,
        is_flushing: false,
        flush_error: 28,
        is_log_full: true,
        is_log_overrun: true,
    };

    #[test]
    fn there_is_a_status_of_a_flush_as_long_as_a_caller_waits_for_one() {
        let activity = Activity::new().unwrap();
        assert_eq!(activity.status_of_flush(), None);
        let first = activity.asking();
        let second = activity.asking();
        drop(first);
        assert!(activity.status_of_flush().unwrap().is_flushing);
        drop(second);

        assert_eq!(activity.status_of_flush(), None);
    }

    #[test]
    fn the_status_is_what_was_reported_last_and_losses_are_reported_once() {
        let activity = Activity::new().unwrap();
        activity.report(RUNNING_AND_FULL);
        let second = LoggedStatus {
            flush_error: 5,
            ..LoggedStatus::default()
        };
        activity.report(second);
        let expected = LoggedStatus {
            is_overrun: true,
            is_log_overrun: true,
            flush_error: 28,
            ..LoggedStatus::default()
        };
        assert_eq!(activity.status(), expected);
        assert_eq!(activity.status(), LoggedStatus::default());

        activity.report(RUNNING_AND_FULL);
        activity.forget_losses();
        let expected = LoggedStatus {
            is_overrun: false,
            flush_error: 0,
            is_log_overrun: false,
            ..RUNNING_AND_FULL
        };
        assert_eq!(activity.status(), expected);
    }

    #[test]
    fn a_flush_of_the_recorder_is_seen_until_it_is_over() {
        let activity = Activity::new().unwrap();
        activity.report(RUNNING_AND_FULL);
        let flushing = activity.flushing();
        let status = activity.status();
        assert!(status.is_flushing && status.is_running);
        drop(flushing);

        assert!(!activity.status().is_flushing);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such files")]
    fn a_process_that_is_given_the_file_shares_what_was_reported() {
        let (own, file) = Activity::in_file().unwrap();
        let seen = Activity::map_file(&file).unwrap();
        drop(file);
        own.report(RUNNING_AND_FULL);
        assert!(seen.status().is_log_full);
    }

    #[test]
    fn another_process_shares_what_was_reported() {
        let activity = Activity::new().unwrap();
        // SAFETY: the child only stores a word and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            activity.report(RUNNING_AND_FULL);
            // SAFETY: takes no pointers, and does not return.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: no status is asked for.
        assert_eq!(unsafe { libc::waitpid(child, ptr::null_mut(), 0) }, child);

        assert!(activity.status().is_log_full);
    }
}
