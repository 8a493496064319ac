//! Locks that do not invert priorities.
//!
//! A thread that waits for one of these locks lends its priority to the thread that has the lock
//! (`FUTEX_LOCK_PI`): a real-time thread waits for as long as the other one works, and not for
//! whatever else runs meanwhile. A lock that no other thread has costs no system call.
//!
//! # In a forked child
//!
//! A lock may be held by a thread that the child does not have. So a value that children go on to
//! use is reached by [`PiLock::lock_unless_left`], and everything else is made anew in a child.
//!
//! # Order
//!
//! A thread that takes several locks takes them in this order: the lock of the table of streams,
//! the lock of a stream, and then one of the locks that are held for a few instructions only (of
//! what is shown of a stream, of the lists of pipes, of the time that was taken). A thread that
//! holds one of the last kind does not wait for another process. A thread that holds any of these
//! locks does not sleep until there is an event.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::process;
use super::thread;
use super::tls;
use crate::system::errno;
use crate::system::pids;
use crate::system::thread::pause;

/// The word of a free lock.
const FREE: u32 = 0;

/// The bits of a lock's word that are the tid of the thread that has it.
const HOLDER: u32 = 0x3fff_ffff;

/// Time after which a thread tries again, where the kernel cannot make it wait.
const AGAIN: Duration = Duration::from_micros(50);

const NO_TIME: *const libc::timespec = std::ptr::null();

/// A value for one thread at a time, in one process.
#[derive(Debug, Default)]
pub struct PiLock<T> {
    /// The tid of the thread that has the lock, and a bit of the kernel's while others wait.
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from thread to thread, and no two have it at once.
unsafe impl<T: Send> Sync for PiLock<T> {}

/// The value of a lock, until it is dropped.
#[derive(Debug)]
pub struct PiGuard<'a, T> {
    lock: &'a PiLock<T>,
    /// The thread that took the lock is the one that gives it back.
    is_of_thread: std::marker::PhantomData<*const ()>,
}

/// Result of asking the kernel for the lock.
enum Asked {
    Taken,
    /// Ask again.
    Again,
    TimeOut,
    /// The kernel cannot help: it has no such locks, or the thread that has this one has ended.
    Cannot,
}

