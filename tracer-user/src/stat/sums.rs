//! Summing up event by event.

use tracer_analysis::{Calls, Faults, Found, Interrupts, Signals, ThreadTotals};
use tracer_engine::EventTypes;
use tracer_engine::event::Event;

use super::Statistics;
use crate::answers::{Choice, Follower, Paths, Question, SpanSpec};
use crate::report::{Gap, Summary};

/// What is summed up so far.
#[derive(Debug)]
pub struct Sums {
    paths: Paths,
    totals: ThreadTotals,
    calls: Calls,
    faults: Faults,
    signals: Signals,
    interrupts: Interrupts,
}

impl Sums {
    /// Nothing yet; of these spans.
    pub fn new(spans: Vec<SpanSpec>) -> Self {
        Self {
            paths: Paths::new(Question::Spans(spans), Choice::default()),
            totals: ThreadTotals::default(),
            calls: Calls::default(),
            faults: Faults::default(),
            signals: Signals::default(),
            interrupts: Interrupts::default(),
        }
    }

    /// All of it.
    pub(super) fn finish(mut self, summary: Summary) -> Statistics {
        let totals = &mut self.totals;
        self.paths.finish(|found| add(totals, found));
        let names = self.paths.names();
        let threads = self.totals.threads().sorted().into_iter();
        let mut threads: Vec<_> = threads
            .filter(|(thread, total)| thread.tid != 0 && total.all() > 0)
            .map(|(thread, total)| (thread, names.of(thread).to_vec(), total.clone()))
            .collect();
        threads.sort_by_key(|(thread, _, total)| (std::cmp::Reverse(total.running), *thread));
        let calls = self.calls.sorted();
        let calls = calls.into_iter().map(|(key, total)| (key, total.clone()));
        let first = self.paths.first();
        let (has_switches, has_wakeups) = self.paths.has_switches_and_wakeups();
        Statistics {
            span_ns: self.paths.last().0.saturating_sub(first.0),
            first,
            has_switches,
            has_wakeups,
            threads,
            others: self.totals.threads().others().cloned().unwrap_or_default(),
            cpus: self.totals.cpus(),
            wakeups: self.totals.wakeups().clone(),
            calls: calls.collect(),
            faults: self.faults,
            signals: self.signals,
            interrupts: self.interrupts,
            paths: self.paths,
            lost: summary.lost_in_trace(),
            summary,
        }
    }
}

impl Follower for Sums {
    fn learn(&mut self, types: &EventTypes) {
        self.paths.learn(types);
    }

    fn lose(&mut self, gap: Gap) {
        let totals = &mut self.totals;
        self.paths.lose_and(gap, |found| add(totals, found));
        self.calls.lose();
        self.interrupts.lose(gap.until);
    }

    fn event(&mut self, event: &Event<'_>, comm: &[u8]) {
        self.calls.feed(event);
        self.faults.feed(event);
        self.signals.feed(event);
        self.interrupts.feed(event);
        let totals = &mut self.totals;
        self.paths.go_on(event, comm, |found| add(totals, found));
    }
}

fn add(totals: &mut ThreadTotals, found: &Found) {
    if let Found::Interval(interval) = found {
        totals.add(interval);
    }
}
