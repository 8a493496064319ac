//! The end of a source whose area is no longer used.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A handle that lets a source end, for code that knows whether its area is still used.
#[derive(Clone, Debug, Default)]
pub struct Retirement(Arc<State>);

#[derive(Debug, Default)]
struct State {
    may_end: AtomicBool,
    has_ended: AtomicBool,
}

impl Retirement {
    /// Says whether the source may end. It does once it has brought nothing for a second; while
    /// events still come, it goes on.
    pub fn allow(&self, may_end: bool) {
        self.0.may_end.store(may_end, Relaxed);
    }

    /// Tells whether the source may end.
    pub(super) fn is_allowed(&self) -> bool {
        self.0.may_end.load(Relaxed)
    }

    /// Notes that the source has ended.
    pub(super) fn end(&self) {
        self.0.has_ended.store(true, Relaxed);
    }

    /// Tells whether the source has ended: it will bring nothing again, whatever is allowed now.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended.load(Relaxed)
    }
}
