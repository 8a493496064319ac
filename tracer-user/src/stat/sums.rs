//! Summing up event by event.

use tracer_analysis::{
    CallRun, Calls, Faults, Found, InterruptRun, Interrupts, Signals, Span, ThreadTotals,
};
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

/// Who is shown what is summed up, one by one.
pub trait Watcher {
    /// This was found of a thread.
    fn found(&mut self, _found: &Found) {}
    /// A span has ended.
    fn span(&mut self, _span: &Span) {}
    /// A system call has returned.
    fn call(&mut self, _call: &CallRun) {}
    /// An interrupt has ended.
    fn interrupt(&mut self, _interrupt: &InterruptRun) {}
}

/// Nobody.
impl Watcher for () {}

impl Sums {
    /// Nothing yet; of these spans.
    pub fn new(spans: Vec<SpanSpec>) -> Self {
        Self::explaining(spans, 0)
    }

    /// As [`new`](Self::new), with the critical paths of so many spans, the slowest.
    pub fn explaining(spans: Vec<SpanSpec>, slowest: usize) -> Self {
        let choice = Choice {
            slowest,
            ..Choice::default()
        };
        Self {
            paths: Paths::new(Question::Spans(spans), choice),
            totals: ThreadTotals::default(),
            calls: Calls::default(),
            faults: Faults::default(),
            signals: Signals::default(),
            interrupts: Interrupts::default(),
        }
    }

    /// All of it.
    pub fn finish(mut self, summary: Summary, watcher: &mut impl Watcher) -> Statistics {
        let totals = &mut self.totals;
        self.paths.finish(|found| {
            add(totals, found);
            watcher.found(found);
        });
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

impl Sums {
    /// Events are missing. What is found then is shown to `watcher`.
    pub fn lose_and(&mut self, gap: Gap, watcher: &mut impl Watcher) {
        let totals = &mut self.totals;
        self.paths.lose_and(gap, |found| {
            add(totals, found);
            watcher.found(found);
        });
        self.calls.lose();
        self.interrupts.lose(gap.until);
    }

    /// Goes on by one event. What is found then is shown to `watcher`.
    pub fn go_on(&mut self, event: &Event<'_>, comm: &[u8], watcher: &mut impl Watcher) {
        if let Some(call) = self.calls.feed(event) {
            watcher.call(&call);
        }
        self.faults.feed(event);
        self.signals.feed(event);
        if let Some(interrupt) = self.interrupts.feed(event) {
            watcher.interrupt(&interrupt);
        }
        let totals = &mut self.totals;
        let watcher = std::cell::RefCell::new(watcher);
        self.paths.go_on_and(
            event,
            comm,
            |found| {
                add(totals, found);
                watcher.borrow_mut().found(found);
            },
            |span| watcher.borrow_mut().span(span),
        );
    }
}

impl Follower for Sums {
    fn learn(&mut self, types: &EventTypes) {
        self.paths.learn(types);
    }

    fn lose(&mut self, gap: Gap) {
        self.lose_and(gap, &mut ());
    }

    fn event(&mut self, event: &Event<'_>, comm: &[u8]) {
        self.go_on(event, comm, &mut ());
    }
}

fn add(totals: &mut ThreadTotals, found: &Found) {
    if let Found::Interval(interval) = found {
        totals.add(interval);
    }
}
