//! Which events of a log are wanted.

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::EventHeader;

use super::TimePoint;
use crate::report::push_short_name;
use crate::selection::Selection;

/// Which events of a log are wanted. What is not restricted is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Families and types, as `--events` lists them.
    pub types: Option<Selection>,
    /// Exact names of event types.
    pub names: Vec<Vec<u8>>,
    /// Processes; empty for all.
    pub pids: Vec<i32>,
    /// Threads; empty for all.
    pub tids: Vec<i32>,
    /// Nothing before it.
    pub from: Option<TimePoint>,
    /// Nothing after it.
    pub to: Option<TimePoint>,
    /// At most so many events.
    pub limit: Option<u64>,
}

impl Wanted {
    /// Whether events of a type are wanted. Marks of lost events always are.
    #[must_use]
    pub fn has_type(&self, id: EventTypeId, name: &[u8]) -> bool {
        if self.types.is_none() && self.names.is_empty() {
            return true;
        }
        is_loss(id)
            || self.types.as_ref().is_some_and(|types| types.has(id))
            || self.names.iter().any(|wanted| is_called(name, wanted))
    }

    /// Whether not every event is wanted.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        let is_open = self.types.is_none() && self.names.is_empty();
        let has_times = self.from.is_some() || self.to.is_some();
        !is_open || has_times || !self.pids.is_empty() || !self.tids.is_empty()
    }

    /// Whether the process and the thread of an event are wanted. Marks of lost events belong to
    /// none and are wanted with all.
    #[must_use]
    pub fn has_thread(&self, header: &EventHeader) -> bool {
        let is_among = |ids: &[i32], id| ids.is_empty() || ids.contains(&id);
        (is_among(&self.pids, header.pid) && is_among(&self.tids, header.tid))
            || is_loss(header.event_type)
    }
}

/// Whether a type of this name is the one that `wanted` names: exactly, or a system event type as
/// text shows it.
pub(super) fn is_called(name: &[u8], wanted: &[u8]) -> bool {
    name == wanted
        || std::str::from_utf8(name).is_ok_and(|name| {
            let mut short = Vec::new();
            push_short_name(&mut short, name);
            // A program's own types have no such prefix, and go by their exact names.
            short.len() < name.len() && short == wanted
        })
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
        let wanted = Wanted::default();
        assert!(wanted.has_type(EventTypeId::START, b"posix_trace_start"));
        assert!(wanted.has_type(EventTypeId(300), b"x"));
        assert!(wanted.has_thread(&header(EventTypeId(300), 1, 2)));
    }

    #[test]
    fn lists_and_names_add_up() {
        let wanted = Wanted {
            types: Some(Selection::of_words(["fork"]).unwrap()),
            names: vec![b"x".to_vec()],
            ..Wanted::default()
        };
        assert!(wanted.has_type(EventTypeId::FORK, b"linux_trace_fork"));
        assert!(wanted.has_type(EventTypeId(300), b"x"));
        assert!(!wanted.has_type(EventTypeId(301), b"xy"));
        assert!(wanted.has_type(EventTypeId::OVERFLOW, b"posix_trace_overflow"));
    }

    #[test]
    fn a_system_event_type_may_be_named_as_text_shows_it() {
        let wanted = Wanted {
            names: vec![b"switch-in".to_vec()],
            ..Wanted::default()
        };
        assert!(wanted.has_type(EventTypeId::SWITCH_IN, b"linux_trace_switch_in"));
        assert!(wanted.has_type(EventTypeId(300), b"switch-in"));
        assert!(!wanted.has_type(EventTypeId(300), b"switch_in"));
    }

    #[test]
    fn processes_and_threads_restrict_each_other() {
        let wanted = Wanted {
            pids: vec![10, 20],
            tids: vec![11],
            ..Wanted::default()
        };
        assert!(wanted.has_thread(&header(EventTypeId::FORK, 10, 11)));
        assert!(!wanted.has_thread(&header(EventTypeId::FORK, 10, 10)));
        assert!(!wanted.has_thread(&header(EventTypeId::FORK, 30, 11)));
        assert!(wanted.has_thread(&header(EventTypeId::OVERFLOW, 0, 0)));
    }
}
