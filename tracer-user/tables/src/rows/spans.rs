//! Rows of `spans` and `path`.

use tracer_answers::queries::{Explained, GivenSteps, Paths, Question, SpanChoice, SpanSpec};
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use tracer_event::consumer::Consumer as _;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

use super::activity::IntervalActivity;
use super::{Dates, Rows, push_context};
use crate::batch::RowBatch;
use crate::maker::RowChoice;

/// Table that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A row for each span.
    Spans,
    /// A row for each segment of their paths.
    Path,
}

/// Maker of the rows of spans that have ended.
#[derive(Debug)]
pub struct SpanRows {
    paths: Paths,
    dates: Dates,
    choice: RowChoice,
    of: Of,
    /// Number of spans so far.
    count: u64,
}

impl SpanRows {
    /// Begins, with these spans, or with all whose names show it.
    pub fn new(specs: Vec<SpanSpec>, choice: RowChoice, of: Of) -> Self {
        let mut paths = Paths::new(Question::Spans(specs), SpanChoice::default());
        paths.give_out_explained(if of == Of::Path {
            GivenSteps::Innermost
        } else {
            GivenSteps::None
        });
        Self {
            paths,
            dates: Dates::default(),
            choice,
            of,
            count: 0,
        }
    }

    fn name(&self, span: &Explained) -> &[u8] {
        let kind = self.paths.kinds().get(span.kind);
        kind.map_or(&[], |kind| &kind.name)
    }

    fn push_span(&self, span: &Explained, out: &mut RowBatch) {
        out.u64(self.count);
        self.dates.push(span.from, out);
        out.u64(span.ns);
        out.name(self.name(span));
        out.i32(span.thread.pid);
        out.i32(span.thread.tid);
        out.name(self.paths.names().get(span.thread));
        out.i32(span.begun_by.pid);
        out.i32(span.begun_by.tid);
        for (_, ns) in span.split.parts() {
            out.u64(ns);
        }
        push_context(span.context, out);
        out.end_row();
    }

    fn push_path(&self, span: &Explained, out: &mut RowBatch) {
        for (nth, step) in (0_u32..).zip(&span.segments) {
            out.u64(self.count);
            out.u32(nth);
            self.dates.push(step.from, out);
            out.u64(step.ns());
            out.name(self.name(span));
            out.u32(u32::try_from(step.depth).unwrap_or(u32::MAX));
            out.i32(step.thread.pid);
            out.i32(step.thread.tid);
            out.name(self.paths.names().get(step.thread));
            let activity = IntervalActivity::of_part(&step.part);
            out.name(activity.state.as_bytes());
            out.name(activity.still.map(str::as_bytes));
            activity.push(self.paths.functions(), out);
            out.end_row();
        }
    }

    fn push_explained(&mut self, out: &mut RowBatch) {
        if !self.paths.has_explained() {
            return;
        }
        for span in self.paths.take_explained() {
            if self.choice.has(span.thread, span.from, span.to) {
                match self.of {
                    Of::Spans => self.push_span(&span, out),
                    Of::Path => self.push_path(&span, out),
                }
            }
            self.count += 1;
        }
    }
}

impl Rows for SpanRows {
    fn learn_types(&mut self, types: &EventTypes) {
        self.paths.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap, _: &mut RowBatch) {
        self.paths.gap(gap);
    }

    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        self.dates.learn(view);
        if let Some(stack) = &view.stack {
            self.paths.take_stack(stack);
        }
        let comm = view.comm.unwrap_or_default();
        self.paths.go_on(&view.event, comm, |_| {});
        self.push_explained(out);
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.paths.advance(now);
    }

    fn end(&mut self, _: &Summary, out: &mut RowBatch) {
        self.paths.finish(|_| {});
        self.push_explained(out);
    }
}
