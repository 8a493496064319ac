//! Going through a log, once and in order.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tracer_common::event_type::{EventTypeId, SystemEventType};
use tracer_engine::ClockPair;
use tracer_engine::event::{Event, MonotonicNs, RealtimeNs};
use tracer_engine::source::LossCause;
use tracer_log::LogRecord;

use super::log::each_symbol;
use super::recorded_time::{Missed, RecordedTime};
use super::thread_names::{self, ThreadNames};
use super::{Log, Moment, TypeTable, WantedEvents};
use tracer_binary::stacks::{self, Owned, PendingStacks, SymbolNames};
use tracer_binary::thread_context::ThreadContext;
use tracer_event::consumer::TraceLosses;
use tracer_event::event_view::EventView;
use tracer_event::gap::Missing;
use tracer_event::predicate::Sieve;
use tracer_event::probe::is_probe;
use tracer_event::summary::{LogCondition, Summary};
use tracer_event::thread_contexts::ThreadContexts;
use tracer_text::{is_type_called, say};

/// Reason why a walk has come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The maximum count of events was looked at.
    Midway,
    /// The log has no more events now.
    End,
    /// The events that follow were not asked for.
    Enough,
}

/// A walk through a log.
#[derive(Debug)]
pub struct Walk<L> {
    pub(super) log: L,
    pub(super) wanted: WantedEvents,
    anchor: ClockPair,
    from: Option<Moment>,
    to: Option<Moment>,
    pub(super) types: TypeTable,
    names: ThreadNames,
    pub(super) left: u64,
    span: Option<EventSpan>,
    is_enough: bool,
    pub(super) scratch: Scratch,
    /// Sieve that decides by their data which events pass.
    pub(super) sieve: Option<Sieve>,
    /// Gaps counted when the last event came to it.
    pub(super) missing: Option<Gaps>,
    /// Stacks whose events have not come yet.
    pub(super) stacks: PendingStacks,
    pub(super) symbols: SymbolNames,
    /// Traces and spans that threads work for.
    contexts: ThreadContexts,
    /// Damage of the log when these were looked at last.
    damaged: u64,
    /// When the log was recorded.
    recorded: RecordedTime,
    /// Events that may be missing before the last one since they were not to be recorded.
    pub(super) missed: Missed,
    /// Events that were looked at.
    pub(super) steps: u64,
    pub(super) counted: CountedGaps,
}

/// Gaps between the events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Events that the trace lost.
    pub missing: Missing,
    /// Bytes and packets of the log that are damaged or missing.
    pub of_log: u64,
    /// Time since which none of the lost events is.
    pub counted_by: Option<MonotonicNs>,
    /// Events that were not to be recorded.
    pub(super) missed: Missed,
}

/// The first and the last event that were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSpan {
    /// The first.
    pub first: (MonotonicNs, RealtimeNs),
    /// The last.
    pub last: (MonotonicNs, RealtimeNs),
}

impl Gaps {
    /// Counts the gaps between the events of a log so far. What gave way at the log's beginning
    /// leaves no gap.
    fn counted(log: &impl Log, missed: Missed) -> Self {
        let damage = log.damage();
        Self {
            missing: Missing::sum_up(|cause| log.lost(cause)),
            of_log: damage.bytes.saturating_add(damage.packets_missing),
            counted_by: log.losses_counted_by(),
            missed,
        }
    }
}

impl EventSpan {
    /// Returns the time from the first to the last, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.last.0.0.saturating_sub(self.first.0.0)
    }
}

/// Gaps that were counted last, and the version of the log's losses then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountedGaps {
    version: Option<u64>,
    gaps: Gaps,
}

impl CountedGaps {
    /// Returns the gaps up to the event at hand, before which so much may be missing.
    pub(super) fn at(&mut self, log: &impl Log, missed: Missed) -> Gaps {
        let version = Some(log.losses_version());
        if self.version != version {
            *self = Self {
                version,
                gaps: Gaps::counted(log, missed),
            };
        }
        Gaps {
            missed,
            ..self.gaps
        }
    }
}

