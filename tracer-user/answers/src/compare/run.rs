//! Findings of one log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tracer_analysis::{Durations, Inside, Span};
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_log_view::{Log, Walk, WantedEvents};
use tracer_output::terminal::Outcome;

use super::beside::{LockTime, StackTimes, locks_of, stacks_of};
use super::causes::Causes;
use super::portions::Portions;
use super::timeline::{SomeSpans, Timeline};
use crate::flame::FlameKind;
use crate::html_report::flames::{StacksSeen, folded};
use crate::queries::words::call_name;
use crate::queries::{
    Explained, Functions, GivenSteps, Paths, Question, SpanChoice, SpanKind, SpanSpec, follow,
};
use crate::stat::{Statistics, Sums, Watcher};

/// Kinds of spans of which one is drawn.
const MOST_WITH_TIMELINES: usize = 64;

/// One run: what its log has.
#[derive(Debug)]
pub struct Run {
    /// The log.
    pub file: PathBuf,
    /// The kernel's release and the machine that it was recorded on: any bytes.
    pub system: [Vec<u8>; 2],
    /// Whether anything is missing in it.
    pub outcome: Outcome,
    /// Events that the trace lost.
    pub lost: u64,
    /// Damage of the log, in words; empty without any.
    pub condition: String,
    /// Its sites, the bytes that could not be read, and the packets that are missing.
    pub damage: Option<[u64; 3]>,
    /// Part of it that was not to be recorded, as JSON.
    pub unrecorded: Value,
    /// Words for what is unknown because no such events were recorded.
    pub missing: Option<&'static str>,
    /// First process, from its beginning to its end.
    pub(super) whole: Option<(Vec<u8>, SubjectTime)>,
    /// Spans, by name.
    pub(super) spans: BTreeMap<Vec<u8>, SubjectTime>,
    /// System calls of all threads, by name.
    pub(super) calls: BTreeMap<String, RunCalls>,
    /// Waits for locks, by name.
    pub(super) locks: BTreeMap<String, LockTime>,
    /// Time by stack, of each kind of stacks that the log has.
    stacks: Vec<(FlameKind, StackTimes)>,
}

/// Time of spans of a name, or of a process.
#[derive(Clone, Debug, Default)]
pub struct SubjectTime {
    /// Their durations.
    pub took: Durations,
    /// Those in order.
    pub portions: Portions,
    /// Time from the beginning of the first span to the last end, in nanoseconds; 0 of a process.
    pub covered_ns: u64,
    /// Causes of their time.
    pub causes: Causes,
    /// One of them, which took about as long as half of them, where that is asked for.
    pub timeline: Option<Timeline>,
}

/// Sums over a system call.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunCalls {
    /// How often it returned.
    pub count: u64,
    /// How often with an error.
    pub errors: u64,
    /// How long it took, all times together, in nanoseconds.
    pub ns: u64,
    /// How much of that threads were blocked, in nanoseconds.
    pub blocked_ns: u64,
}

impl RunCalls {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.errors = self.errors.saturating_add(other.errors);
        self.ns = self.ns.saturating_add(other.ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
    }

    /// Returns the mean of so many runs.
    pub fn of_each(&self, runs: u64) -> Self {
        let runs = runs.max(1);
        Self {
            count: self.count / runs,
            errors: self.errors / runs,
            ns: self.ns / runs,
            blocked_ns: self.blocked_ns / runs,
        }
    }

    /// Returns how long threads could run in it, in nanoseconds.
    pub fn runnable_ns(&self) -> u64 {
        self.ns.saturating_sub(self.blocked_ns)
    }
}

impl Run {
    /// Takes what the log of this walk has; of these spans, or of all whose names say so. With
    /// timelines, where a page is made.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn take<L: Log>(
        file: &Path,
        mut walk: Walk<L>,
        spans: Vec<SpanSpec>,
        has_timelines: bool,
    ) -> anyhow::Result<Self> {
        let mut collector = Collector {
            sums: Sums::new(spans),
            ended: Ended::default(),
            whole: whole(),
            stacks: StacksSeen::default(),
            timelines: has_timelines.then(BTreeMap::new),
        };
        if has_timelines {
            collector.sums.give_out_explained(GivenSteps::Outermost);
            collector.whole.give_out_explained(GivenSteps::Outermost);
        }
        follow(&mut walk, &mut collector)?;
        let Collector {
            sums,
            ended,
            mut whole,
            stacks,
            mut timelines,
        } = collector;
        let mut statistics = Statistics::finish(sums, &walk.summary());
        if let Some(timelines) = &mut timelines {
            let last = statistics.paths.take_explained();
            hold_timelines(timelines, &last, statistics.paths.functions());
        }
        whole.finish(|_| {});
        let stacks = folded(file, WantedEvents::default(), &stacks, |_| Ok(()))?;
        let stacks = stacks.iter().map(|(kind, of)| (*kind, stacks_of(of)));
        Ok(Self {
            file: file.to_owned(),
            system: system_of(walk.log()),
            outcome: statistics.outcome(),
            lost: statistics.lost,
            condition: statistics.summary.condition_with_calls(),
            damage: statistics.summary.damage(),
            unrecorded: statistics.summary.unrecorded.json(),
            missing: statistics.paths.missing_events(),
            whole: whole_of(&mut whole),
            spans: spans_of(&statistics.paths, ended, timelines.unwrap_or_default()),
            calls: calls_of(&statistics),
            locks: locks_of(&statistics),
            stacks: stacks.collect(),
        })
    }

    /// Returns the time of each stack of a kind; `None` where the log has none of it.
    pub(super) fn stacks_of(&self, kind: FlameKind) -> Option<&StackTimes> {
        let mut stacks = self.stacks.iter();
        stacks.find(|(one, _)| *one == kind).map(|(_, times)| times)
    }
}

