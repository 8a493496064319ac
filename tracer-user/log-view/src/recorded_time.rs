//! When a log was recorded, from what its streams say of themselves.

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, MonotonicNs};
use tracer_engine::{Attributes, EventSet, StreamFullPolicy};
use tracer_event::gap::has_switches;
use tracer_event::predicate::{FilterReach, LogChoices};
use tracer_event::unrecorded::{Break, UnrecordedPart};

/// Types of system calls.
const CALLS: [EventTypeId; 2] = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];

/// Types of the events by which what is recorded changes.
const MEANT: [EventTypeId; 5] = [
    EventTypeId::START,
    EventTypeId::STOP,
    EventTypeId::FILTER,
    EventTypeId::OVERFLOW,
    EventTypeId::RENAME,
];

/// Least time, in nanoseconds, between two recordings in one log.
const SHORTEST_BETWEEN_NS: u64 = 100;

/// Data of a STOP of a stream that stopped itself.
const BY_ITSELF: [u8; 4] = 1_i32.to_ne_bytes();

/// Knowledge of what was recorded, up to an event.
#[derive(Debug, Default)]
pub struct RecordedTime {
    choices: LogChoices,
    /// Start of the log.
    start: MonotonicNs,
    /// Time of the last event, once there was one of other things than streams.
    last: Option<MonotonicNs>,
    /// Reason why nothing is recorded since the last event.
    stopped: Option<Break>,
    /// Whether a stream's filter leaves out switches.
    lacks_switches: bool,
    /// Whether the stream looped, so that its newest events were to be recorded alone. In any other
    /// events that give way are lost.
    is_looping: bool,
    /// Thread that has changed its name with the last event.
    renamed: Option<i32>,
    /// Threads that had before, and the last of them.
    renames: (u64, i32),
    breaks: UnrecordedPart,
    calls: PartTime,
    switches: PartTime,
}

/// Events that may be missing before an event since they were not to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Breaks so far, in which nothing was recorded.
    pub breaks: u64,
    /// Whether events of threads may be missing at any time from now on.
    pub is_partial: bool,
    /// Whether also one end of what has two.
    pub has_lone_ends: bool,
    /// Threads so far that had no events from a change of their names on, until they have one
    /// again, and the last of them.
    pub renames: (u64, i32),
}

impl RecordedTime {
    /// Begins with a log that was made at this time, and whose stream has these attributes.
    pub fn new(start: MonotonicNs, stream: &Attributes) -> Self {
        Self {
            choices: LogChoices::of_stream(stream.name().as_bytes()),
            is_looping: stream.stream_full_policy() == StreamFullPolicy::Loop,
            start,
            ..Self::default()
        }
    }

    /// Notes the next event. Returns what may be missing before it.
    pub fn note(&mut self, event: &Event<'_>) -> Missed {
        let (id, at) = (event.header.event_type, event.header.time);
        if self.stopped.is_some() || self.renamed.is_some() || MEANT.contains(&id) {
            self.note_change(event);
        }
        // What streams say of themselves is no time in which something was recorded.
        if self.last.is_some() || id > EventTypeId::FLUSH_STOP {
            self.last = Some(at);
        }
        self.calls.go_on(at);
        self.switches.go_on(at);
        self.missed()
    }

    /// Notes what an event changes of what is recorded.
    fn note_change(&mut self, event: &Event<'_>) {
        let id = event.header.event_type;
        if let Some(tid) = self.renamed.take() {
            self.renames = (self.renames.0 + 1, tid);
        }
        self.note_break(event);
        self.note_filter(event);
        match id {
            EventTypeId::STOP => {
                let is_by_itself = event.data.first_chunk() == Some(&BY_ITSELF);
                self.stopped = Some(if is_by_itself {
                    Break::Full
                } else {
                    Break::Stopped
                });
            }
            EventTypeId::OVERFLOW if self.is_looping => self.stopped = Some(Break::GaveWay),
            EventTypeId::RENAME if self.reach() == Some(FilterReach::Names) => {
                self.renamed = Some(event.header.tid);
            }
            _ => {}
        }
    }

