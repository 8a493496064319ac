//! Rows of each table, made event by event.

mod activity;
mod calls;
mod events;
mod losses;
mod spans;
mod stacks;
mod states;
mod sums;

use tracer_engine::EventTypes;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_event::consumer::TraceLosses;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;
use tracer_event::thread_contexts::ThreadContext;

use super::batch::RowBatch;
use super::maker::TableSetup;

/// Maker of the rows of one table.
pub trait Rows {
    /// Learns event types: these are all that are known.
    fn learn_types(&mut self, _types: &EventTypes) {}
    /// Notes how many events were lost so far.
    fn count_losses(&mut self, _losses: &TraceLosses) {}
    /// Notes that events are missing before the next one.
    fn gap(&mut self, _gap: &Gap, _out: &mut RowBatch) {}
    /// Takes the next event.
    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch);
    /// Notes that no event has come up to `now`.
    fn idle(&mut self, _now: MonotonicNs) {}
    /// Puts what it holds of rows into the batch, which is to be taken.
    fn complete(&mut self, _out: &mut RowBatch) {}
    /// Takes the end: there are no more events.
    fn end(&mut self, _summary: &Summary, _out: &mut RowBatch) {}
}

/// Returns the maker of the rows of a table.
pub fn make(setup: &TableSetup, batch: &RowBatch) -> Box<dyn Rows> {
    let (specs, choice) = (setup.spans.clone(), setup.choice());
    match setup.table.name {
        "threads" => Box::new(sums::SumRows::new(choice, sums::push_threads)),
        "waits" => Box::new(sums::SumRows::new(choice, sums::push_waits)),
        "states" => Box::new(states::StateRows::new(choice)),
        "calls" => Box::new(calls::CallRows::new(choice)),
        "spans" => Box::new(spans::SpanRows::new(specs, choice, spans::Of::Spans)),
        "path" => Box::new(spans::SpanRows::new(specs, choice, spans::Of::Path)),
        "stacks" => Box::new(stacks::StackRows::new(choice)),
        "losses" => Box::new(losses::LossRows::default()),
        _ => Box::new(events::EventRows::new(batch)),
    }
}

/// Relation of the two clocks at the newest event, for moments that no event is at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dates {
    offset: i64,
}

impl Dates {
    /// Learns from an event.
    pub fn learn(&mut self, view: &EventView<'_>) {
        self.offset = view.date.0.wrapping_sub(view.at().0).cast_signed();
    }

    /// Pushes a moment: its date, and its time.
    pub fn push(self, at: MonotonicNs, out: &mut RowBatch) {
        push_date(RealtimeNs(at.0.wrapping_add_signed(self.offset)), out);
        out.u64(at.0);
    }
}

/// Pushes the trace and the span that a thread works for.
pub fn push_context(context: Option<ThreadContext>, out: &mut RowBatch) {
    for id in [
        context.map(|context| context.trace()),
        context.map(|context| context.span()),
    ] {
        out.text(|text| {
            text.extend(id.iter().flat_map(|id| id.as_bytes()));
            id.is_some()
        });
    }
}

/// Pushes a date.
pub fn push_date(date: RealtimeNs, out: &mut RowBatch) {
    out.i64(i64::try_from(date.0).ok());
}
