//! The chunks of `tracer-posix` under a model checker: every order that a few threads'
//! accesses can take, and the values that a weak memory may show.
//!
//! `chunk.rs`, `record.rs`, `links.rs`, `pool.rs`, `states.rs`, `stranded.rs` and `abandoned.rs`
//! are the library's own files; only the atomics are loom's, and the pool lies in a few words
//! (`doubles.rs`) instead of mapped memory. What surrounds a chunk in `emitter.rs`, `retire.rs` and
//! `reading.rs` needs mapped memory and system calls, and is written again in `threads.rs` in a few
//! lines each, as is what surrounds the pool in `thread.rs`, in `killed_laws.rs`.
//!
//! Left out of the model are:
//!
//! - Orders with more than three switches between threads that a thread did not ask for: there are
//!   too many. Where a reader looks for what killed threads have left it is one switch, and a part
//!   of the orders with that; and, with what was stored last, those that `interrupted_laws.rs`
//!   says.
//! - `membarrier()` and the compiler's fence, which it pairs with, are two full fences here.
//! - The cycle counter is a counter that all threads read and advance in one order.
//! - The restartable sequence, which the processor and the kernel execute: `sequence.rs` does in
//!   assembly what `Chunk::write` does here.
//! - A hostile process, and one that dies amid a record. Amid a change of the pool it may die
//!   before any of its stores.
//! - What the kernel says of threads: one that is gone has done all that it did.
//!
//! A law that cannot fail says nothing. These are faults that were put into the search for what
//! dead threads have left, each alone, and a law that each has made fail:
//!
//! | Fault | Law |
//! |-|-|
//! | no second note | `alive_while_the_reader_looks` |
//! | no first wait | `alive_while_the_reader_looks` |
//! | no second wait | `stopped_while_the_reader_looks` |
//! | entries noted before the lists | `stopped_while_the_reader_looks` |
//! | a chunk's link, or its state, not compared | `stopped_while_the_reader_looks` |
//! | a chain's link not compared, or not changed where its chunk is closed | `amid_a_change_at_each_look` |
//! | the note of a chunk not compared again at the end | `stopped_while_the_reader_looks` |
//! | that of a chain not compared again | `moved_while_the_reader_looks` |
//! | that of a chain compared before chains in use are looked for | `moved_while_the_reader_looks` |
//! | chains in use not looked for again | `stopped_while_the_reader_looks` |
//! | the chain of a chunk that is open, or has ended, taken for free | `alive_while_the_reader_looks` |
//! | one of the lists not looked at | `killed_while_the_reader_looks` |
//! | a list that changes taken as it is | `a_list_that_changes_under_the_reader` |
//! | an open chunk, or one that was never handed out, noted | `alive_while_the_reader_looks` |
//! | a chunk put into another list than one of its state | `killed_before_the_reader_looks` |
//! | how often an entry was left not compared, or not counted | `found_amid_changes_of_others` |
//! | an entry given away before that is counted | `entered_where_another_one_leaves` |
//! | the fence at the entry left out | `entered_while_the_stream_ends` |
//! | what has died meanwhile, or was noted in vain, forgotten | `killed_while_the_reader_looks`, `looked_for_in_vain` |
//! | [`LEFT_FOR_GOOD`](tracer_common::area::LEFT_FOR_GOOD) not taken for dead | `left_for_good` |
//! | a living thread taken for gone | `alive_while_the_reader_looks` |
//! | links pointed without a count | `moved_while_the_reader_looks` |
//! | an abandoned chunk not looked at again | `gone_on_with_while_the_reader_looks` |
//! | its thread's namespace, or program, not compared | `whose_chunks_are_abandoned` |
//!
//! Not noticed, since others make up for it: each of the two looks at an abandoned chunk and the
//! count of changes between them, one at a time; and the barrier before entries are noted, as a
//! thread that sees that something was taken sees the entry of the thread that took it.

mod area {
    pub(crate) mod doubles;
    pub(super) mod interrupted_laws;
    pub(crate) mod killed;
    pub(super) mod killed_laws;
    pub(super) mod laws;
    pub(super) mod list_laws;
    mod threads;
}
mod layout;
mod read;

// Where the library has what the model has doubles of.
mod discover {
    pub(crate) mod liveness {
        pub(crate) use crate::area::killed::is_gone;
    }
    pub(crate) mod reader_windows {
        pub(crate) use crate::area::doubles::AreaWindows;
    }
}
mod system {
    pub(crate) mod pids {
        /// Returns the pid namespace of the stream's reader and of all threads.
        pub(crate) fn own_pid_namespace() -> u64 {
            u64::from(crate::area::doubles::HERE)
        }
    }
    pub(crate) mod thread {
        pub(crate) use crate::layout::atomics::barrier as membarrier;
    }
}

pub use area::interrupted_laws::{
    a_list_that_changes_under_the_reader, amid_a_change_at_each_look,
    entered_where_another_one_leaves, entered_while_the_stream_ends, found_amid_changes_of_others,
    gone_on_with_while_the_reader_looks, left_for_good, looked_for_in_vain,
    moved_while_the_reader_looks, stopped_while_the_reader_looks, whose_chunks_are_abandoned,
};
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