/// Step of a walk, at which an event of the log was looked at.
#[derive(Debug)]
pub(super) struct Step<'w, L> {
    pub(super) log: &'w L,
    /// Number of the step: several events may be shown at one.
    pub(super) number: u64,
    /// Gaps up to that event.
    pub(super) gaps: Gaps,
}

/// An event that comes to the sieve, which needs the walk meanwhile.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) data: Vec<u8>,
    pub(super) comm: Vec<u8>,
    pub(super) date: RealtimeNs,
    pub(super) context: Option<ThreadContext>,
}

impl Scratch {
    fn keep(&mut self, record: &LogRecord<'_>, context: Option<ThreadContext>) {
        self.context = context;
        self.data.clear();
        self.data.extend_from_slice(record.event.data);
        self.comm.clear();
        self.comm.extend_from_slice(record.comm);
        self.date = record.realtime;
    }
}

impl<L: Log> Walk<L> {
    /// Makes a walk through `log` that looks at the wanted events.
    pub fn new(mut log: L, wanted: WantedEvents) -> Self {
        let anchor = log.header().anchor;
        let stream = log.header().attributes.clone();
        let moment = |point: super::TimePoint| point.moment(anchor.monotonic);
        let (from, to) = (wanted.from.map(moment), wanted.to.map(moment));
        // Where a date lies in the file is not known before its packets are read: dates are set.
        if let Some(Moment::Time(time)) = from {
            log.skip_to(time);
        }
        let sieve = super::filtered_walk::sieve(&wanted, anchor.monotonic);
        Self {
            left: wanted.limit.unwrap_or(u64::MAX),
            log,
            wanted,
            anchor,
            from,
            to,
            types: TypeTable::default(),
            names: ThreadNames::default(),
            span: None,
            is_enough: false,
            scratch: Scratch::default(),
            sieve,
            missing: None,
            stacks: PendingStacks::default(),
            symbols: SymbolNames::default(),
            contexts: ThreadContexts::default(),
            damaged: 0,
            recorded: RecordedTime::new(anchor.monotonic, &stream),
            missed: Missed::default(),
            steps: 0,
            counted: CountedGaps::default(),
        }
    }

    /// Names the addresses of stacks by the symbols in this log, which is the same one.
    #[must_use]
    pub fn naming_by(mut self, log: &Path) -> Self {
        self.symbols = SymbolNames::from_log({
            let log = log.to_owned();
            move |each| each_symbol(&log, each)
        });
        if self.wanted.inlined {
            self.symbols.show_inlined(say);
        }
        self
    }