    /// Returns what may be missing behind the last event.
    pub fn behind(&self) -> Missed {
        let missed = self.missed();
        let (count, last) = missed.renames;
        Missed {
            breaks: missed.breaks + u64::from(self.is_stopped()),
            renames: self.renamed.map_or((count, last), |tid| (count + 1, tid)),
            ..missed
        }
    }

    /// Tells whether nothing was recorded after the last event.
    pub fn is_stopped(&self) -> bool {
        self.last.is_some() && self.stopped.is_some()
    }

    /// Returns what was not recorded of a log whose trace ended at this time.
    pub fn unrecorded(&self, ended: Option<MonotonicNs>) -> UnrecordedPart {
        let mut all = UnrecordedPart {
            filter: self.choices.filter.clone(),
            chosen_calls: self.choices.calls.clone(),
            calls: self.calls.part(ended),
            switches: self.switches.part(ended),
            ..self.breaks.clone()
        };
        if let (Some(last), Some(cause)) = (self.last, self.stopped) {
            self.add_break(&mut all, (last, ended.unwrap_or(last)), cause);
        }
        all
    }

    fn reach(&self) -> Option<FilterReach> {
        let filter = self.choices.filter.as_ref();
        filter.map(|filter| filter.reach)
    }

    fn missed(&self) -> Missed {
        let has_lone_ends = self.reach() == Some(FilterReach::Ends);
        let is_of_events = self.reach() == Some(FilterReach::Events);
        Missed {
            breaks: self.breaks.breaks,
            is_partial: has_lone_ends || is_of_events || self.lacks_switches,
            has_lone_ends,
            renames: self.renames,
        }
    }

    /// Notes that nothing was recorded from the last event up to this one, where that is so.
    fn note_break(&mut self, event: &Event<'_>) {
        let at = event.header.time;
        let last = self.last.unwrap_or(at);
        let continued = (event.header.event_type == EventTypeId::START
            && at.0.saturating_sub(last.0) >= SHORTEST_BETWEEN_NS)
            .then_some(Break::Continued);
        let stopped = self.stopped.take();
        let Some(cause) = stopped.or(continued) else {
            return;
        };
        if let Some(last) = self.last {
            let mut breaks = std::mem::take(&mut self.breaks);
            self.add_break(&mut breaks, (last, at), cause);
            self.breaks = breaks;
        }
    }

    fn add_break(
        &self,
        to: &mut UnrecordedPart,
        (from, until): (MonotonicNs, MonotonicNs),
        why: Break,
    ) {
        to.breaks += 1;
        to.break_ns = to.break_ns.saturating_add(until.0.saturating_sub(from.0));
        to.last_break = from.0.saturating_sub(self.start.0);
        if !to.causes.contains(&why) {
            to.causes.push(why);
        }
    }

    /// Notes the types that a stream records from now on.
    fn note_filter(&mut self, event: &Event<'_>) {
        let (header, is_change) = (event.header, event.header.event_type == EventTypeId::FILTER);
        let set = match header.event_type {
            EventTypeId::START => event.data,
            EventTypeId::FILTER => event.data.get(size_of::<EventSet>()..).unwrap_or(&[]),
            _ => return,
        };
        let Some(set) = EventSet::from_bytes(set) else {
            return;
        };
        self.lacks_switches = !has_switches(&set);
        if is_change && let Some(before) = EventSet::from_bytes(event.data) {
            let records = |set: &EventSet| CALLS.iter().all(|id| !set.contains(*id));
            self.calls
                .change(header.time, (records(&before), records(&set)));
            self.switches
                .change(header.time, (has_switches(&before), has_switches(&set)));
        }
    }
}

/// Time in which events of some types were recorded.
#[derive(Debug, Default)]
struct PartTime {
    /// Time of the first event.
    first: Option<MonotonicNs>,
    /// When it was seen last whether they are recorded, and whether they are.
    change: Option<(MonotonicNs, bool)>,
    recorded_ns: u64,
    last: MonotonicNs,
    /// Whether they were recorded and were not.
    seen: (bool, bool),
}

