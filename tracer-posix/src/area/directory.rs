//! The directory of rings: claiming one for a thread, taking them back.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use tracer_common::area::{
    DATA_OFFSET, MAX_RING_BYTES, MIN_RING_BYTES, RING_SLOTS, RingEntry, ring_state,
};

use super::mapping::{AREA_BYTES, Parts};

/// A ring that is the caller's to fill in and make live.
pub(super) struct Claimed<'a> {
    pub(super) entry: &'a RingEntry,
    pub(super) data_offset: u64,
    pub(super) data_bytes: u32,
}

/// The state in a ring entry's word.
pub(super) fn state_of(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

/// The generation in a ring entry's word.
pub(super) fn generation_of(word: u64) -> u32 {
    u32::try_from(word >> 32).unwrap_or(0)
}

/// Moves an entry from one state to another in the same generation; `false` where it has changed
/// hands or state meanwhile.
pub(super) fn change(entry: &RingEntry, generation: u32, from: u32, to: u32) -> bool {
    let (from, to) = (
        ring_state::word(generation, from),
        ring_state::word(generation, to),
    );
    entry
        .state
        .compare_exchange(from, to, AcqRel, Relaxed)
        .is_ok()
}

/// Claims a free ring with `wanted` bytes of data, or a new one. `None` when all entries or all
/// bytes of the area are in use, or `wanted` is no size that a ring can have.
pub(super) fn claim(parts: Parts<'_>, generation: u32, wanted: u32) -> Option<Claimed<'_>> {
    if !is_ring_size(wanted) {
        return None;
    }
    free_ring(parts, generation, wanted).or_else(|| new_ring(parts, generation, wanted))
}

/// Whether a ring can have this many bytes of data.
pub(super) fn is_ring_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (MIN_RING_BYTES..=MAX_RING_BYTES).contains(&bytes)
}

/// Entries that were ever used.
pub(super) fn used(parts: Parts<'_>) -> impl Iterator<Item = (usize, &RingEntry)> {
    let untrusted_count = parts.header().ring_count.load(Acquire);
    let count = usize::try_from(untrusted_count)
        .unwrap_or(usize::MAX)
        .min(RING_SLOTS);
    (0..count).filter_map(move |index| Some((index, parts.ring(index)?)))
}

fn free_ring(parts: Parts<'_>, generation: u32, wanted: u32) -> Option<Claimed<'_>> {
    used(parts).find_map(|(_, entry)| {
        let word = entry.state.load(Acquire);
        let is_free = state_of(word) == ring_state::FREE;
        if !is_free || entry.data_bytes.load(Relaxed) != wanted {
            return None;
        }
        let mine = ring_state::word(generation, ring_state::CLAIMED);
        entry
            .state
            .compare_exchange(word, mine, AcqRel, Relaxed)
            .ok()?;
        if generation_of(word) != generation {
            restart(entry);
        }
        let data_offset = entry.data_offset.load(Relaxed);
        Some(Claimed {
            entry,
            data_offset,
            data_bytes: wanted,
        })
    })
}

/// A ring of another stream's begins anew. One of the same stream's goes on: its reader counts.
fn restart(entry: &RingEntry) {
    for position in [
        &entry.begun,
        &entry.ended,
        &entry.head,
        &entry.tail,
        &entry.consumed,
    ] {
        position.store(0, Relaxed);
    }
}

fn new_ring(parts: Parts<'_>, generation: u32, wanted: u32) -> Option<Claimed<'_>> {
    let header = parts.header();
    let index = header
        .ring_count
        .fetch_update(AcqRel, Acquire, |count| {
            (usize::try_from(count).ok()? < RING_SLOTS).then_some(count + 1)
        })
        .ok()?;
    let entry = parts.ring(usize::try_from(index).ok()?)?;
    entry
        .state
        .store(ring_state::word(generation, ring_state::CLAIMED), Relaxed);
    let end = |begin: u64| {
        begin
            .checked_add(u64::from(wanted))
            .filter(|&end| end <= AREA_BYTES as u64)
    };
    let data_offset = header.data_end.fetch_update(AcqRel, Acquire, end).ok()?;
    if data_offset < DATA_OFFSET as u64 || !data_offset.is_multiple_of(u64::from(MIN_RING_BYTES)) {
        return None;
    }
    entry.data_offset.store(data_offset, Relaxed);
    entry.data_bytes.store(wanted, Relaxed);
    Some(Claimed {
        entry,
        data_offset,
        data_bytes: wanted,
    })
}
