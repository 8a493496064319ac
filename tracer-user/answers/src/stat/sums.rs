//! Summing up event by event.

use std::collections::BTreeMap;

use tracer_analysis::{
    CallRun, Calls, Faults, Finding, FunctionId, InterruptRun, Interrupts, Interval, LockTotals,
    Requests, Signals, Span, ThreadTotals,
};
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, MonotonicNs};

use super::Statistics;
use crate::queries::{
    Explained, Functions, GivenSteps, Paths, Question, Scope, SpanChoice, SpanSpec, made_by,
};
use tracer_binary::stacks::Stack;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

/// Sums so far.
#[derive(Debug)]
pub struct Sums {
    scope: Scope,
    /// Events by type, where not all are summed up.
    counts: BTreeMap<EventTypeId, u64>,
    types: EventTypes,
    paths: Paths,
    totals: ThreadTotals,
    calls: Calls,
    faults: Faults,
    signals: Signals,
    interrupts: Interrupts,
    requests: Requests,
    locks: LockTotals,
    /// Intervals of the last event that are those of waits for locks.
    lock_intervals: Vec<Interval>,
}

/// Receiver of the single findings that are summed up.
pub trait Watcher {
    /// Takes a finding about a thread.
    fn found(&mut self, _found: &Finding) {}
    /// Takes a span that has ended.
    fn span(&mut self, _span: &Span) {}
    /// Takes a system call that has returned.
    fn call(&mut self, _call: &CallRun) {}
    /// Takes an interrupt that has ended.
    fn interrupt(&mut self, _interrupt: &InterruptRun) {}
}

/// Watcher that ignores everything.
impl Watcher for () {}

impl Sums {
    /// Starts with nothing; of these spans.
    pub fn new(spans: Vec<SpanSpec>) -> Self {
        Self::explaining(spans, 0)
    }

    /// Starts as [`new`](Self::new), with the critical paths of the slowest spans, this many.
    pub fn explaining(spans: Vec<SpanSpec>, slowest: usize) -> Self {
        let choice = SpanChoice {
            slowest,
            ..SpanChoice::default()
        };
        Self::asking(Question::Spans(spans), choice)
    }

    /// Starts with nothing; answers this question too.
    pub fn asking(question: Question, choice: SpanChoice) -> Self {
        Self {
            scope: Scope::default(),
            counts: BTreeMap::new(),
            types: EventTypes::default(),
            paths: Paths::new(question, choice),
            totals: ThreadTotals::default(),
            calls: Calls::default(),
            faults: Faults::default(),
            signals: Signals::default(),
            interrupts: Interrupts::default(),
            requests: Requests::default(),
            locks: LockTotals::default(),
            lock_intervals: Vec::new(),
        }
    }

    /// Sums up requests by their routes too, where contexts of threads say these.
    #[must_use]
    pub fn by_route(self) -> Self {
        Self {
            paths: self.paths.telling_routes(),
            ..self
        }
    }

    /// Restricts it to this part of the trace: times of threads as far as they lie in it; spans,
    /// system calls and what happens at a moment where they end in it.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Self {
            paths: self.paths.within(scope.clone()),
            scope,
            ..self
        }
    }

    /// Has each span given out by [`take_explained`](Self::take_explained) from now on, with these
    /// steps of its path.
    pub fn give_out_explained(&mut self, steps: GivenSteps) {
        self.paths.give_out_explained(steps);
    }

    /// Returns the spans that were added since the last call.
    pub fn take_explained(&mut self) -> Vec<Explained> {
        self.paths.take_explained()
    }

    /// Returns the functions and locks that steps of spans speak of.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        self.paths.functions()
    }

    /// Finishes all sums.
    pub fn finish(mut self, mut summary: Summary, watcher: &mut impl Watcher) -> Statistics {
        let (mut totals, scope) = ((&mut self.totals, &mut self.faults), &self.scope);
        let (locks, intervals) = (&self.locks, &mut self.lock_intervals);
        self.paths.finish(|found| {
            add(&mut totals, scope, found);
            note_lock(locks, intervals, found);
            watcher.found(found);
        });
        self.add_locks();
        if !self.scope.is_all() {
            let named = self.counts.iter().filter_map(|(id, count)| {
                let name = self.types.name(*id)?;
                Some((name.to_vec(), *count))
            });
            summary.events = named.collect();
        }
        let names = self.paths.names();
        let others = self.totals.threads().others().cloned().unwrap_or_default();
        let (cpus, wakeups) = (self.totals.cpus(), self.totals.wakeups().clone());
        let (before, threads) = self.totals.into_threads();
        let threads = threads.into_iter();
        let before = before
            .into_iter()
            .map(|one| (one.thread, one.name, one.total));
        let mut threads: Vec<_> = threads
            .map(|(thread, total)| (thread, names.get(thread).to_vec(), total))
            .chain(before)
            .filter(|(thread, _, total)| thread.tid != 0 && total.all() > 0)
            .collect();
        threads.sort_by_key(|(thread, _, total)| (std::cmp::Reverse(total.running), *thread));
        let calls = self.calls.sorted();
        let calls = calls.into_iter().map(|(key, total)| (key, total.clone()));
        let first = self.paths.first();
        let (has_switches, has_wakeups) = self.paths.has_switches_and_wakeups();
        Statistics {
            span_ns: self.scope.ns_of(first, self.paths.last()),
            scope: self.scope,
            start: first,
            first,
            has_switches,
            has_wakeups,
            threads,
            others,
            cpus,
            wakeups,
            calls: calls.collect(),
            faults: self.faults,
            signals: self.signals,
            interrupts: self.interrupts,
            requests: self.requests,
            locks: self.locks,
            paths: self.paths,
            lost: summary.lost_in_trace(),
            summary,
        }
    }
}