    /// Looks at up to `most` events and shows those that are wanted to `visit`.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or `visit` fails.
    pub fn go_on(
        &mut self,
        most: usize,
        mut visit: impl FnMut(&EventView<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Pause> {
        self.take_steps(most, |_, view| visit(view))
    }

    /// Does as [`go_on`](Self::go_on), and says at which step of the walk an event is shown.
    pub(super) fn take_steps(
        &mut self,
        most: usize,
        mut visit: impl FnMut(&Step<'_, L>, &EventView<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Pause> {
        for _ in 0..most {
            if self.left == 0 || self.is_enough {
                self.is_enough = true;
                return Ok(Pause::Enough);
            }
            if !self.contexts.is_empty() {
                let damaged = self.gaps().of_log;
                if damaged > std::mem::replace(&mut self.damaged, damaged) {
                    self.contexts.forget();
                }
            }
            let has_event = self.log.advance().context("cannot read the log")?;
            let Some(record) = self.log.record().filter(|_| has_event) else {
                return Ok(Pause::End);
            };
            self.steps += 1;
            self.missed = self.recorded.note(&record.event);
            // An event is shown with the name that its thread had before it.
            let comm = self.names.name_of(&record);
            let named = LogRecord { comm, ..record };
            if self.to.is_some_and(|to| to.is_before(&record)) {
                self.is_enough = true;
                return Ok(Pause::Enough);
            }
            let is_context = self.contexts.learn(&record.event);
            if self.from.is_some_and(|from| from.is_after(&record)) {
                self.names.learn(&record);
                continue;
            }
            let header = record.event.header;
            if super::filtered_walk::is_beyond_settled(&self.wanted, header.time) {
                return Ok(Pause::End);
            }
            let now = (header.time, record.realtime);
            let first = self.span.map_or(now, |span| span.first);
            self.span = Some(EventSpan { first, last: now });
            if is_context && self.wanted.hides_part(header.event_type) {
                continue;
            }
            if stacks::is_part(header.event_type) && self.wanted.hides_part(header.event_type) {
                let is_taken = if header.event_type == EventTypeId::STACK {
                    self.stacks.put(&record.event)
                } else {
                    self.symbols.learn(&record.event);
                    true
                };
                if is_taken {
                    continue;
                }
            }
            let types = record.types;
            let is_probe = || types.name(header.event_type).is_some_and(is_probe);
            let context = self.contexts.context(&record.event, is_probe);
            if self.sieve.is_some() {
                self.scratch.keep(&named, context);
                self.names.learn(&record);
                self.come_to_sieve(header, &mut visit)?;
                continue;
            }
            let row = self.types.learn(header.event_type, types, &self.wanted);
            let has_event = self.wanted.has_event(&header, named.event.data, comm)
                && self.wanted.has_context(&header, context);
            if row.is_wanted && has_event {
                self.left -= 1;
                row.count += 1;
                let gaps = self.counted.at(&self.log, self.missed);
                let step = Step {
                    log: &self.log,
                    number: self.steps,
                    gaps,
                };
                let stack = stack_of(&named.event, &mut self.stacks);
                let stack = stack.as_ref().map(|stack| stack.named(&self.symbols));
                let view = EventView {
                    stack,
                    context,
                    ..view_of(&named, &row.name, row.entry)
                };
                visit(&step, &view)?;
            }
            self.names.learn(&record);
        }
        Ok(Pause::Midway)
    }

    /// Returns the log.
    pub fn log(&self) -> &L {
        &self.log
    }

    /// Returns the events that are looked at.
    pub fn wanted(&self) -> &WantedEvents {
        &self.wanted
    }

    /// Returns the event types that were seen.
    pub fn types(&self) -> &TypeTable {
        &self.types
    }

    /// Returns the clocks when the log was made.
    pub fn anchor(&self) -> ClockPair {
        self.anchor
    }

    /// Returns the first and the last event that were looked at.
    pub fn span(&self) -> Option<EventSpan> {
        self.span
    }

    /// Returns the time up to which nothing more has happened, once all events were looked at: when
    /// the trace ended, or --to. `None` where that is not known, or where not all of them were
    /// wanted.
    pub fn ended(&self) -> Option<MonotonicNs> {
        let ended = self.log.ended().filter(|_| !self.is_enough)?;
        let last = self.span?.last;
        let to = match self.to {
            None => ended,
            Some(Moment::Time(to)) => to,
            Some(Moment::Date(to)) => {
                MonotonicNs(last.0.0.saturating_add(to.0.saturating_sub(last.1.0)))
            }
        };
        Some(ended.min(to).max(last.0))
    }

    /// Returns the time from the start of the log, or from the first event of the part that is
    /// wanted, to its end.
    fn elapsed(&self) -> Duration {
        let Some(EventSpan { first, last }) = self.span else {
            return Duration::ZERO;
        };
        let start = match self.from {
            Some(_) => first.0,
            None => self.anchor.monotonic,
        };
        let end = self.ended().unwrap_or(last.0);
        Duration::from_nanos(end.0.saturating_sub(start.0))
    }

    /// Returns the number of events that were lost so far, in the trace and in the log.
    pub fn lost(&self) -> u64 {
        self.lost_in_trace().saturating_add(self.log.lost_in_log())
    }

    /// Returns the numbers of events that were lost so far, by cause.
    pub fn losses(&self) -> TraceLosses {
        losses_of(&self.log)
    }

    /// Returns the number of these events that the kernel did not report, which is no loss of the
    /// trace.
    pub fn not_reported(&self) -> u64 {
        self.log.lost(LossCause::KernelNotReported)
    }

    /// Returns the number of events that the trace lost so far.
    fn lost_in_trace(&self) -> u64 {
        let in_trace = LossCause::ALL.iter().map(|cause| self.log.lost(*cause));
        let others = [self.log.lost_for_other_causes()];
        in_trace.chain(others).fold(0, u64::saturating_add)
    }

    /// Returns the gaps between the events so far.
    pub fn gaps(&self) -> Gaps {
        Gaps::counted(&self.log, self.missed)
    }

    /// Returns the gaps up to behind the last event, and whether nothing was recorded after it.
    pub(super) fn gaps_behind(&self) -> (Gaps, bool) {
        // The event that is not wanted may be behind many others.
        let is_stopped = !self.is_enough && self.recorded.is_stopped();
        let missed = match self.is_enough {
            true => self.missed,
            false => self.recorded.behind(),
        };
        let gaps = Gaps {
            missed,
            ..self.gaps()
        };
        (gaps, is_stopped)
    }

    /// Counts the events that were shown, lost, and are missing.
    pub fn summary(&self) -> Summary {
        let lost = LossCause::ALL.map(|cause| (cause, self.log.lost(cause)));
        let mut summary = Summary::new(self.types.counts(), lost.to_vec(), self.elapsed());
        let last = self.span.map_or(self.anchor.monotonic, |span| span.last.0);
        let up_to = self.ended();
        summary.last = up_to.unwrap_or(last);
        summary.ended = up_to.filter(|at| Some(*at) >= self.log.ended());
        summary.unrecorded = self.recorded.unrecorded(self.ended());
        summary.log = Some(LogCondition {
            lost_for_other_causes: self.log.lost_for_other_causes(),
            lost_in_log: self.log.lost_in_log(),
            damage: self.log.damage(),
            // How the log ends does not matter where less than all of it was asked for.
            is_completed: self.is_enough || self.log.final_status().is_some(),
        });
        summary
    }

    /// Tells whether not every event was asked for.
    pub fn is_restricted(&self) -> bool {
        self.wanted.is_restricted()
    }

    /// Returns the exact names that were asked for and that no event had.
    pub fn names_without_events(&self) -> Vec<&[u8]> {
        let has_events = |name: &[u8]| {
            self.types
                .rows()
                .any(|(_, row)| is_type_called(&row.name, name) && row.count > 0)
        };
        let names = self.wanted.names.iter().map(Vec::as_slice);
        names.filter(|name| !has_events(name)).collect()
    }
}

/// Returns the numbers of events that were lost up to the event at hand of a log, by cause.
pub fn losses_of(log: &impl Log) -> TraceLosses {
    let mut losses = TraceLosses {
        others: log
            .lost_for_other_causes()
            .saturating_add(log.lost_in_log()),
        ..TraceLosses::default()
    };
    for cause in LossCause::ALL {
        losses.by_cause.lose(cause, log.lost(cause));
    }
    losses
}

/// Returns the view of `record`, of whose type `name` and the entry in the table are known.
pub fn view_of<'a>(
    record: &LogRecord<'a>,
    name: &'a [u8],
    entry: Option<&'static SystemEventType>,
) -> EventView<'a> {
    EventView {
        event: record.event,
        entry,
        name,
        comm: thread_names::known(record.comm),
        date: record.realtime,
        inside: None,
        stack: None,
        context: None,
    }
}

/// Returns the stack of an event, which may be one itself.
pub(super) fn stack_of(event: &Event<'_>, stacks: &mut PendingStacks) -> Option<Owned> {
    if event.header.event_type == EventTypeId::STACK {
        return Some(Owned::from_event(event));
    }
    stacks.take(event)
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::EventHeader;

    use super::*;
    use crate::TimePoint;
    use crate::test_log::TestLog;

    fn shown(log: TestLog, wanted: WantedEvents) -> (Vec<u64>, Walk<TestLog>) {
        let mut walk = Walk::new(log, wanted);
        let mut seen = Vec::new();
        let visit = |seen: &mut Vec<u64>, entry: &EventView<'_>| {
            seen.push(entry.at().0);
            Ok(())
        };
        while walk.go_on(2, |entry| visit(&mut seen, entry)).unwrap() == Pause::Midway {}
        (seen, walk)
    }

