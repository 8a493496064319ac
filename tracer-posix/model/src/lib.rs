//! The chunks of `tracer-posix` under a model checker: every order that a few threads'
//! accesses can take, and the values that a weak memory may show.
//!
//! `chunk.rs`, `record.rs`, `links.rs`, `pool.rs`, `states.rs`, `stranded.rs` and `abandoned.rs` are the library's own files; only the
//! atomics are loom's, and the pool lies in a few words (`stand_ins.rs`) in place of mapped memory.
//! What surrounds a chunk in `emitter.rs`, `retire.rs` and `reading.rs` needs mapped memory and system calls, and is told again in `threads.rs` in a
//! few lines each, as is what surrounds the pool in `thread.rs`, in `killed_laws.rs`.
//!
//! What the model leaves out:
//!
//! - Orders with more than three switches between threads that a thread did not ask for: there are
//!   too many. Where a reader looks for what killed threads have left it is one switch, and a part of the orders with that.
//! - `membarrier()` and the compiler's fence, which it pairs with, are two full fences here.
//! - The cycle counter is a counter that all threads read and advance in one order.
//! - The restartable sequence, which the processor and the kernel execute: `sequence.rs` does in assembly what
//!   `Chunk::write` does here.
//! - A hostile process, and one that dies amid a record. Amid a change of the pool it may die before any of its stores.
//! - What the kernel says of threads: one that is gone has done all that it did.

mod area {
    #[path = "../../../src/area/abandoned.rs"]
    mod abandoned;
    mod atomics;
    #[expect(dead_code, reason = "the pool needs more of it than these laws")]
    #[path = "../../../src/area/chunk.rs"]
    mod chunk;
    #[expect(dead_code, reason = "readers need more of it than these laws")]
    #[path = "../../../src/area/identity.rs"]
    mod identity;
    mod killed;
    pub(super) mod killed_laws;
    pub(super) mod laws;
    #[path = "../../../src/area/links.rs"]
    mod links;
    pub(super) mod list_laws;
    #[expect(dead_code, reason = "readers need more of it than these laws")]
    #[path = "../../../src/area/pool.rs"]
    mod pool;
    #[path = "../../../src/area/record.rs"]
    #[allow(
        dead_code,
        reason = "the restartable sequence needs more of it than these laws"
    )]
    mod record;
    mod stand_ins;
    #[path = "../../../src/area/states.rs"]
    mod states;
    #[path = "../../../src/area/stranded.rs"]
    mod stranded;
    mod threads;

    // Where the library has what the model stands in for.
    mod alive {
        /// The pid namespace of the stream's reader and of all threads.
        pub(in crate::area) fn own_pid_namespace() -> u64 {
            u64::from(super::killed_laws::HERE)
        }
    }
    mod liveness {
        pub(in crate::area) use super::killed::is_gone;
    }
    mod look {
        pub(in crate::area) use super::stand_ins::Slice;
    }
    mod mapping {
        pub(in crate::area) use super::stand_ins::{Parts, release};
    }
    mod place {
        pub(in crate::area) use super::stand_ins::{Place, Shape};
    }
    mod reader_windows {
        pub(in crate::area) use super::stand_ins::AreaWindows;
    }
    mod slot {
        pub(in crate::area) use super::atomics::barrier;
    }
}

pub use area::killed_laws::{
    alive_while_the_reader_looks, handed_on_while_the_reader_looks, killed_before_the_reader_looks,
    killed_while_the_reader_looks,
};
pub use area::laws::{
    a_chunk_that_is_taken_again, a_reader_beside_a_writer, a_stream_taken_away, a_watermark,
};
pub use area::list_laws::{
    a_chunk_that_is_closed_again, a_last_chunk_that_has_gone_elsewhere, a_queue_of_closed_chunks,
    a_stack_of_ended_chunks, an_oldest_chunk_that_has_gone_elsewhere,
    an_only_chunk_that_is_closed_again,
};
