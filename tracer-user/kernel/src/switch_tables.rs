//! Notes of the programs at switches for later ones.

use std::sync::atomic::Ordering;

use tracer_common::kernel::Running;

use super::mapping::MapMemory;

/// Tables of the programs at switches: which thread has each CPU, which wait for one, who has woken
/// them, and who has sent the packets by which others are woken.
pub struct SwitchTables {
    running: MapMemory,
    /// The others, each with the size of an entry, whose first word is 0 where nothing is noted.
    notes: Vec<(MapMemory, usize)>,
}

impl SwitchTables {
    pub(super) fn new(running: MapMemory, notes: Vec<(MapMemory, usize)>) -> Self {
        Self { running, notes }
    }

    /// Forgets which threads have CPUs: the programs do not see when they leave these.
    pub fn forget_running(&self) {
        clear(&self.running, size_of::<Running>());
    }

    /// Forgets all that is noted: the programs have not seen what came after it.
    pub fn forget(&self) {
        self.forget_running();
        for (map, entry) in &self.notes {
            clear(map, *entry);
        }
    }
}

/// Sets the first words of all entries of a map to 0.
fn clear(map: &MapMemory, entry: usize) {
    let words = (0..).step_by(entry).map_while(|at| map.word(at));
    for word in words {
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}
