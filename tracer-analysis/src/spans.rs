//! Spans: what has a beginning and an end among the events.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::state::Thread;

/// Spans that are open at a time.
const MOST_OPEN: usize = 65_536;

/// Spans of a kind that are open within each other on a thread: of more some have lost their ends.
const MOST_NESTED: usize = 64;

/// Bytes of a key.
const MOST_KEY: usize = 64;

/// Which bytes of the data are the key: from the first up to the second.
pub type KeyBytes = (usize, usize);

/// What begins spans, or ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Border {
    /// The event type.
    pub event_type: EventTypeId,
    /// Of a system call: which one.
    pub syscall: Option<i32>,
    /// What beginning and end have in common. Without it, they are on the same thread.
    pub key: Option<KeyBytes>,
}

/// Spans of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How they begin.
    pub begin: Border,
    /// How they end.
    pub end: Border,
    /// Whether its events come from the kernel.
    pub is_kernels: bool,
}

/// A span that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its rule, by its index.
    pub rule: usize,
    /// Who began it.
    pub begun_by: Thread,
    /// Who ended it.
    pub thread: Thread,
    /// From when on.
    pub from: MonotonicNs,
    /// Until when.
    pub to: MonotonicNs,
}

impl Span {
    /// How long, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// What the beginning and the end of a span have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Thread(i32),
    Data(Box<[u8]>),
}

/// Spans, found by rules.
#[derive(Debug, Default)]
pub struct Spans {
    rules: Vec<Rule>,
    /// Rules by the types of their borders: which one, and whether it is its beginning.
    by_type: HashMap<EventTypeId, Vec<(usize, bool)>, RandomState>,
    open: Open,
}

impl Spans {
    /// Adds a rule: its index.
    pub fn add_rule(&mut self, rule: Rule) -> usize {
        let index = self.rules.len();
        self.rules.push(rule);
        for (border, is_begin) in [(rule.end, false), (rule.begin, true)] {
            let of_type = self.by_type.entry(border.event_type).or_default();
            of_type.push((index, is_begin));
            // An event may end one span and begin the next.
            of_type.sort_by_key(|(_, is_begin)| *is_begin);
        }
        index
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Events were lost before the next one, or only those of the kernel: what is open may have
    /// ended, and begun again.
    pub fn lose(&mut self, is_kernels: bool) {
        let rules = &self.rules;
        self.open.keep(|rule| {
            let is_held = |rule: &Rule| is_kernels && !rule.is_kernels;
            rules.get(rule).is_some_and(is_held)
        });
    }

    /// When the oldest began that is open.
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

    /// Goes on by one event: whether it has begun or ended any. Those that it ends are given to
    /// `ended`.
    pub fn feed(&mut self, event: &Event<'_>, mut ended: impl FnMut(Span)) -> bool {
        let header = event.header;
        let Some(borders) = self.by_type.get(&header.event_type) else {
            let is_end = matches!(
                header.event_type,
                EventTypeId::EXIT | EventTypeId::THREAD_EXIT
            );
            return is_end && self.open.forget(self.rules.len(), header.tid);
        };
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let mut is_one = false;
        for (index, is_begin) in borders {
            let Some(rule) = self.rules.get(*index) else {
                continue;
            };
            let border = if *is_begin { rule.begin } else { rule.end };
            let Some(key) = border.key_of(event) else {
                continue;
            };
            is_one = true;
            if *is_begin {
                self.open.begin((*index, key), thread, header.time);
            } else if let Some((begun_by, from)) = self.open.end((*index, key)) {
                ended(Span {
                    rule: *index,
                    begun_by,
                    thread,
                    from,
                    to: header.time,
                });
            }
        }
        is_one
    }
}

impl Border {
    /// What the event has as the key; `None` where it is no such border.
    fn key_of(&self, event: &Event<'_>) -> Option<Key> {
        if self.syscall.is_some() && number_of(event) != self.syscall {
            return None;
        }
        let Some((first, end)) = self.key else {
            return Some(Key::Thread(event.header.tid));
        };
        let bytes = event.data.get(first..end.min(first + MOST_KEY))?;
        Some(Key::Data(bytes.into()))
    }
}

/// Spans that have begun and not ended.
#[derive(Debug, Default)]
struct Open {
    open: HashMap<(usize, Key), Vec<(Thread, MonotonicNs)>, RandomState>,
    /// How many of them began when.
    begins: BTreeMap<MonotonicNs, usize>,
    count: usize,
    unfollowed: u64,
    interrupted: u64,
}

impl Open {
    /// Keeps those of the rules of which `is_held` is true.
    fn keep(&mut self, is_held: impl Fn(usize) -> bool) {
        let mut lost = Vec::new();
        self.open.retain(|(rule, _), open| {
            let is_held = is_held(*rule);
            if !is_held {
                lost.extend(open.iter().map(|(_, from)| *from));
            }
            is_held
        });
        self.interrupted += lost.len() as u64;
        for from in lost {
            self.close(from);
        }
    }

    fn begin(&mut self, key: (usize, Key), thread: Thread, at: MonotonicNs) {
        if self.count >= MOST_OPEN {
            self.unfollowed += 1;
            return;
        }
        let most = match key.1 {
            Key::Thread(_) => MOST_NESTED,
            // Whoever has the key now is another one.
            Key::Data(_) => 1,
        };
        let open = self.open.entry(key).or_default();
        let lost = (open.len() >= most).then(|| open.remove(0));
        open.push((thread, at));
        self.count += 1;
        *self.begins.entry(at).or_default() += 1;
        if let Some((_, from)) = lost {
            self.close(from);
        }
    }

    fn end(&mut self, key: (usize, Key)) -> Option<(Thread, MonotonicNs)> {
        let open = self.open.get_mut(&key)?;
        let begun = open.pop()?;
        if open.is_empty() {
            self.open.remove(&key);
        }
        self.close(begun.1);
        Some(begun)
    }

    fn close(&mut self, from: MonotonicNs) {
        self.count -= 1;
        if let Some(count) = self.begins.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.begins.remove(&from);
            }
        }
    }

    /// A thread has ended: what it has begun for itself never ends.
    fn forget(&mut self, rules: usize, tid: i32) -> bool {
        if self.count == 0 {
            return false;
        }
        let mut is_one = false;
        for rule in 0..rules {
            let open = self.open.remove(&(rule, Key::Thread(tid)));
            for (_, from) in open.into_iter().flatten() {
                is_one = true;
                self.close(from);
            }
        }
        is_one
    }
}

/// Which system call an event is of.
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

    use super::*;
    use crate::story::header;

    const BEGIN: EventTypeId = EventTypeId(FIRST_USER_EVENT + 1);
    const END: EventTypeId = EventTypeId(FIRST_USER_EVENT + 2);

    fn rule(key: Option<KeyBytes>) -> Rule {
        let border = |event_type| Border {
            event_type,
            syscall: None,
            key,
        };
        Rule {
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
