//! Model of the trace, built from events. It reads no clock: the time is that of the events.

mod kinds;
mod lived;
mod opened;
mod shot;

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _, HashSet};
use tracer_analysis::{Calls, Finding, Interval, IntervalEnd, State, Thread, Waker};
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use kinds::Lately;
use lived::{Lived, MINUTE};
use opened::EventLog;
use tracer_answers::queries::{GivenSteps, Paths, Question, SpanChoice, SpanSpec, made_by};
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_text::escape::push_for_people;

pub use lived::Sum;
pub use shot::{Opened, Shot, ShownLosses, SlowSpan, SpanRow, ThreadRow, WaitsFor, Window};

/// Longest window that is summed up, other than all of the time.
pub const LONGEST_WINDOW: u64 = 10 * SECOND;

const SECOND: u64 = 1_000_000_000;

/// Limit of threads that are shown; nothing is shown of those beyond it.
const MOST_THREADS: usize = 65_536;

/// Number of threads from which on those that ended long ago are forgotten.
const MANY_THREADS: usize = 8_192;

/// Model of the trace.
#[derive(Debug)]
pub struct Model {
    paths: Paths,
    calls: Calls,
    threads: HashMap<Thread, Lived>,
    /// Former threads whose ids other threads have now.
    before: Vec<Before>,
    has_others: bool,
    kinds: Vec<Lately>,
    /// Time of the first event.
    first: Option<MonotonicNs>,
    /// Start of the times that are shown, where that is not the first event.
    start: Option<MonotonicNs>,
    /// Time up to which everything is known.
    now: MonotonicNs,
    /// Next whole second since the first event.
    next_second: MonotonicNs,
    losses: ShownLosses,
    has_requests: bool,
    /// Time at which the last loss was noticed.
    lost_at: Option<MonotonicNs>,
    events: Rate,
    /// Newest events, and the lines of the opened thread.
    log: EventLog,
    has_ended: bool,
}

/// A thread whose ids another one has now.
#[derive(Debug)]
struct Before {
    thread: Thread,
    comm: Vec<u8>,
    sum: Sum,
    /// Time of its end.
    until: MonotonicNs,
}

/// Rate of something, to a tenth of a second.
#[derive(Debug, Default)]
struct Rate {
    all: u64,
    /// Times, each with the total number up to it.
    steps: VecDeque<(MonotonicNs, u64)>,
}

impl Rate {
    const STEP: u64 = SECOND / 10;

    fn add(&mut self, at: MonotonicNs) {
        self.all += 1;
        let is_due = |(last, _): &(MonotonicNs, u64)| at.0.saturating_sub(last.0) >= Self::STEP;
        if self.steps.back().is_none_or(is_due) {
            let oldest = at.0.saturating_sub(LONGEST_WINDOW + SECOND);
            while self
                .steps
                .front()
                .is_some_and(|(first, _)| first.0 < oldest)
            {
                self.steps.pop_front();
            }
            self.steps.push_back((at, self.all - 1));
        }
    }

    fn since(&self, from: MonotonicNs) -> u64 {
        let before = self.steps.partition_point(|(at, _)| *at <= from);
        let before = before.checked_sub(1).and_then(|last| self.steps.get(last));
        self.all - before.map_or(0, |(_, count)| *count)
    }
}

impl Model {
    /// Creates an empty model of these spans, or of all whose names tell that they are spans.
    #[must_use]
    pub fn new(spans: Vec<SpanSpec>) -> Self {
        let choice = SpanChoice {
            slowest: 1,
            is_by_kind: true,
            ..SpanChoice::default()
        };
        let mut paths = Paths::new(Question::Spans(spans), choice).explaining_at_once();
        paths.hold(LONGEST_WINDOW);
        paths.give_out_explained(GivenSteps::None);
        Self {
            paths,
            calls: Calls::default(),
            threads: HashMap::new(),
            before: Vec::new(),
            has_others: false,
            kinds: Vec::new(),
            first: None,
            start: None,
            now: MonotonicNs(0),
            next_second: MonotonicNs(u64::MAX),
            losses: ShownLosses::default(),
            has_requests: false,
            lost_at: None,
            events: Rate::default(),
            log: EventLog::new(),
            has_ended: false,
        }
    }

    /// Returns the time up to which everything is known.
    #[must_use]
    pub fn now(&self) -> MonotonicNs {
        self.now
    }

    /// Notes that no more events will come.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Opens a thread, whose events are shown from now on, or closes it.
    pub fn open(&mut self, thread: Option<Thread>) {
        let start = self.start();
        self.log.open(thread, start);
    }

