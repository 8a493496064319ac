//! Shots of a running trace.

use std::sync::Arc;
use std::time::Instant;

use tracer_engine::event::MonotonicNs;
use tracer_engine::{EventTypes, Ledger};

use super::answer::losses_of;
use super::link::{Link, Publisher};
use crate::answers::{Follower as _, SpanSpec};
use crate::event_view::EventView;
use crate::report::{Gap, Report, Summary};
use crate::top::model::{Losses, Model};

/// Events between two looks at the clock.
const AT_ONCE: u32 = 256;

/// Takes the events of a running trace, instead of lines of them.
pub struct Live {
    model: Model,
    publisher: Publisher,
    events: u32,
}

impl Live {
    /// Publishes by `link`; of these spans, or of all whose names say so.
    pub fn new(spans: Vec<SpanSpec>, link: Arc<Link>) -> Self {
        Self {
            model: Model::new(spans),
            publisher: Publisher::new(link),
            events: 0,
        }
    }
}

impl Report for Live {
    fn learn(&mut self, types: &EventTypes) {
        self.model.learn(types);
    }

    fn lose(&mut self, gap: Gap) {
        self.model.lose(gap);
    }

    fn count_losses(&mut self, lost: &Ledger) {
        self.model.count_losses(losses_of(lost));
    }

    fn wait(&mut self, _: &mut Vec<u8>, now: MonotonicNs) {
        self.model.advance(now);
        self.publisher.publish_if_due(&mut self.model);
    }

    fn event(&mut self, _: &mut Vec<u8>, line: &EventView<'_>) {
        self.model.event(&line.event, line.comm.unwrap_or_default());
        self.events += 1;
        if self.events >= AT_ONCE {
            self.events = 0;
            self.publisher.publish_if_due(&mut self.model);
        }
    }

    fn end(&mut self, _: &mut Vec<u8>, summary: &Summary) {
        self.model.count_losses(Losses {
            lost: summary.lost_in_trace(),
            not_reported: summary.not_reported(),
        });
        self.model.end();
        self.publisher.publish(&mut self.model, Instant::now());
    }
}
