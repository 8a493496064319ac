//! The atomics that chunks, lists and pools are made of here: the model checker's, at any of whose
//! changes a thread may be killed.

use std::sync::atomic::Ordering;

pub(crate) use loom::sync::atomic::fence;

pub(crate) use crate::area::doubles::{EnteringEntry, StreamControl};
use crate::area::killed::{self, Kind};

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        /// The model checker's.
        #[derive(Debug)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code, reason = "not each is needed of each width")]
        impl $name {
            pub(crate) fn new(value: $int) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $int {
                killed::access(Kind::Load);
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $int, order: Ordering) {
                killed::access(Kind::Store);
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: $int, order: Ordering) -> $int {
                killed::access(Kind::Exchange);
                self.0.swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                killed::access(Kind::Exchange);
                self.0.compare_exchange(current, new, success, failure)
            }

            pub(crate) fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                killed::access(Kind::Exchange);
                self.0.fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                killed::access(Kind::Exchange);
                self.0.fetch_sub(value, order)
            }

            pub(crate) fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                killed::access(Kind::Exchange);
                self.0.fetch_max(value, order)
            }

            pub(crate) fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                update: impl FnMut($int) -> Option<$int>,
            ) -> Result<$int, $int> {
                killed::access(Kind::Exchange);
                self.0.fetch_update(set_order, fetch_order, update)
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

/// One half of an asymmetric fence: the compiler keeps the order, and the other side's
/// `membarrier()` makes the processor keep it. The pair orders what two full fences order.
pub(crate) fn compiler_fence(ordering: Ordering) {
    fence(ordering);
}

/// The other half: `membarrier()`.
pub(crate) fn barrier() {
    fence(Ordering::SeqCst);
}
