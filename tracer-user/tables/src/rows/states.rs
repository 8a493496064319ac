//! Rows of `states`.

use tracer_analysis::{Finding, Interval, State};
use tracer_answers::queries::{Paths, Question, SpanChoice};
use tracer_engine::event::MonotonicNs;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

use super::activity::IntervalActivity;
use super::{Dates, Rows};
use crate::batch::RowBatch;
use crate::maker::RowChoice;

/// Maker of a row for each interval.
#[derive(Debug)]
pub struct StateRows {
    paths: Paths,
    dates: Dates,
    choice: RowChoice,
    /// Intervals that ended with the last event.
    ended: Vec<Interval>,
}

impl StateRows {
    /// Begins, with the rows that are wanted.
    pub fn new(choice: RowChoice) -> Self {
        Self {
            choice,
            paths: Paths::new(Question::Nothing, SpanChoice::default()),
            dates: Dates::default(),
            ended: Vec::new(),
        }
    }

    /// Pushes the intervals of all threads, which end at one moment, in an order that is the same
    /// each time.
    fn push_all(&mut self, out: &mut RowBatch) {
        let order = |interval: &Interval| (interval.from, interval.thread, interval.to);
        self.ended.sort_by_key(order);
        self.push_ended(out);
    }

    fn push_ended(&mut self, out: &mut RowBatch) {
        for interval in self.ended.drain(..) {
            if !self.choice.has(interval.thread, interval.from, interval.to) {
                continue;
            }
            self.dates.push(interval.from, out);
            out.u64(interval.ns());
            out.i32(interval.thread.pid);
            out.i32(interval.thread.tid);
            out.name(self.paths.names().get(interval.thread));
            let activity = IntervalActivity::of_interval(interval.state, interval.end);
            out.name(activity.state.as_bytes());
            out.u32(interval.cpu);
            out.bool(interval.is_over());
            activity.push(self.paths.functions(), out);
            out.end_row();
        }
    }
}

/// Adds the interval that was found, unless the thread has ended or is the idle one.
fn add(ended: &mut Vec<Interval>, found: &Finding) {
    if let Finding::Interval(interval) = found
        && interval.state != State::Dead
        && interval.thread.tid != 0
    {
        ended.push(*interval);
    }
}

impl Rows for StateRows {
    fn gap(&mut self, gap: &Gap, out: &mut RowBatch) {
        let ended = &mut self.ended;
        self.paths.lose_and(*gap, |found| add(ended, found));
        self.push_all(out);
    }

    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        self.dates.learn(view);
        if let Some(stack) = &view.stack {
            self.paths.take_stack(stack);
        }
        let ended = &mut self.ended;
        let comm = view.comm.unwrap_or_default();
        self.paths
            .go_on(&view.event, comm, |found| add(ended, found));
        self.push_ended(out);
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.paths.advance(now);
    }

    fn end(&mut self, _: &Summary, out: &mut RowBatch) {
        let ended = &mut self.ended;
        self.paths.finish(|found| add(ended, found));
        self.push_all(out);
    }
}
