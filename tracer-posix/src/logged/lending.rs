//! The priority that a thread of the controller lends to the recorder while it waits for an answer.
//!
//! The recorder is an ordinary process. If a real-time thread waited for its answer by a message
//! alone, every thread with a priority between the two could delay it. So the recorder holds a lock
//! that lends priority (`FUTEX_LOCK_PI`) all the time, and a thread that waits for an answer waits
//! for that lock. There are two locks: with each answer that a thread waits for in this way, the
//! recorder takes the other lock and releases the first. Both sides count replies, and a thread
//! states the number of the reply that it waits for. So the recorder releases a lock once for that
//! reply, and does not take the same lock again between the thread's look at the lock and its wait
//! for it.
//!
//! Only the priority depends on the locks: the answer is a message, and a thread that cannot lend
//! waits for the message. The recorder never waits for a lock. If a thread of the controller ends
//! while it has one, the recorder does without locks from then on.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};
use std::time::{Duration, Instant};

use super::Activity;

/// The word of a lock that no thread holds.
const FREE: u32 = 0;

/// The bits of a lock's word that are the tid of the thread that holds it.
const HOLDER: u32 = 0x3fff_ffff;

/// Words in memory that both share; zeroes to begin with.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Locks {
    /// Index of the lock that the recorder holds; written by the recorder.
    turn: AtomicU32,
    /// Number of the reply that a thread of the controller waits for here, or 0; written by the
    /// controller.
    waited_for: AtomicU32,
    /// The words as the kernel knows them.
    words: [AtomicU32; 2],
}

impl Locks {
    fn at(&self, turn: usize) -> &AtomicU32 {
        let [first, second] = &self.words;
        if turn == 0 { first } else { second }
    }
}

/// Returns the number of the reply after `before` others; never 0.
fn number(before: u64) -> u32 {
    let number = before % u64::from(u32::MAX) + 1;
    u32::try_from(number).unwrap_or(1)
}

/// The recorder's side.
#[derive(Debug)]
pub(super) struct Borrowing {
    activity: Arc<Activity>,
    tid: u32,
    /// Replies so far.
    replies: u64,
    held: Option<usize>,
    /// Whether the controller has left a lock taken.
    is_over: bool,
}

impl Borrowing {
    /// Makes the side of the calling thread, which holds no lock yet.
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        Self {
            activity,
            tid: tracer_area::own_tid().unsigned_abs(),
            replies: 0,
            held: None,
            is_over: false,
        }
    }

    /// Holds a lock, if one is free.
    pub(super) fn hold(&mut self) {
        if self.held.is_none() && !self.is_over {
            self.held = [0, 1].into_iter().find(|turn| self.take(*turn));
        }
    }

    /// Releases the thread of the controller that waits for the answer that was sent just now. A
    /// thread that has that answer already, and waits for the next one, goes on waiting.
    pub(super) fn answered(&mut self) {
        let number = number(self.replies);
        self.replies += 1;
        // Between the message and the look: either the recorder sees that the thread waits, or the
        // thread sees the message.
        fence(SeqCst);
        if self.locks().waited_for.load(SeqCst) != number {
            return;
        }
        let Some(held) = self.held.take() else {
            return;
        };
        let other = 1 - held;
        if self.take(other) {
            self.held = Some(other);
        } else {
            // Taking the same lock again could hold up a thread that has the answer.
            self.is_over = true;
        }
        release(self.locks().at(held), self.tid);
    }

    fn take(&self, turn: usize) -> bool {
        let locks = self.locks();
        let taken = locks
            .at(turn)
            .compare_exchange(FREE, self.tid, AcqRel, Relaxed);
        if taken.is_ok() {
            let turn = u32::try_from(turn).unwrap_or(0);
            locks.turn.store(turn, Release);
        }
        taken.is_ok()
    }

    fn locks(&self) -> &Locks {
        self.activity.locks()
    }
}

/// The controller's side.
#[derive(Debug)]
pub(super) struct Lending {
    activity: Arc<Activity>,
    /// The recorder's tid; `None` where no priority can be lent.
    recorder: Option<u32>,
}

