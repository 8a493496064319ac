//! Events of a log that pass, or not, by their data.

use std::path::Path;
use std::sync::Arc;

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, EventHeader, MonotonicNs};

use super::thread_names;
use super::walk::{Step, stack_of};
use super::{Gaps, Log, Pause, Walk, WantedEvents, open};
use tracer_event::event_view::EventView;
use tracer_event::predicate::{Show, Sieve};
use tracer_text::say;

/// Events of a walk between two of its pauses.
const AT_ONCE: usize = 1024;

/// Returns the sieve for the wanted events, of a log that was made at `start`.
pub fn sieve(wanted: &WantedEvents, start: MonotonicNs) -> Option<Sieve> {
    let sieve = Sieve::new(&wanted.predicate, start)?;
    Some(match &wanted.settled {
        Some(settled) => sieve.following(Arc::clone(settled)),
        None => sieve,
    })
}

/// Tells whether nothing was found out about events of this time, since the log did not have them
/// then.
pub fn is_beyond_settled(wanted: &WantedEvents, at: MonotonicNs) -> bool {
    let settled = wanted.settled.as_ref();
    settled.is_some_and(|settled| at > settled.until())
}

impl WantedEvents {
    /// Returns the events wanted of a walk that has to go in order of time: where a system call's
    /// entry is wanted because of its exit, the log is looked through for that first.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or has too much that is wanted.
    pub fn settled_in(&self, log: &Path) -> anyhow::Result<Self> {
        let mut wanted = self.clone();
        if wanted.predicate.needs_exit().is_none() {
            return Ok(wanted);
        }
        // What is found out is no event that is shown.
        wanted.limit = None;
        let mut walk = Walk::new(open(log)?, wanted);
        walk.sieve = walk.sieve.map(Sieve::noting);
        while walk.go_on(AT_ONCE, |_| Ok(()))? == Pause::Midway {}
        walk.finish(|_| Ok(()))?;
        let settled = walk.sieve.map(Sieve::settled).unwrap_or_default().whole()?;
        Ok(Self {
            settled: Some(Arc::new(settled)),
            ..self.clone()
        })
    }
}

impl<L: Log> Walk<L> {
    /// Shows the events that waited for something that has not come: there are no more events.
    ///
    /// # Errors
    ///
    /// Any error of `visit`.
    pub fn finish(
        &mut self,
        mut visit: impl FnMut(&EventView<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let note = self.sieve.as_ref().and_then(Sieve::note);
        if let Some(note) = note {
            say(&note);
        }
        self.at_sieve(&mut |_, view| visit(view), |sieve, show| sieve.end(show))
    }

    /// Brings the event that was stored to the sieve.
    pub(super) fn come_to_sieve(
        &mut self,
        header: EventHeader,
        visit: &mut impl FnMut(&Step<'_, L>, &EventView<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let id = header.event_type;
        let known = self.log.event_types();
        self.types.learn(id, known, &self.wanted);
        let gaps = self.gaps();
        let before = self.missing.replace(gaps).unwrap_or(Gaps {
            of_log: gaps.of_log,
            ..Gaps::default()
        });
        let is_missing = gaps.missing.is_more_than(&before.missing) || gaps.of_log > before.of_log;
        let lost_until = is_missing.then(|| {
            let counted_by = gaps.counted_by.unwrap_or(header.time);
            counted_by.max(header.time)
        });
        let scratch = std::mem::take(&mut self.scratch);
        let Some(row) = self.types.row_mut(id) else {
            return Ok(());
        };
        let (name, entry, is_wanted) = (row.name.clone(), row.entry, row.is_wanted);
        let has_event = self.wanted.has_event(&header, &scratch.data, &scratch.comm)
            && self.wanted.has_context(&header, scratch.context);
        let line = EventView {
            event: Event {
                header,
                data: &scratch.data,
            },
            entry,
            name: &name,
            comm: thread_names::known(&scratch.comm),
            date: scratch.date,
            inside: None,
            stack: None,
            context: scratch.context,
        };
        let came = self.at_sieve(visit, |sieve, show| {
            if let Some(until) = lost_until {
                sieve.lose(until, show);
            }
            sieve.offer(&line, is_wanted && has_event, show);
        });
        self.scratch = scratch;
        came
    }

    /// Shows the events that pass the sieve when it is asked by `ask`.
    fn at_sieve(
        &mut self,
        visit: &mut impl FnMut(&Step<'_, L>, &EventView<'_>) -> anyhow::Result<()>,
        ask: impl FnOnce(&mut Sieve, Show<'_>),
    ) -> anyhow::Result<()> {
        let Some(mut sieve) = self.sieve.take() else {
            return Ok(());
        };
        let step = Step {
            log: &self.log,
            number: self.steps,
            gaps: self.counted.at(&self.log, self.missed),
        };
        let mut visited = Ok(());
        ask(&mut sieve, &mut |line: &EventView<'_>| {
            let id: EventTypeId = line.event.header.event_type;
            if self.left == 0 || visited.is_err() {
                return;
            }
            self.left -= 1;
            if let Some(row) = self.types.row_mut(id) {
                row.count += 1;
            }
            let stack = stack_of(&line.event, &mut self.stacks);
            let line = EventView {
                stack: stack.as_ref().map(|stack| stack.named(&self.symbols)),
                ..*line
            };
            visited = visit(&step, &line);
        });
        self.sieve = Some(sieve);
        visited
    }
}
