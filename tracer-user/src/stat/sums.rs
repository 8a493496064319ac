//! Summing up event by event.

use std::collections::hash_map::Entry;

use foldhash::HashMap;
use tracer_analysis::{Calls, Thread, ThreadStates, ThreadTotals};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, EventHeader, MonotonicNs};

use super::Statistics;
use crate::log_view::Entry as LogEntry;
use crate::report::Summary;

/// Threads whose names are remembered; those beyond are shown without.
const MOST_NAMES: usize = 65_536;

/// An event until it is known whether others were lost before it.
#[derive(Debug, Default)]
pub struct Held {
    header: Option<EventHeader>,
    data: Vec<u8>,
    comm: Vec<u8>,
}

impl Held {
    /// Holds an event.
    pub fn hold(&mut self, entry: &LogEntry<'_>) {
        self.header = Some(entry.line.event.header);
        self.data.clear();
        self.data.extend_from_slice(entry.line.event.data);
        self.comm.clear();
        self.comm
            .extend_from_slice(entry.line.comm.unwrap_or_default());
    }
}

/// What is summed up so far.
#[derive(Debug, Default)]
pub struct Sums {
    /// Since the first event.
    states: Option<ThreadStates>,
    totals: ThreadTotals,
    calls: Calls,
    names: HashMap<Thread, Vec<u8>>,
    has_switches: bool,
    has_wakeups: bool,
}

impl Sums {
    /// Events were lost before the next one.
    pub fn lose(&mut self) {
        if let Some(states) = &mut self.states {
            states.lose();
        }
        self.calls.lose();
    }

    /// Adds the event that is held, if one is.
    pub fn add(&mut self, held: &mut Held) {
        let Some(header) = held.header.take() else {
            return;
        };
        let event = Event {
            header,
            data: &held.data,
        };
        self.has_switches |= header.event_type == EventTypeId::SWITCH_OUT;
        self.has_wakeups |= header.event_type == EventTypeId::WAKEUP;
        self.name(&header, &held.comm);
        self.calls.feed(&event);
        let states = self
            .states
            .get_or_insert_with(|| ThreadStates::new(header.time));
        states.feed(&event, |interval| self.totals.add(&interval));
    }

    fn name(&mut self, header: &EventHeader, comm: &[u8]) {
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let count = self.names.len();
        match self.names.entry(thread) {
            Entry::Occupied(mut known) if !comm.is_empty() && known.get() != comm => {
                known.insert(comm.to_vec());
            }
            Entry::Vacant(unknown) if count < MOST_NAMES => {
                unknown.insert(comm.to_vec());
            }
            Entry::Occupied(_) | Entry::Vacant(_) => {}
        }
    }

    /// All of it, of events from `first` to `last`.
    pub fn finish(
        mut self,
        first: MonotonicNs,
        last: MonotonicNs,
        lost: u64,
        summary: Summary,
    ) -> Statistics {
        if let Some(states) = &mut self.states {
            states.end(last, |interval| self.totals.add(&interval));
        }
        let mut threads: Vec<_> = self
            .totals
            .sorted()
            .into_iter()
            .filter(|(thread, total)| thread.tid != 0 && total.all() > 0)
            .map(|(thread, total)| {
                let name = self.names.get(&thread).cloned().unwrap_or_default();
                (thread, name, total.clone())
            })
            .collect();
        threads.sort_by_key(|(thread, _, total)| (std::cmp::Reverse(total.running), *thread));
        let calls = self.calls.sorted();
        let calls = calls.into_iter().map(|(key, total)| (key, total.clone()));
        Statistics {
            span_ns: last.0.saturating_sub(first.0),
            first,
            has_switches: self.has_switches,
            has_wakeups: self.has_wakeups,
            threads,
            others: self.totals.others().clone(),
            calls: calls.collect(),
            lost,
            summary,
        }
    }
}
