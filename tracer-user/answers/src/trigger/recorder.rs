//! Waiting, and writing when it is time.

use std::mem::offset_of;
use std::ops::RangeInclusive;
use std::thread::JoinHandle;

use tracer_analysis::{Blame, Finding, Interval, State, Thread, ThreadGrouping, critical_path};
use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::{ExitData, SignalDeliverData};
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use super::newest::{Block, Newest};
use super::{Condition, TriggerRule, TriggerSetup};
use crate::queries::words::{duration, seconds, thread};
use crate::queries::{Paths, Question, SpanChoice, tree};
use tracer_event::consumer::{Consumer, Lines, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::probe::is_probe;
use tracer_event::summary::{Summary, WriteLosses};
use tracer_event::thread_contexts::{WrittenContexts, context_event, has_context_at, written};
use tracer_log_view::LogRecorder;
use tracer_log_view::log_output::LogSetup;
use tracer_text::escape::push_for_people;
use tracer_text::signal_name;

/// Steps that are looked at to explain a strike.
const MOST_STEPS: usize = 100_000;

/// Lines that explain a strike.
const LINES: usize = 3;

/// Least time between two logs, so that they do not have the same events.
const LEAST_BETWEEN_NS: u64 = 1_000_000_000;

/// Waits for conditions, with the newest events in memory.
pub struct FlightRecorder {
    setup: TriggerSetup,
    paths: Paths,
    newest: Newest,
    contexts: WrittenContexts,
    types: EventTypes,
    lost: TraceLosses,
    start: MonotonicNs,
    strikes: u64,
    logs: u32,
    last_log: Option<MonotonicNs>,
    writing: Vec<JoinHandle<anyhow::Result<WriteLosses>>>,
    long: Vec<Interval>,
    lines: Lines,
}

/// Description of what has happened.
struct Strike {
    what: String,
    who: Thread,
    /// Beginning and end, where it took time.
    time: Option<(MonotonicNs, MonotonicNs)>,
    blame: Option<(Blame, u64)>,
}

impl FlightRecorder {
    /// Waits from `start` on; its output goes to `lines`.
    #[must_use]
    pub fn new(setup: TriggerSetup, start: MonotonicNs, lines: Lines) -> Self {
        let keep_ns = u64::try_from(setup.keep.as_nanos()).unwrap_or(u64::MAX);
        let spans = setup.rules.iter().filter_map(|rule| match &rule.condition {
            Condition::Span(spec, _) => Some(spec.clone()),
            _ => None,
        });
        let spans: Vec<_> = spans.collect();
        // Without spans none is looked for.
        let question = if spans.is_empty() {
            Question::Nothing
        } else {
            Question::Spans(spans)
        };
        let choice = SpanChoice {
            slowest: 1,
            ..SpanChoice::default()
        };
        let mut paths = Paths::new(question, choice).explaining_at_once();
        paths.hold(keep_ns);
        Self {
            setup,
            paths,
            newest: Newest::new(keep_ns),
            contexts: WrittenContexts::default(),
            types: EventTypes::default(),
            lost: TraceLosses::default(),
            start,
            strikes: 0,
            logs: 0,
            last_log: None,
            writing: Vec::new(),
            long: Vec::new(),
            lines,
        }
    }

    /// Holds an event, after what its thread works for where that is not held yet.
    fn hold(&mut self, line: &EventView<'_>) {
        let comm = line.comm.unwrap_or_default();
        let is_at = |event: &Event<'_>| has_context_at(event, || is_probe(line.name), false);
        let mut is_full = false;
        if self.contexts.differs(&line.event, line.context, is_at) {
            let (header, data) = context_event(&line.event.header, line.context);
            let data = written(&data);
            is_full |= self.newest.push(&Event { header, data }, comm);
        }
        is_full |= self.newest.push(&line.event, comm);
        if is_full {
            self.contexts.write_again();
        }
    }

    /// Returns the strike of an event that a condition waits for.
    fn strike_of(&self, line: &EventView<'_>) -> Option<Strike> {
        let header = line.event.header;
        let who = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let comm = line.comm.unwrap_or_default();
        let rules = self.setup.rules.iter();
        let what = rules
            .filter(|rule| rule.whose.is(who, comm))
            .find_map(|rule| match &rule.condition {
                Condition::Event(..) => {
                    let is_it = rule.condition.is_event(header.event_type, line.name);
                    is_it.then(|| rule.condition.in_words())
                }
                Condition::Signal(wanted) if header.event_type == EventTypeId::SIGNAL_DELIVER => {
                    let least = offset_of!(SignalDeliverData, address);
                    let data: SignalDeliverData = read_grown(line.event.data, least)?;
                    let is_wanted = wanted.is_none_or(|wanted| wanted == data.signal);
                    is_wanted.then(|| Condition::Signal(Some(data.signal)).in_words())
                }
                // One that ends its process is not always seen to be delivered, or as another one.
                Condition::Signal(wanted) if header.event_type == EventTypeId::EXIT => {
                    let (data, _) = ExitData::read_from_prefix(line.event.data).ok()?;
                    let is_wanted = wanted.map_or(data.signal != 0, |wanted| wanted == data.signal);
                    is_wanted.then(|| Condition::Signal(Some(data.signal)).in_words())
                }
                Condition::Exit if header.event_type == EventTypeId::EXIT => {
                    let (data, _) = ExitData::read_from_prefix(line.event.data).ok()?;
                    match data.signal {
                        0 if data.status == 0 => None,
                        0 => Some(format!("exit with status {}", data.status)),
                        signal => {
                            let name = signal_name(signal).unwrap_or("a signal");
                            Some(format!("end by {name}"))
                        }
                    }
                }
                _ => None,
            })?;
        Some(Strike {
            what,
            who,
            time: None,
            blame: None,
        })
    }

    /// Returns a span that took longer than a condition allows.
    fn long_span(&mut self) -> Option<Strike> {
        let (name, shown) = self.paths.take_slowest()?;
        let ns = shown.span.ns();
        let limit = self
            .setup
            .rules
            .iter()
            .filter(|rule| rule.whose.is(shown.span.thread, &shown.comm))
            .find_map(|rule| match &rule.condition {
                Condition::Span(spec, limit) if ns > *limit && spec.may_be(&name) => Some(*limit),
                _ => None,
            })?;
        let mut shown_name = Vec::new();
        push_for_people(&mut shown_name, &name);
        let shown_name = String::from_utf8_lossy(&shown_name).into_owned();
        Some(Strike {
            what: format!(
                "span {shown_name} took {} (more than {})",
                duration(ns),
                duration(limit)
            ),
            who: shown.span.thread,
            time: Some((shown.span.from, shown.span.to)),
            blame: Some((shown.blame, ns)),
        })
    }

    /// Returns an interval that was longer than a condition allows.
    fn long_interval(&self, interval: &Interval) -> Option<Strike> {
        let comm = self.paths.names().get(interval.thread);
        let rules = self.setup.rules.iter();
        let mut limits = rules
            .filter(|rule| rule.whose.is(interval.thread, comm))
            .filter_map(|rule| limit_of(rule, interval.state));
        let limit = limits.find(|limit| interval.ns() > *limit)?;
        let states = self.paths.states()?;
        let steps = critical_path(
            states,
            self.paths.history(),
            interval.thread,
            (interval.from, interval.to),
            MOST_STEPS,
        );
        let mut blame = Blame::new(ThreadGrouping::Apart);
        blame.add(&self.paths.named(steps));
        let what = match interval.state {
            State::Runnable(_) => "waited for a CPU",
            _ => "was blocked",
        };
        Some(Strike {
            what: format!(
                "a thread {what} for {} (more than {})",
                duration(interval.ns()),
                duration(limit)
            ),
            who: interval.thread,
            time: Some((interval.from, interval.to)),
            blame: Some((blame, interval.ns())),
        })
    }

    /// Reports what has happened, and writes the newest events, unless that was done lately or
    /// often enough.
    fn strike(&mut self, strike: &Strike, now: MonotonicNs) {
        self.strikes += 1;
        let between = LEAST_BETWEEN_NS.max(u64::try_from(self.setup.keep.as_nanos()).unwrap_or(0));
        let is_soon = self
            .last_log
            .is_some_and(|last| now.0.saturating_sub(last.0) < between);
        if is_soon || self.logs >= self.setup.most_logs {
            return;
        }
        self.last_log = Some(now);
        self.logs += 1;
        let path = self.setup.path(self.logs);
        let (since, _) = strike.time.unwrap_or((now, now));
        let at = since.0.saturating_sub(self.start.0);
        let mut text = format!(
            "{}: {}, at {}: {}\n",
            strike.what,
            thread(strike.who, self.paths.names().get(strike.who)),
            seconds(at),
            path.display(),
        );
        if let Some((blame, total)) = &strike.blame {
            let of = (blame, self.paths.functions());
            tree::push(&mut text, of, *total, &mut { LINES });
        }
        self.lines.bytes().extend_from_slice(text.as_bytes());
        let log = LogSetup {
            path,
            ..self.setup.log.clone()
        };
        let (blocks, types, lost) = (self.newest.blocks(), self.types.clone(), self.lost.clone());
        // A thread of its own writes: events go on coming while the disk is slow.
        let keep = u64::try_from(self.setup.keep.as_nanos()).unwrap_or(0);
        let times = now.0.saturating_sub(keep)..=now.0;
        let written = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write(&log, &blocks, &times, &types, &lost));
        match written {
            Ok(thread) => self.writing.push(thread),
            Err(error) => {
                let line = format!("cannot write it: {error}\n");
                self.lines.bytes().extend_from_slice(line.as_bytes());
            }
        }
    }
}

