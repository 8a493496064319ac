//! Spans with their critical paths, found event by event.

use std::collections::BTreeMap;

use tracer_analysis::{
    Behind, Blame, Counts, CpuGaps, Durations, Finding, FoundIn, FunctionId, History, Interrupts,
    Interval, KnownThreads, PathPart, Span, Spans, State, Step, Thread, ThreadGrouping,
    ThreadStates, Unended, queued_path, span_path,
};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, SyscallEnterData};
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes as _;

use super::context_spans::{ContextSpan, ContextSpans, RouteSpan, RouteSpans};
use super::early_spans::{EarlySpan, EarlySpans};
use super::kind::{Explained, GivenSteps, ShownSpan, SpanKind, Split, segments};
use super::rules::rules;
use super::scope::{Question, SpanChoice};
use super::stillness::Stillness;
use super::unmet::{KnownEvents, none_named, unended_words, unmet};
use super::works::{Works, is_message};
use super::{Commands, Functions, Groups, LastNames, Scope, SpanSpec, made_by};
use tracer_binary::stacks::Stack;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::thread_contexts::ThreadContext;

/// Steps of paths that are looked at, beside `STEPS_AN_EVENT` for each event: some paths have
/// thousands, most a few.
const FIRST_STEPS: u64 = 4_000_000;
const STEPS_AN_EVENT: u64 = 32;

/// Different system calls that are counted: more than a table has.
const MOST_CALLS: usize = 4096;

/// Routes that are told apart, and the name of all beyond.
const MOST_ROUTES: usize = 1024;
const OTHER_ROUTES: &[u8] = b"(others)";

/// Name of the spans of OpenTelemetry of all traces.
const ALL_CONTEXT_SPANS: &[u8] = b"opentelemetry";

/// Finds spans and their critical paths.
#[derive(Debug)]
pub struct Paths {
    question: Question,
    choice: SpanChoice,
    /// Part of the trace: spans that end beyond it are not added.
    scope: Scope,
    /// Types so far, and counts of how often each system call was entered: where spans are asked
    /// for.
    types: EventTypes,
    calls: BTreeMap<i32, u64>,
    /// States of threads since the first event.
    states: Option<ThreadStates>,
    history: History,
    spans: Spans,
    /// Interrupts, and what threads are busy with while messages wait.
    interrupts: Interrupts,
    gaps: CpuGaps,
    /// Where the next event's look at a CPU has found its thread.
    next_found_in: FoundIn,
    works: Works,
    /// Kinds of spans that are messages, by index.
    messages: Vec<usize>,
    names: LastNames,
    commands: Commands,
    functions: Functions,
    /// Whether objects of system calls are told.
    tells_objects: bool,
    /// The function in which the next event's waker wakes another thread.
    next_wakes_in: FunctionId,
    /// Spans of OpenTelemetry, where a trace is asked about.
    contexts: Option<ContextSpans>,
    /// Requests by their routes, where these are asked for, and the kinds of spans that they are.
    routes: Option<RouteSpans>,
    kinds_of_routes: BTreeMap<Vec<u8>, usize>,
    /// The context of the event that is looked at.
    context: Option<ThreadContext>,
    kinds: Vec<SpanKind>,
    /// The kinds of the rules, by index: the same ones, unless a trace is asked about.
    kinds_of_rules: Vec<usize>,
    shown: Vec<ShownSpan>,
    first: MonotonicNs,
    last: MonotonicNs,
    /// The thread that is asked about, once it was seen.
    asked: Option<Thread>,
    /// The first thread of what is asked about, where another one has ended last.
    first_asked: Option<Thread>,
    /// Time of its end, unless another thread takes its place.
    left_at: Option<MonotonicNs>,
    /// Time of its last event, once it is ending: the kernel frees its memory after that is said.
    exits_at: Option<MonotonicNs>,
    is_answered: bool,
    /// Thread that has ended before the time that is asked about.
    passed: Option<Thread>,
    /// When another thread got the tid that is asked about, after the one that was answered for.
    used_again: Option<MonotonicNs>,
    has_switches: bool,
    has_wakeups: bool,
    /// Evidence of whether anything has moved, and what does not.
    stillness: Stillness,
    /// A thread that was blocked has got a CPU, and no wake-up was seen before.
    lacks_wakeups: bool,
    ended: Vec<Span>,
    /// Spans that are explained once it is known what their threads did.
    early: EarlySpans,
    /// Whether each span is explained as it ends, by what is known then.
    is_at_once: bool,
    /// Spans that were added since the last call of `take_explained`, where they are asked for.
    explained: Option<Vec<Explained>>,
    /// Steps of their paths that these have.
    given_steps: GivenSteps,
    /// History of threads that is held whatever spans are open, in nanoseconds.
    held_ns: Option<u64>,
    /// Steps of paths that may still be looked at: so the work grows with the events, however many
    /// spans are open at the same time.
    steps_left: u64,
}

