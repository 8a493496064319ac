//! State of a chunk in its header, and how it changes.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use tracer_common::area::chunk_state;

use super::chunk_ref::ChunkRef;

impl ChunkRef<'_> {
    /// Returns the number of events of the chunk's chain up to the chunk's end, those refused
    /// included.
    pub(super) fn events_of_chain(&self) -> u64 {
        let events = self.chunk().map_or(0, |chunk| chunk.head().events());
        let refused = self.header.refused.load(Relaxed);
        let first = self.header.first.load(Relaxed);
        first.wrapping_add(events).wrapping_add(refused)
    }

    /// Changes the chunk's state, if it is `from`.
    pub(super) fn change(&self, generation: u32, from: u32, to: u32) -> bool {
        let word = self.header.state.load(Acquire);
        let turn = chunk_state::turn_of(word);
        let (from, to) = (
            chunk_state::word(generation, turn, from),
            chunk_state::word(generation, turn, to),
        );
        let state = &self.header.state;
        state.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }
}
