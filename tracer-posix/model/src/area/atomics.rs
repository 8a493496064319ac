//! What chunks and lists are made of here: the model checker's atomics.

use std::sync::atomic::Ordering;

pub(super) use loom::sync::atomic::{AtomicU64, fence};

/// One half of an asymmetric fence: the compiler keeps the order, and the other side's
/// `membarrier()` makes the processor keep it. The pair orders what two full fences order.
pub(super) fn compiler_fence(ordering: Ordering) {
    fence(ordering);
}

/// The other half: `membarrier()`.
pub(super) fn barrier() {
    fence(Ordering::SeqCst);
}
