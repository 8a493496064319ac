//! Contents of a log, counted in one walk.

use std::collections::HashMap;

use tracer_engine::Attributes;
use tracer_engine::ClockPair;
use tracer_engine::event::RealtimeNs;
use tracer_log::FinalStatus;

use super::{EventSpan, Log, Pause, Walk};
use tracer_event::event_view::EventView;
use tracer_event::summary::Summary;
use tracer_output::terminal::Outcome;

/// Most threads that are counted one by one: a log can have more than that.
const MOST_THREADS: usize = 65_536;

/// Events between two looks at whether there are more.
const AT_ONCE: usize = 4096;

/// A thread and its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCount {
    /// Its process; 0 for events of no process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Its last name: any bytes; empty where unknown.
    pub comm: Vec<u8>,
    /// Its events.
    pub events: u64,
}

/// Contents of a log.
#[derive(Debug)]
pub struct Inventory {
    /// The attributes of its stream.
    pub attributes: Attributes,
    /// The clocks when it was made.
    pub anchor: ClockPair,
    /// Its status at the end; `None` when it was not completed.
    pub status: Option<FinalStatus>,
    /// Bytes of the log.
    pub bytes: u64,
    /// Bytes of data that the events carry.
    pub data_bytes: u64,
    /// Events by type, and counts of missing ones.
    pub summary: Summary,
    /// The first and the last event.
    pub span: Option<EventSpan>,
    /// End of the trace, as a date; `None` where the log does not say it.
    pub ended: Option<RealtimeNs>,
    /// Its threads, those with most events first.
    pub threads: Vec<ThreadCount>,
    /// Events of threads beyond those that are counted each for itself.
    pub events_of_other_threads: u64,
}

impl Inventory {
    /// Counts the events that `walk` goes by, in a log of this many bytes.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn take<L: Log>(mut walk: Walk<L>, bytes: u64) -> anyhow::Result<Self> {
        let mut threads = Threads::default();
        let mut data_bytes = 0_u64;
        let mut count = |entry: &EventView<'_>| {
            let bytes = u64::try_from(entry.event.data.len()).unwrap_or(u64::MAX);
            data_bytes = data_bytes.saturating_add(bytes);
            threads.count(entry);
            Ok(())
        };
        while walk.go_on(AT_ONCE, &mut count)? == Pause::Midway {}
        let log = walk.log();
        Ok(Self {
            attributes: log.header().attributes.clone(),
            anchor: walk.anchor(),
            status: log.final_status(),
            bytes,
            data_bytes,
            summary: walk.summary(),
            span: walk.span(),
            ended: ended(&walk),
            events_of_other_threads: threads.others,
            threads: threads.sorted(),
        })
    }

    /// Returns the count of its events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.summary.events.iter().map(|(_, count)| count).sum()
    }

    /// Tells whether anything is missing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        super::read::outcome(&self.summary, false)
    }
}

/// Returns the time when the trace ended, by the date of the last event.
fn ended<L: Log>(walk: &Walk<L>) -> Option<RealtimeNs> {
    let last = walk.span()?.last;
    let later = walk.ended()?.0.saturating_sub(last.0.0);
    Some(RealtimeNs(last.1.0.saturating_add(later)))
}

#[derive(Debug, Default)]
struct Threads {
    known: HashMap<(i32, i32), ThreadCount>,
    others: u64,
}

impl Threads {
    fn count(&mut self, entry: &EventView<'_>) {
        let header = &entry.event.header;
        let thread = (header.pid, header.tid);
        if self.known.len() >= MOST_THREADS && !self.known.contains_key(&thread) {
            self.others += 1;
            return;
        }
        let known = self.known.entry(thread).or_insert_with(|| ThreadCount {
            pid: header.pid,
            tid: header.tid,
            comm: Vec::new(),
            events: 0,
        });
        known.events += 1;
        if let Some(comm) = entry.comm
            && comm != known.comm
        {
            known.comm.clear();
            known.comm.extend_from_slice(comm);
        }
    }

    fn sorted(self) -> Vec<ThreadCount> {
        let mut threads: Vec<ThreadCount> = self.known.into_values().collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.events), thread.pid, thread.tid));
        threads
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::WantedEvents;
    use crate::test_log::TestLog;

    #[test]
    fn threads_are_counted_and_the_busiest_comes_first() {
        let mut log = TestLog::default();
        let request = log.define(b"request");
        log.push(100, EventTypeId::FORK, (7, 7), b"12");
        log.push(200, request, (7, 8), b"345");
        log.push(1_500_000_300, request, (7, 8), b"");
        let inventory = Inventory::take(Walk::new(log, WantedEvents::default()), 2).unwrap();

        let counts: Vec<_> = inventory
            .threads
            .iter()
            .map(|thread| (thread.pid, thread.tid, thread.events))
            .collect();
        assert_eq!(counts, [(7, 8, 2), (7, 7, 1)]);
        assert_eq!(inventory.threads[0].comm, b"worker");
        assert_eq!(inventory.events(), 3);
        assert_eq!(inventory.data_bytes, 5);
        assert_eq!(inventory.span.unwrap().ns(), 1_500_000_200);
        assert_eq!(inventory.outcome(), Outcome::EventsLost, "not completed");
    }

    #[test]
    fn endless_threads_do_not_take_endless_memory() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        for tid in 0..70_000 {
            log.push(100, name, (1, tid), b"");
        }
        let inventory = Inventory::take(Walk::new(log, WantedEvents::default()), 2).unwrap();

        assert_eq!(inventory.threads.len(), MOST_THREADS);
        assert_eq!(inventory.events_of_other_threads, 70_000 - 65_536);
        assert_eq!(inventory.events(), 70_000);
    }
}