impl Sums {
    /// Handles a gap: events are missing. What is found then is shown to `watcher`.
    pub fn lose_and(&mut self, gap: Gap, watcher: &mut impl Watcher) {
        let (mut totals, scope) = ((&mut self.totals, &mut self.faults), &self.scope);
        let (locks, intervals) = (&self.locks, &mut self.lock_intervals);
        self.paths.lose_and(gap, |found| {
            add(&mut totals, scope, found);
            note_lock(locks, intervals, found);
            watcher.found(found);
        });
        self.add_locks();
        if gap.tid.is_some() {
            return;
        }
        self.calls.lose();
        self.interrupts.lose(gap.until);
        self.requests.lose();
    }

    /// Takes the stack of the next event.
    pub fn take_stack(&mut self, stack: &Stack<'_>) {
        self.paths.take_stack(stack);
    }

    /// Has the thread of the next event wait in this function, where it does.
    pub fn next_waits_in(&mut self, function: FunctionId) {
        self.paths.next_waits_in(function);
    }

    /// Continues by one event. What is found then is shown to `watcher`.
    pub fn go_on(&mut self, event: &Event<'_>, comm: &[u8], watcher: &mut impl Watcher) {
        let header = event.header;
        let is_in_time = self.scope.has_time(header.time);
        let is_in_scope = is_in_time && self.scope.has_process(header.pid);
        // A call that returns in that time may have been entered before.
        if (is_in_scope || header.event_type != EventTypeId::SYSCALL_EXIT)
            && let Some(call) = self.calls.feed(event)
        {
            watcher.call(&call);
        }
        if is_in_scope {
            self.faults.feed(event);
            if !self.scope.is_all() {
                *self.counts.entry(header.event_type).or_default() += 1;
            }
        }
        // As may a request that is completed in that time.
        self.requests.feed(event, is_in_scope);
        // A signal is one of the process that it is sent to, and an interrupt is the machine's.
        if is_in_time {
            self.signals.feed(event);
            if let Some(interrupt) = self.interrupts.feed(event) {
                watcher.interrupt(&interrupt);
            }
        }
        let made = made_by(event);
        let before = made.map(|made| self.paths.names().get(made).to_vec());
        let (mut totals, scope) = ((&mut self.totals, &mut self.faults), &self.scope);
        let (locks, intervals) = (&self.locks, &mut self.lock_intervals);
        let watcher = std::cell::RefCell::new(watcher);
        self.paths.go_on_and(
            event,
            comm,
            |found| {
                if let (Finding::Birth(birth), Some(name)) = (found, &before)
                    && Some(birth.thread) == made
                {
                    totals.0.begin(birth.thread, name);
                }
                add(&mut totals, scope, found);
                note_lock(locks, intervals, found);
                watcher.borrow_mut().found(found);
            },
            |span| watcher.borrow_mut().span(span),
        );
        self.add_locks();
    }

    /// Adds the waits for locks of the last event.
    fn add_locks(&mut self) {
        let woken_at = self.paths.take_waking_function();
        let table = &self.paths.functions().locks;
        let within = (self.scope.from, self.scope.until);
        for interval in self.lock_intervals.drain(..) {
            if self.scope.has_process(interval.thread.pid) {
                self.locks.add((&interval, woken_at), table, within);
            }
        }
    }
}

impl Consumer for Sums {
    fn idle(&mut self, now: MonotonicNs) {
        self.paths.advance(now);
    }

    fn learn_types(&mut self, types: &EventTypes) {
        if !self.scope.is_all() {
            self.types = types.clone();
        }
        self.paths.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.lose_and(*gap, &mut ());
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let (event, comm) = (&view.event, view.comm.unwrap_or_default());
        if let Some(stack) = &view.stack {
            self.take_stack(stack);
        }
        self.go_on(event, comm, &mut ());
        self.paths.note_route(event, view.context);
        Ok(())
    }
}

/// Sums over threads.
type OfThreads<'a> = (&'a mut ThreadTotals, &'a mut Faults);

fn note_lock(locks: &LockTotals, intervals: &mut Vec<Interval>, found: &Finding) {
    if let Finding::Interval(interval) = found
        && (locks.concerns(interval) || intervals.iter().any(|one| one.thread == interval.thread))
    {
        intervals.push(*interval);
    }
}

fn add((totals, faults): &mut OfThreads<'_>, scope: &Scope, found: &Finding) {
    match found {
        Finding::Interval(interval) if scope.has_process(interval.thread.pid) => {
            totals.add_within(interval, scope.from, scope.until);
            faults.note(interval);
        }
        Finding::Death(thread) => totals.end(*thread),
        Finding::Interval(_) | Finding::Birth(_) | Finding::Taken(_) => {}
    }
}