    /// Returns the shown details of the opened thread.
    fn opened(&self, window: Window) -> Option<Opened> {
        let thread = self.log.opened()?;
        let ns = match window {
            Window::Last(ns) => ns.min(LONGEST_WINDOW),
            Window::All => LONGEST_WINDOW,
        };
        let start = self.start();
        let from = MonotonicNs(self.now.0.saturating_sub(ns));
        let current = self.current(thread);
        let before = self.paths.history().intervals_since(thread, from);
        Some(Opened {
            thread,
            name: harmless(self.paths.names().get(thread)),
            command: self.paths.commands().get(thread.pid),
            from,
            to: self.now,
            start,
            track: before.chain(current).collect(),
            ticks: self.log.ticks(from),
            lines: self.log.lines(),
        })
    }

    /// Sets the start of the times that are shown: that of the log instead of the first event.
    #[must_use]
    pub fn starting_at(mut self, start: MonotonicNs) -> Self {
        self.start = Some(start);
        self
    }

    /// Returns the start of the times that are shown.
    fn start(&self) -> MonotonicNs {
        self.start.or(self.first).unwrap_or_default()
    }

    /// Takes over the number of events missing so far.
    pub fn count_losses(&mut self, losses: ShownLosses) {
        if losses.lost > self.losses.lost {
            self.lost_at = Some(self.now);
        }
        self.losses = losses;
    }

    /// Advances to `now`: all events up to this moment have come.
    pub fn advance(&mut self, now: MonotonicNs) {
        if self.first.is_none() {
            return;
        }
        self.now = self.now.max(now);
        // Of a long pause only the last minute is shown.
        let behind = self.now.0.saturating_sub(self.next_second.0) / SECOND;
        let skipped = behind.saturating_sub(MINUTE as u64);
        self.next_second.0 = self.next_second.0.saturating_add(skipped * SECOND);
        while self.now >= self.next_second {
            self.end_second(self.next_second);
            self.next_second.0 = self.next_second.0.saturating_add(SECOND);
        }
    }

    /// Sums up the intervals of all threads after `from` and up to `until`.
    fn add_up(&mut self, from: MonotonicNs, until: MonotonicNs) {
        let (history, states) = (self.paths.history(), self.paths.states());
        for (thread, lived) in &mut self.threads {
            let mut sum = Sum::default();
            // By thread: there are many intervals, and looking each thread up takes long.
            let before = history.intervals_since(*thread, from);
            for interval in before.take_while(|interval| interval.from < until) {
                sum.add(&interval, from);
            }
            if let Some(current) = states.and_then(|states| states.current(*thread, until)) {
                sum.add(&current, from);
            }
            lived.lately = sum;
        }
    }

    fn end_second(&mut self, end: MonotonicNs) {
        self.add_up(MonotonicNs(end.0.saturating_sub(SECOND)), end);
        for lived in self.threads.values_mut() {
            let ran = lived.lately.running;
            lived.add_second(ran);
        }
        self.take_spans();
        for kind in &mut self.kinds {
            kind.end_second();
        }
        if self.threads.len() > MANY_THREADS {
            self.forget_ended(end);
        }
    }

    /// Forgets threads that have ended more than a minute ago, or where there are very many, more
    /// than the longest window ago; and what they and their processes were called.
    fn forget_ended(&mut self, now: MonotonicNs) {
        let Some(states) = self.paths.states() else {
            return;
        };
        let long = if self.threads.len() > MOST_THREADS / 2 {
            LONGEST_WINDOW
        } else {
            MINUTE as u64 * SECOND
        };
        self.threads
            .retain(|thread, lived| match states.current(*thread, now) {
                Some(current) => current.state != State::Dead || current.ns() < long,
                // Its end was forgotten with those of all others, or it was never seen to run.
                None => now.0.saturating_sub(lived.last.0) < long,
            });
        let processes: HashSet<i32> = self.threads.keys().map(|thread| thread.pid).collect();
        let threads = &self.threads;
        self.paths.forget_names(
            |thread| {
                threads.contains_key(&thread)
                    || thread.tid == thread.pid && processes.contains(&thread.pid)
            },
            |pid| processes.contains(&pid),
        );
    }

    fn take_spans(&mut self) {
        let from = MonotonicNs(self.now.0.saturating_sub(LONGEST_WINDOW));
        self.kinds
            .resize_with(self.paths.kinds().len(), Lately::default);
        for explained in self.paths.take_explained() {
            if let Some(kind) = self.kinds.get_mut(explained.kind) {
                kind.add(explained, from);
            }
        }
        let start = self.start();
        for shown in self.paths.take_shown() {
            if let Some(kind) = self.kinds.get_mut(shown.kind) {
                kind.add_slowest(shown, (start, self.paths.functions()), from);
            }
        }
    }

