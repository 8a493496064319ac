//! Contents of an area, and their rules: all that emitters and readers have in common.

pub(crate) mod atomics;
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