/// Returns the limit that a condition has for a state.
fn limit_of(rule: &TriggerRule, state: State) -> Option<u64> {
    match (&rule.condition, state) {
        (Condition::Runnable(limit), State::Runnable(_))
        | (Condition::Blocked(limit), State::Blocked(_)) => Some(*limit),
        _ => None,
    }
}

fn write(
    setup: &LogSetup,
    blocks: &[std::sync::Arc<Block>],
    times: &RangeInclusive<u64>,
    types: &EventTypes,
    lost: &TraceLosses,
) -> anyhow::Result<WriteLosses> {
    let (mut log, _) = LogRecorder::open(setup)?;
    let events = || blocks.iter().flat_map(|block| block.events());
    // What threads worked for before counts for what they do then.
    let is_context = |event: &Event<'_>| event.header.event_type == EventTypeId::THREAD_CONTEXT;
    let is_in_time = |event: &Event<'_>| event.header.time.0 >= *times.start();
    let mut in_time = events().filter(|(event, _)| is_in_time(event));
    if let Some((first, _)) = in_time.next() {
        log.begin_at(first.header.time)?;
    }
    log.learn_types(types);
    log.count_losses(lost)?;
    for (event, comm) in events() {
        if is_context(&event) || is_in_time(&event) {
            log.event(&EventView::bare(event, comm))?;
        }
    }
    log.idle(MonotonicNs(*times.end()));
    let written = log.complete().unwrap_or_default();
    anyhow::ensure!(!written.has_failed, "cannot write {}", setup.path.display());
    Ok(written)
}

