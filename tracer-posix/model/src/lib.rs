//! The chunks of `tracer-posix` under a model checker: every order that a few threads'
//! accesses can take, and the values that a weak memory may show.
//!
//! `chunk.rs`, `record.rs` and `links.rs` are the library's own files; only the atomics are loom's.
//! What surrounds them in `emitter.rs`, `pool.rs`, `retire.rs` and `reading.rs` needs mapped memory
//! and system calls, and is told again in `threads.rs` in a few lines each.
//!
//! What the model leaves out:
//!
//! - Orders with more than three switches between threads that a thread did not ask for: there are
//!   too many.
//! - `membarrier()` and the compiler's fence, which it pairs with, are two full fences here.
//! - The cycle counter is a counter that all threads read and advance in one order.
//! - The restartable sequence, which the processor and the kernel execute: `sequence.rs` does in assembly what
//!   `Chunk::write` does here.
//! - A hostile process, and one that dies amid a record.

mod area {
    mod atomics;
    #[expect(dead_code, reason = "the pool needs more of it than these laws")]
    #[path = "../../../src/area/chunk.rs"]
    mod chunk;
    pub(super) mod laws;
    #[path = "../../../src/area/links.rs"]
    mod links;
    pub(super) mod list_laws;
    #[path = "../../../src/area/record.rs"]
    #[allow(
        dead_code,
        reason = "the restartable sequence needs more of it than these laws"
    )]
    mod record;
    mod threads;
}

pub use area::laws::{
    a_chunk_that_is_taken_again, a_reader_beside_a_writer, a_stream_taken_away, a_watermark,
};
pub use area::list_laws::{
    a_chunk_that_is_closed_again, a_last_chunk_that_has_gone_elsewhere, a_queue_of_closed_chunks,
    a_stack_of_ended_chunks, an_oldest_chunk_that_has_gone_elsewhere,
    an_only_chunk_that_is_closed_again,
};
