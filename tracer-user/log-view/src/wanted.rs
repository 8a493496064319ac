//! Events of a log that are wanted.

use std::sync::Arc;

use tracer_binary::thread_context::ThreadContext;
use tracer_common::event_type::{EventTypeId, system_event_type};
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::EventHeader;
use zerocopy::FromBytes as _;

use super::TimePoint;
use tracer_event::fields::until_null;
use tracer_event::predicate::{Predicate, Settled};
use tracer_event::probe::is_probe;
use tracer_event::selection::Selection;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::names::{Table, are_of_events};
use tracer_text::NamePattern;
use tracer_text::is_type_called;

/// Events of a log that are wanted. What is not restricted is wanted.
#[derive(Clone, Debug, Default)]
pub struct WantedEvents {
    /// Families and types, as `--events` lists them.
    pub types: Option<Selection>,
    /// Probes of programs, where types are chosen.
    pub has_probes: bool,
    /// Exact names of event types.
    pub names: Vec<Vec<u8>>,
    /// Processes; empty for all.
    pub pids: Vec<i32>,
    /// Threads; empty for all.
    pub tids: Vec<i32>,
    /// Threads whose names are like this.
    pub comm: Option<NamePattern>,
    /// Trace of OpenTelemetry for which threads work; `None` for any, and for none.
    pub trace: Option<[u8; 16]>,
    /// System calls that are wanted; others are not.
    pub syscalls: Option<SyscallSet>,
    /// Condition on the data of events.
    pub predicate: Predicate,
    /// Findings of a first pass about that condition, if there was one.
    pub settled: Option<Arc<Settled>>,
    /// Time before which nothing is wanted.
    pub from: Option<TimePoint>,
    /// Time after which nothing is wanted.
    pub to: Option<TimePoint>,
    /// Most events.
    pub limit: Option<u64>,
    /// Whether stacks have functions too that the compiler has put into others.
    pub inlined: bool,
}

impl WantedEvents {
    /// Restricts it to these system calls. Where types are chosen and none of system calls is among
    /// them, these are on top.
    #[must_use]
    pub fn with_syscalls(mut self, calls: SyscallSet) -> Self {
        let types = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
        let entries = types.into_iter().filter_map(system_event_type);
        let mut names = entries.map(|entry| (entry.id, entry.name.as_bytes()));
        if !names.any(|(id, name)| self.has_type(id, name)) {
            let chosen = self.types.unwrap_or_else(Selection::nothing);
            self.types = Some(chosen.with_syscalls());
        }
        self.syscalls = Some(calls);
        self
    }

    /// Tells whether events of a type are wanted. Marks of lost events always are.
    #[must_use]
    pub fn has_type(&self, id: EventTypeId, name: &[u8]) -> bool {
        if self.types.is_none() && self.names.is_empty() {
            return true;
        }
        is_loss(id)
            || self.types.as_ref().is_some_and(|types| types.has(id))
            || (self.has_probes && is_probe(name))
            || self.names.iter().any(|wanted| is_type_called(name, wanted))
    }

    /// Tells whether the parts of stacks are shown with the events that they belong to, and not as
    /// events, which is so unless those are chosen.
    #[must_use]
    pub fn hides_part(&self, id: EventTypeId) -> bool {
        let is_chosen = self.types.as_ref().is_some_and(|types| types.has(id));
        let entry = system_event_type(id);
        let name = entry.map_or(b"".as_slice(), |entry| entry.name.as_bytes());
        !is_chosen && !self.names.iter().any(|wanted| is_type_called(name, wanted))
    }