impl Paths {
    /// Starts with nothing.
    #[must_use]
    pub fn new(question: Question, choice: SpanChoice) -> Self {
        let contexts = match question {
            Question::Trace(trace) => Some(ContextSpans::new(trace)),
            _ => None,
        };
        let mut paths = Self {
            question,
            choice,
            contexts,
            routes: None,
            kinds_of_routes: BTreeMap::new(),
            context: None,
            scope: Scope::default(),
            types: EventTypes::default(),
            calls: BTreeMap::new(),
            states: None,
            history: History::default(),
            spans: Spans::default(),
            interrupts: Interrupts::default(),
            gaps: CpuGaps::default(),
            next_found_in: FoundIn::Unknown,
            works: Works::default(),
            messages: Vec::new(),
            names: LastNames::default(),
            commands: Commands::default(),
            functions: Functions::default(),
            tells_objects: false,
            next_wakes_in: FunctionId::NONE,
            kinds: Vec::new(),
            kinds_of_rules: Vec::new(),
            shown: Vec::new(),
            first: MonotonicNs(0),
            last: MonotonicNs(0),
            asked: None,
            first_asked: None,
            left_at: None,
            exits_at: None,
            is_answered: false,
            passed: None,
            used_again: None,
            has_switches: false,
            has_wakeups: false,
            stillness: Stillness::default(),
            lacks_wakeups: false,
            ended: Vec::new(),
            early: EarlySpans::default(),
            is_at_once: false,
            explained: None,
            given_steps: GivenSteps::None,
            held_ns: None,
            steps_left: FIRST_STEPS,
        };
        // The system's types are known from the beginning.
        paths.bind(&EventTypes::default());
        paths
    }

    /// Tells from now on the objects of system calls in which threads are blocked, where their
    /// descriptors were recorded.
    #[must_use]
    pub fn telling_objects(self) -> Self {
        Self {
            tells_objects: true,
            ..self
        }
    }

    /// Explains each span as it ends, for what reports on it then: what a thread did before the
    /// first switch is not known by that time.
    #[must_use]
    pub fn explaining_at_once(self) -> Self {
        Self {
            is_at_once: true,
            ..self
        }
    }

    /// Takes for spans from now on what threads do for traces of OpenTelemetry, by the routes or
    /// names that contexts say.
    #[must_use]
    pub fn telling_routes(self) -> Self {
        Self {
            routes: Some(RouteSpans::default()),
            ..self
        }
    }

    /// Notes the context of the event that was looked at last.
    pub fn note_route(&mut self, event: &Event<'_>, context: Option<ThreadContext>) {
        let Some(routes) = &mut self.routes else {
            return;
        };
        let was_open = routes.oldest().is_some();
        if let Some(span) = routes.feed(event, context) {
            let thread = Thread {
                pid: event.header.pid,
                tid: event.header.tid,
            };
            self.explain_route(thread, span);
        }
        if was_open || context.is_some() {
            self.hold_history();
        }
    }

    /// Explains a time of a thread that no events of the program begin and end.
    fn explain_time(
        &mut self,
        kind: usize,
        thread: Thread,
        (from, to): (MonotonicNs, MonotonicNs),
        context: Option<ThreadContext>,
    ) {
        let span = Span {
            rule: kind,
            begun_by: thread,
            thread,
            from,
            to,
            polls: Vec::new(),
            has_older_polls: false,
        };
        if span.ns() > 0 && self.is_at(&span) {
            self.explain(kind, span, context);
        }
    }

    /// Explains a request.
    fn explain_route(&mut self, thread: Thread, of: RouteSpan) {
        let name = of.route.name().unwrap_or_default();
        let is_new = self.kinds_of_routes.len() < MOST_ROUTES;
        let name = match self.kinds_of_routes.contains_key(name) || is_new {
            true => name.to_vec(),
            false => OTHER_ROUTES.to_vec(),
        };
        let kind = match self.kinds_of_routes.get(&name) {
            Some(kind) => *kind,
            None => {
                let kind = self.kind([b"route ", name.as_slice()].concat());
                self.kinds_of_routes.insert(name, kind);
                kind
            }
        };
        self.explain_time(kind, thread, (of.from, of.to), None);
    }

    /// Restricts it to spans that end within this part of the trace.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Returns the spans by kind, in the order in which they were found.
    #[must_use]
    pub fn kinds(&self) -> &[SpanKind] {
        &self.kinds
    }

    /// Returns the spans that are explained, the slowest first.
    #[must_use]
    pub fn shown(&self) -> &[ShownSpan] {
        &self.shown
    }

    /// Returns the time of the first event.
    #[must_use]
    pub fn first(&self) -> MonotonicNs {
        self.first
    }

