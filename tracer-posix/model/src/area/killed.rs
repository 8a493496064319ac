//! Threads that are killed: they stop for good before a change of memory, and who asks for them is told that they are gone.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use loom::sync::atomic::AtomicU64;

loom::thread_local! {
    /// Changes that this thread may still make; `None` where nobody is going to kill it.
    static LEFT: Cell<Option<usize>> = Cell::new(None);
}

loom::lazy_static! {
    /// The threads that are gone, by their numbers: a bit for each.
    static ref GONE: AtomicU64 = AtomicU64::new(0);
}

/// What unwinds a thread that is killed. Nothing of the library is done meanwhile: none of it has a destructor.
struct Killed;

/// Runs what thread `tid` does, which is killed after so many changes, or when it is done. Whether it was before.
pub(super) fn after(changes: usize, tid: i32, act: impl FnOnce()) -> bool {
    LEFT.with(|left| left.set(Some(changes)));
    let result = catch_unwind(AssertUnwindSafe(act));
    LEFT.with(|left| left.set(None));
    let was_killed = match result {
        Ok(()) => false,
        Err(cause) if cause.is::<Killed>() => true,
        Err(cause) => resume_unwind(cause),
    };
    // Who learns from the kernel that a thread is gone sees all that it did.
    GONE.fetch_or(1 << tid, AcqRel);
    was_killed
}

/// Before each change that a thread makes.
pub(super) fn step() {
    let is_over = LEFT.with(|left| {
        let now = left.get();
        left.set(now.map(|now| now.saturating_sub(1)));
        now == Some(0)
    });
    if is_over {
        LEFT.with(|left| left.set(None));
        resume_unwind(Box::new(Killed));
    }
}

/// The kernel's answer (`liveness::is_gone`).
pub(super) fn is_gone(tid: i32) -> bool {
    GONE.load(Acquire) & 1 << tid != 0
}