fn system_of(log: &impl Log) -> [Vec<u8>; 2] {
    let system = log.system();
    [system.kernel_release.clone(), system.machine.clone()]
}

/// Makes what finds the critical path of the first process.
fn whole() -> Paths {
    let question = Question::Thread {
        tid: None,
        from: None,
        until: None,
    };
    let choice = SpanChoice {
        is_without_segments: true,
        ..SpanChoice::default()
    };
    Paths::new(question, choice)
}

fn subject(kind: &SpanKind, paths: &Paths, ended: EndedSpans) -> SubjectTime {
    let mut causes = Causes::default();
    causes.add(&kind.blame, paths.functions());
    SubjectTime {
        took: kind.took.clone(),
        covered_ns: ended.to.0.saturating_sub(ended.from.0),
        portions: ended.portions,
        causes,
        timeline: None,
    }
}

fn whole_of(whole: &mut Paths) -> Option<(Vec<u8>, SubjectTime)> {
    let explained = whole.take_explained();
    let kind = whole.kinds().first().filter(|kind| kind.took.count() > 0)?;
    let timeline = explained.first();
    let timeline = timeline.map(|span| Timeline::new(span, whole.functions()));
    let of = subject(kind, whole, EndedSpans::default());
    Some((kind.name.clone(), SubjectTime { timeline, ..of }))
}

fn spans_of(
    paths: &Paths,
    mut ended: Ended,
    mut timelines: BTreeMap<usize, SomeSpans>,
) -> BTreeMap<Vec<u8>, SubjectTime> {
    let kinds = paths.kinds().iter().enumerate();
    let kinds = kinds.filter(|(_, kind)| kind.took.count() > 0);
    // Of two kinds of one name the first counts.
    let spans = kinds.rev().map(|(rule, kind)| {
        let ended = ended.0.remove(&rule).unwrap_or_default();
        let half = kind.took.quantile(0.5).unwrap_or_default();
        let some = timelines.remove(&rule);
        let timeline = some.and_then(|some| some.nearest(half));
        let of = subject(kind, paths, ended);
        (kind.name.clone(), SubjectTime { timeline, ..of })
    });
    spans.collect()
}

fn calls_of(statistics: &Statistics) -> BTreeMap<String, RunCalls> {
    let mut calls: BTreeMap<String, RunCalls> = BTreeMap::new();
    for (key, total) in &statistics.calls {
        calls.entry(call_name(*key)).or_default().add(&RunCalls {
            count: total.count,
            errors: total.errors,
            ns: total.took.total(),
            blocked_ns: 0,
        });
    }
    let threads = statistics.threads.iter().map(|(.., total)| total);
    let blocked = threads.chain([&statistics.others]);
    for (reason, ns) in blocked.flat_map(|total| &total.blocked_in) {
        if let Inside::Call(key) = reason.inside
            && let Some(sum) = calls.get_mut(&call_name(key))
        {
            sum.blocked_ns = sum.blocked_ns.saturating_add(*ns);
        }
    }
    calls
}

/// Spans of one rule that have ended.
#[derive(Debug, Default)]
struct EndedSpans {
    /// Their durations, in order.
    portions: Portions,
    /// Beginning of the first one.
    from: MonotonicNs,
    /// Last end.
    to: MonotonicNs,
}

/// Spans that have ended, by their rules.
#[derive(Debug, Default)]
struct Ended(BTreeMap<usize, EndedSpans>);

impl Watcher for Ended {
    fn span(&mut self, span: &Span) {
        let ended = self.0.entry(span.rule).or_insert_with(|| EndedSpans {
            from: span.from,
            ..EndedSpans::default()
        });
        ended.portions.add(span.ns());
        ended.from = ended.from.min(span.from);
        ended.to = ended.to.max(span.to);
    }
}

/// Consumer of the events of one log.
#[derive(Debug)]
struct Collector {
    sums: Sums,
    ended: Ended,
    whole: Paths,
    stacks: StacksSeen,
    /// Some spans of each kind, where timelines are asked for.
    timelines: Option<BTreeMap<usize, SomeSpans>>,
}

/// Holds some of these spans, by their kinds.
fn hold_timelines(
    timelines: &mut BTreeMap<usize, SomeSpans>,
    explained: &[Explained],
    functions: &Functions,
) {
    for span in explained {
        if timelines.len() < MOST_WITH_TIMELINES || timelines.contains_key(&span.kind) {
            let some = timelines.entry(span.kind).or_default();
            some.add(|| Timeline::new(span, functions));
        }
    }
}

impl Consumer for Collector {
    fn idle(&mut self, now: MonotonicNs) {
        Consumer::idle(&mut self.sums, now);
        Consumer::idle(&mut self.whole, now);
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.sums.learn_types(types);
        self.whole.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.sums.lose_and(*gap, &mut self.ended);
        self.whole.gap(gap);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        if let Some(stack) = &view.stack {
            self.sums.take_stack(stack);
            self.stacks.stack();
        }
        self.stacks.event(view.event.header.event_type);
        let comm = view.comm.unwrap_or_default();
        self.sums.go_on(&view.event, comm, &mut self.ended);
        if let Some(timelines) = &mut self.timelines {
            let explained = self.sums.take_explained();
            hold_timelines(timelines, &explained, self.sums.functions());
        }
        self.whole.event(view)
    }
}
