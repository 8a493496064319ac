//! How long threads are without a CPU at a time, and for what.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_engine::event::MonotonicNs;

use crate::state::{Interval, IntervalEnd, State, Thread, Waker};
use crate::thread_states::Finding;

/// A thread is without a CPU: what it does from when it leaves one until it gets one again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Since when, as far as it is known.
    pub from: MonotonicNs,
    /// Until when, so far.
    pub to: MonotonicNs,
    /// How long it waited for something else, or was stopped, in nanoseconds.
    pub blocked_ns: u64,
    /// How long it could have run, in nanoseconds.
    pub runnable_ns: u64,
    /// Waker that ended its waiting.
    pub waker: Option<Waker>,
}

impl Absence {
    /// Returns its whole length, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.blocked_ns.saturating_add(self.runnable_ns)
    }
}

/// The threads that are without a CPU, from the intervals that
/// [`ThreadStates`](crate::ThreadStates) finds.
///
/// A thread comes back with a switch to it: that is fed to [`ThreadStates`](crate::ThreadStates)
/// first, what is found is [added](Self::add), and then its absence is [taken](Self::take).
#[derive(Debug, Default)]
pub struct Absences {
    threads: HashMap<Thread, Absence, RandomState>,
}

impl Absences {
    /// Adds what was found. As many threads are remembered as [`ThreadStates`](crate::ThreadStates)
    /// knows.
    pub fn add(&mut self, found: &Finding) {
        let Finding::Interval(interval) = found else {
            return;
        };
        match interval.state {
            State::Blocked(_) | State::Stopped => {
                let absence = self.get_or_begin(interval);
                absence.blocked_ns = absence.blocked_ns.saturating_add(interval.ns());
                if let IntervalEnd::Woken(waker) = interval.end {
                    absence.waker = Some(waker);
                }
            }
            State::Runnable(_) => {
                let absence = self.get_or_begin(interval);
                absence.runnable_ns = absence.runnable_ns.saturating_add(interval.ns());
            }
            // What it did before is not known to belong to what comes.
            State::Unknown | State::Running | State::Dead => {
                self.threads.remove(&interval.thread);
            }
        }
    }

    fn get_or_begin(&mut self, interval: &Interval) -> &mut Absence {
        let new = Absence {
            from: interval.from,
            to: interval.to,
            blocked_ns: 0,
            runnable_ns: 0,
            waker: None,
        };
        let absence = self.threads.entry(interval.thread).or_insert(new);
        absence.to = interval.to;
        absence
    }

    /// Returns the absence of a thread that comes back; `None` where none is known.
    pub fn take(&mut self, thread: Thread) -> Option<Absence> {
        self.threads.remove(&thread)
    }

    /// Returns the threads that have not come back, in order.
    pub fn rest(&mut self) -> Vec<(Thread, Absence)> {
        let mut rest: Vec<_> = self.threads.drain().collect();
        rest.sort_unstable_by_key(|(thread, _)| *thread);
        rest
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::story::{Story, thread};

    /// The absences of a story whose intervals are all there.
    fn collect_absences(story: &Story, tid: i32) -> Absences {
        let mut absences = Absences::default();
        let found = story.history.intervals_since(thread(tid), MonotonicNs(0));
        let mut found: Vec<Interval> = found.collect();
        found.sort_by_key(|interval| interval.from);
        for interval in found {
            absences.add(&Finding::Interval(interval));
        }
        absences
    }

    #[test]
    fn a_thread_is_away_from_when_it_leaves_its_cpu_until_it_gets_one() {
        let mut story = Story::new();
        story.switch(100, 0, (0, None), 7);
        story.switch(200, 0, (7, Some(0)), 8);
        story.wake(900, 7, 0, 8);
        story.switch(950, 0, (8, Some(0)), 7);
        let mut absences = collect_absences(&story, 7);
        let absence = absences.take(thread(7)).unwrap();
        assert_eq!((absence.from.0, absence.to.0), (200, 950));
        assert_eq!((absence.blocked_ns, absence.runnable_ns), (700, 50));
        assert_eq!(absence.ns(), 750);
        let Some(Waker::Thread(waker)) = absence.waker else {
            panic!("{absence:?}");
        };
        assert_eq!(waker.thread, thread(8));
        assert_eq!(absences.take(thread(7)), None);
        assert!(absences.rest().is_empty());
    }

    #[test]
    fn the_unknown_is_no_absence() {
        let mut story = Story::new();
        story.switch(100, 0, (0, None), 7);
        story.switch(200, 0, (7, Some(0)), 8);
        let mut absences = Absences::default();
        let mut add = |story: &mut Story| {
            story.states.lose(None, |found| absences.add(&found));
        };
        add(&mut story);
        let header = crate::story::header(900, EventTypeId::SWITCH_IN, 7, 0);
        let event = tracer_engine::event::Event {
            header,
            data: &[0; 24],
        };
        story.states.feed(&event, |found| absences.add(&found));
        assert_eq!(absences.take(thread(7)), None);
    }
}
