//! A guard during which this process makes no child by `fork()`: no child has what a thread opens
//! under the guard. (A child of `vfork()` or `posix_spawn()` has it until its exec, which closes
//! it.)

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tracer_area::lock::{PiGuard, PiLock};

use crate::logged::BlockedSignals;

/// Held by a thread with a guard, and by a thread that forks. The value tells whether the handlers
/// by which `fork()` takes the lock are registered.
static FORKS: PiLock<bool> = PiLock::new(false);

/// Longest wait of a fork. Opening and sending take microseconds. But a process amid an exec can
/// hold up a thread that opens its memory for any time: the memory is not open then.
const LONGEST: Duration = Duration::from_secs(1);

/// Tells whether the thread that forks has the lock.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// The guard, until it is dropped. It blocks signals, since a handler might fork.
#[derive(Debug)]
pub struct Unforked {
    // Dropped in this order.
    _lock: Option<PiGuard<'static, bool>>,
    _signals: BlockedSignals,
}

impl Unforked {
    /// Begins the guard, once no thread forks.
    pub fn begin() -> Self {
        let signals = BlockedSignals::new();
        // In a child that was forked without the handlers, a thread of the parent may hold the lock
        // for ever.
        let mut lock = FORKS.lock_unless_left();
        if let Some(is_registered) = lock.as_deref_mut().filter(|registered| !**registered) {
            // SAFETY: functions of this library, which the C library forgets when it is unloaded.
            let failed = unsafe {
                libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork))
            };
            // If memory is lacking, the next guard tries again.
            *is_registered = failed == 0;
        }
        Self {
            _lock: lock,
            _signals: signals,
        }
    }
}

extern "C" fn before_fork() {
    if let Some(lock) = FORKS.lock_within(LONGEST) {
        std::mem::forget(lock);
        IS_HELD.store(true, Relaxed);
    }
}

extern "C" fn after_fork() {
    if IS_HELD.swap(false, Relaxed) {
        // SAFETY: this thread took the lock in `before_fork`; in the child, this thread is the copy
        // of the one that did.
        drop(unsafe { FORKS.held() });
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::proof::Proof;
    use super::Unforked;

    /// Returns how many descriptors of the first hundred are of a process's memory.
    fn count_memories() -> i32 {
        (0..100)
            .filter(|file| {
                // In a child of a process with several threads nothing may be allocated.
                let mut path = *b"/proc/self/fd/00\0";
                path[14] += file / 10;
                path[15] += file % 10;
                if *file < 10 {
                    path[14..].copy_from_slice(&[b'0' + file, 0, 0]);
                }
                let mut target = [0_u8; 64];
                // SAFETY: the path ends with a null, and the target has this length.
                let length =
                    unsafe { libc::readlink(path.as_ptr().cast(), target.as_mut_ptr().cast(), 64) };
                usize::try_from(length).is_ok_and(|length| target[..length].ends_with(b"/mem"))
            })
            .count()
            .try_into()
            .unwrap_or(-1)
    }

    #[test]
    fn a_fork_does_not_wait_for_an_opening_that_does_not_end() {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let holder = thread::spawn(move || {
            let _stuck = Unforked::begin();
            ready.send(()).unwrap();
            let _ = is_done.recv();
        });
        is_ready.recv().unwrap();
        // SAFETY: the child calls nothing that is not async-signal-safe.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without handlers.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: `status` may be written to.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(done);
        holder.join().unwrap();
    }

    #[test]
    fn no_child_has_a_proof_and_forks_go_on() {
        let own = tracer_area::own_pid();
        assert!(Proof::open(own).is_some());
        thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let mut opened = 0_u32;
                while is_done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    let proof = Proof::open(own).unwrap();
                    assert_eq!(count_memories(), 1);
                    drop(proof);
                    opened += 1;
                }
                assert!(opened > 0);
            });
            for _ in 0..300 {
                // SAFETY: the child calls nothing that is not async-signal-safe.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let count = count_memories();
                    // SAFETY: ends the child without handlers.
                    unsafe { libc::_exit(count) };
                }
                let mut status = 0;
                // SAFETY: `status` may be written to.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0);
            }
            drop(done);
        });
    }
}
