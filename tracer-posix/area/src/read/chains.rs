//! Progress of reading in each chain of an area.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::chunk_reader::ChainCursor;
use tracer_engine::event::MonotonicNs;

/// Chains of which an area has a cursor in any case. A program that has had so many threads at once
/// has as many chains.
const OF_EACH: usize = 1024;

/// Chains that all areas together may have beside those. A hostile process may say of each of its
/// areas that it has 65,536.
const SHARED: usize = 1 << 18;

/// Chains that all areas have beside those now.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The chains that the reader has seen.
#[derive(Debug, Default)]
pub(super) struct ChainCursors {
    known: HashMap<u32, ChainCursor>,
    /// How often a chain could not be followed, as far as that was not reported yet.
    refused: u64,
}

impl ChainCursors {
    /// Returns the cursor of a chain, which begins with nothing older than `since`. Where there are
    /// too many chains, returns `None` and counts that.
    pub(super) fn follow(&mut self, chain: u32, since: MonotonicNs) -> Option<&mut ChainCursor> {
        if !self.known.contains_key(&chain) {
            if self.known.len() >= OF_EACH && TAKEN.fetch_add(1, Relaxed) >= SHARED {
                TAKEN.fetch_sub(1, Relaxed);
                self.refused = self.refused.saturating_add(1);
                return None;
            }
            self.known.insert(chain, ChainCursor::new(since));
        }
        self.known.get_mut(&chain)
    }

    /// Returns the cursor of a chain that is followed.
    pub(super) fn get_mut(&mut self, chain: u32) -> Option<&mut ChainCursor> {
        self.known.get_mut(&chain)
    }

    /// Returns how many events of a chain are missing before the one with this index. Of a chain
    /// that was never seen, all are missing.
    pub(super) fn missing_before(&self, chain: u32, index: u64) -> u64 {
        let known = self.known.get(&chain);
        known.map_or(index, |known| known.missing_before(index))
    }

    /// Returns how often since the last call a chain could not be followed, so that its events were
    /// not read.
    pub(super) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }
}

impl Drop for ChainCursors {
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
            let mut chains = ChainCursors::default();
            for chain in 0..65_536 {
                chains.follow(chain, MonotonicNs(0));
            }
            chains
        };
        let mut all: Vec<ChainCursors> = (0..20).map(|_| of_area()).collect();
        let known: usize = all.iter().map(|chains| chains.known.len()).sum();
        assert_eq!(known, 20 * OF_EACH + SHARED);
        let refused: u64 = all.iter_mut().map(ChainCursors::take_refused).sum();
        assert_eq!(refused, 20 * 65_536 - known as u64);
        let mut usual = ChainCursors::default();
        assert!((0..1024).all(|chain| usual.follow(chain, MonotonicNs(0)).is_some()));
        assert!(
            all[0].follow(7, MonotonicNs(0)).is_some(),
            "it is followed already"
        );
        drop(all);
        assert!(usual.follow(5000, MonotonicNs(0)).is_some());
    }
}
