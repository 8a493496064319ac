//! Going through a log event by event, and knowing before each whether others are missing.

use tracer_engine::event::MonotonicNs;

use super::recorded_time::Missed;
use super::{Gaps, Log, Pause, Walk};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;

/// Gaps that were counted when last asked.
#[derive(Debug, Default)]
pub struct GapWatch {
    before: Option<Gaps>,
    /// Step of the walk at which an event was shown last.
    step: u64,
}

impl GapWatch {
    /// Takes up to `most` events of `walk`, and gives each that is wanted to `visit`, with its log
    /// and the gap before it.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or `visit` fails.
    pub fn go_on<L: Log>(
        &mut self,
        walk: &mut Walk<L>,
        most: usize,
        mut visit: impl FnMut(&L, Option<Gap>, &EventView<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Pause> {
        walk.take_steps(most, |step, view| {
            // Others that were waited for come with the first.
            let is_first = std::mem::replace(&mut self.step, step.number) != step.number;
            let gap = is_first.then(|| self.gap(step.gaps, view.at())).flatten();
            visit(step.log, gap, view)
        })
    }

    /// Returns the gap before the next event, which is at `next`.
    fn gap(&mut self, now: Gaps, next: MonotonicNs) -> Option<Gap> {
        // What the log misses before its first event leaves no gap. What the trace had lost when
        // that was written may have been lost later than the event.
        let before = self.before.replace(now).unwrap_or(Gaps {
            of_log: now.of_log,
            ..Gaps::default()
        });
        let gap = gap(before, now, next)?;
        if let Some(told) = &mut self.before
            && !gap.is_unrecorded
        {
            // What was not recorded is told before the next event.
            told.missed = before.missed;
        }
        Some(gap)
    }

    /// Returns the gap behind the last event of `walk`.
    pub fn behind<L: Log>(&self, walk: &Walk<L>) -> Option<Gap> {
        let last = walk.span()?.last.0;
        let (now, is_stopped) = walk.gaps_behind();
        let gap = gap(self.before?, now, last)?;
        // Of what follows nothing is known.
        let until = gap.until.filter(|_| !(is_stopped && gap.is_unrecorded));
        Some(Gap { until, ..gap })
    }
}

/// Returns the gap that is there now and was not `before`, where the next event is at `next`.
fn gap(before: Gaps, now: Gaps, next: MonotonicNs) -> Option<Gap> {
    let is_lost = now.missing.is_more_than(&before.missing);
    let is_damaged = now.of_log > before.of_log;
    if !is_lost && !is_damaged {
        return unrecorded(before.missed, now.missed, next);
    }
    Some(Gap {
        next,
        until: if is_lost {
            now.counted_by.map(|by| by.max(next))
        } else {
            Some(next)
        },
        is_kernels: !is_damaged && now.missing.others == before.missing.others,
        is_unrecorded: false,
        tid: None,
    })
}

/// Returns the gap of events that were not to be recorded.
fn unrecorded(before: Missed, now: Missed, next: MonotonicNs) -> Option<Gap> {
    let gap = Gap {
        next,
        until: (!now.is_partial).then_some(next),
        is_kernels: false,
        is_unrecorded: true,
        tid: None,
    };
    let is_new = now.breaks > before.breaks
        || now.is_partial != before.is_partial
        || (now.is_partial && now.has_lone_ends);
    let tid = (now.renames.0 > before.renames.0).then_some(now.renames.1);
    match tid {
        None if !is_new => None,
        tid => Some(Gap {
            tid: tid.filter(|_| !is_new),
            ..gap
        }),
    }
}