impl PartTime {
    fn go_on(&mut self, at: MonotonicNs) {
        self.first.get_or_insert(at);
        self.last = at;
    }

    /// Notes whether they were recorded, and are from now on.
    fn change(&mut self, at: MonotonicNs, (before, are_recorded): (bool, bool)) {
        let first = *self.first.get_or_insert(at);
        let (since, were_recorded) = self.change.unwrap_or((first, before));
        if were_recorded {
            self.recorded_ns += at.0.saturating_sub(since.0);
        }
        self.seen.0 |= are_recorded || were_recorded;
        self.seen.1 |= !(are_recorded && were_recorded);
        self.change = Some((at, are_recorded));
    }

    /// Returns the time in which they were recorded, and all of it; `None` where that is the same.
    fn part(&self, ended: Option<MonotonicNs>) -> Option<(u64, u64)> {
        let (first, (since, are_recorded)) = (self.first?, self.change?);
        let end = ended.unwrap_or(self.last).0;
        let rest = if are_recorded {
            end.saturating_sub(since.0)
        } else {
            0
        };
        (self.seen == (true, true)).then(|| (self.recorded_ns + rest, end.saturating_sub(first.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_log::TestLog;
    use crate::{GapWatch, Pause, Walk, WantedEvents};
    use tracer_event::gap::Gap;

    /// When the next event is, until when it lasts, and of which thread.
    type Found = (u64, Option<u64>, Option<i32>);

    fn gaps(log: TestLog) -> (Vec<Found>, UnrecordedPart) {
        let mut walk = Walk::new(log, WantedEvents::default());
        let mut watch = GapWatch::default();
        let mut found = Vec::new();
        let mut add = |gap: Option<Gap>| {
            if let Some(gap) = gap {
                assert!(gap.is_unrecorded && !gap.is_kernels);
                found.push((gap.next.0, gap.until.map(|until| until.0), gap.tid));
            }
        };
        let pause = watch.go_on(&mut walk, 100, |_, gap, _| {
            add(gap);
            Ok(())
        });
        assert_eq!(pause.unwrap(), Pause::End);
        add(watch.behind(&walk));
        (found, walk.summary().unrecorded)
    }

    fn set(types: &[EventTypeId]) -> Vec<u8> {
        types
            .iter()
            .copied()
            .collect::<EventSet>()
            .to_bytes()
            .to_vec()
    }

    fn log_of(name: &str) -> TestLog {
        let mut log = TestLog::default();
        let attributes = log.header.attributes.clone().with_name(name);
        log.header.attributes = attributes;
        log
    }

    const ONE: (i32, i32) = (1, 1);
    const NONE: (i32, i32) = (0, 0);

    #[test]
    fn a_log_that_was_continued_has_a_break() {
        let mut log = log_of("tracer-user");
        log.push(100, EventTypeId::START, NONE, &set(&[]));
        log.push(150, EventTypeId::EXEC, ONE, b"");
        log.push(900, EventTypeId::START, NONE, &set(&[]));
        log.push(950, EventTypeId::EXEC, ONE, b"");
        let (gaps, unrecorded) = gaps(log);
        assert_eq!(gaps, [(900, Some(900), None)]);
        assert_eq!((unrecorded.breaks, unrecorded.break_ns), (1, 750));
        assert_eq!(unrecorded.last_break, 50, "since the log's start");
        assert_eq!(unrecorded.causes, [Break::Continued]);
    }

    #[test]
    fn a_stream_that_has_stopped_itself_records_nothing() {
        let mut log = log_of("tracer-user");
        log.push(150, EventTypeId::EXEC, ONE, b"");
        log.push(200, EventTypeId::STOP, NONE, &BY_ITSELF);
        log.push(500, EventTypeId::START, NONE, &set(&[]));
        log.push(550, EventTypeId::EXEC, ONE, b"");
        log.push(600, EventTypeId::STOP, NONE, &0_i32.to_ne_bytes());
        log.ended = Some(MonotonicNs(1000));
        let (gaps, unrecorded) = gaps(log);
        assert_eq!(gaps, [(500, Some(500), None), (600, None, None)]);
        assert_eq!((unrecorded.breaks, unrecorded.break_ns), (2, 700));
        assert_eq!(unrecorded.causes, [Break::Full, Break::Stopped]);
    }

    #[test]
    fn what_gave_way_leaves_a_break_but_at_the_beginning() {
        let mut log = log_of("tracer-user");
        let looping = log.header.attributes.clone();
        log.header.attributes = looping.with_stream_full_policy(StreamFullPolicy::Loop);
        for at in [100, 200] {
            log.push(at, EventTypeId::OVERFLOW, NONE, b"");
            log.push(at + 50, EventTypeId::RESUME, NONE, b"");
            log.push(at + 60, EventTypeId::EXEC, ONE, b"");
        }
        let (gaps, unrecorded) = gaps(log);
        assert_eq!(gaps, [(250, Some(250), None)]);
        assert_eq!(unrecorded.causes, [Break::GaveWay]);
    }

    #[test]
    fn what_a_stream_that_is_flushed_has_lost_is_no_break() {
        let mut log = log_of("tracer-user");
        let flushed = log.header.attributes.clone();
        log.header.attributes = flushed.with_stream_full_policy(StreamFullPolicy::Flush);
        log.push(100, EventTypeId::EXEC, ONE, b"");
        log.push(200, EventTypeId::OVERFLOW, NONE, b"");
        log.push(250, EventTypeId::RESUME, NONE, b"");
        log.push(260, EventTypeId::EXEC, ONE, b"");
        let (gaps, unrecorded) = gaps(log);
        assert!(gaps.is_empty() && unrecorded.breaks == 0);
    }

    #[test]
    fn of_a_filtered_log_any_event_may_be_missing() {
        let of = |name: &str| {
            let mut log = log_of(name);
            log.push(150, EventTypeId::RENAME, ONE, b"");
            log.push(170, EventTypeId::EXEC, (2, 2), b"");
            log.push(180, EventTypeId::EXEC, (2, 2), b"");
            gaps(log)
        };
        let named = |expression: &str| of(&format!("tracer-user --filter {expression}"));
        assert_eq!(of("another").0, []);
        assert_eq!(named("pid == 1").0, []);
        assert_eq!(named("comm == \"x\"").0, [(170, Some(170), Some(1))]);
        assert_eq!(named("syscall == \"read\"").0, [(150, None, None)]);
        let each = [150, 170, 180].map(|at| (at, None, None));
        assert_eq!(named("cpu == 0").0[..3], each);
        assert_eq!(named("pid == 1").1.filter.unwrap().text, "pid == 1");
    }

    #[test]
    fn without_switches_threads_are_unknown_until_they_are_recorded_again() {
        let mut log = log_of("mine");
        let lacks = set(&[EventTypeId::SWITCH_OUT]);
        log.push(100, EventTypeId::START, NONE, &lacks);
        log.push(150, EventTypeId::EXEC, ONE, b"");
        log.push(160, EventTypeId::FILTER, NONE, &[lacks, set(&[])].concat());
        log.push(170, EventTypeId::EXEC, ONE, b"");
        let (gaps, unrecorded) = gaps(log);
        assert_eq!(gaps, [(100, None, None), (160, Some(160), None)]);
        assert_eq!(unrecorded.calls, None, "they were recorded all the time");
    }

    #[test]
    fn system_calls_may_be_recorded_for_a_part_of_the_time() {
        let mut log = log_of("tracer-user");
        let (all, fewer) = (set(&[]), set(&CALLS));
        log.push(100, EventTypeId::EXEC, ONE, b"");
        log.push(150, EventTypeId::FILTER, NONE, &[&all[..], &fewer].concat());
        log.push(450, EventTypeId::FILTER, NONE, &[&fewer[..], &all].concat());
        log.push(500, EventTypeId::EXEC, ONE, b"");
        let (gaps, unrecorded) = gaps(log);
        assert_eq!(gaps, []);
        assert_eq!(unrecorded.calls, Some((100, 400)));
    }
}