    /// Returns the time of the last event.
    #[must_use]
    pub fn last(&self) -> MonotonicNs {
        self.last
    }

    /// Counts the spans that were not followed, since too many were open.
    #[must_use]
    pub fn unfollowed(&self) -> u64 {
        self.spans.unfollowed()
    }

    /// Counts the spans that were open when events were lost, and that are not reported on.
    #[must_use]
    pub fn interrupted(&self) -> u64 {
        self.spans.interrupted()
    }

    /// Tells whether there are switches, and wake-ups: without them it is not known what threads
    /// do.
    #[must_use]
    pub fn has_switches_and_wakeups(&self) -> (bool, bool) {
        (self.has_switches, self.has_wakeups)
    }

    /// Returns, for people, what is unknown because no such events were recorded.
    #[must_use]
    pub fn missing_events(&self) -> Option<&'static str> {
        if !self.has_switches {
            Some("no switches were recorded (--events switch,wakeup): what threads did is unknown")
        } else if self.lacks_wakeups && !self.has_wakeups {
            Some(
                "no wake-ups were recorded (--events switch,wakeup): since when threads could run \
                 is unknown",
            )
        } else {
            None
        }
    }

    /// Sets the time of the first event, if none was before.
    fn begin(&mut self, at: MonotonicNs) {
        if self.states.is_none() {
            self.first = at;
            self.states = Some(ThreadStates::new(at));
            if let Question::Thread { from, .. } = self.question {
                self.history.keep_from(Some(from.unwrap_or(at)));
            }
        }
    }

    /// Holds the history of threads in the last `ns` nanoseconds, whatever spans are open.
    pub fn hold(&mut self, ns: u64) {
        self.held_ns = Some(ns);
    }

    /// Has each span given out by [`take_explained`](Self::take_explained) from now on, with these
    /// steps of its path.
    pub fn give_out_explained(&mut self, steps: GivenSteps) {
        self.explained.get_or_insert_default();
        self.given_steps = steps;
    }

    /// Tells whether spans were added since the last call of
    /// [`take_explained`](Self::take_explained).
    #[must_use]
    pub fn has_explained(&self) -> bool {
        let explained = self.explained.as_ref();
        explained.is_some_and(|explained| !explained.is_empty())
    }

    /// Returns the spans that were added since the last call.
    pub fn take_explained(&mut self) -> Vec<Explained> {
        self.explained
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns the spans that were explained one by one since the last call.
    pub fn take_shown(&mut self) -> Vec<ShownSpan> {
        std::mem::take(&mut self.shown)
    }

    /// Returns the present states of threads.
    #[must_use]
    pub fn states(&self) -> Option<&ThreadStates> {
        self.states.as_ref()
    }

    /// Returns the recent history of threads.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the slowest span since the last call, with its name.
    pub fn take_slowest(&mut self) -> Option<(Vec<u8>, ShownSpan)> {
        if self.shown.is_empty() {
            return None;
        }
        let shown = self.shown.swap_remove(0);
        let name = self.kinds.get(shown.kind)?.name.clone();
        Some((name, shown))
    }

    /// Returns the steps of a path, with the names of threads that events did not name.
    #[must_use]
    pub fn named(&self, mut steps: Vec<Step>) -> Vec<Step> {
        for step in &mut steps {
            if let PathPart::Unmade(task)
            | PathPart::Unpolled(task)
            | PathPart::Runnable(_, Some(Behind { task, .. })) = &mut step.part
                && task.comm == [0; COMM_BYTES]
            {
                task.comm = as_comm(self.names.get(task.thread));
            }
        }
        steps
    }

    /// Returns the command lines of processes.
    #[must_use]
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Returns the functions in which threads waited.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Returns the control groups whose time was used up.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.functions.groups
    }

    /// Takes the stack of the next event.
    pub fn take_stack(&mut self, stack: &Stack<'_>) {
        if stack.is_of(EventTypeId::SWITCH_OUT)
            && let Some(states) = &mut self.states
        {
            states.next_waits_in(self.functions.waiting(stack));
        } else if !self.functions.locks.is_empty() && stack.is_of(EventTypeId::WAKEUP) {
            self.next_wakes_in = self.functions.waiting(stack);
        } else if stack.is_of(EventTypeId::SAMPLE) {
            self.next_found_in = match stack.frame_counts() {
                (0, 0) => FoundIn::Unknown,
                (0, _) => FoundIn::Program,
                _ => FoundIn::Kernel,
            };
        }
    }

    /// Has the thread of the next event wait in this function, where it does: whatever the code
    /// means by it that asks for it. It counts more than a stack that was taken before.
    pub fn next_waits_in(&mut self, function: FunctionId) {
        if let Some(states) = &mut self.states {
            states.next_waits_in(function);
        }
    }

    /// Takes the function in which the waker of the next event wakes another thread: where locks
    /// are waited for, and its stack was recorded.
    pub fn take_waking_function(&mut self) -> FunctionId {
        std::mem::take(&mut self.next_wakes_in)
    }

    /// Returns the names of threads.
    #[must_use]
    pub fn names(&self) -> &LastNames {
        &self.names
    }

    /// Forgets the names of threads, and the command lines of processes, but of those that are
    /// needed: in a trace that goes on for long, those of what has ended.
    pub fn forget_names(
        &mut self,
        is_thread_needed: impl Fn(Thread) -> bool,
        is_process_needed: impl Fn(i32) -> bool,
    ) {
        self.names.retain(is_thread_needed);
        self.commands.retain(is_process_needed);
    }

    /// Advances to this moment, up to which nothing has happened since the last event.
    pub fn advance(&mut self, now: MonotonicNs) {
        if self.states.is_some() {
            self.last = self.last.max(now);
            self.explain_early(None);
        }
    }

    /// Reports, for people, that no thread has run, and what they do instead; once there are no
    /// more events.
    #[must_use]
    pub fn stillness(&self) -> Option<String> {
        let ns = self.last.0.saturating_sub(self.first.0);
        self.stillness.in_words(ns)
    }

    /// Finishes: there are no more events. What is found of threads then is given to `also`.
    pub fn finish(&mut self, mut also: impl FnMut(&Finding)) {
        if let Some(states) = &mut self.states {
            states.stop(self.last);
        }
        self.explain_all_early();
        self.is_at_once = true;
        if let Question::Thread { until, .. } = self.question {
            let last = self.left_at.or(self.exits_at).unwrap_or(self.last);
            self.answer(until.map_or(last, |until| until.min(last)));
        }
        self.end_contexts();
        if let Some(states) = &mut self.states {
            self.stillness.end(states);
            states.end(self.last, |found| also(&found));
        }
    }

    /// Explains the spans of OpenTelemetry that are open: there are no more events, or some are
    /// missing.
    fn end_contexts(&mut self) {
        let contexts = self.contexts.as_mut();
        for (thread, span) in contexts.map(ContextSpans::end).unwrap_or_default() {
            self.explain_context(thread, span);
        }
        let routes = self.routes.as_mut().map(RouteSpans::end);
        for (thread, span) in routes.unwrap_or_default() {
            self.explain_route(thread, span);
        }
    }

    /// Explains a span of OpenTelemetry.
    fn explain_context(&mut self, thread: Thread, of: ContextSpan) {
        let name = match self.question {
            Question::Trace(Some(_)) => format!("span {}", of.context.span()).into_bytes(),
            _ => ALL_CONTEXT_SPANS.to_vec(),
        };
        let known = self.kinds.iter().position(|kind| kind.name == name);
        let kind = known.unwrap_or_else(|| self.kind(name));
        self.explain_time(kind, thread, (of.from, of.to), Some(of.context));
    }

    /// Answers the question about a thread, up to `to`.
    fn answer(&mut self, to: MonotonicNs) {
        let Question::Thread { tid, from, .. } = self.question else {
            return;
        };
        let Some(thread) = self.asked.filter(|_| !self.is_answered) else {
            return;
        };
        let from = from.unwrap_or(self.first).max(self.first);
        self.is_answered = from < to || tid.is_none();
        if from >= to {
            // One that has the tid later may be meant.
            self.passed = self.asked.take();
            return;
        }
        let name = match tid {
            Some(tid) => format!("thread {tid}").into_bytes(),
            None => self.names.get(self.first_asked.unwrap_or(thread)).to_vec(),
        };
        let kind = self.kind(name);
        self.explain(
            kind,
            Span {
                rule: kind,
                begun_by: thread,
                thread,
                from,
                to,
                polls: Vec::new(),
                has_older_polls: false,
            },
            None,
        );
    }

    fn kind(&mut self, name: Vec<u8>) -> usize {
        self.kinds.push(SpanKind {
            name,
            took: Durations::default(),
            blame: Blame::new(ThreadGrouping::ByName),
            split: Split::default(),
        });
        self.kinds.len() - 1
    }

    /// Adds rules for spans whose types are known now.
    fn bind(&mut self, types: &EventTypes) {
        let specs = match &self.question {
            Question::Spans(specs) => &specs[..],
            // All whose names show it: those count that end as their threads work for it.
            Question::Trace(_) => &[],
            Question::Nothing | Question::Thread { .. } => return,
        };
        self.types = types.clone();
        for (name, rule) in rules(specs, types) {
            if !self.spans.rules().contains(&rule) {
                let is_message = is_message(types, rule.begin.event_type);
                self.spans.add_rule(rule);
                let kind = self.kind(name);
                self.kinds_of_rules.push(kind);
                if is_message {
                    self.messages.push(kind);
                }
            }
        }
        if !self.messages.is_empty() {
            self.works.bind(types, &mut self.functions);
        }
    }

    /// Tells whether a span that has ended by now is asked about.
    fn is_asked(&self, span: &Span) -> bool {
        let is_of_trace = match self.question {
            Question::Trace(Some(trace)) => self
                .context
                .is_some_and(|context| context.trace_id == trace),
            Question::Trace(None) => self.context.is_some(),
            _ => true,
        };
        is_of_trace && self.is_at(span)
    }

    /// Adds a span that has ended by now, once it is known what its thread did.
    fn explain(&mut self, kind: usize, span: Span, context: Option<ThreadContext>) {
        let early = EarlySpan {
            kind,
            span,
            context,
        };
        let sees_switches = self.states.as_ref().map(ThreadStates::sees_switches);
        if self.is_at_once || sees_switches == Some(true) {
            self.explain_now(early);
        } else {
            for ready in self.early.add(early) {
                self.explain_now(ready);
            }
        }
    }

    /// Explains those spans that have waited for this switch, or for long.
    fn explain_early(&mut self, leaves: Option<Thread>) {
        if self.early.is_empty() {
            return;
        }
        for ready in self.early.take_ready(leaves, self.last) {
            self.explain_now(ready);
        }
        if self.early.is_empty() {
            match self.question {
                Question::Thread { .. } if !self.is_answered => {}
                _ => self.hold_history(),
            }
        }
    }

    fn explain_all_early(&mut self) {
        for ready in self.early.take_all() {
            self.explain_now(ready);
        }
    }

    /// Adds a span by what is known.
    fn explain_now(&mut self, early: EarlySpan) {
        let EarlySpan {
            kind,
            span,
            context,
        } = early;
        let Some(states) = &self.states else {
            return;
        };
        let ns = span.ns();
        if ns < self.choice.longer_than {
            return;
        }
        let most = usize::try_from(self.steps_left).unwrap_or(usize::MAX);
        let steps = if self.messages.contains(&kind) {
            let works = self.works.during(span.thread, &span);
            queued_path(states, &self.history, &span, works.iter(), most.max(1))
        } else {
            span_path(states, &self.history, &span, most.max(1))
        };
        self.steps_left = self.steps_left.saturating_sub(steps.len() as u64);
        let steps = self.named(steps);
        let Some(kind_of) = self.kinds.get_mut(kind) else {
            return;
        };
        kind_of.took.add(ns);
        kind_of.blame.add(&steps);
        let mut split = Split::default();
        split.add(&steps);
        kind_of.split.add_all(&split);
        if let Some(explained) = &mut self.explained {
            explained.push(Explained {
                kind,
                thread: span.thread,
                begun_by: span.begun_by,
                context,
                from: span.from,
                to: span.to,
                ns,
                split,
                segments: self.given_steps.choose(&steps),
            });
        }
        let position = self.shown.partition_point(|shown| shown.span.ns() >= ns);
        let is_by_kind = self.choice.is_by_kind;
        let slower = if is_by_kind {
            let slower = self.shown.iter().take(position);
            slower.filter(|shown| shown.kind == kind).count()
        } else {
            position
        };
        if slower >= self.choice.slowest {
            return;
        }
        let mut blame = Blame::new(ThreadGrouping::Apart);
        blame.add(&steps);
        let shown = ShownSpan {
            kind,
            comm: self.names.get(span.thread).to_vec(),
            context,
            span,
            segments: if self.choice.is_without_segments {
                Vec::new()
            } else {
                segments(&steps)
            },
            blame,
        };
        self.shown.insert(position, shown);
        if is_by_kind {
            let mut of_kind = self.shown.iter().enumerate();
            let beyond = of_kind
                .by_ref()
                .filter(|(_, shown)| shown.kind == kind)
                .nth(self.choice.slowest);
            if let Some((beyond, _)) = beyond {
                self.shown.remove(beyond);
            }
        } else {
            self.shown.truncate(self.choice.slowest);
        }
    }

    /// Counts a system call that is entered, so that it can be said which calls were.
    fn count_call(&mut self, event: &Event<'_>) {
        if event.header.event_type != EventTypeId::SYSCALL_ENTER {
            return;
        }
        let Ok((call, _)) = SyscallEnterData::read_from_prefix(event.data) else {
            return;
        };
        let is_known = self.calls.contains_key(&call.number);
        if call.compat == 0 && (is_known || self.calls.len() < MOST_CALLS) {
            *self.calls.entry(call.number).or_default() += 1;
        }
    }

    /// Explains for each kind of spans that was asked for and of which there is none: why, and what
    /// there is instead.
    #[must_use]
    pub fn unmet(&self) -> Vec<String> {
        let known = KnownEvents {
            types: &self.types,
            calls: &self.calls,
            unended: self.spans.unended(),
            interrupted: self.interrupted(),
        };
        let specs = match &self.question {
            Question::Nothing => return Vec::new(),
            Question::Trace(trace) if self.kinds.iter().all(|kind| kind.took.count() == 0) => {
                let which = trace.map_or_else(
                    || "a trace of OpenTelemetry".to_owned(),
                    |trace| format!("trace {:032x}", u128::from_be_bytes(trace)),
                );
                return vec![format!(
                    "no thread works for {which} in what was recorded; --trace-context records it, \
                     of programs that publish thread contexts"
                )];
            }
            Question::Trace(_) => return Vec::new(),
            Question::Thread { tid, .. }
                if self.kinds.iter().all(|kind| kind.took.count() == 0) =>
            {
                let which =
                    tid.map_or_else(|| "a thread".to_owned(), |tid| format!("thread {tid}"));
                return vec![format!(
                    "nothing was recorded of {which} in that time; `tracer-user stat --by thread` \
                     lists threads"
                )];
            }
            Question::Thread { .. } => return Vec::new(),
            Question::Spans(specs) => specs,
        };
        let counts_of = |is_meant: &dyn Fn(&[u8]) -> bool| {
            let mut counts = Counts::default();
            let mut explained = 0;
            for (rule, kind) in self.kinds.iter().enumerate() {
                if is_meant(&kind.name) {
                    let of_rule = self.spans.counts(rule);
                    counts.begun += of_rule.begun;
                    counts.ended += of_rule.ended;
                    explained += kind.took.count();
                }
            }
            (explained == 0).then_some(counts)
        };
        if specs.is_empty() {
            let counts = counts_of(&|_| true);
            return counts
                .map(|counts| none_named(counts, &known))
                .into_iter()
                .collect();
        }
        let of_spec = |spec: &SpanSpec| {
            let counts = counts_of(&|name| spec.may_be(name))?;
            Some(unmet(spec, counts, &known))
        };
        specs.iter().filter_map(of_spec).collect()
    }

    /// Tells whether the steps of each path that is explained are retained one by one.
    #[must_use]
    pub fn has_segments(&self) -> bool {
        !self.choice.is_without_segments
    }

    /// Tells whether spans were asked for by name.
    #[must_use]
    pub fn has_named_spans(&self) -> bool {
        match &self.question {
            Question::Spans(specs) => !specs.is_empty(),
            Question::Trace(_) => true,
            Question::Nothing | Question::Thread { .. } => false,
        }
    }

    /// Counts the spans that began and have not ended.
    #[must_use]
    pub fn unended(&self) -> Unended {
        self.spans.unended()
    }

    /// Counts spans without an end, in words; `None` without any. Those that were open when events
    /// were lost are reported elsewhere.
    #[must_use]
    pub fn unended_line(&self) -> Option<String> {
        if matches!(self.question, Question::Trace(_)) {
            return None;
        }
        let unended = self.unended();
        let causes = unended_words(unended, 0).join(", ");
        (unended.all() > 0).then(|| format!("{} spans have not ended: {causes}", unended.all()))
    }

    fn is_at(&self, span: &Span) -> bool {
        let at = self.choice.at;
        at.is_none_or(|at| span.from <= at && at <= span.to) && self.scope.has(span.thread, span.to)
    }

    /// Handles a gap: events are missing. What is found of threads is given to `also`.
    pub fn lose_and(&mut self, gap: Gap, mut also: impl FnMut(&Finding)) {
        self.begin(gap.next);
        if gap.tid.is_none() {
            self.end_contexts();
            self.explain_all_early();
        }
        let history = &mut self.history;
        if let Some(states) = &mut self.states {
            let found = |found: Finding| {
                history.add(&found);
                also(&found);
            };
            match gap.tid {
                Some(tid) => return states.skip_thread(tid, found),
                None if gap.is_unrecorded => states.skip(gap.until, found),
                None => states.lose(gap.until, found),
            }
        }
        self.history.lose();
        self.interrupts.lose(gap.until);
        self.gaps.lose();
        self.works.lose();
        self.spans.lose(gap.is_kernels);
        if let Question::Spans(_) | Question::Trace(_) = self.question {
            self.hold_history();
        }
    }

    /// Holds the history of threads since the oldest open span began, and as long as was asked for.
    fn hold_history(&mut self) {
        let held = self.held_ns.map(|ns| self.last.0.saturating_sub(ns));
        let of_contexts = self.contexts.as_ref().and_then(ContextSpans::oldest);
        let of_routes = self.routes.as_ref().and_then(RouteSpans::oldest);
        let early = self.early.oldest();
        let open = [self.spans.oldest(), of_contexts, of_routes, early];
        let oldest = open.into_iter().flatten().min();
        let from = match (held.map(MonotonicNs), oldest) {
            (Some(held), Some(oldest)) => Some(held.min(oldest)),
            (held, oldest) => held.or(oldest),
        };
        self.history.keep_from(from);
    }

    /// Notes that another thread gets the tid that is asked about.
    fn notice_reuse(&mut self, event: &Event<'_>, thread: Thread) {
        let Question::Thread { tid: Some(tid), .. } = self.question else {
            return;
        };
        let is_made = made_by(event).is_some_and(|made| made.tid == tid);
        if is_made {
            self.passed = None;
        }
        let Some(asked) = self.asked else {
            return;
        };
        let is_other = thread.tid == tid && thread.pid != asked.pid;
        if !is_made && !is_other {
            return;
        }
        let at = event.header.time;
        // The end of the one before was not seen.
        let (left, exits) = (self.left_at.take(), self.exits_at.take());
        self.answer(left.or(exits).unwrap_or(at));
        if self.is_answered {
            self.used_again.get_or_insert(at);
        }
    }

    /// Returns when another thread got the tid that is asked about, of which nothing is said.
    #[must_use]
    pub fn used_again(&self) -> Option<MonotonicNs> {
        self.used_again
    }

    /// Answers when the thread that is asked about ends. The first thread of a process may be ended
    /// by another one, which then continues in its place with another program.
    fn notice_end(&mut self, event_type: EventTypeId, thread: Thread, at: MonotonicNs) {
        let Some(asked) = self.asked.filter(|asked| asked.pid == thread.pid) else {
            return;
        };
        let is_asked = asked == thread;
        let is_first = asked.pid == asked.tid;
        if is_asked && self.exits_at.is_some() {
            self.exits_at = Some(at);
            if self.has_left_for_good(event_type, thread, at) {
                self.exits_at = None;
                self.answer_at_end(at);
            }
            return;
        }
        match event_type {
            EventTypeId::EXEC if is_asked => self.left_at = None,
            EventTypeId::THREAD_EXIT if is_asked && is_first => self.left_at = Some(at),
            EventTypeId::EXIT if is_asked && self.left_at.is_none() => self.exits_at = Some(at),
            EventTypeId::EXIT if !is_asked && is_first && self.has_gone_on(at) => {
                self.first_asked = self.asked.replace(thread);
                self.left_at = None;
                self.exits_at = Some(at);
            }
            EventTypeId::EXIT if is_asked || is_first => self.answer_at_end(at),
            EventTypeId::THREAD_EXIT if is_asked => self.answer_at_end(at),
            _ => {}
        }
    }

    /// Tells whether all that a program did is asked about, which ends now, and other threads have
    /// gone on with it after the first one. Where a thread ends the whole program, the others end
    /// soon after it, in any order.
    fn has_gone_on(&self, now: MonotonicNs) -> bool {
        const LEAST_NS: u64 = 20_000_000;
        let is_whole = matches!(self.question, Question::Thread { tid: None, .. });
        let Some(left) = self.left_at.filter(|_| is_whole) else {
            return false;
        };
        let before = left.0.saturating_sub(self.first.0);
        now.0.saturating_sub(left.0) >= LEAST_NS.max(before / 10)
    }

    /// Tells whether a thread that is ending leaves its CPU with this event, and has none again.
    fn has_left_for_good(&self, event_type: EventTypeId, thread: Thread, at: MonotonicNs) -> bool {
        let after = MonotonicNs(at.0.saturating_add(1));
        let states = self.states.as_ref();
        let now = states.and_then(|states| states.current(thread, after));
        event_type == EventTypeId::SWITCH_OUT && now.is_none_or(|now| now.state == State::Dead)
    }

    fn answer_at_end(&mut self, at: MonotonicNs) {
        let at = self.left_at.take().unwrap_or(at);
        self.answer(at);
        self.hold_history();
    }

    /// Notes what comes between while a thread runs: interrupts, page faults, gaps of its CPU, and
    /// other work.
    fn note_interruption(&mut self, event: &Event<'_>, thread: Thread) {
        let header = event.header;
        let found_in = std::mem::take(&mut self.next_found_in);
        let current = || self.states.as_ref()?.current(thread, header.time);
        if let Some(gap) = self.gaps.feed(event, found_in, current) {
            self.history.add_gap(gap);
        }
        match header.event_type {
            EventTypeId::FAULT_USER | EventTypeId::FAULT_KERNEL => {
                self.history.add_fault(thread, header.time);
            }
            EventTypeId::THREAD_EXIT | EventTypeId::EXIT => self.works.forget(header.tid),
            _ => {
                if let Some(run) = self.interrupts.feed(event) {
                    self.history.add_interrupt(&run);
                }
                self.works.feed(&header);
            }
        }
    }

    /// Notes the lock that a thread begins to wait for.
    fn note_lock(&mut self, event: &Event<'_>, thread: Thread) {
        let Some(states) = &mut self.states else {
            return;
        };
        let threads = TracedThreads {
            states,
            names: &self.names,
        };
        if let Some((lock, address)) = self.functions.locks.feed(event, &threads) {
            states.will_wait_for(thread, lock, address);
        }
    }

    /// Continues by one event. What is found of threads is given to `also`.
    pub fn go_on(&mut self, event: &Event<'_>, comm: &[u8], also: impl FnMut(&Finding)) {
        self.go_on_and(event, comm, also, |_| {});
    }

    /// Continues as [`go_on`](Self::go_on); spans that have ended are given to `also_span`.
    pub fn go_on_and(
        &mut self,
        event: &Event<'_>,
        comm: &[u8],
        mut also: impl FnMut(&Finding),
        mut also_span: impl FnMut(&Span),
    ) {
        let header = event.header;
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        self.last = header.time;
        self.steps_left = self.steps_left.saturating_add(STEPS_AN_EVENT);
        self.begin(header.time);
        if let Question::Thread { tid, until, .. } = self.question {
            if until.is_some_and(|until| until < header.time) {
                self.answer(until.unwrap_or(header.time));
                self.hold_history();
            }
            self.notice_reuse(event, thread);
            // What a stream says of itself is of no thread.
            let is_first = self.asked.is_none() && header.tid != 0;
            let is_passed = self.passed == Some(thread);
            if tid.map_or(is_first, |tid| tid == header.tid && !is_passed) {
                self.asked = Some(thread);
            }
        }
        self.count_call(event);
        self.has_switches |= header.event_type == EventTypeId::SWITCH_OUT;
        self.has_wakeups |= header.event_type == EventTypeId::WAKEUP;
        if header.event_type == EventTypeId::SWITCH_IN && !self.has_wakeups {
            let before = self.states.as_ref();
            let before = before.and_then(|states| states.current(thread, header.time));
            let is_blocked = |before: Interval| matches!(before.state, State::Blocked(_));
            self.lacks_wakeups |= before.is_some_and(is_blocked);
        }
        self.names.learn(thread, comm);
        self.commands.learn(event);
        self.functions.groups.learn(event);
        self.note_lock(event, thread);
        let (history, stillness) = (&mut self.history, &mut self.stillness);
        if let Some(states) = &mut self.states {
            let names = &mut self.names;
            states.feed(event, |found| {
                history.add(&found);
                stillness.look_at(&found);
                also(&found);
                if let Finding::Birth(birth) = found
                    && !birth.is_same
                    && birth.thread != thread
                {
                    names.forget(birth.thread);
                }
            });
            if self.tells_objects
                && let Some((call, object)) = self.functions.objects.of_call(event)
            {
                states.may_wait_on(thread, call, object);
            }
            // A look says whether they are recorded, though none has come yet.
            let is_look = header.event_type == EventTypeId::THREAD_STATE;
            self.has_switches |= is_look && states.sees_switches();
        }
        let leaves = header.event_type == EventTypeId::SWITCH_OUT;
        self.explain_early(leaves.then_some(thread));
        self.notice_end(header.event_type, thread, header.time);
        self.note_interruption(event, thread);
        let mut ended = std::mem::take(&mut self.ended);
        let is_border = self.spans.feed(event, |span| ended.push(span));
        for span in ended.drain(..) {
            if self.is_asked(&span) {
                also_span(&span);
                let kind = self.kinds_of_rules.get(span.rule).copied();
                self.explain(kind.unwrap_or(span.rule), span, self.context);
            }
        }
        self.ended = ended;
        if is_border || self.held_ns.is_some() {
            self.hold_history();
        }
    }
}

