//! Events that a stream's chunks still have when no reader will come any more.

use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use super::reading::Reading;
use super::round::present;
use crate::discover::reader_windows::{AreaWindows, Claims};
use crate::layout::pool::Pool;
use tracer_engine::sort;
use tracer_engine::source::{Batch, LossCause};

impl Reading {
    /// Counts all events that were not read as lost. Those that are still there count as not read;
    /// those that are gone or were refused count under the stream's own cause. Returns whether that
    /// was done by `end`.
    pub(super) fn count_unread(
        &mut self,
        pool: &Pool<'_, AreaWindows<'_>>,
        end: Instant,
        batch: &mut Batch<'_>,
    ) -> bool {
        let is_over = || Instant::now() >= end;
        let mut claims = Claims::default();
        let mut chunks = Vec::new();
        for of_window in pool.chunks_by_window(0) {
            for chunk_ref in of_window.into_iter().flatten() {
                let is_there = || {
                    self.chunks.contains_key(&chunk_ref.ordinal)
                        || claims.is_true(&pool.windows, &chunk_ref)
                };
                chunks.extend(present(pool.generation, u64::MAX, &chunk_ref, is_there));
            }
            if is_over() {
                return false;
            }
        }
        sort::by_key(&mut chunks, |chunk| (chunk.chain, chunk.first));
        let since = self.settled();
        for chunk in chunks {
            if let Some(chain) = self.chains.follow(chunk.chain, since) {
                let written = chunk.first.saturating_add(chunk.head.events());
                chain.account_up_to(chunk.first, self.cause, batch);
                chain.account_up_to(written, LossCause::NotRead, batch);
                chain.account_up_to(written.saturating_add(chunk.refused), self.cause, batch);
            }
        }
        let count = pool.parts.header().chain_count.load(Acquire);
        let chains = (0..count).map_while(|index| Some((index, pool.parts.chain(index)?)));
        let own = chains.filter(|(_, chain)| chain.generation.load(Acquire) == pool.generation);
        for (index, chain) in own {
            if let Some(known) = self.chains.follow(index, since) {
                known.account_up_to(chain.closed.load(Acquire), self.cause, batch);
            }
        }
        !is_over()
    }
}
