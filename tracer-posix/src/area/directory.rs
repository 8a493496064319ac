//! The directory of rings: claiming one for a thread, taking them back.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use tracer_common::area::{
    DATA_OFFSET, MAX_RING_BYTES, MIN_RING_BYTES, RING_SLOTS, RingEntry, ring_state,
};

use super::hands;
pub(super) use super::hands::change;
use super::mapping::{AREA_BYTES, Parts};

/// A ring that is the caller's to fill in and make live.
pub(super) struct Claimed<'a> {
    pub(super) entry: &'a RingEntry,
    pub(super) data_offset: u64,
    pub(super) data_bytes: u32,
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
    let (_, entry) = used(parts).find(|(_, entry)| hands::take(entry, generation, wanted))?;
    Some(Claimed {
        entry,
        data_offset: entry.data_offset.load(Relaxed),
        data_bytes: wanted,
    })
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
    hands::restart(entry, generation);
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
