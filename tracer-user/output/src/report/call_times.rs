//! Durations of system calls: from their beginning to their end, where both are shown.

use tracer_analysis::{CallKey, OpenCalls};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::MonotonicNs;

use tracer_event::event_view::EventView;

/// Calls that have begun, by their threads.
#[derive(Debug, Default)]
pub struct CallTimes(OpenCalls<MonotonicNs>);

impl CallTimes {
    /// Learns from an event. Returns the duration of a call in nanoseconds, where the event is the
    /// end of a call whose beginning was seen.
    pub fn took(&mut self, line: &EventView<'_>) -> Option<u64> {
        let header = &line.event.header;
        match header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                let key = CallKey::from_enter(line.event.data)?;
                self.0.enter(header.tid, key, header.time);
                None
            }
            EventTypeId::SYSCALL_EXIT => {
                let (key, returned) = CallKey::from_exit(line.event.data)?;
                let begun = self.0.leave(header.tid, key, returned)?;
                let ns = header.time.0.saturating_sub(begun.facts.0);
                begun.is_ended.then_some(ns)
            }
            _ => {
                self.0.follow(&line.event);
                None
            }
        }
    }

    /// Forgets the calls that have begun, as events are missing.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