impl Consumer for FlightRecorder {
    fn learn_types(&mut self, types: &EventTypes) {
        self.types.catch_up(types);
        self.paths.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.paths.gap(gap);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        self.lost.clone_from(losses);
        Ok(())
    }

    fn event(&mut self, line: &EventView<'_>) -> anyhow::Result<()> {
        let event: &Event<'_> = &line.event;
        let comm = line.comm.unwrap_or_default();
        self.hold(line);
        let (rules, long) = (&self.setup.rules, &mut self.long);
        self.paths.go_on(event, comm, |found| {
            if let Finding::Interval(interval) = found
                && interval.is_over()
                && rules.iter().any(|rule| {
                    limit_of(rule, interval.state).is_some_and(|limit| interval.ns() > limit)
                })
            {
                long.push(*interval);
            }
        });
        let now = event.header.time;
        if let Some(strike) = self.strike_of(line) {
            self.strike(&strike, now);
        }
        if let Some(strike) = self.long_span() {
            self.strike(&strike, now);
        }
        while let Some(interval) = self.long.pop() {
            if let Some(strike) = self.long_interval(&interval) {
                self.strike(&strike, now);
            }
        }
        Ok(())
    }

    /// Waits for the logs that are being written.
    fn complete(&mut self) -> Option<WriteLosses> {
        let mut all = WriteLosses::default();
        for thread in self.writing.drain(..) {
            let failure = match thread.join() {
                Ok(Ok(written)) => {
                    all.gave_way += written.gave_way;
                    all.unwritten += written.unwritten;
                    continue;
                }
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "the thread that wrote a log has ended".to_owned(),
            };
            all.has_failed = true;
            self.lines
                .bytes()
                .extend_from_slice(format!("{failure}\n").as_bytes());
        }
        (self.logs > 0).then_some(all)
    }

    fn finish(self: Box<Self>, _: &Summary) -> anyhow::Result<()> {
        let mut text = format!("{} times, {} logs", self.strikes, self.logs);
        if u64::from(self.logs) < self.strikes {
            text.push_str(": others came too soon after one, or there were enough");
        }
        if self.newest.is_shortened() {
            text.push_str("; some held less than was asked for, which was too much");
        }
        text.push('\n');
        self.lines.bytes().extend_from_slice(text.as_bytes());
        Ok(())
    }
}
