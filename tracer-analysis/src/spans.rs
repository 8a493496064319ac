//! Spans: what has a beginning and an end among the events.

use std::collections::{BTreeMap, HashMap, VecDeque};

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ExecData, SyscallEnterData, SyscallExitData};
use tracer_engine::event::{Event, MonotonicNs};
use tracer_engine::fields::span_id;
use zerocopy::FromBytes;

use crate::state::Thread;

/// Spans that are open at a time.
const MOST_OPEN: usize = 65_536;

/// Spans of a kind that are open within each other on a thread: of more some have lost their ends.
const MOST_NESTED: usize = 64;

/// Bytes of a key.
const MOST_KEY: usize = 64;

/// Polls of one span that are held: of more, the newest.
const MOST_POLLS: usize = 1024;

/// Polls of all spans that are open.
const MOST_ALL_POLLS: usize = 262_144;

/// Bytes of the data that are the key: from the first up to the second.
pub type KeyBytes = (usize, usize);

/// Key that the beginning and the end of a span have in common, where an event has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOf {
    /// These bytes of their data.
    Bytes(KeyBytes),
    /// The process, and the span's id in their text, as the `tracing` layer writes it.
    SpanId,
}

/// Event that begins spans, or ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Border {
    /// The event type.
    pub event_type: EventTypeId,
    /// Of a system call: its number.
    pub syscall: Option<i32>,
    /// Key that beginning and end have in common. Without it, they are on the same thread.
    pub key: Option<KeyOf>,
}

/// Spans of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRule {
    /// How they begin.
    pub begin: Border,
    /// How they end.
    pub end: Border,
    /// How a poll of one begins and ends, where a thread has to enter it to work on it. Their keys
    /// are as those of `begin` and `end`.
    pub poll: Option<(Border, Border)>,
    /// Whether its events come from the kernel.
    pub is_kernels: bool,
}

/// A time in which a thread worked on a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The thread.
    pub thread: Thread,
    /// From when on.
    pub from: MonotonicNs,
    /// Until when.
    pub to: MonotonicNs,
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its rule, by its index.
    pub rule: usize,
    /// Thread that began it.
    pub begun_by: Thread,
    /// Thread that ended it.
    pub thread: Thread,
    /// From when on.
    pub from: MonotonicNs,
    /// Until when.
    pub to: MonotonicNs,
    /// Times in which threads worked on it, in order of time: the newest of many. Empty where its
    /// thread does so all the time.
    pub polls: Vec<Poll>,
    /// Whether older polls are not held.
    pub has_older_polls: bool,
}

impl Span {
    /// Returns its length, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// Value that the beginning and the end of a span have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Thread(i32),
    Data(Box<[u8]>),
    Task(i32, u64),
}

/// Role of an event in a rule. One may end a span and begin the next, so ends come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    PollEnd,
    End,
    Begin,
    PollBegin,
}

/// How many spans of a rule began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Spans that began.
    pub begun: u64,
    /// Spans of these that ended.
    pub ended: u64,
}

/// Spans that have begun and not ended, by why; without those that were open when events were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unended {
    /// Their thread or process ended first.
    pub thread_ended: u64,
    /// Others began within them on their thread, so many that these are not held any more.
    pub too_deep: u64,
    /// Another one with their key began.
    pub begun_again: u64,
    /// They are still open.
    pub open: u64,
}

