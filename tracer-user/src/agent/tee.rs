//! The kernel source, with the hub listening.

use tracer_posix::engine::EventTypes;
use tracer_posix::event::MonotonicNs;
use tracer_posix::source::{Batch, Control, Loss, Pending, Source};

use super::Hub;

/// A source whose events also go to a hub.
pub struct Tee<S> {
    source: S,
    hub: Hub,
    types: EventTypes,
    events: Vec<Pending>,
    data: Vec<u8>,
    losses: Vec<Loss>,
}

impl<S: Source> Tee<S> {
    /// Lets `hub` hear what `source` brings.
    pub fn new(source: S, hub: Hub) -> Self {
        Self {
            source,
            hub,
            types: EventTypes::default(),
            events: Vec::new(),
            data: Vec::new(),
            losses: Vec::new(),
        }
    }
}

impl<S: Source> Source for Tee<S> {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let mut own = Batch::new(
            &mut self.types,
            &mut self.events,
            &mut self.data,
            &mut self.losses,
        );
        let watermark = self.source.collect(&mut own);
        // Several rings: each brings its events in order.
        self.events.sort_by_key(|event| event.header.time);
        for event in self.events.drain(..) {
            let data = event.data(&self.data);
            let mut header = event.header;
            if header.event_type.is_user() {
                // A point of the program, that has a name and its number here.
                let name = self.types.name(header.event_type).unwrap_or_default();
                header.event_type = batch.user_event_type(name, header.event_type);
            } else {
                self.hub.take(&header, data);
            }
            batch.push(header, data);
        }
        for loss in self.losses.drain(..) {
            self.hub.lose(loss);
            batch.lose(loss);
        }
        self.data.clear();
        self.hub.complete_up_to(watermark);
        watermark
    }

    fn control(&mut self, control: &Control) {
        self.source.control(control);
    }
}
