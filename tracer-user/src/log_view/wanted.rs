//! Which events of a log are wanted.

use tracer_common::event_type::EventTypeId;
use tracer_posix::event::EventHeader;

use super::TimePoint;
use crate::trace::Selection;

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
            || self.names.iter().any(|wanted| wanted == name)
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

fn is_loss(id: EventTypeId) -> bool {
    matches!(
        id,
        EventTypeId::ERROR | EventTypeId::OVERFLOW | EventTypeId::RESUME
    )
}

#[cfg(test)]
mod tests {
    use tracer_posix::event::{MonotonicNs, Truncation};

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
