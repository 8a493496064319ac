//! The kernel source, with the hub listening.

use std::time::Instant;

use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Batch, Control, LossCause, Source, Unread};

use super::Hub;
use tracer_kernel::ReportsExecs;

/// A source whose events also go to a hub.
pub struct Tee<S> {
    source: S,
    hub: Hub,
}

impl<S: Source + ReportsExecs> Tee<S> {
    /// Passes the events of `source` to `hub` too.
    pub fn new(source: S, hub: Hub) -> Self {
        Self { source, hub }
    }
}

impl<S: Source + ReportsExecs> Source for Tee<S> {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let (events, losses) = (batch.len(), batch.losses().len());
        let watermark = self.source.collect(batch);
        // A point of the program, which has an id of its own in each stream, is none of theirs.
        let of_kernel = |(header, _): &(&EventHeader, &[u8])| !header.event_type.is_user();
        // First: what was lost may be what says who may see the others.
        let losses = batch.losses().get(losses..).unwrap_or_default();
        // What the kernel did not report is of one thread, which not every program may see; a
        // switch away says of itself that nothing is known of what came before.
        for loss in losses
            .iter()
            .filter(|loss| loss.cause != LossCause::KernelNotReported)
        {
            self.hub.lose(*loss);
        }
        let signs = self.source.take_exec_signs();
        let kernel = batch.since(events).filter(of_kernel);
        self.hub.take(kernel, signs, watermark);
        self.hub.complete_up_to(watermark);
        watermark
    }

    fn comes_first(&self) -> bool {
        self.source.comes_first()
    }

    fn count_unread(&mut self, until: MonotonicNs, end: Instant, batch: &mut Batch<'_>) -> Unread {
        self.source.count_unread(until, end, batch)
    }

    fn control(&mut self, control: &Control) {
        self.source.control(control);
    }
}
