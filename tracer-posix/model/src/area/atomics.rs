//! What a ring is made of here: the model checker's atomics, and an entry with the fields that the
//! files under test use.

use loom::sync::atomic::{AtomicI32, AtomicU32};
use std::sync::atomic::Ordering;

pub(super) use loom::sync::atomic::{AtomicU64, fence};

use super::hands;

/// One half of an asymmetric fence: the compiler keeps the order, and the other side's
/// `membarrier()` makes the processor keep it. The pair orders what two full fences order.
pub(super) fn compiler_fence(ordering: Ordering) {
    fence(ordering);
}

/// The other half: `membarrier()`.
pub(super) fn barrier() {
    fence(Ordering::SeqCst);
}

/// `tracer_common::area::RingEntry`.
pub(super) struct RingEntry {
    pub(super) begun: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) head: AtomicU64,
    pub(super) tail: AtomicU64,
    pub(super) consumed: AtomicU64,
    pub(super) state: AtomicU64,
    pub(super) data_bytes: AtomicU32,
    pub(super) tid: AtomicI32,
}

impl RingEntry {
    /// A ring that `tid` emits into, for the stream of this generation.
    pub(super) fn live(generation: u32, tid: i32, data_bytes: u32) -> Self {
        let zero = || AtomicU64::new(0);
        let live = tracer_common::area::ring_state::LIVE;
        Self {
            begun: AtomicU64::new(hands::before_first(generation)),
            ended: AtomicU64::new(hands::before_first(generation)),
            head: zero(),
            tail: zero(),
            consumed: zero(),
            state: AtomicU64::new(tracer_common::area::ring_state::word(generation, live)),
            data_bytes: AtomicU32::new(data_bytes),
            tid: AtomicI32::new(tid),
        }
    }
}
