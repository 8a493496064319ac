//! The map `VISIBLE`: which guarded processes could be looked into when they were last judged.

use std::sync::atomic::Ordering;

use tracer_common::kernel::VISIBLE_SLOTS;

use super::loading::usize_of;
use super::mapping::MapMemory;

/// The map, a word a slot.
#[derive(Debug)]
pub struct VisibleMap(MapMemory);

impl VisibleMap {
    /// Wraps the mapped map.
    pub fn new(slots: MapMemory) -> Self {
        Self(slots)
    }

    /// Notes that process `pid` could be looked into just now, by its pid in the first pid
    /// namespace.
    pub fn note(&self, pid: usize) {
        let slot = pid % usize_of(VISIBLE_SLOTS);
        if let (Some(word), Ok(pid)) = (self.0.word(slot * size_of::<u64>()), u64::try_from(pid)) {
            word.store(pid, Ordering::Relaxed);
        }
    }
}
