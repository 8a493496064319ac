//! One screen of a trace, at its end.

use tracer_engine::source::LossCause;
use tracer_engine::{EventTypes, Ledger};

use crate::answers::{Follower as _, SpanSpec};
use crate::report::{Gap, Line, Report, Summary};
use crate::top::model::{Losses, Model, Window};
use crate::top::view::text;

/// One screen of a trace, at its end.
#[derive(Clone, Debug)]
pub struct OnceSetup {
    /// Which spans; without any, all whose names say so.
    pub spans: Vec<SpanSpec>,
    /// Which time is summed up.
    pub window: Window,
}

impl OnceSetup {
    /// What makes it.
    #[must_use]
    pub fn report(&self) -> Box<dyn Report> {
        Box::new(Once {
            model: Model::new(self.spans.clone()),
            window: self.window,
        })
    }
}

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

    fn wait(&mut self, _: &mut Vec<u8>, now: tracer_engine::event::MonotonicNs) {
        self.model.advance(now);
    }

    fn event(&mut self, _: &mut Vec<u8>, line: &Line<'_>) {
        self.model.event(&line.event, line.comm.unwrap_or_default());
    }

    fn end(&mut self, out: &mut Vec<u8>, summary: &Summary) {
        self.model.count_losses(Losses {
            lost: summary.lost_in_trace(),
            not_reported: summary.not_reported(),
        });
        let shot = self.model.shot(self.window);
        out.extend_from_slice(text(&shot, self.window).as_bytes());
    }
}