    /// Tells whether not every event is wanted.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        let is_open = self.types.is_none() && self.names.is_empty();
        let has_times = self.from.is_some() || self.to.is_some();
        let has_ids = !self.pids.is_empty() || !self.tids.is_empty();
        let has_calls = self.syscalls.is_some();
        let has_names = self.comm.is_some();
        let is_judged = self.predicate.is_restricted();
        let has_trace = self.trace.is_some();
        !is_open || has_trace || has_times || has_ids || has_names || has_calls || is_judged
    }

    /// Tells whether an event of a type that is wanted is itself wanted, its thread having this
    /// name up to a null; but for the predicate.
    #[must_use]
    pub fn has_event(&self, header: &EventHeader, data: &[u8], comm: &[u8]) -> bool {
        self.has_thread(header)
            && self.has_name(header, comm)
            && self.has_call(header.event_type, data)
    }

    /// Tells whether an event of a thread that works for this is wanted.
    #[must_use]
    pub fn has_context(&self, header: &EventHeader, context: Option<ThreadContext>) -> bool {
        let is_of = |trace| context.is_some_and(|context| context.trace_id == trace);
        self.trace.is_none_or(is_of) || is_loss(header.event_type)
    }

    /// Tells whether a thread of this name is wanted.
    fn has_name(&self, header: &EventHeader, comm: &[u8]) -> bool {
        let is_like =
            |pattern: &NamePattern| pattern.matches(until_null(comm)) || is_loss(header.event_type);
        self.comm.as_ref().is_none_or(is_like)
    }

    /// Tells whether an event is of no system call, or of one that is wanted. Data that is not as
    /// its type says may be of any call, and so may a call of a machine of another kind.
    fn has_call(&self, id: EventTypeId, data: &[u8]) -> bool {
        let Some(calls) = &self.syscalls else {
            return true;
        };
        if !are_of_events() {
            return true;
        }
        let call = match id {
            EventTypeId::SYSCALL_ENTER => SyscallEnterData::read_from_prefix(data)
                .map(|(call, _)| (call.number, call.compat))
                .ok(),
            EventTypeId::SYSCALL_EXIT => SyscallExitData::read_from_prefix(data)
                .map(|(call, _)| (call.number, call.compat))
                .ok(),
            _ => None,
        };
        call.is_none_or(|(nr, compat)| calls.has(table(compat), nr))
    }

    /// Tells whether the process and the thread of an event are wanted. Marks of lost events belong
    /// to none and are wanted with all.
    fn has_thread(&self, header: &EventHeader) -> bool {
        let is_among = |ids: &[i32], id| ids.is_empty() || ids.contains(&id);
        (is_among(&self.pids, header.pid) && is_among(&self.tids, header.tid))
            || is_loss(header.event_type)
    }
}

fn table(compat: u32) -> Table {
    if compat == 0 {
        Table::Native
    } else {
        Table::Compat
    }
}

