//! Events of guarded processes that were not recorded, by process.

use std::sync::atomic::Ordering;

use tracer_common::kernel::WITHHELD_SLOTS;

use super::loading::usize_of;
use super::losses::LostByCpu;
use super::mapping::MapMemory;

/// Events that were withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The process; `None` where it is not known.
    pub pid: Option<i32>,
    /// Number of them.
    pub count: u64,
}

/// The map `WITHHELD`, and the part of it that was reported.
#[derive(Debug)]
pub struct WithheldMap {
    slots: MapMemory,
    /// Number of all that were reported.
    reported: u64,
}

impl WithheldMap {
    /// Bytes of the map.
    pub const BYTES: usize = WITHHELD_SLOTS as usize * Self::SLOT;

    /// Bytes of a slot: the process and the count.
    const SLOT: usize = 2 * size_of::<u64>();

    /// Wraps the mapped map.
    pub fn new(slots: MapMemory) -> Self {
        Self { slots, reported: 0 }
    }

    /// Takes the events that were withheld since the last call, by process. `all` has their total:
    /// where two processes need the same slot, the events of the second one are counted only there,
    /// and their process is not known.
    pub fn take(&mut self, all: &LostByCpu) -> Vec<Withheld> {
        // The total is read first: the programs count an event in its slot before they count it
        // there. So an event that is counted meanwhile may be taken from its slot now, and is known
        // to be reported the next time.
        let so_far = all.withheld();
        if so_far == self.reported {
            return Vec::new();
        }
        let mut taken: Vec<_> = (0..usize_of(WITHHELD_SLOTS))
            .filter_map(|slot| self.take_slot(slot * Self::SLOT))
            .collect();
        let known: u64 = taken.iter().map(|one| one.count).sum();
        self.reported = self.reported.saturating_add(known);
        let count = so_far.saturating_sub(self.reported);
        if count > 0 {
            self.reported = so_far;
            taken.push(Withheld { pid: None, count });
        }
        taken
    }

    fn take_slot(&self, at: usize) -> Option<Withheld> {
        let holder = self.slots.word(at)?;
        let count = self.slots.word(at + size_of::<u64>())?;
        let pid = holder.load(Ordering::Relaxed);
        if count.load(Ordering::Relaxed) == 0 {
            if pid != 0 {
                // Another process may have the slot from now on.
                holder.store(0, Ordering::Relaxed);
            }
            return None;
        }
        Some(Withheld {
            pid: i32::try_from(pid).ok().filter(|pid| *pid > 0),
            count: count.swap(0, Ordering::Relaxed),
        })
    }
}
