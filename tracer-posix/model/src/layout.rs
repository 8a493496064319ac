//! Contents of an area: the library's files, beside the checker's atomics and doubles of mapped
//! memory.

pub(crate) mod atomics;
#[expect(dead_code, reason = "the pool needs more of it than these laws")]
#[path = "../../area/src/layout/chunk.rs"]
pub(crate) mod chunk;
#[expect(dead_code, reason = "readers need more of it than these laws")]
#[path = "../../area/src/layout/identity.rs"]
pub(crate) mod identity;
#[path = "../../area/src/layout/links.rs"]
pub(crate) mod links;
#[expect(dead_code, reason = "readers need more of it than these laws")]
#[path = "../../area/src/layout/pool.rs"]
pub(crate) mod pool;
#[path = "../../area/src/layout/record.rs"]
#[allow(
    dead_code,
    reason = "the restartable sequence needs more of it than these laws"
)]
pub(crate) mod record;
#[path = "../../area/src/layout/states.rs"]
mod states;

// Where the library has what the model has doubles of.
pub(crate) mod mapping {
    pub(crate) use crate::area::doubles::{Parts, release};
}
pub(crate) mod chunk_ref {
    pub(crate) use crate::area::doubles::{ChunkRef, Shape};
}
