//! Locks that threads wait for, and who has them.
//!
//! The kernel's part reads the memory around the futex as a wait begins; the layouts of C libraries
//! say whose lock it is then ([`layouts`](crate::layouts)). What is said of a lock:
//!
//! - its owner, where a layout fits in each part and the owner is a thread of the process, by the
//!   process's own numbers;
//! - of a lock that processes share, an owner in another process only where that process has waited
//!   for a lock at that address too, or that thread ends the wait;
//! - else that nothing is known.

mod table;
mod totals;

pub use table::{KnownThreads, LockKey, LockTable, LockType, WaitedLock, recorded_lock};
pub use totals::{HolderTotal, LockRelation, LockTotal, LockTotals, RelationTotal};