impl Lending {
    /// Makes the lending to the recorder with this pid. (It has one thread.)
    pub(super) fn to(recorder: libc::pid_t, activity: Arc<Activity>) -> Self {
        // In a pid namespace of its own, the recorder puts another number into the lock than the
        // kernel knows it by here.
        let is_known = recorder > 0 && has_children_in_its_namespace();
        Self {
            activity,
            recorder: is_known.then_some(recorder.unsigned_abs()),
        }
    }

    /// Waits until there is an answer or the time is over. Returns at once where nothing can be
    /// lent. There were `before` answers before this one.
    ///
    /// # Errors
    ///
    /// Those of `is_answered`.
    pub(super) fn until<E>(
        &self,
        before: u64,
        end: Option<Instant>,
        mut is_answered: impl FnMut() -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(recorder) = self.recorder else {
            return Ok(());
        };
        let locks = self.activity.locks();
        locks.waited_for.store(number(before), SeqCst);
        fence(SeqCst);
        let waited = loop {
            let turn = usize::from(locks.turn.load(Acquire) != 0);
            match is_answered() {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
            let word = locks.at(turn);
            let is_held = word.load(Relaxed) & HOLDER == recorder;
            if !is_held || !wait_for(word, end) {
                break Ok(());
            }
        };
        locks.waited_for.store(0, SeqCst);
        waited
    }
}

/// Waits for a lock, and releases it. Returns whether to look again.
fn wait_for(word: &AtomicU32, end: Option<Instant>) -> bool {
    let error = match end {
        None => futex(word, libc::FUTEX_LOCK_PI, None),
        Some(end) => match end.checked_duration_since(Instant::now()) {
            // This operation waits by the monotonic clock, which cannot be set. Linux before 5.14
            // does not have it.
            Some(left) => futex(word, libc::FUTEX_LOCK_PI2, Some(left)),
            None => return false,
        },
    };
    match error {
        0 => {
            release(word, tracer_area::own_tid().unsigned_abs());
            true
        }
        libc::EINTR | libc::EAGAIN => true,
        // The time is over, the recorder has ended, or the kernel has no such locks.
        _ => false,
    }
}

fn release(word: &AtomicU32, tid: u32) {
    if word.compare_exchange(tid, FREE, AcqRel, Relaxed).is_err() {
        // Threads wait in the kernel. If the kernel refuses, a process has written into the word:
        // the lock lends no more.
        futex(word, libc::FUTEX_UNLOCK_PI, None);
    }
}

/// Calls `futex()`; returns the error number, or 0. The memory of the word is shared, so there is
/// no private flag.
fn futex(word: &AtomicU32, operation: libc::c_int, left: Option<Duration>) -> libc::c_int {
    let end = left.map(tracer_area::lock::monotonic_in);
    let end = end.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word lives as long as it is borrowed; the time is null or valid.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 0, end) };
    if result == 0 {
        return 0;
    }
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Tells whether the processes that the calling thread makes are in its own pid namespace. Where
/// there is no `/proc` that is unknown, and `false`.
fn has_children_in_its_namespace() -> bool {
    let inode = |which| {
        let path = format!("/proc/thread-self/ns/{which}");
        std::fs::metadata(path).map(|found| found.ino()).ok()
    };
    let own = inode("pid");
    own.is_some() && own == inode("pid_for_children")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_let_go_of_once_for_the_reply_that_is_waited_for() {
        let activity = Arc::new(Activity::new().unwrap());
        let mut recorder = Borrowing::new(Arc::clone(&activity));
        let locks = activity.locks();
        recorder.hold();
        assert_eq!(recorder.held, Some(0));
        // The controller has the first reply already, and waits for the second.
        locks.waited_for.store(number(1), SeqCst);
        recorder.answered();
        assert_eq!(recorder.held, Some(0));
        recorder.answered();
        assert_eq!(recorder.held, Some(1));
        assert_eq!(locks.at(0).load(SeqCst), FREE);
        // A lock that the controller leaves taken is the last that is let go of.
        locks.at(0).store(1, SeqCst);
        locks.waited_for.store(number(2), SeqCst);
        recorder.answered();
        recorder.hold();
        assert_eq!(recorder.held, None);
        assert_eq!(locks.at(1).load(SeqCst), FREE);
    }

    #[test]
    fn no_reply_has_the_number_of_none() {
        for before in [0, 1, u64::from(u32::MAX) - 1, u64::from(u32::MAX), u64::MAX] {
            assert_ne!(number(before), 0);
        }
    }
}