impl Consumer for Paths {
    fn idle(&mut self, now: MonotonicNs) {
        Paths::advance(self, now);
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.bind(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.lose_and(*gap, |_| {});
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let (event, comm) = (&view.event, view.comm.unwrap_or_default());
        if let Some(stack) = &view.stack {
            self.take_stack(stack);
        }
        self.context = view.context;
        self.go_on(event, comm, |_| {});
        if let Some(contexts) = &mut self.contexts {
            let ended = contexts.feed(event, view.context);
            let thread = Thread {
                pid: event.header.pid,
                tid: event.header.tid,
            };
            for span in ended {
                self.explain_context(thread, span);
            }
            self.hold_history();
        }
        Ok(())
    }
}

/// Threads that are traced, with their names.
struct TracedThreads<'a> {
    states: &'a ThreadStates,
    names: &'a LastNames,
}

impl KnownThreads for TracedThreads<'_> {
    fn process_of(&self, tid: i32) -> Option<i32> {
        self.states.process_of(tid)
    }

    fn name_of(&self, thread: Thread) -> [u8; COMM_BYTES] {
        as_comm(self.names.get(thread))
    }
}

fn as_comm(name: &[u8]) -> [u8; COMM_BYTES] {
    let mut comm = [0; COMM_BYTES];
    for (to, byte) in comm.iter_mut().zip(name) {
        *to = *byte;
    }
    comm
}