impl Unended {
    /// Returns their sum.
    #[must_use]
    pub fn all(&self) -> u64 {
        let parts = [
            self.thread_ended,
            self.too_deep,
            self.begun_again,
            self.open,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// Spans, found by rules.
#[derive(Debug, Default)]
pub struct Spans {
    rules: Vec<SpanRule>,
    /// How many of each rule began and ended.
    counts: Vec<Counts>,
    /// Rules by the types of their borders: which one, and which border.
    by_type: HashMap<EventTypeId, Vec<(usize, Role)>, RandomState>,
    open: Open,
}

impl Spans {
    /// Adds a rule: its index.
    pub fn add_rule(&mut self, rule: SpanRule) -> usize {
        let index = self.rules.len();
        self.rules.push(rule);
        self.counts.push(Counts::default());
        for role in [Role::PollEnd, Role::End, Role::Begin, Role::PollBegin] {
            if let Some(border) = rule.border(role) {
                let of_type = self.by_type.entry(border.event_type).or_default();
                of_type.push((index, role));
                of_type.sort_by_key(|(_, role)| *role);
            }
        }
        index
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &[SpanRule] {
        &self.rules
    }

    /// Notes that events were lost before the next one, or only those of the kernel: what is open
    /// may have ended, and begun again.
    pub fn lose(&mut self, is_kernels: bool) {
        let rules = &self.rules;
        let interrupted = self.open.keep(|(rule, _)| {
            let is_held = |rule: &SpanRule| is_kernels && !rule.is_kernels;
            rules.get(*rule).is_some_and(is_held)
        });
        self.open.interrupted += interrupted as u64;
    }

    /// Returns when the oldest began that is open.
    #[must_use]
    pub fn oldest(&self) -> Option<MonotonicNs> {
        self.open.begins.first_key_value().map(|(at, _)| *at)
    }

    /// Spans that were not followed, since too many were open.
    #[must_use]
    pub fn unfollowed(&self) -> u64 {
        self.open.unfollowed
    }

    /// Spans that were open when events were lost, and that nothing is said of.
    #[must_use]
    pub fn interrupted(&self) -> u64 {
        self.open.interrupted
    }

    /// Spans that have begun and not ended so far.
    #[must_use]
    pub fn unended(&self) -> Unended {
        Unended {
            open: self.open.count as u64,
            ..self.open.unended
        }
    }

    /// Returns how many spans of a rule, by its index, began and ended.
    #[must_use]
    pub fn counts(&self, rule: usize) -> Counts {
        self.counts.get(rule).copied().unwrap_or_default()
    }

    /// Goes on by one event: whether it has begun or ended any. Those that it ends are given to
    /// `ended`.
    pub fn feed(&mut self, event: &Event<'_>, mut ended: impl FnMut(Span)) -> bool {
        let header = event.header;
        if header.event_type == EventTypeId::EXEC
            && let Some(old) = ExecData::old_tid_of(event.data)
        {
            self.open.rename(self.rules.len(), old, header.tid);
        }
        let Some(borders) = self.by_type.get(&header.event_type) else {
            return match header.event_type {
                EventTypeId::THREAD_EXIT => self.open.forget(self.rules.len(), header.tid),
                EventTypeId::EXIT => {
                    let of_thread = self.open.forget(self.rules.len(), header.tid);
                    self.open.forget_tasks(header.pid) || of_thread
                }
                EventTypeId::EXEC => self.open.forget_tasks(header.pid),
                _ => false,
            };
        };
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let mut is_one = false;
        for (index, role) in borders {
            let Some(rule) = self.rules.get(*index) else {
                continue;
            };
            let Some(key) = rule.border(*role).and_then(|border| border.key_of(event)) else {
                continue;
            };
            let key = (*index, key);
            let mut counts = self.counts.get_mut(*index);
            match role {
                Role::Begin => {
                    if let Some(counts) = &mut counts {
                        counts.begun += 1;
                    }
                    self.open.begin(key, thread, header.time);
                }
                Role::PollBegin => self.open.poll(&key, thread, header.time),
                Role::PollEnd => self.open.poll_end(&key, thread, header.time),
                Role::End => {
                    if let Some(begun) = self.open.end(&key) {
                        if let Some(counts) = &mut counts {
                            counts.ended += 1;
                        }
                        ended(begun.into_span(*index, rule, thread, header.time));
                    }
                }
            }
            is_one |= matches!(role, Role::Begin | Role::End);
        }
        is_one
    }
}

impl SpanRule {
    fn border(&self, role: Role) -> Option<Border> {
        match role {
            Role::PollEnd => self.poll.map(|(_, end)| end),
            Role::End => Some(self.end),
            Role::Begin => Some(self.begin),
            Role::PollBegin => self.poll.map(|(begin, _)| begin),
        }
    }
}

impl Border {
    /// Returns the key that the event has; `None` where it is no such border.
    fn key_of(&self, event: &Event<'_>) -> Option<Key> {
        if self.syscall.is_some() && number_of(event) != self.syscall {
            return None;
        }
        match self.key {
            None => Some(Key::Thread(event.header.tid)),
            Some(KeyOf::Bytes((first, end))) => {
                let bytes = event.data.get(first..end.min(first + MOST_KEY))?;
                Some(Key::Data(bytes.into()))
            }
            Some(KeyOf::SpanId) => Some(Key::Task(event.header.pid, span_id(event.data)?)),
        }
    }
}

/// A span that has begun.
#[derive(Debug)]
struct Begun {
    by: Thread,
    from: MonotonicNs,
    polls: VecDeque<Poll>,
    /// Whether older polls are not held.
    has_older_polls: bool,
    /// Thread that works on it now, since when, and how many times over.
    polled: Option<(Thread, MonotonicNs, u32)>,
    /// Whether two threads worked on it at the same time: then it belongs to no thread.
    is_shared: bool,
}

impl Begun {
    fn into_span(self, index: usize, rule: &SpanRule, thread: Thread, to: MonotonicNs) -> Span {
        let mut polls = self.polls;
        if let Some((thread, from, _)) = self.polled {
            polls.push_back(Poll { thread, from, to });
        }
        let mut span = Span {
            rule: index,
            begun_by: self.by,
            thread,
            from: self.from,
            to,
            polls: Vec::new(),
            has_older_polls: self.has_older_polls,
        };
        if rule.poll.is_none() || self.is_shared {
            return span;
        }
        // Entered once, it is that: the moments before and after are none of its work.
        if polls.len() == 1
            && !self.has_older_polls
            && let Some(only) = polls.pop_back()
        {
            (span.thread, span.from, span.to) = (only.thread, only.from, only.to);
            span.begun_by = only.thread;
        }
        span.polls = polls.into();
        span
    }
}

/// Spans that have begun and not ended.
#[derive(Debug, Default)]
struct Open {
    open: HashMap<(usize, Key), Vec<Begun>, RandomState>,
    /// How many of them began when.
    begins: BTreeMap<MonotonicNs, usize>,
    count: usize,
    /// How many polls are held of them.
    polls: usize,
    /// How many are tasks of which process.
    tasks: HashMap<i32, usize, RandomState>,
    unfollowed: u64,
    interrupted: u64,
    /// But for those that are open.
    unended: Unended,
}

impl Open {
    /// Keeps those of which `is_held` is true: how many are not.
    fn keep(&mut self, is_held: impl Fn(&(usize, Key)) -> bool) -> usize {
        let mut lost = Vec::new();
        self.open.retain(|key, open| {
            let is_held = is_held(key);
            if !is_held {
                lost.extend(open.drain(..).map(|begun| (key.1.clone(), begun)));
            }
            is_held
        });
        for (key, begun) in &lost {
            self.close(key, begun);
        }
        lost.len()
    }

    fn begin(&mut self, key: (usize, Key), by: Thread, from: MonotonicNs) {
        if self.count >= MOST_OPEN {
            self.unfollowed += 1;
            return;
        }
        let most = match key.1 {
            Key::Thread(_) => MOST_NESTED,
            // A second span with the key replaces the first.
            Key::Data(_) | Key::Task(..) => 1,
        };
        if let Key::Task(pid, _) = key.1 {
            *self.tasks.entry(pid).or_default() += 1;
        }
        let of_key = key.1.clone();
        let open = self.open.entry(key).or_default();
        let lost = (open.len() >= most).then(|| open.remove(0));
        let is_of_thread = matches!(of_key, Key::Thread(_));
        open.push(Begun {
            by,
            from,
            polls: VecDeque::new(),
            has_older_polls: false,
            polled: None,
            is_shared: false,
        });
        self.count += 1;
        *self.begins.entry(from).or_default() += 1;
        if let Some(lost) = lost {
            if is_of_thread {
                self.unended.too_deep += 1;
            } else {
                self.unended.begun_again += 1;
            }
            self.close(&of_key, &lost);
        }
    }

    fn end(&mut self, key: &(usize, Key)) -> Option<Begun> {
        let open = self.open.get_mut(key)?;
        let begun = open.pop()?;
        if open.is_empty() {
            self.open.remove(key);
        }
        self.close(&key.1, &begun);
        Some(begun)
    }

    /// Notes that a thread begins to work on the span.
    fn poll(&mut self, key: &(usize, Key), thread: Thread, at: MonotonicNs) {
        let Some(begun) = self.open.get_mut(key).and_then(|open| open.last_mut()) else {
            return;
        };
        match &mut begun.polled {
            None => begun.polled = Some((thread, at, 1)),
            Some((by, _, times)) if *by == thread => *times = times.saturating_add(1),
            Some(_) => begun.is_shared = true,
        }
    }

    /// Notes that the thread no longer works on the span.
    fn poll_end(&mut self, key: &(usize, Key), thread: Thread, at: MonotonicNs) {
        let Some(begun) = self.open.get_mut(key).and_then(|open| open.last_mut()) else {
            return;
        };
        let Some((by, from, times)) = &mut begun.polled else {
            return;
        };
        if *by != thread {
            return;
        }
        *times -= 1;
        if *times > 0 {
            return;
        }
        let poll = Poll {
            thread,
            from: *from,
            to: at,
        };
        begun.polled = None;
        if begun.polls.len() >= MOST_POLLS || self.polls >= MOST_ALL_POLLS {
            begun.has_older_polls = true;
            if begun.polls.pop_front().is_none() {
                return;
            }
            self.polls -= 1;
        }
        begun.polls.push_back(poll);
        self.polls += 1;
    }

    fn close(&mut self, key: &Key, begun: &Begun) {
        self.count -= 1;
        self.polls -= begun.polls.len();
        if let Some(count) = self.begins.get_mut(&begun.from) {
            *count -= 1;
            if *count == 0 {
                self.begins.remove(&begun.from);
            }
        }
        if let Key::Task(pid, _) = key
            && let Some(count) = self.tasks.get_mut(pid)
        {
            *count -= 1;
            if *count == 0 {
                self.tasks.remove(pid);
            }
        }
    }

    /// Forgets the spans that an ended thread has begun for itself: they never end. Tells whether
    /// there were any.
    fn forget(&mut self, rules: usize, tid: i32) -> bool {
        if self.count == 0 {
            return false;
        }
        let mut is_one = false;
        for rule in 0..rules {
            let key = Key::Thread(tid);
            let open = self.open.remove(&(rule, key.clone()));
            for begun in open.into_iter().flatten() {
                is_one = true;
                self.unended.thread_ended += 1;
                self.close(&key, &begun);
            }
        }
        is_one
    }

    /// Notes that a thread goes on under another tid, whose thread has ended, as it runs another
    /// program.
    fn rename(&mut self, rules: usize, old: i32, new: i32) {
        if old == new || self.count == 0 {
            return;
        }
        self.forget(rules, new);
        for rule in 0..rules {
            if let Some(begun) = self.open.remove(&(rule, Key::Thread(old))) {
                self.open.insert((rule, Key::Thread(new)), begun);
            }
        }
    }

    /// Forgets the spans of a process that has ended, or runs another program: its tasks have ended
    /// too. Tells whether there were any.
    fn forget_tasks(&mut self, of: i32) -> bool {
        if !self.tasks.contains_key(&of) {
            return false;
        }
        let ended = self.keep(|(_, key)| !matches!(key, Key::Task(pid, _) if *pid == of));
        self.unended.thread_ended += ended as u64;
        ended > 0
    }
}

/// Returns the number of the system call that an event is of.
fn number_of(event: &Event<'_>) -> Option<i32> {
    match event.header.event_type {
        EventTypeId::SYSCALL_ENTER => {
            let (data, _) = SyscallEnterData::read_from_prefix(event.data).ok()?;
            (data.compat == 0).then_some(data.number)
        }
        EventTypeId::SYSCALL_EXIT => {
            let (data, _) = SyscallExitData::read_from_prefix(event.data).ok()?;
            (data.compat == 0).then_some(data.number)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::FIRST_USER_EVENT;

    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::story::header;

    const BEGIN: EventTypeId = EventTypeId(FIRST_USER_EVENT + 1);
    const END: EventTypeId = EventTypeId(FIRST_USER_EVENT + 2);

    fn rule(key: Option<KeyBytes>) -> SpanRule {
        let border = |event_type| Border {
            event_type,
            syscall: None,
            key: key.map(KeyOf::Bytes),
        };
        SpanRule {
            poll: None,
            begin: border(BEGIN),
            end: border(END),
            is_kernels: false,
        }
    }

    /// Beginner, ender, beginning and length of each span.
    fn spans(
        spans: &mut Spans,
        events: &[(u64, EventTypeId, i32, &[u8])],
    ) -> Vec<(i32, i32, u64, u64)> {
        let mut found = Vec::new();
        for (at, event_type, tid, data) in events {
            let header = header(*at, *event_type, *tid, 0);
            spans.feed(&Event { header, data }, |span| {
                found.push((span.begun_by.tid, span.thread.tid, span.from.0, span.ns()));
            });
        }
        found
    }

    #[test]
    fn spans_of_a_thread_lie_within_each_other() {
        let mut of_thread = Spans::default();
        of_thread.add_rule(rule(None));
        let events: [(u64, EventTypeId, i32, &[u8]); 7] = [
            (10, BEGIN, 1, b""),
            (20, BEGIN, 2, b""),
            (30, BEGIN, 1, b""),
            (40, END, 1, b""),
            (50, END, 1, b""),
            (60, END, 1, b""),
            (70, END, 2, b""),
        ];
        assert_eq!(
            spans(&mut of_thread, &events),
            [(1, 1, 30, 10), (1, 1, 10, 40), (2, 2, 20, 50)]
        );
        assert_eq!(of_thread.oldest(), None);
        assert_eq!(of_thread.counts(0), Counts { begun: 3, ended: 3 });
        assert_eq!(of_thread.unended(), Unended::default());
    }

    #[test]
    fn a_thread_that_execs_under_another_tid_ends_its_call_there() {
        let border = |event_type| Border {
            event_type,
            syscall: Some(59),
            key: None,
        };
        let mut calls = Spans::default();
        calls.add_rule(SpanRule {
            poll: None,
            begin: border(EventTypeId::SYSCALL_ENTER),
            end: border(EventTypeId::SYSCALL_EXIT),
            is_kernels: true,
        });
        let mut enter = SyscallEnterData::new_zeroed();
        enter.number = 59;
        let mut exit = SyscallExitData::new_zeroed();
        exit.number = 59;
        let mut exec = ExecData::new_zeroed();
        exec.old_tid = 2;
        let events = [
            // The first thread is in a call that it never returns from.
            (10, EventTypeId::SYSCALL_ENTER, 1, enter.as_bytes()),
            (20, EventTypeId::SYSCALL_ENTER, 2, enter.as_bytes()),
            (30, EventTypeId::EXEC, 1, exec.as_bytes()),
            (40, EventTypeId::SYSCALL_EXIT, 1, exit.as_bytes()),
        ];
        assert_eq!(spans(&mut calls, &events), [(2, 1, 20, 20)]);
        let expected = Unended {
            thread_ended: 1,
            ..Unended::default()
        };
        assert_eq!(calls.unended(), expected);
    }

    #[test]
    fn spans_that_never_end_are_counted_by_why() {
        let mut found = Spans::default();
        found.add_rule(rule(None));
        let events: [(u64, EventTypeId, i32, &[u8]); 6] = [
            (10, BEGIN, 1, b""),
            // What is left by a jump begins again, and its end is taken for that of the newer one.
            (20, BEGIN, 1, b""),
            (30, END, 1, b""),
            (40, BEGIN, 2, b""),
            (50, EventTypeId::THREAD_EXIT, 1, b""),
            (60, BEGIN, 3, b""),
        ];
        assert_eq!(spans(&mut found, &events).len(), 1);
        let expected = Unended {
            thread_ended: 1,
            open: 2,
            ..Unended::default()
        };
        assert_eq!(found.unended(), expected);
        assert_eq!(found.counts(0), Counts { begun: 4, ended: 1 });

        let mut keyed = Spans::default();
        keyed.add_rule(rule(Some((0, 1))));
        spans(&mut keyed, &[(10, BEGIN, 1, b"a"), (20, BEGIN, 1, b"a")]);
        let expected = Unended {
            begun_again: 1,
            open: 1,
            ..Unended::default()
        };
        assert_eq!(keyed.unended(), expected);
    }

    #[test]
    fn a_key_joins_what_lies_on_different_threads() {
        let mut keyed = Spans::default();
        keyed.add_rule(rule(Some((1, 3))));
        let events: [(u64, EventTypeId, i32, &[u8]); 5] = [
            (10, BEGIN, 1, b"xab"),
            (20, BEGIN, 1, b"xcd"),
            (30, END, 2, b"yab"),
            (40, END, 3, b"y"),
            (50, END, 3, b"zcdz"),
        ];
        assert_eq!(spans(&mut keyed, &events), [(1, 2, 10, 20), (1, 3, 20, 30)]);
    }

    /// A span that threads enter: made, entered, left, over.
    const TASK: [EventTypeId; 4] = [
        EventTypeId(FIRST_USER_EVENT + 3),
        EventTypeId(FIRST_USER_EVENT + 4),
        EventTypeId(FIRST_USER_EVENT + 5),
        EventTypeId(FIRST_USER_EVENT + 6),
    ];

    fn declare_task_spans() -> Spans {
        let [new, enter, exit, close] = TASK.map(|event_type| Border {
            event_type,
            syscall: None,
            key: Some(KeyOf::SpanId),
        });
        let mut spans = Spans::default();
        spans.add_rule(SpanRule {
            begin: new,
            end: close,
            poll: Some((enter, exit)),
            is_kernels: false,
        });
        spans
    }

    /// The spans of these events, each by its time, thread, and moment, of a span with this id.
    fn tasks(spans: &mut Spans, events: &[(u64, i32, usize, u64)]) -> Vec<Span> {
        let mut found = Vec::new();
        for (at, tid, moment, id) in events {
            let data = match moment {
                0 | 3 => format!("span={id}"),
                _ => format!("level=INFO span={id} span=7"),
            };
            let (header, data) = (header(*at, TASK[*moment], *tid, 0), data.as_bytes());
            spans.feed(&Event { header, data }, |span| found.push(span));
        }
        found
    }

    #[test]
    fn a_task_is_a_span_from_when_it_is_made_until_it_is_over() {
        let (new, enter, exit, close) = (0, 1, 2, 3);
        let found = tasks(
            &mut declare_task_spans(),
            &[
                (10, 1, new, 8),
                (15, 1, new, 9),
                (20, 2, enter, 8),
                (22, 3, enter, 9),
                (30, 2, exit, 8),
                (50, 3, exit, 9),
                (60, 3, enter, 8),
                (70, 3, exit, 8),
                (80, 3, close, 8),
                (90, 3, close, 9),
            ],
        );
        let polls = |span: &Span| -> Vec<_> {
            let polls = span.polls.iter();
            polls
                .map(|poll| (poll.thread.tid, poll.from.0, poll.to.0))
                .collect()
        };
        let said = |span: &Span| (span.begun_by.tid, span.thread.tid, span.from.0, span.to.0);
        assert_eq!(said(&found[0]), (1, 3, 10, 80));
        assert_eq!(polls(&found[0]), [(2, 20, 30), (3, 60, 70)]);
        // Entered once, it is what was done then.
        assert_eq!(said(&found[1]), (3, 3, 22, 50));
        assert_eq!(polls(&found[1]), []);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_several_threads_are_in_at_once_belongs_to_none() {
        let (new, enter, exit, close) = (0, 1, 2, 3);
        let found = tasks(
            &mut declare_task_spans(),
            &[
                (10, 1, new, 8),
                (20, 1, enter, 8),
                (21, 1, enter, 8),
                (22, 2, enter, 8),
                (23, 1, exit, 8),
                (24, 1, exit, 8),
                (25, 2, exit, 8),
                (30, 1, close, 8),
            ],
        );
        assert_eq!((found[0].from.0, found[0].to.0), (10, 30));
        assert_eq!(found[0].polls, []);
    }

    #[test]
    fn tasks_end_with_their_process_and_are_bounded() {
        let (new, enter, exit) = (0, 1, 2);
        let mut spans = declare_task_spans();
        for id in 0..3000 {
            tasks(&mut spans, &[(1, 1, new, id)]);
            for at in 0..100 {
                tasks(&mut spans, &[(at, 1, enter, id), (at, 1, exit, id)]);
            }
        }
        assert_eq!(spans.open.polls, MOST_ALL_POLLS);
        let header = header(200, EventTypeId::EXIT, 1, 0);
        assert!(spans.feed(&Event { header, data: b"" }, |_| {}));
        assert_eq!((spans.open.count, spans.open.polls), (0, 0));
        assert_eq!((spans.oldest(), spans.open.tasks.len()), (None, 0));
    }

    #[test]
    fn what_is_open_when_events_are_lost_is_no_span() {
        let mut of_thread = Spans::default();
        of_thread.add_rule(rule(None));
        let begin: [(u64, EventTypeId, i32, &[u8]); 1] = [(10, BEGIN, 1, b"")];
        let end: [(u64, EventTypeId, i32, &[u8]); 1] = [(20, END, 1, b"")];
        spans(&mut of_thread, &begin);
        of_thread.lose(false);
        assert_eq!(of_thread.interrupted(), 1);
        assert_eq!(spans(&mut of_thread, &end), []);

        // Those of the program do not come through the kernel.
        spans(&mut of_thread, &begin);
        of_thread.lose(true);
        assert_eq!(spans(&mut of_thread, &end), [(1, 1, 10, 10)]);
    }

    #[test]
    fn what_a_thread_has_begun_ends_with_it() {
        let mut of_thread = Spans::default();
        of_thread.add_rule(rule(None));
        let events: [(u64, EventTypeId, i32, &[u8]); 2] =
            [(10, BEGIN, 1, b""), (20, EventTypeId::THREAD_EXIT, 1, b"")];
        assert_eq!(spans(&mut of_thread, &events), []);
        assert_eq!(of_thread.oldest(), None);
    }

    #[test]
    fn those_without_an_end_are_bounded() {
        let mut of_thread = Spans::default();
        of_thread.add_rule(rule(None));
        let mut keyed = Spans::default();
        keyed.add_rule(rule(Some((0, 4))));
        for nth in 0..200_000_u32 {
            let of_nth = nth.to_ne_bytes();
            let event: [(u64, EventTypeId, i32, &[u8]); 1] = [(nth.into(), BEGIN, 1, &of_nth)];
            spans(&mut of_thread, &event);
            spans(&mut keyed, &event);
        }
        assert_eq!(of_thread.open.count, MOST_NESTED);
        assert_eq!(keyed.open.count, MOST_OPEN);
        assert_eq!(keyed.unfollowed(), 200_000 - MOST_OPEN as u64);
    }
}
