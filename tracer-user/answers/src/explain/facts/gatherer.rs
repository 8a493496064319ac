//! The consumer that gathers facts.

use foldhash::HashMap;
use tracer_analysis::{
    Finding, Interval, Reason, State, Thread, ThreadTotal, WaitTotals, calls_are_recorded,
};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ForkData, SampleData};
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes as _;

use super::{
    CallCost, CallCoverage, CallSums, Crews, Details, KnownPlaces, MadeProcesses, PathFacts,
    Queues, TraceFacts, Windows,
};
use crate::queries::{Question, SpanChoice};
use crate::stat::{Sums, Watcher};
use tracer_binary::stacks::Stack;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::{Gap, switches_by};
use tracer_event::summary::Summary;

/// Threads whose last wait is remembered.
const MOST_THREADS: usize = 65_536;

/// Facts so far.
#[derive(Debug)]
pub struct Gatherer {
    sums: Sums,
    details: Details,
    calls: CallSums,
    places: KnownPlaces,
    made: MadeProcesses,
    seen: Seen,
    /// The process that traces, where it is this one.
    tracer: Option<i32>,
}

/// Findings about single waits.
#[derive(Debug, Default)]
struct Seen {
    waits: WaitTotals,
    queues: Queues,
    windows: CallCoverage,
    /// Windows in which switches were recorded, and the time of all threads of which nothing is
    /// known outside of them, in nanoseconds.
    switches: Windows,
    unrecorded_ns: u64,
    /// Reason and length of each thread's last wait.
    last: HashMap<Thread, (Reason, u64)>,
}

impl Watcher for Seen {
    fn found(&mut self, found: &Finding) {
        if let Finding::Interval(interval) = found
            && interval.thread.tid != 0
        {
            self.waits.add(interval);
            self.queues.add(interval);
            self.windows.add(interval);
            if interval.state == State::Unknown {
                let (from, to) = (interval.from.0, interval.to.0);
                self.unrecorded_ns += self.switches.closed_ns(from, to);
            }
            self.remember(interval);
        }
    }
}

impl Seen {
    fn remember(&mut self, interval: &Interval) {
        if let State::Blocked(reason) = interval.state {
            if self.last.len() >= MOST_THREADS {
                self.last.clear();
            }
            self.last.insert(interval.thread, (reason, interval.ns()));
        }
    }
}

impl Gatherer {
    /// Starts with nothing; the path is that of this thread, or of the first that is seen.
    #[must_use]
    pub fn new(tid: Option<i32>) -> Self {
        let question = Question::Thread {
            tid,
            from: None,
            until: None,
        };
        let choice = SpanChoice {
            slowest: 1,
            is_without_segments: true,
            ..SpanChoice::default()
        };
        Self {
            sums: Sums::asking(question, choice),
            details: Details::default(),
            calls: CallSums::default(),
            places: KnownPlaces::default(),
            made: MadeProcesses::default(),
            seen: Seen::default(),
            tracer: None,
        }
    }

    /// Tells from now on the threads of this process as those of the trace itself.
    #[must_use]
    pub fn of_this_trace(self) -> Self {
        Self {
            tracer: i32::try_from(std::process::id()).ok(),
            ..self
        }
    }

    /// Returns the facts, once there are no more events.
    #[must_use]
    pub fn finish(mut self, summary: &Summary) -> TraceFacts {
        let statistics = self.sums.finish(summary.clone(), &mut self.seen);
        let lives = statistics.threads.iter().map(|(.., total)| total.all());
        let wall = lives.max().unwrap_or(0).min(statistics.span_ns);
        let known = statistics.threads.iter().map(|(.., total)| known(total));
        let seen = match statistics.lost {
            0 => known.max().unwrap_or(0).min(wall),
            _ => wall,
        };
        let waits = self.seen.waits.totals().sorted().into_iter();
        let mut waits: Vec<_> = waits.map(|(key, total)| (key, *total)).collect();
        waits.sort_by_key(|(key, total)| (std::cmp::Reverse(total.ns), *key));
        let mut calls = self.calls;
        calls.estimate(&self.seen.windows, CallCost::from_summary(summary));
        let switches = statistics.summary.unrecorded.switches;
        let unrecorded = switches.map_or(0, |(recorded, all)| all.saturating_sub(recorded));
        let path = PathFacts::new(&statistics.paths, wall, unrecorded);
        // The first thread may have been there before its first event.
        let of_path = path.as_ref().map_or(0, |path| path.ns);
        TraceFacts {
            path,
            unrecorded_ns: self.seen.unrecorded_ns,
            wall: wall.max(of_path),
            seen,
            crews: Crews::new(&statistics),
            statistics,
            waits,
            details: self.details,
            calls,
            windows: self.seen.windows,
            places: self.places,
            made: self.made,
            queues: self.seen.queues,
            tracer: self.tracer,
        }
    }

    /// Notes in which function a thread waited that has a CPU again.
    fn add_wait(&mut self, thread: Thread, stack: Option<&Stack<'_>>) {
        if let (Some((reason, ns)), Some(stack)) = (self.seen.last.remove(&thread), stack) {
            self.places.add_wait((thread, reason), stack, ns);
        }
    }

    fn sample(&mut self, thread: Thread, event: &Event<'_>, stack: Option<&Stack<'_>>) {
        let sampled = SampleData::read_from_prefix(event.data);
        let ns = sampled.map_or(0, |(data, _)| data.sampled_ns);
        self.places.add_sample(thread, stack, ns);
    }
}

/// Returns how long it is known what a thread did, in nanoseconds.
fn known(total: &ThreadTotal) -> u64 {
    total.all().saturating_sub(total.unknown)
}

impl Consumer for Gatherer {
    fn idle(&mut self, now: MonotonicNs) {
        self.sums.idle(now);
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.sums.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.sums.lose_and(*gap, &mut self.seen);
        if gap.tid.is_none() {
            self.calls.lose();
            self.seen.last.clear();
        }
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let (event, comm) = (&view.event, view.comm.unwrap_or_default());
        let thread = Thread {
            pid: event.header.pid,
            tid: event.header.tid,
        };
        self.calls.feed(event);
        self.made.feed(event, comm);
        match event.header.event_type {
            EventTypeId::SWITCH_OUT => {
                let is_open = self.seen.windows.is_open();
                if let Some(detail) = self.calls.detail_at_switch(thread, event.data, is_open) {
                    let number = self.details.number(detail);
                    self.sums.next_waits_in(number);
                }
            }
            EventTypeId::FILTER => {
                let at = event.header.time.0;
                if let Some((_, are_recorded)) = switches_by(event) {
                    self.seen.switches.change(at, are_recorded);
                }
                if let Some(are_recorded) = calls_are_recorded(event) {
                    self.seen.windows.change(at, are_recorded);
                }
            }
            EventTypeId::SYSCALL_EXIT => self.seen.windows.count_call(thread.pid),
            EventTypeId::SWITCH_IN => self.add_wait(thread, view.stack.as_ref()),
            EventTypeId::SAMPLE => self.sample(thread, event, view.stack.as_ref()),
            EventTypeId::FORK => {
                if let Ok((data, _)) = ForkData::read_from_prefix(event.data) {
                    self.calls.fork(thread.pid, data.child_pid.cast_signed());
                }
            }
            _ => {}
        }
        self.sums.go_on(event, comm, &mut self.seen);
        Ok(())
    }
}
