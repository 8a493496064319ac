//! What is made of a running trace.

use std::sync::Arc;

use tracer_engine::event::MonotonicNs;
use tracer_engine::source::LossCause;
use tracer_engine::{EventTypes, Ledger};

use super::link::Link;
use super::live::Live;
use crate::answers::{Follower as _, SpanSpec};
use crate::event_view::EventView;
use crate::report::{Gap, Report, Summary};
use crate::top::model::{Losses, Model, Window};
use crate::top::view::text;

/// What is made of a running trace.
#[derive(Clone, Debug)]
pub struct TopSetup {
    /// Which spans; without any, all whose names say so.
    pub spans: Vec<SpanSpec>,
    /// Which time is summed up.
    pub window: Window,
    /// Where it is shown; `None`: as text, at the end.
    pub link: Option<Arc<Link>>,
}

impl TopSetup {
    /// What makes it.
    #[must_use]
    pub fn report(&self) -> Box<dyn Report> {
        if let Some(link) = &self.link {
            return Box::new(Live::new(self.spans.clone(), Arc::clone(link)));
        }
        Box::new(Once {
            model: Model::new(self.spans.clone()),
            window: self.window,
        })
    }
}

/// One screen of a trace, at its end.
struct Once {
    model: Model,
    window: Window,
}

/// What was lost, of a running trace.
pub fn losses_of(ledger: &Ledger) -> Losses {
    let is_gap = |cause: &&LossCause| **cause != LossCause::KernelNotReported;
    let counts = LossCause::ALL.iter().filter(is_gap);
    Losses {
        lost: counts
            .map(|cause| ledger.lost(*cause))
            .fold(0, u64::saturating_add),
        not_reported: ledger.lost(LossCause::KernelNotReported),
    }
}

impl Report for Once {
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
    }

    fn event(&mut self, _: &mut Vec<u8>, line: &EventView<'_>) {
        self.model.event(&line.event, line.comm.unwrap_or_default());
    }

    fn end(&mut self, out: &mut Vec<u8>, summary: &Summary) {
        self.model.count_losses(Losses {
            lost: summary.lost_in_trace(),
            not_reported: summary.not_reported(),
        });
        let shot = self.model.shot(self.window);
        out.extend_from_slice(text(&shot).as_bytes());
    }
}
