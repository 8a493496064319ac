//! Contents of an area, and their rules: all that emitters and readers have in common.

pub(crate) mod chunk;
pub(crate) mod chunk_ref;
pub(crate) mod file;
pub(crate) mod gate;
pub(crate) mod identity;
pub(crate) mod links;
pub(crate) mod mapping;
pub(crate) mod names;
pub(crate) mod overcommit;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod states;
pub(crate) mod ticks;
pub(crate) mod wake;

/// The atomics that chunks, lists and pools are made of. The model checker's crate (`area-model`)
/// has a module of this name with the checker's own.
pub(crate) mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, compiler_fence, fence};

    pub(crate) use tracer_common::area::{EnteringEntry, StreamControl};
}