    /// Makes ten user events of "even" and "odd", 10 ns apart from 100 on, by both threads of a
    /// process.
    fn ten() -> TestLog {
        let mut log = TestLog::default();
        let names = [log.define(b"even"), log.define(b"odd")];
        for nth in 0..10_u8 {
            let tid = 1 + i32::from(nth % 2);
            let name = names[usize::from(nth % 2)];
            log.push(100 + 10 * u64::from(nth), name, (1, tid), &[nth]);
        }
        log
    }

    #[test]
    fn without_restrictions_everything_is_shown_in_order() {
        let (seen, walk) = shown(ten(), WantedEvents::default());
        assert_eq!(seen, (10..20).map(|tens| tens * 10).collect::<Vec<_>>());
        let summary = walk.summary();
        assert_eq!(
            summary.events,
            [(b"even".to_vec(), 5), (b"odd".to_vec(), 5)]
        );
        assert!(!summary.log.unwrap().is_completed, "it never was");
    }

    #[test]
    fn from_and_to_are_both_inclusive() {
        let point = |ns| Some(TimePoint::Date(TestLog::date(ns)));
        let wanted = WantedEvents {
            from: point(130),
            to: point(150),
            ..WantedEvents::default()
        };
        let (seen, walk) = shown(ten(), wanted);
        assert_eq!(seen, [130, 140, 150]);
        let condition = walk.summary().log.unwrap();
        assert!(condition.is_completed, "the rest was not asked for");
        assert_eq!(walk.summary().elapsed, Duration::from_nanos(20));
    }

