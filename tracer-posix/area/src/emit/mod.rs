//! This process as a target: its trace points, its threads, and the area that they emit into.

#[doc(hidden)]
pub mod emitter;
#[doc(hidden)]
pub mod enabled;
pub(crate) mod in_hand;
pub(crate) mod inherited;
#[doc(hidden)]
pub mod lock;
pub(crate) mod own_types;
#[doc(hidden)]
pub mod prefault;
pub(crate) mod process;
pub(crate) mod resident;
pub(crate) mod sequence;
mod site;
pub(crate) mod start;
pub(crate) mod thread;
pub(crate) mod tls;
pub(crate) mod windows;