fn is_loss(id: EventTypeId) -> bool {
    matches!(
        id,
        EventTypeId::ERROR | EventTypeId::OVERFLOW | EventTypeId::RESUME
    )
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::{MonotonicNs, Truncation};
    use zerocopy::IntoBytes as _;

    use super::*;

    fn header(event_type: EventTypeId, pid: i32, tid: i32) -> EventHeader {
        EventHeader {
            time: MonotonicNs(0),
            event_type,
            pid,
            tid,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    #[test]
    fn without_restrictions_everything_is_wanted() {
        let wanted = WantedEvents::default();
        assert!(wanted.has_type(EventTypeId::START, b"posix_trace_start"));
        assert!(wanted.has_type(EventTypeId(300), b"x"));
        assert!(wanted.has_thread(&header(EventTypeId(300), 1, 2)));
    }

    #[test]
    fn lists_and_names_add_up() {
        let wanted = WantedEvents {
            types: Some(Selection::from_words(["fork"]).unwrap()),
            names: vec![b"x".to_vec()],
            ..WantedEvents::default()
        };
        assert!(wanted.has_type(EventTypeId::FORK, b"linux_trace_fork"));
        assert!(wanted.has_type(EventTypeId(300), b"x"));
        assert!(!wanted.has_type(EventTypeId(301), b"xy"));
        assert!(wanted.has_type(EventTypeId::OVERFLOW, b"posix_trace_overflow"));
    }

    #[test]
    fn probes_are_chosen_by_one_word() {
        let wanted = WantedEvents {
            types: Some(Selection::nothing()),
            has_probes: true,
            ..WantedEvents::default()
        };
        for name in ["probe:f", "retprobe:f", "usdt:a:b"] {
            assert!(wanted.has_type(EventTypeId(300), name.as_bytes()), "{name}");
        }
        assert!(!wanted.has_type(EventTypeId(301), b"x"));
        assert!(!wanted.has_type(EventTypeId::FORK, b"linux_trace_fork"));
    }

    #[test]
    fn a_system_event_type_may_be_named_as_text_shows_it() {
        let wanted = WantedEvents {
            names: vec![b"switch-in".to_vec()],
            ..WantedEvents::default()
        };
        assert!(wanted.has_type(EventTypeId::SWITCH_IN, b"linux_trace_switch_in"));
        assert!(wanted.has_type(EventTypeId(300), b"switch-in"));
        assert!(!wanted.has_type(EventTypeId(300), b"switch_in"));
    }

    #[test]
    fn of_system_calls_only_those_are_wanted_that_are_named() {
        let close = i32::try_from(libc::SYS_close).unwrap();
        let enter = |nr, compat| SyscallEnterData {
            number: nr,
            compat,
            args: [0; 6],
        };
        let exit = |nr| SyscallExitData {
            number: nr,
            compat: 0,
            ret: 0,
        };
        let wanted = WantedEvents::default().with_syscalls(SyscallSet::of_list("close").unwrap());
        let has = |id, data: &[u8]| wanted.has_event(&header(id, 1, 1), data, b"");
        let (begin, end) = (EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT);

        assert!(has(begin, enter(close, 0).as_bytes()));
        assert!(!has(begin, enter(close + 1, 0).as_bytes()));
        assert!(has(end, exit(close).as_bytes()) && !has(end, exit(-1).as_bytes()));
        if cfg!(target_arch = "x86_64") {
            assert!(has(begin, enter(6, 1).as_bytes()));
            assert!(!has(begin, enter(close, 1).as_bytes()));
        }
        // What is damaged, and what is none.
        assert!(has(begin, b"x") && has(EventTypeId::FORK, b"") && has(EventTypeId(300), b""));
        assert!(wanted.is_restricted() && wanted.types.is_none());
    }

    #[test]
    fn system_calls_that_are_named_come_on_top_of_types() {
        let with_calls = |words: &[&str], names: &[&[u8]]| {
            let types = Selection::from_words(words.iter().copied()).unwrap();
            let wanted = WantedEvents {
                types: (!words.is_empty()).then_some(types),
                names: names.iter().map(|name| name.to_vec()).collect(),
                ..WantedEvents::default()
            };
            let wanted = wanted.with_syscalls(SyscallSet::all());
            let name = |id| system_event_type(id).unwrap().name.as_bytes();
            [
                EventTypeId::SYSCALL_ENTER,
                EventTypeId::SYSCALL_EXIT,
                EventTypeId::FORK,
            ]
            .map(|id| wanted.has_type(id, name(id)))
        };

        assert_eq!(with_calls(&[], &[]), [true, true, true]);
        assert_eq!(with_calls(&["exec"], &[]), [true, true, false]);
        assert_eq!(with_calls(&[], &[b"fork"]), [true, true, true]);
        // A user who asks for the exits gets no entries.
        assert_eq!(with_calls(&["syscall-exit"], &[]), [false, true, false]);
        assert_eq!(
            with_calls(&["exec"], &[b"syscall-enter"]),
            [true, false, false]
        );
    }

    #[test]
    fn processes_and_threads_restrict_each_other() {
        let wanted = WantedEvents {
            pids: vec![10, 20],
            tids: vec![11],
            ..WantedEvents::default()
        };
        assert!(wanted.has_thread(&header(EventTypeId::FORK, 10, 11)));
        assert!(!wanted.has_thread(&header(EventTypeId::FORK, 10, 10)));
        assert!(!wanted.has_thread(&header(EventTypeId::FORK, 30, 11)));
        assert!(wanted.has_thread(&header(EventTypeId::OVERFLOW, 0, 0)));
    }
}