    #[test]
    fn an_offset_counts_from_the_start_of_the_log() {
        let wanted = WantedEvents {
            from: Some(TimePoint::Offset(Duration::from_nanos(80))),
            ..WantedEvents::default()
        };
        // The log was made at 100.
        assert_eq!(shown(ten(), wanted).0, [180, 190]);
    }

    #[test]
    fn a_trace_may_have_ended_later_than_its_last_event() {
        let ended = |wanted: WantedEvents| {
            let mut log = ten();
            log.ended = Some(MonotonicNs(5000));
            let walk = shown(log, wanted).1;
            (walk.ended(), walk.summary().elapsed)
        };
        let whole = ended(WantedEvents::default());
        assert_eq!(whole.0, Some(MonotonicNs(5000)));
        assert_eq!(whole.1, Duration::from_nanos(4900));
        let to = |point| WantedEvents {
            to: Some(point),
            ..WantedEvents::default()
        };
        let between = TimePoint::Offset(Duration::from_nanos(900));
        assert_eq!(ended(to(between)).0, Some(MonotonicNs(1000)));
        let between = TimePoint::Date(TestLog::date(1000));
        assert_eq!(ended(to(between)).0, Some(MonotonicNs(1000)));
        let among = TimePoint::Date(TestLog::date(150));
        assert_eq!(ended(to(among)).0, None, "what came then is not known");
        let few = WantedEvents {
            limit: Some(3),
            ..WantedEvents::default()
        };
        assert_eq!(ended(few).0, None);
    }