    fn lived(&mut self, thread: Thread, at: MonotonicNs) -> Option<&mut Lived> {
        lived(&mut self.threads, &mut self.has_others, (thread, at))
    }

    /// Returns everything that is known now, with sums over this window.
    pub fn shot(&mut self, window: Window) -> Shot {
        let (start, first) = (self.start(), self.first.unwrap_or_default());
        let since_first = self.now.0.saturating_sub(first.0);
        let (from, span) = match window {
            Window::Last(ns) => {
                let ns = ns.min(LONGEST_WINDOW);
                (
                    MonotonicNs(self.now.0.saturating_sub(ns)),
                    ns.min(since_first),
                )
            }
            Window::All => (MonotonicNs(0), since_first),
        };
        if window != Window::All {
            self.add_up(from, self.now);
        }
        self.take_spans();
        let kinds = self.paths.kinds().iter().zip(&self.kinds);
        Shot {
            at: self.now.0.saturating_sub(start.0),
            window,
            span,
            threads: self.rows(window, from),
            has_others: self.has_others,
            spans: kinds
                .map(|(kind, lately)| {
                    lately.row(kind, window, (start, self.paths.functions()), self.now)
                })
                .collect(),
            losses: self.losses,
            has_requests: self.has_requests,
            lost_ago: self.lost_at.map(|lost| self.now.0.saturating_sub(lost.0)),
            events: match window {
                Window::All => self.events.all,
                Window::Last(_) => self.events.since(from),
            },
            missing: self.paths.missing_events(),
            has: self.paths.has_switches_and_wakeups(),
            opened: self.opened(window),
            has_ended: self.has_ended,
        }
    }

    /// Returns the current state of a thread, also one that began at this very moment, as after the
    /// last event.
    fn current(&self, thread: Thread) -> Option<Interval> {
        let states = self.paths.states()?;
        let next = MonotonicNs(self.now.0.saturating_add(1));
        let current = states.current(thread, next)?;
        Some(Interval {
            to: self.now,
            ..current
        })
    }

    fn rows(&self, window: Window, from: MonotonicNs) -> Vec<ThreadRow> {
        let names = self.paths.names();
        let (has_switches, _) = self.paths.has_switches_and_wakeups();
        let rows = self.threads.iter().filter_map(|(thread, lived)| {
            let current = self.current(*thread);
            let mut sum = match window {
                Window::All => lived.whole,
                Window::Last(_) => lived.lately,
            };
            (sum.calls, sum.users) = match window {
                Window::All => {
                    if let Some(current) = &current {
                        sum.add(current, current.from);
                    }
                    (lived.calls.all, lived.users.all)
                }
                Window::Last(_) => (lived.calls.since(from), lived.users.since(from)),
            };
            let is_there = current.is_some_and(|current| current.state != State::Dead);
            // One that has ended is shown as long as it did something in that time.
            let did_something = sum.all() > 0 || sum.calls > 0 || sum.users > 0;
            // Without switches it is unknown whether it has ended.
            let is_shown = did_something || (is_there && window != Window::All) || !has_switches;
            is_shown.then(|| ThreadRow {
                thread: *thread,
                name: harmless(names.get(*thread)),
                comm: names.get(*thread).to_vec(),
                process: harmless(names.get(Thread {
                    pid: thread.pid,
                    tid: thread.pid,
                })),
                command: self.paths.commands().get(thread.pid),
                sum,
                minute: lived.minute.iter().copied().collect(),
                current,
                group: current.and_then(|current| self.group(&current)),
                waits_for: current.and_then(|current| self.waits_for(&current, lived)),
            })
        });
        let before = self.before.iter().filter(|_| window == Window::All);
        rows.chain(before.map(|one| one.row(self.now))).collect()
    }

    /// Returns the control group by which a thread is throttled.
    fn group(&self, current: &Interval) -> Option<Arc<str>> {
        match current.state {
            State::Runnable(wait) => self.paths.groups().of_wait(wait).cloned(),
            _ => None,
        }
    }

    /// Returns the task or waker that a thread waits for, as far as that can be known before the
    /// wait ends.
    fn waits_for(&self, current: &Interval, lived: &Lived) -> Option<WaitsFor> {
        match current.state {
            State::Runnable(wait) if wait.is_throttled() => None,
            State::Runnable(_) => {
                let had = self.paths.history().had_cpu(current.cpu?, self.now)?;
                let who = had.by;
                let is_other = who.thread.tid != 0 && who.thread != current.thread;
                is_other.then_some(WaitsFor::Behind(who, had.is_seen))
            }
            State::Blocked(reason) => {
                let (before, waker) = lived.woken.as_ref()?;
                let is_known = *before == reason.anywhere() && *waker != Waker::Unknown;
                is_known.then_some(WaitsFor::LastWokenBy(*waker))
            }
            State::Running | State::Stopped | State::Unknown | State::Dead => None,
        }
    }
}

