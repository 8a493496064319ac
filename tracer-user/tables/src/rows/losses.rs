//! Rows of `losses`.

use tracer_engine::source::LossCause;
use tracer_event::consumer::TraceLosses;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

use super::{Dates, Rows, push_date};
use crate::batch::RowBatch;

/// Maker of a row for each cause of each gap.
#[derive(Debug, Default)]
pub struct LossRows {
    dates: Dates,
    /// Losses that rows were made of.
    told: TraceLosses,
    /// Losses so far.
    losses: TraceLosses,
    /// Whether there is a gap before the next event.
    has_gap: bool,
}

impl Rows for LossRows {
    fn count_losses(&mut self, losses: &TraceLosses) {
        self.losses = losses.clone();
    }

    fn gap(&mut self, _: &Gap, _: &mut RowBatch) {
        self.has_gap = true;
    }

    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        self.dates.learn(view);
        if !std::mem::take(&mut self.has_gap) {
            return;
        }
        for cause in LossCause::ALL {
            let count = self.losses.by_cause.lost(cause);
            let more = count.saturating_sub(self.told.by_cause.lost(cause));
            if more > 0 {
                push_date(view.date, out);
                out.u64(view.at().0);
                push_events(cause.name(), more, out);
            }
        }
        self.told = self.losses.clone();
    }

    fn end(&mut self, summary: &Summary, out: &mut RowBatch) {
        let told = |name: &str| {
            let causes = LossCause::ALL.into_iter();
            let mut causes = causes.filter(|cause| cause.name() == name);
            causes
                .next()
                .map_or(0, |cause| self.told.by_cause.lost(cause))
        };
        for (name, count) in summary.losses() {
            let more = count.saturating_sub(told(name));
            if more > 0 {
                out.nulls(2);
                push_events(name, more, out);
            }
        }
        let damage = summary.log.unwrap_or_default().damage;
        if damage != Default::default() {
            out.nulls(2);
            out.name(b"damage".as_slice());
            out.nulls(1);
            out.u64(damage.bytes);
            out.u64(damage.packets_missing);
            out.end_row();
        }
    }
}

fn push_events(cause: &str, count: u64, out: &mut RowBatch) {
    out.name(cause.as_bytes());
    out.u64(count);
    out.nulls(2);
    out.end_row();
}
