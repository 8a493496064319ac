//! What chunks, lists and pools are made of here: the model checker's atomics, at any of whose changes a thread may be killed.

use std::sync::atomic::Ordering;

pub(crate) use loom::sync::atomic::fence;

use crate::area::killed::{self, Kind};
pub(crate) use crate::area::stand_ins::{EnteringEntry, StreamControl};

macro_rules! atomic {
    ($name:ident, $number:ty) => {
        /// The model checker's.
        #[derive(Debug)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code, reason = "not each is needed of each width")]
        impl $name {
            pub(crate) fn new(value: $number) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $number {
                killed::access(Kind::Load);
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $number, order: Ordering) {
                killed::access(Kind::Store);
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: $number, order: Ordering) -> $number {
                killed::access(Kind::Exchange);
                self.0.swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                killed::access(Kind::Exchange);
                self.0.compare_exchange(current, new, success, failure)
            }

            pub(crate) fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                killed::access(Kind::Exchange);
                self.0.fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $number, order: Ordering) -> $number {
                killed::access(Kind::Exchange);
                self.0.fetch_sub(value, order)
            }

            pub(crate) fn fetch_max(&self, value: $number, order: Ordering) -> $number {
                killed::access(Kind::Exchange);
                self.0.fetch_max(value, order)
            }

            pub(crate) fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                update: impl FnMut($number) -> Option<$number>,
            ) -> Result<$number, $number> {
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
