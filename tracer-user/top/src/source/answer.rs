//! Consumer of a running trace.

use std::sync::Arc;

use tracer_engine::event::MonotonicNs;
use tracer_engine::source::LossCause;
use tracer_engine::{EventTypes, Ledger};

use super::link::Link;
use super::live::ModelFeeder;
use crate::model::{Model, ShownLosses, Window};
use crate::once::OnceForm;
use tracer_answers::queries::SpanSpec;
use tracer_event::consumer::{Consumer, Lines, TraceLosses as Counted};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

/// Setup of the view of a running trace.
#[derive(Clone, Debug)]
pub struct TopSetup {
    /// Spans to look at; without any, all whose names tell that they are spans.
    pub spans: Vec<SpanSpec>,
    /// Window of time that is summed up.
    pub window: Window,
    /// Link to the screen that shows it; `None`: shown once, at the end.
    pub link: Option<Arc<Link>>,
}

impl TopSetup {
    /// Returns the consumer of the trace. Its text goes to `lines`, in this form.
    #[must_use]
    pub fn consumer(&self, form: OnceForm, lines: &Lines) -> Box<dyn Consumer> {
        if let Some(link) = &self.link {
            return Box::new(ModelFeeder::new(self.spans.clone(), Arc::clone(link)));
        }
        Box::new(Once {
            model: Model::new(self.spans.clone()),
            window: self.window,
            lines: lines.clone(),
            form,
        })
    }
}

/// Consumer that shows one screen of a trace, at its end.
struct Once {
    model: Model,
    window: Window,
    lines: Lines,
    form: OnceForm,
}

/// Returns the losses of a running trace.
pub fn losses_of(ledger: &Ledger) -> ShownLosses {
    let is_gap = |cause: &&LossCause| **cause != LossCause::KernelNotReported;
    let counts = LossCause::ALL.iter().filter(is_gap);
    ShownLosses {
        lost: counts
            .map(|cause| ledger.lost(*cause))
            .fold(0, u64::saturating_add),
        not_reported: ledger.lost(LossCause::KernelNotReported),
    }
}

impl Consumer for Once {
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
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.model.event(view)
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.model.count_losses(ShownLosses {
            lost: summary.lost_in_trace(),
            not_reported: summary.not_reported(),
        });
        let shot = self.model.shot(self.window);
        let shown = self.form.shown(&shot);
        self.lines.bytes().extend_from_slice(shown.as_bytes());
        Ok(())
    }
}
