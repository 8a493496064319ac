//! Traces and spans of OpenTelemetry that threads work for, along a trace.
//!
//! An event says from when on a thread has another context ([`EventTypeId::THREAD_CONTEXT`]). It
//! counts for the events of that thread at which the kernel has read it, until the next one. It
//! also counts while the thread has no CPU, as only the thread itself changes it: so for what
//! others do to it then. What other events happened for is not known: a context may have changed
//! since.

use std::collections::HashMap;

pub use tracer_binary::thread_context::ThreadContext;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SignalGenerateData;
use tracer_engine::event::{Event, EventHeader};
use zerocopy::FromBytes as _;

/// Threads whose contexts are known at a time. Beyond that, all are forgotten.
const MOST: usize = 1 << 20;

/// Types of the events at which contexts are read.
const CARRYING: [EventTypeId; 15] = [
    EventTypeId::SYSCALL_ENTER,
    EventTypeId::SYSCALL_EXIT,
    EventTypeId::SWITCH_OUT,
    EventTypeId::SWITCH_IN,
    EventTypeId::THROTTLE,
    EventTypeId::LOCK_WAIT,
    EventTypeId::FAULT_USER,
    EventTypeId::FAULT_KERNEL,
    EventTypeId::SAMPLE,
    EventTypeId::SIGNAL_DELIVER,
    EventTypeId::FORK,
    EventTypeId::THREAD_CREATE,
    EventTypeId::EXIT,
    EventTypeId::THREAD_EXIT,
    EventTypeId::THREAD_CONTEXT,
];

/// Tells whether the kernel reads the context of an event's thread at the event.
#[must_use]
pub fn has_context(event: &Event<'_>) -> bool {
    let header = &event.header;
    match header.event_type {
        // Read where the thread itself sends the signal, by a call.
        EventTypeId::SIGNAL_GENERATE => SignalGenerateData::read_from_prefix(event.data)
            .is_ok_and(|(data, _)| header.tid.cast_unsigned() == data.sender_tid),
        id => CARRYING.contains(&id),
    }
}

/// Contexts that threads have now.
#[derive(Clone, Debug, Default)]
pub struct ThreadContexts {
    of: HashMap<(i32, i32), Known>,
}

/// Context of a thread.
#[derive(Clone, Copy, Debug)]
struct Known {
    context: ThreadContext,
    /// Whether the thread has left its CPU since, and has not been woken.
    is_off: bool,
}

impl ThreadContexts {
    /// Learns from an event, if it says what context a thread has. Returns whether it does.
    pub fn learn(&mut self, event: &Event<'_>) -> bool {
        let header = &event.header;
        if header.event_type == EventTypeId::OVERFLOW {
            // What says so may be among what is missing.
            self.forget();
        }
        let thread = (header.pid, header.tid);
        if header.event_type != EventTypeId::THREAD_CONTEXT {
            self.note(header, thread);
            return false;
        }
        match ThreadContext::of_event(event.data) {
            _ if header.tid == 0 => self.forget(),
            Some(context) => {
                if self.of.len() >= MOST {
                    self.forget();
                }
                let is_off = false;
                self.of.insert(thread, Known { context, is_off });
            }
            None => {
                self.of.remove(&thread);
            }
        }
        true
    }

    /// Notes whether a thread has a CPU.
    fn note(&mut self, header: &EventHeader, thread: (i32, i32)) {
        if self.of.is_empty() {
            return;
        }
        let is_off = match header.event_type {
            EventTypeId::SWITCH_OUT => true,
            // Where the kernel does not report that it runs, its next wake-up shows it.
            EventTypeId::SWITCH_IN => false,
            _ if CARRYING.contains(&header.event_type) => false,
            _ => return,
        };
        if let Some(known) = self.of.get_mut(&thread) {
            known.is_off = is_off;
        }
    }

    /// Returns the context of an event that was learnt; `None` where it has none, or none is known.
    pub fn context(&mut self, event: &Event<'_>) -> Option<ThreadContext> {
        if self.of.is_empty() {
            return None;
        }
        let header = &event.header;
        let known = self.of.get_mut(&(header.pid, header.tid))?;
        if has_context(event) {
            return Some(known.context);
        }
        let is_off = match header.event_type {
            // It may run from now on, and the kernel not report it.
            EventTypeId::WAKEUP => std::mem::take(&mut known.is_off),
            EventTypeId::SIGNAL_GENERATE => known.is_off,
            _ => false,
        };
        is_off.then_some(known.context)
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
    use zerocopy::{FromZeros as _, IntoBytes as _};

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

    fn event(event_type: EventTypeId, tid: i32) -> Event<'static> {
        Event {
            header: header(event_type, tid),
            data: b"",
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
        let spans = |contexts: &mut ThreadContexts, id| {
            [8, 9].map(|tid| Some(contexts.context(&event(id, tid))?.span_id[0]))
        };
        learn(&mut contexts, says(8, 1));
        learn(&mut contexts, says(9, 2));
        assert_eq!(
            spans(&mut contexts, EventTypeId::SWITCH_OUT),
            [Some(1), Some(2)]
        );
        // At these it is not read.
        assert_eq!(spans(&mut contexts, EventTypeId::WAKEUP), [None, None]);
        assert_eq!(spans(&mut contexts, EventTypeId(300)), [None, None]);
        learn(&mut contexts, says(8, 3));
        learn(&mut contexts, says(9, 0));
        assert_eq!(spans(&mut contexts, EventTypeId::EXIT), [Some(3), None]);
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

    #[test]
    fn a_context_counts_for_what_others_do_to_a_thread_without_a_cpu() {
        let mut contexts = ThreadContexts::default();
        let (head, data) = says(8, 1);
        contexts.learn(&Event {
            header: head,
            data: &data,
        });
        let mut span_at = |id| {
            let event = event(id, 8);
            contexts.learn(&event);
            contexts.context(&event).map(|context| context.span_id[0])
        };
        // It may have changed since the kernel has read it.
        assert_eq!(span_at(EventTypeId::WAKEUP), None);
        assert_eq!(span_at(EventTypeId::SWITCH_OUT), Some(1));
        assert_eq!(span_at(EventTypeId::SIGNAL_GENERATE), Some(1));
        assert_eq!(span_at(EventTypeId::WAKEUP), Some(1));
        // It runs, whether or not the kernel reports it.
        assert_eq!(span_at(EventTypeId::SIGNAL_GENERATE), None);
        assert_eq!(span_at(EventTypeId::WAKEUP), None);
        assert_eq!(span_at(EventTypeId::SWITCH_OUT), Some(1));
        assert_eq!(span_at(EventTypeId::SWITCH_IN), Some(1));
        assert_eq!(span_at(EventTypeId::WAKEUP), None);
        assert_eq!(span_at(EventTypeId::SIGNAL_DELIVER), Some(1));
        // A signal that the thread sends itself, and one of another.
        let data = |sender_tid| SignalGenerateData {
            sender_tid,
            ..SignalGenerateData::new_zeroed()
        };
        for (sender, expected) in [(8, Some(1)), (9, None)] {
            let data = data(sender);
            let header = header(EventTypeId::SIGNAL_GENERATE, 8);
            let event = Event {
                header,
                data: data.as_bytes(),
            };
            contexts.learn(&event);
            let found = contexts.context(&event).map(|context| context.span_id[0]);
            assert_eq!(found, expected);
        }
    }
}
