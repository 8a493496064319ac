//! Traces and spans of OpenTelemetry that threads work for, along a trace.
//!
//! An event says from when on a thread has another context ([`EventTypeId::THREAD_CONTEXT`]). It
//! counts for the events of that thread at which the kernel has read it, until the next one. What
//! other events happened for is not known: a context may have changed since.

use std::collections::HashMap;

pub use tracer_binary::thread_context::ThreadContext;
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, EventHeader};

/// Threads whose contexts are known at a time. Beyond that, all are forgotten.
const MOST: usize = 1 << 20;

/// Types of the events at which contexts are read.
const CARRYING: [EventTypeId; 14] = [
    EventTypeId::SYSCALL_ENTER,
    EventTypeId::SYSCALL_EXIT,
    EventTypeId::SWITCH_OUT,
    EventTypeId::SWITCH_IN,
    EventTypeId::THROTTLE,
    EventTypeId::LOCK_WAIT,
    EventTypeId::FAULT_USER,
    EventTypeId::FAULT_KERNEL,
    EventTypeId::SAMPLE,
    EventTypeId::FORK,
    EventTypeId::THREAD_CREATE,
    EventTypeId::EXIT,
    EventTypeId::THREAD_EXIT,
    EventTypeId::THREAD_CONTEXT,
];

/// Tells whether events of this type have the context of their thread.
#[must_use]
pub fn has_context(id: EventTypeId) -> bool {
    CARRYING.contains(&id)
}

/// Contexts that threads have now.
#[derive(Clone, Debug, Default)]
pub struct ThreadContexts {
    of: HashMap<(i32, i32), ThreadContext>,
}

impl ThreadContexts {
    /// Learns from an event, if it says what context a thread has. Returns whether it does.
    pub fn learn(&mut self, event: &Event<'_>) -> bool {
        let header = &event.header;
        if header.event_type == EventTypeId::OVERFLOW {
            // What says so may be among what is missing.
            self.forget();
        }
        if header.event_type != EventTypeId::THREAD_CONTEXT {
            return false;
        }
        let thread = (header.pid, header.tid);
        match ThreadContext::of_event(event.data) {
            _ if header.tid == 0 => self.forget(),
            Some(context) => {
                if self.of.len() >= MOST {
                    self.forget();
                }
                self.of.insert(thread, context);
            }
            None => {
                self.of.remove(&thread);
            }
        }
        true
    }

    /// Returns the context of an event; `None` where it has none, or none is known.
    #[must_use]
    pub fn context(&self, header: &EventHeader) -> Option<ThreadContext> {
        if self.of.is_empty() || !has_context(header.event_type) {
            return None;
        }
        self.of.get(&(header.pid, header.tid)).copied()
    }

    /// Tells whether no thread has one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Forgets all: events are missing.
    pub fn forget(&mut self) {
        self.of.clear();
    }
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::{MonotonicNs, Truncation};

    use super::*;

    fn header(event_type: EventTypeId, tid: i32) -> EventHeader {
        EventHeader {
            time: MonotonicNs(1),
            event_type,
            pid: if tid == 0 { 0 } else { 7 },
            tid,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    fn says(tid: i32, byte: u8) -> (EventHeader, [u8; 24]) {
        (header(EventTypeId::THREAD_CONTEXT, tid), [byte; 24])
    }

    #[test]
    fn a_context_counts_for_its_thread_until_another_one_does() {
        let mut contexts = ThreadContexts::default();
        let learn = |contexts: &mut ThreadContexts, (header, data): (EventHeader, [u8; 24])| {
            let data = &data;
            assert!(contexts.learn(&Event { header, data }));
        };
        let spans = |contexts: &ThreadContexts, id| {
            [8, 9].map(|tid| Some(contexts.context(&header(id, tid))?.span_id[0]))
        };
        learn(&mut contexts, says(8, 1));
        learn(&mut contexts, says(9, 2));
        assert_eq!(
            spans(&contexts, EventTypeId::SWITCH_OUT),
            [Some(1), Some(2)]
        );
        // At these it is not read.
        assert_eq!(spans(&contexts, EventTypeId::WAKEUP), [None, None]);
        assert_eq!(spans(&contexts, EventTypeId(300)), [None, None]);
        learn(&mut contexts, says(8, 3));
        learn(&mut contexts, says(9, 0));
        assert_eq!(spans(&contexts, EventTypeId::EXIT), [Some(3), None]);
        // Of no thread: something was lost.
        learn(&mut contexts, says(0, 0));
        assert!(contexts.is_empty());
        // Or the trace says that events are missing.
        learn(&mut contexts, says(8, 1));
        let header_of_loss = header(EventTypeId::OVERFLOW, 0);
        assert!(!contexts.learn(&Event {
            header: header_of_loss,
            data: b"",
        }));
        assert!(contexts.is_empty());
        // Data that is too short says nothing.
        let short = Event {
            header: header(EventTypeId::THREAD_CONTEXT, 8),
            data: &[1; 23],
        };
        assert!(contexts.learn(&short));
        assert!(contexts.is_empty());
    }
}