impl<T> PiLock<T> {
    /// Makes a free lock.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock. A thread that has it already waits for ever.
    #[inline]
    pub fn lock(&self) -> PiGuard<'_, T> {
        if !self.take(own_tid()) {
            while !self.wait(None) {}
        }
        self.guard()
    }

    /// Takes the lock if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<PiGuard<'_, T>> {
        self.take(own_tid()).then(|| self.guard())
    }

    /// Waits for the lock, but not for longer than `time`.
    pub fn lock_within(&self, time: Duration) -> Option<PiGuard<'_, T>> {
        let taken = self.take(own_tid()) || self.wait(Some(Instant::now() + time));
        taken.then(|| self.guard())
    }

    /// Waits for the lock. Returns `None` where the lock is never given back: its thread had it
    /// when this process was forked, and is not in this process.
    pub fn lock_unless_left(&self) -> Option<PiGuard<'_, T>> {
        while !self.take(own_tid()) {
            let holder = self.word.load(Relaxed) & HOLDER;
            if holder != FREE && !is_thread_of_this_process(holder) {
                if self.word.load(Relaxed) & HOLDER == holder {
                    return None;
                }
            } else if self.ask_kernel(None) {
                break;
            }
        }
        Some(self.guard())
    }

    /// Returns the guard of the lock again, after the first guard was forgotten.
    ///
    /// # Safety
    ///
    /// The calling thread has the lock, or is the copy, in a forked child, of the thread that had
    /// it.
    pub unsafe fn held(&self) -> PiGuard<'_, T> {
        self.guard()
    }

    #[inline(always)]
    fn take(&self, tid: u32) -> bool {
        let taken = self.word.compare_exchange(FREE, tid, Acquire, Relaxed);
        taken.is_ok()
    }

    fn guard(&self) -> PiGuard<'_, T> {
        PiGuard {
            lock: self,
            is_of_thread: std::marker::PhantomData,
        }
    }

    /// Waits until the thread has the lock, or until `end`. Returns whether it has the lock.
    #[cold]
    fn wait(&self, end: Option<Instant>) -> bool {
        let before = errno::get();
        let taken = self.wait_in_kernel(end);
        errno::set(before);
        taken
    }

    fn wait_in_kernel(&self, end: Option<Instant>) -> bool {
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return self.take(own_tid());
            }
            match self.ask(left) {
                Asked::Taken => return true,
                Asked::TimeOut => return false,
                Asked::Again => {}
                Asked::Cannot => {
                    pause(AGAIN);
                    if self.take(own_tid()) {
                        return true;
                    }
                }
            }
        }
    }

    /// Asks the kernel once. Returns whether the thread has the lock.
    #[cold]
    fn ask_kernel(&self, left: Option<Duration>) -> bool {
        let before = errno::get();
        let asked = self.ask(left);
        if matches!(asked, Asked::Cannot) {
            pause(AGAIN);
        }
        errno::set(before);
        matches!(asked, Asked::Taken)
    }

    /// Waits in the kernel, which makes the thread that has the lock run as this one would.
    fn ask(&self, left: Option<Duration>) -> Asked {
        let error = match left {
            None => self.futex(libc::FUTEX_LOCK_PI, NO_TIME),
            // The wait is by the monotonic clock, which cannot be set. Linux before 5.14 cannot
            // wait by it: there the thread tries again and again.
            Some(left) => {
                let end = monotonic_in(left);
                self.futex(libc::FUTEX_LOCK_PI2, &raw const end)
            }
        };
        match error {
            0 => Asked::Taken,
            libc::ETIMEDOUT => Asked::TimeOut,
            libc::EINTR | libc::EAGAIN => Asked::Again,
            _ => Asked::Cannot,
        }
    }

    fn futex(&self, operation: libc::c_int, time: *const libc::timespec) -> libc::c_int {
        // SAFETY: the word lives as long as it is borrowed; the time is null or valid.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const self.word,
                operation | libc::FUTEX_PRIVATE_FLAG,
                0,
                time,
            )
        };
        if result == 0 { 0 } else { errno::get() }
    }

    /// Gives the lock to a thread that waits for it.
    #[cold]
    fn hand_over(&self) {
        let before = errno::get();
        let error = self.futex(libc::FUTEX_UNLOCK_PI, NO_TIME);
        errno::set(before);
        if error != 0 {
            // The kernel refuses where it does not take this thread for the holder: in a child,
            // whose parent's thread had the lock while others waited. No thread of this process
            // waits for it.
            self.word.store(FREE, Release);
        }
    }
}

impl<T> Deref for PiGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock, so no other thread has the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for PiGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for PiGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let word = &self.lock.word;
        let tid = word.load(Relaxed);
        let is_unwaited =
            tid & !HOLDER == 0 && word.compare_exchange(tid, FREE, Release, Relaxed).is_ok();
        if !is_unwaited {
            self.lock.hand_over();
        }
    }
}

/// Returns the calling thread's tid, as the word of a lock has it. A thread asks the kernel once,
/// and looks it up from then on.
#[inline]
fn own_tid() -> u32 {
    // In a child that has not noticed yet that it is one, the known tid is its parent's.
    if process::parts_if_ready().is_some() {
        match tls::tid() {
            0 => {}
            known => return known,
        }
    }
    asked_tid()
}

#[cold]
fn asked_tid() -> u32 {
    let tid = thread::own_tid().unsigned_abs();
    if process::parts_if_ready().is_some() {
        tls::set_tid(tid);
    }
    tid
}