    #[test]
    fn a_limit_counts_only_what_is_shown() {
        let wanted = WantedEvents {
            names: vec![b"odd".to_vec()],
            limit: Some(2),
            ..WantedEvents::default()
        };
        assert_eq!(shown(ten(), wanted).0, [110, 130]);
    }

    #[test]
    fn a_thread_is_chosen_by_its_tid() {
        let wanted = WantedEvents {
            tids: vec![2],
            ..WantedEvents::default()
        };
        assert_eq!(shown(ten(), wanted).0, [110, 130, 150, 170, 190]);
    }

    #[test]
    fn an_event_without_a_name_has_its_threads_or_its_processs() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        let mut push = |ns, (pid, tid), comm: &[u8]| {
            let header = EventHeader {
                time: MonotonicNs(ns),
                event_type: name,
                pid,
                tid,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: tracer_engine::event::Truncation::None,
            };
            log.push_event(header, b"", comm);
        };
        push(1, (7, 8), b"");
        push(2, (7, 7), b"server");
        push(3, (7, 8), b"");
        push(4, (7, 8), b"worker");
        push(5, (7, 8), b"");
        push(6, (9, 9), b"");
        let mut walk = Walk::new(log, WantedEvents::default());
        let mut seen = Vec::new();
        let pause = walk.go_on(100, |entry| {
            seen.push(entry.comm.map(<[u8]>::to_vec));
            Ok(())
        });
        assert_eq!(pause.unwrap(), Pause::End);
        let known = |name: &[u8]| Some(name.to_vec());
        assert_eq!(
            seen,
            [
                None,
                known(b"server"),
                known(b"server"),
                known(b"worker"),
                known(b"worker"),
                None
            ]
        );
    }

    #[test]
    fn a_thread_is_called_as_the_event_that_made_it_says() {
        use zerocopy::IntoBytes;
        let fork = tracer_common::kernel::ForkData {
            child_pid: 7,
            child_tid: 8,
            child_comm: *b"pool\0\0\0\0\0\0\0\0\0\0\0\0",
            child_ns_pid: 7,
            child_ns_tid: 8,
        };
        let mut log = TestLog::default();
        log.push(1, EventTypeId::THREAD_CREATE, (7, 7), fork.as_bytes());
        let user = log.define(b"x");
        log.push(2, user, (7, 8), b"");
        log.events[1].forget_name();
        let mut walk = Walk::new(log, WantedEvents::default());
        let mut seen = Vec::new();
        let pause = walk.go_on(100, |entry| {
            seen.push(entry.comm.map(<[u8]>::to_vec));
            Ok(())
        });
        assert_eq!(pause.unwrap(), Pause::End);
        assert_eq!(seen, [Some(b"worker".to_vec()), Some(b"pool".to_vec())]);
    }

    #[test]
    fn a_name_that_no_event_had_is_reported() {
        let wanted = WantedEvents {
            names: vec![b"odd".to_vec(), b"old".to_vec()],
            ..WantedEvents::default()
        };
        let (_, walk) = shown(ten(), wanted);
        assert_eq!(walk.names_without_events(), [b"old"]);
    }

    #[test]
    fn what_is_written_later_is_seen_later() {
        let mut walk = Walk::new(ten(), WantedEvents::default());
        let count = |walk: &mut Walk<TestLog>| {
            let mut count = 0;
            let pause = walk.go_on(100, |_| {
                count += 1;
                Ok(())
            });
            (pause.unwrap(), count)
        };
        assert_eq!(count(&mut walk), (Pause::End, 10));
        walk.log.push(300, EventTypeId::FORK, (1, 1), b"");
        assert_eq!(count(&mut walk), (Pause::End, 1));
    }
}
