//! Shots of a running trace.

use std::sync::Arc;
use std::time::Instant;

use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use super::answer::losses_of;
use super::link::{Link, Publisher};
use crate::model::{Model, ShownLosses};
use tracer_answers::queries::SpanSpec;
use tracer_event::consumer::{Consumer, FlushReason, TraceLosses as Counted};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

/// Number of events between two looks at the clock.
const AT_ONCE: u32 = 256;

/// Consumer that feeds a model with the events of a running trace, instead of printing lines.
pub struct ModelFeeder {
    model: Model,
    publisher: Publisher,
    events: u32,
}

impl ModelFeeder {
    /// Creates a consumer that publishes to `link`, for these spans, or for all whose names tell
    /// that they are spans.
    pub fn new(spans: Vec<SpanSpec>, link: Arc<Link>) -> Self {
        Self {
            model: Model::new(spans),
            publisher: Publisher::new(link).with_titles(),
            events: 0,
        }
    }
}

impl Consumer for ModelFeeder {
    fn learn_types(&mut self, types: &EventTypes) {
        self.model.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.model.gap(gap);
    }

    fn count_losses(&mut self, lost: &Counted) -> anyhow::Result<()> {
        self.model.count_losses(losses_of(&lost.by_cause));
        Ok(())
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.model.idle(now);
        self.publisher.publish_if_due(&mut self.model);
    }

    fn flush(&mut self, _: FlushReason) {
        self.publisher.publish_if_due(&mut self.model);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.model.event(view)?;
        self.events += 1;
        if self.events >= AT_ONCE {
            self.events = 0;
            self.publisher.publish_if_due(&mut self.model);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.model.count_losses(ShownLosses {
            lost: summary.lost_in_trace(),
            not_reported: summary.not_reported(),
        });
        self.model.end();
        self.publisher.publish(&mut self.model, Instant::now());
        Ok(())
    }
}
