//! The kernel source, with the hub listening.

use tracer_posix::event::{EventHeader, MonotonicNs};
use tracer_posix::source::{Batch, Control, Source};

use super::Hub;

/// A source whose events also go to a hub.
pub struct Tee<S> {
    source: S,
    hub: Hub,
}

impl<S: Source> Tee<S> {
    /// Lets `hub` hear what `source` brings.
    pub fn new(source: S, hub: Hub) -> Self {
        Self { source, hub }
    }
}

impl<S: Source> Source for Tee<S> {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let (events, losses) = (batch.len(), batch.losses().len());
        let watermark = self.source.collect(batch);
        // A point of the program, which has a number of its own in each stream, is none of theirs.
        let of_kernel = |(header, _): &(&EventHeader, &[u8])| !header.event_type.is_user();
        self.hub.take(batch.since(events).filter(of_kernel));
        for loss in batch.losses().get(losses..).unwrap_or_default() {
            self.hub.lose(*loss);
        }
        self.hub.complete_up_to(watermark);
        watermark
    }

    fn control(&mut self, control: &Control) {
        self.source.control(control);
    }
}
