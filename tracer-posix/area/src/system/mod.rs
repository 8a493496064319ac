//! Questions to the kernel and the C library, and descriptors of this library. This module knows
//! nothing of areas.

#[doc(hidden)]
pub mod descriptor;
pub(crate) mod errno;
pub(crate) mod pids;
#[doc(hidden)]
pub mod proc_stat;
#[doc(hidden)]
pub mod reserve;
pub(crate) mod scheduling;
pub(crate) mod thread;
