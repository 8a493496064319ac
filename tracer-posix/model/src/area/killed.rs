//! Threads that are killed: they stop for good before a change of memory, and who asks for them
//! gets to know that they are gone. And threads that are interrupted: another one does something
//! between two of their accesses.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use loom::sync::atomic::AtomicU64;

loom::thread_local! {
    /// The access before which this thread is stopped; `None` where it is not going to be stopped.
    static END: Cell<Option<Before>> = Cell::new(None);
    static INTERRUPTION: RefCell<Option<Interruption>> = RefCell::new(None);
}

loom::lazy_static! {
    /// The threads that are gone, by their tids: a bit for each.
    static ref GONE: AtomicU64 = AtomicU64::new(0);
}

/// Payload of the panic that unwinds a thread that is stopped. No code of the library runs
/// meanwhile: no type of it has a destructor.
struct Stopped;

/// An act that comes in between, and its place.
pub(super) struct Interruption {
    before: Before,
    act: Box<dyn FnOnce()>,
}

/// Before which of a thread's accesses: the one after so many of its kind.
#[derive(Clone, Copy)]
pub(super) enum Before {
    Access(usize),
    Change(usize),
    /// A change that may fail, or of a word that others change as well.
    Exchange(usize),
}

/// Kind of an access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Load,
    Store,
    Exchange,
}

impl Before {
    /// Counts an access of this kind. Returns whether it is the one.
    fn is_now(&mut self, kind: Kind) -> bool {
        let (left, least) = match self {
            Self::Access(left) => (left, Kind::Load),
            Self::Change(left) => (left, Kind::Store),
            Self::Exchange(left) => (left, Kind::Exchange),
        };
        if kind < least {
            return false;
        }
        let is_now = *left == 0;
        *left = left.saturating_sub(1);
        is_now
    }
}

/// Runs what a thread does, which is stopped amid it. Returns whether it was.
pub(super) fn stopped(before: Before, act: impl FnOnce()) -> bool {
    END.with(|end| end.set(Some(before)));
    let result = catch_unwind(AssertUnwindSafe(act));
    END.with(|end| end.set(None));
    match result {
        Ok(()) => false,
        Err(cause) if cause.is::<Stopped>() => true,
        Err(cause) => resume_unwind(cause),
    }
}

/// Runs what thread `tid` does, which is killed after so many changes, or when it is done. Returns
/// whether it was before.
pub(super) fn after(changes: usize, tid: i32, act: impl FnOnce()) -> bool {
    let was_killed = stopped(Before::Change(changes), act);
    end(tid);
    was_killed
}

/// Notes that the thread is gone.
pub(super) fn end(tid: i32) {
    // Who learns from the kernel that a thread is gone sees all that it did.
    GONE.fetch_or(1 << tid, AcqRel);
}

/// Makes all threads live again.
pub(super) fn begin() {
    GONE.store(0, Release);
}

/// Runs `act`, and `by` amid it. Returns whether it came to that.
pub(super) fn interrupted(before: Before, by: impl FnOnce() + 'static, act: impl FnOnce()) -> bool {
    let outer = interrupt(before, by);
    act();
    INTERRUPTION.with(|now| now.replace(outer)).is_none()
}

/// Interrupts what is being done with this. Returns what was to come instead.
pub(super) fn interrupt(before: Before, by: impl FnOnce() + 'static) -> Option<Interruption> {
    let act = Box::new(by);
    INTERRUPTION.with(|now| now.replace(Some(Interruption { before, act })))
}

/// Stops or interrupts the thread where that is due; called before each access.
pub(crate) fn access(kind: Kind) {
    let due = INTERRUPTION.with(|interruption| {
        let mut interruption = interruption.borrow_mut();
        let is_now = interruption.as_mut()?.before.is_now(kind);
        is_now.then(|| interruption.take()).flatten()
    });
    if let Some(due) = due {
        let end = END.with(Cell::take);
        (due.act)();
        END.with(|now| now.set(end));
    }
    let is_over = END.with(|end| {
        let mut now = end.get();
        let is_over = now.as_mut().is_some_and(|now| now.is_now(kind));
        end.set(now.filter(|_| !is_over));
        is_over
    });
    if is_over {
        resume_unwind(Box::new(Stopped));
    }
}

/// Returns the kernel's answer (`liveness::is_gone`).
pub(crate) fn is_gone(tid: i32) -> bool {
    access(Kind::Load);
    GONE.load(Acquire) & 1 << tid != 0
}
