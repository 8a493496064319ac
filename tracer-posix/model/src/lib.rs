//! The thread ring of `tracer-posix` under a model checker: every order that a few threads'
//! accesses can take, and the values that a weak memory may show.
//!
//! `ring.rs`, `record.rs` and `hands.rs` are the library's own files; only the atomics are loom's.
//! What surrounds them in `emitter.rs`, `thread.rs`, `slot.rs` and `source.rs` needs mapped memory
//! and system calls, and is told again in `threads.rs` in a few lines each.
//!
//! What the model leaves out:
//!
//! - Orders with more than three switches between threads that a thread did not ask for: there are
//!   too many. Two have shown every weakness named below.
//! - A load that shows a store which comes later in time. Processors may do so for relaxed accesses;
//!   loom runs threads in turns. So it does not see that the reader's position has to be published
//!   as a release, and read as an acquire, for the writer not to write into what is still read.
//! - `membarrier()` and the compiler's fence, which it pairs with, are two full fences here.
//! - The cycle counter is a counter that all threads read and advance in one order.
//! - A hostile process, and one that dies between the marks.
//!
//! Each law was seen to fail when the files were weakened:
//!
//! | what was weakened | by which law it was seen |
//! |---|---|
//! | the release fence after the tail was moved, the acquire fence after a record was copied, the second look at the tail, the tail itself | whole records (overwriting) |
//! | room counted without what was read | whole records (keeping the oldest) |
//! | a refusal not counted, an attempt counted that was abandoned, `lost_before` by one, the head looked at before the attempts | the counts |
//! | head or attempts stored or loaded as relaxed, attempts stored before the head | the watermark, and the counts |
//! | no mark, no fence after it, the clock read before it, no look at it, no barrier, the clock read after the barrier | the watermark |
//! | no new beginning for another stream, one for the same stream, the attempts begun anew, a ring taken over without an acquire, freed whatever its state was | a ring that changes hands |
//! | no look at the marks, no barrier, no look at the generation under the mark, or one before it, the same numbers of attempts for each stream | a stream taken away |

mod area {
    mod atomics;
    #[path = "../../../src/area/hands.rs"]
    mod hands;
    pub(super) mod laws;
    #[path = "../../../src/area/record.rs"]
    mod record;
    #[expect(dead_code, reason = "the ring's users need more of it than these laws")]
    #[path = "../../../src/area/ring.rs"]
    mod ring;
    mod threads;
}

pub use area::laws::{
    a_reader_beside_a_writer, a_ring_that_changes_hands, a_stream_taken_away, a_watermark,
};