impl Before {
    fn row(&self, now: MonotonicNs) -> ThreadRow {
        ThreadRow {
            thread: self.thread,
            name: harmless(&self.comm),
            comm: self.comm.clone(),
            sum: self.sum,
            current: Some(Interval {
                thread: self.thread,
                state: State::Dead,
                from: self.until,
                to: now,
                end: IntervalEnd::Open,
                cpu: None,
                waits_since: self.until,
            }),
            ..ThreadRow::default()
        }
    }
}

fn lived<'a>(
    threads: &'a mut HashMap<Thread, Lived>,
    has_others: &mut bool,
    (thread, at): (Thread, MonotonicNs),
) -> Option<&'a mut Lived> {
    if threads.len() >= MOST_THREADS && !threads.contains_key(&thread) {
        *has_others = true;
        return None;
    }
    let lived = threads.entry(thread).or_default();
    lived.last = lived.last.max(at);
    Some(lived)
}

impl Consumer for Model {
    fn idle(&mut self, now: MonotonicNs) {
        self.advance(now);
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.paths.learn_types(types);
        self.log.learn(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.log.lose();
        let (threads, has_others) = (&mut self.threads, &mut self.has_others);
        self.paths
            .lose_and(*gap, |found| add(threads, has_others, found));
        self.calls.lose();
        if !gap.is_unrecorded {
            self.lost_at = Some(self.now.max(gap.next));
        }
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let (event, comm) = (&view.event, view.comm.unwrap_or_default());
        if let Some(stack) = &view.stack {
            self.paths.take_stack(stack);
        }
        let header = event.header;
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        if self.first.is_none() {
            self.first = Some(header.time);
            self.next_second = MonotonicNs(header.time.0.saturating_add(SECOND));
        }
        self.now = self.now.max(header.time);
        if self.now >= self.next_second {
            self.advance(header.time);
        }
        self.events.add(header.time);
        self.has_requests |= header.event_type == EventTypeId::BLOCK_ISSUE;
        self.log.add(event, comm);
        let from = MonotonicNs(header.time.0.saturating_sub(LONGEST_WINDOW));
        if let Some(call) = self.calls.feed(event)
            && let Some(lived) = self.lived(call.thread, header.time)
        {
            lived.calls.add(header.time, from);
        }
        let made = made_by(event);
        let name = made.map(|made| self.paths.names().get(made).to_vec());
        let (threads, has_others) = (&mut self.threads, &mut self.has_others);
        let before = &mut self.before;
        self.paths.go_on(event, comm, |found| {
            if let (Finding::Birth(birth), Some(name)) = (found, &name)
                && Some(birth.thread) == made
            {
                begin(threads, before, (birth.thread, name), birth.at);
            }
            add(threads, has_others, found);
        });
        // One of which nothing is over yet was seen, too.
        if thread.tid != 0
            && let Some(lived) = self.lived(thread, header.time)
            && header.event_type.is_user()
        {
            lived.users.add(header.time, from);
        }
        Ok(())
    }
}

/// Begins a new thread: the former one with its ids, which was called `name`, is another one.
fn begin(
    threads: &mut HashMap<Thread, Lived>,
    before: &mut Vec<Before>,
    (thread, name): (Thread, &[u8]),
    until: MonotonicNs,
) {
    if before.len() >= MOST_THREADS {
        return;
    }
    if let Some(lived) = threads.remove(&thread) {
        let mut sum = lived.whole;
        (sum.calls, sum.users) = (lived.calls.all, lived.users.all);
        before.push(Before {
            thread,
            comm: name.to_vec(),
            sum,
            until,
        });
    }
}

fn add(threads: &mut HashMap<Thread, Lived>, has_others: &mut bool, found: &Finding) {
    let (thread, at, interval) = match found {
        Finding::Interval(interval) if interval.state == State::Dead => return,
        Finding::Interval(interval) => (interval.thread, interval.to, Some(interval)),
        // Of one that has done nothing yet it is known that it waits.
        Finding::Birth(birth) => (birth.thread, birth.at, None),
        Finding::Death(_) | Finding::Taken(_) => return,
    };
    if thread.tid != 0
        && let Some(lived) = lived(threads, has_others, (thread, at))
        && let Some(interval) = interval
    {
        lived.add(interval);
    }
}

/// Escapes a name of any bytes, for people.
fn harmless(untrusted: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, untrusted);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests;