fn is_thread_of_this_process(tid: u32) -> bool {
    let tid = libc::c_long::from(tid);
    let pid = libc::c_long::from(pids::own_pid());
    let before = errno::get();
    // SAFETY: takes no pointers. Signal 0 is never delivered: the call only looks.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    let is_one = result == 0 || errno::get() != libc::ESRCH;
    errno::set(before);
    is_one
}

/// Returns the moment on `CLOCK_MONOTONIC` that is `time` from now.
#[must_use]
pub fn monotonic_in(time: Duration) -> libc::timespec {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` may be written to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let seconds = libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
    let nanoseconds = now.tv_nsec + libc::c_long::from(time.subsec_nanos());
    libc::timespec {
        tv_sec: now
            .tv_sec
            .saturating_add(seconds)
            .saturating_add(nanoseconds / 1_000_000_000),
        tv_nsec: nanoseconds % 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        const THREADS: u32 = 4;
        const TIMES: u32 = if cfg!(miri) { 1 } else { 20_000 };
        let lock = Arc::new(PiLock::new((0, 0)));
        let threads = (0..THREADS).map(|_| {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || {
                for _ in 0..TIMES {
                    let mut value = lock.lock();
                    let (first, second) = *value;
                    value.0 = first + 1;
                    std::hint::black_box(&mut value);
                    value.1 = second + 1;
                }
            })
        });
        if cfg!(miri) {
            threads.for_each(|thread| thread.join().unwrap());
        } else {
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }

        assert_eq!(*lock.lock(), (THREADS * TIMES, THREADS * TIMES));
        assert_eq!(lock.word.load(Relaxed), FREE);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such locks")]
    fn who_cannot_have_it_in_time_goes_without() {
        let lock = Arc::new(PiLock::new(1));
        let held = lock.lock();
        let other = Arc::clone(&lock);
        std::thread::spawn(move || {
            assert!(other.try_lock().is_none());
            let since = Instant::now();
            assert!(other.lock_within(Duration::from_millis(20)).is_none());
            assert!(since.elapsed() >= Duration::from_millis(20));
        })
        .join()
        .unwrap();
        drop(held);

        assert!(lock.lock_within(Duration::ZERO).is_some());
        assert_eq!(lock.word.load(Relaxed), FREE);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such locks")]
    fn who_waits_gets_it_when_it_is_given_back() {
        let lock = Arc::new(PiLock::new(0));
        let mut held = lock.lock();
        let (send, receive) = mpsc::channel();
        let other = Arc::clone(&lock);
        let thread = std::thread::spawn(move || {
            send.send(()).unwrap();
            let mut value = other.lock();
            assert_eq!(*value, 1);
            *value = 2;
        });
        receive.recv().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        *held = 1;
        drop(held);
        thread.join().unwrap();

        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no processes")]
    fn a_forked_child_does_not_wait_for_a_thread_that_it_does_not_have() {
        static LOCK: PiLock<u32> = PiLock::new(0);
        let (taken, is_taken) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let held = LOCK.lock();
            taken.send(()).unwrap();
            let _closed = is_done.recv();
            drop(held);
        });
        is_taken.recv().unwrap();
        // SAFETY: the child calls nothing that allocates or locks otherwise.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_left = LOCK.lock_unless_left().is_none();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_left)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child that was just made.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        drop(done);
        holder.join().unwrap();

        assert_eq!(status, 0);
        assert!(LOCK.lock_unless_left().is_some(), "it was given back here");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no processes")]
    fn a_forked_child_has_a_tid_of_its_own_in_its_locks() {
        static LOCK: PiLock<u32> = PiLock::new(0);
        drop(LOCK.lock());
        // SAFETY: the child calls nothing that allocates.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let held = LOCK.lock();
            let is_own = LOCK.word.load(Relaxed) == thread::own_tid().unsigned_abs();
            drop(held);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_own)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child that was just made.
        unsafe { libc::waitpid(child, &raw mut status, 0) };

        assert_eq!(status, 0);
    }
}
