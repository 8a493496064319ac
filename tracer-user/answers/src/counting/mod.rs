//! Counts of a running trace that the kernel keeps: tables of them at its end, or every so often.

mod json;
mod table;
mod text;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tracer_analysis::Thread;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ExecData, ForkData, NotCounted, RenameData, ThreadStateData};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes as _;

use crate::budget::Budget;
use crate::queries::{LastNames, made_by};
use crate::stat::{By, SortBy};
use table::{CountTable, What};
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::counts::{CountsRead, PointNames, SharedCounts};
use tracer_event::event_view::EventView;
use tracer_event::fields::until_null;
use tracer_event::summary::Summary;
use tracer_output::terminal::Outcome;

/// View of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountView {
    /// Owner of a sum; `None`: all together.
    pub by: Option<By>,
    /// Order of these.
    pub sort: SortBy,
    /// Output as JSON.
    pub is_json: bool,
    /// Time between tables, where there are several.
    pub interval: Option<Duration>,
}

/// Part of the time of a trace, with what was counted in it.
struct Part<'a> {
    /// From when since the start, in nanoseconds.
    from_ns: u64,
    /// Until when.
    until_ns: u64,
    /// Whether it is one of several, and not all of the time.
    is_interval: bool,
    table: &'a CountTable,
    names: &'a LastNames,
    points: &'a PointNames,
    view: CountView,
    /// Events of the trace that were lost, and runs of the programs that were left out.
    lost: u64,
}

/// Consumer that reads the counts.
struct Counter {
    counts: SharedCounts,
    view: CountView,
    /// Of each of the tables.
    budget: Budget,
    start: MonotonicNs,
    names: LastNames,
    points: PointNames,
    /// The table of the last interval's end, and when that was.
    last: (CountTable, MonotonicNs),
    lines: Lines,
    outcome: Rc<Cell<Outcome>>,
}

/// Returns the consumer that reads `counts`, which begin at `start`; the tables, or JSON, are
/// appended to `lines`, and `outcome` says at the end whether something found no space.
#[must_use]
pub fn consumer(
    counts: SharedCounts,
    (view, budget, start): (CountView, Budget, MonotonicNs),
    lines: Lines,
    outcome: Rc<Cell<Outcome>>,
) -> Box<dyn Consumer> {
    let points = counts.borrow().names();
    Box::new(Counter {
        points,
        counts,
        view,
        budget,
        start,
        names: LastNames::default(),
        last: (CountTable::default(), start),
        lines,
        outcome,
    })
}

impl Part<'_> {
    /// Returns the name of a probe or tracepoint.
    fn point(&self, what: What) -> Option<&str> {
        let (names, index) = match what {
            What::Probe(index) => (&self.points.probes, index),
            What::Tracepoint(index) => (&self.points.tracepoints, index),
            What::Call(_) | What::Kind(_) => return None,
        };
        let name = usize::try_from(index).ok().and_then(|at| names.get(at));
        Some(name.map_or("unknown", String::as_str))
    }
}

impl Counter {
    /// Shows the table of an interval, where one has ended by `now`.
    fn look(&mut self, now: MonotonicNs) -> anyhow::Result<()> {
        let Some(interval) = self.view.interval else {
            return Ok(());
        };
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        if now.0.saturating_sub(self.last.1.0) < interval {
            return Ok(());
        }
        let read = self.counts.borrow_mut().read()?;
        let (at, table) = (read.at, self.table_of(&read));
        let difference = table.since(&self.last.0);
        self.show(&difference, (self.last.1, at), true, 0);
        // The next one ends when it would have, however late this one is.
        let rounds = now.0.saturating_sub(self.start.0) / interval.max(1);
        let due = self.start.0.saturating_add(rounds.saturating_mul(interval));
        self.last = (table, MonotonicNs(due.min(at.0)));
        Ok(())
    }

    fn table_of(&self, read: &CountsRead) -> CountTable {
        CountTable::new(read, self.view.by, (&self.points, &self.names))
    }

    fn show(
        &self,
        table: &CountTable,
        (from, until): (MonotonicNs, MonotonicNs),
        is_interval: bool,
        lost: u64,
    ) {
        let since = |at: MonotonicNs| at.0.saturating_sub(self.start.0);
        let part = Part {
            from_ns: since(from),
            until_ns: since(until),
            is_interval,
            table,
            names: &self.names,
            points: &self.points,
            view: self.view,
            lost,
        };
        let shown = match (self.view.is_json, self.view.interval) {
            (false, _) => self.budget.text(text::text(&part)),
            (true, None) => self.budget.document(&json::json(&part)),
            (true, Some(_)) => self.budget.line(&json::json(&part)),
        };
        self.lines.bytes().extend_from_slice(shown.as_bytes());
    }

    /// Learns what threads are called, from an event that says it.
    fn learn(&mut self, event: &Event<'_>, comm: &[u8]) {
        let header = event.header;
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let learnt = match header.event_type {
            EventTypeId::EXEC => ExecData::read_from_prefix(event.data)
                .ok()
                .map(|(data, _)| (thread, data.comm)),
            EventTypeId::RENAME => RenameData::read_from_prefix(event.data)
                .ok()
                .map(|(data, _)| (thread, data.comm)),
            _ => made_by(event).and_then(|made| {
                let (data, _) = ForkData::read_from_prefix(event.data).ok()?;
                self.names.forget(made);
                Some((made, data.child_comm))
            }),
        };
        match learnt {
            Some((thread, comm)) => self.names.learn(thread, until_null(&comm)),
            None => self.names.learn(thread, until_null(comm)),
        }
    }
}

impl Consumer for Counter {
    fn idle(&mut self, now: MonotonicNs) {
        // What cannot be read now is not read at the end either, which reports it.
        let _ = self.look(now);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let event = &view.event;
        self.learn(event, view.comm.unwrap_or_default());
        if event.header.event_type == EventTypeId::THREAD_STATE
            && let Ok((state, _)) = ThreadStateData::read_from_prefix(event.data)
        {
            self.counts.borrow_mut().note(&event.header, &state);
        }
        self.look(event.header.time)
    }

    fn finish(self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        let read = self.counts.borrow_mut().read()?;
        let table = self.table_of(&read);
        let end = summary.ended.unwrap_or(read.at);
        let lost = summary.lost_in_trace();
        if table.not_counted != NotCounted::default() {
            self.outcome.set(Outcome::EventsLost);
        }
        self.show(&table, (self.start, end), false, lost);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
