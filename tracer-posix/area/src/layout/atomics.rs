//! The atomics that chunks, lists and pools are made of. The model checker's crate (`area-model`)
//! has a module of this name with the checker's own.

pub(super) use std::sync::atomic::{AtomicU64, compiler_fence, fence};

pub(crate) use tracer_common::area::{EnteringEntry, StreamControl};
