//! Where the reading of each of an area's lanes is.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::chunk_reader::LaneCursor;
use tracer_engine::event::MonotonicNs;

/// Lanes of which an area has a cursor in any case: as many as a program that has had so many threads at once.
const OF_EACH: usize = 1024;

/// What there may be beside those, of all areas: a hostile process may say of each of its areas that it has 65,536.
const SHARED: usize = 1 << 18;

/// What there is beside those.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The lanes that were met.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    known: HashMap<u32, LaneCursor>,
    /// How often one could not be followed, and nobody was told.
    refused: u64,
}

impl Lanes {
    /// The cursor of a lane, which begins with nothing older than `since`. `None`, and counted, where there are too many.
    pub(super) fn follow(&mut self, lane: u32, since: MonotonicNs) -> Option<&mut LaneCursor> {
        if !self.known.contains_key(&lane) {
            if self.known.len() >= OF_EACH && TAKEN.fetch_add(1, Relaxed) >= SHARED {
                TAKEN.fetch_sub(1, Relaxed);
                self.refused = self.refused.saturating_add(1);
                return None;
            }
            self.known.insert(lane, LaneCursor::new(since));
        }
        self.known.get_mut(&lane)
    }

    /// The cursor of a lane that is followed.
    pub(super) fn get_mut(&mut self, lane: u32) -> Option<&mut LaneCursor> {
        self.known.get_mut(&lane)
    }

    /// How often since the last call one could not be followed, and what was in it not be read.
    pub(super) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.known.len().saturating_sub(OF_EACH), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_that_there_are_many_takes_none_of_others() {
        let of_area = || {
            let mut lanes = Lanes::default();
            for lane in 0..65_536 {
                lanes.follow(lane, MonotonicNs(0));
            }
            lanes
        };
        let mut all: Vec<Lanes> = (0..20).map(|_| of_area()).collect();
        let known: usize = all.iter().map(|lanes| lanes.known.len()).sum();
        assert_eq!(known, 20 * OF_EACH + SHARED);
        let refused: u64 = all.iter_mut().map(Lanes::take_refused).sum();
        assert_eq!(refused, 20 * 65_536 - known as u64);
        let mut usual = Lanes::default();
        assert!((0..1024).all(|lane| usual.follow(lane, MonotonicNs(0)).is_some()));
        assert!(
            all[0].follow(7, MonotonicNs(0)).is_some(),
            "it is followed already"
        );
        drop(all);
        assert!(usual.follow(5000, MonotonicNs(0)).is_some());
    }
}
