//! Traces and spans of OpenTelemetry that threads work for, along a trace.
//!
//! An event says from when on a thread has another context ([`EventTypeId::THREAD_CONTEXT`]). It
//! counts for the events of that thread at which the kernel has read it, until the next one. It
//! also counts while the thread has no CPU, as only the thread itself changes it: so for what
//! others do to it then. What other events happened for is not known: a context may have changed
//! since. A program's own event has one where its stack is recorded: a probe at its trace point
//! reads both.

use std::collections::HashMap;
use std::mem::offset_of;

use tracer_binary::stacks::{LONGEST_BEFORE, NEXT_USER_EVENT, RecordedStack};
pub use tracer_binary::thread_context::{Route, ThreadContext};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SignalGenerateData, ThreadContextData};
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Threads whose contexts are known at a time. Beyond that, all are forgotten.
const MOST: usize = 1 << 20;

/// Stacks of programs' own events that wait for these at a time. Beyond that, all are forgotten.
const MOST_STACKS: usize = 16_384;

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

/// Tells whether an event has the context of its thread: the kernel reads it there, or there is a
/// probe, or a stack was recorded for a program's own event.
#[must_use]
pub fn has_context_at(event: &Event<'_>, is_probe: impl FnOnce() -> bool, has_stack: bool) -> bool {
    if event.header.event_type.is_user() {
        has_stack || is_probe()
    } else {
        has_context(event)
    }
}

/// Contexts that threads have now.
#[derive(Clone, Debug, Default)]
pub struct ThreadContexts {
    of: HashMap<(i32, i32), Known>,
    /// Contexts at stacks of programs' own events, which have not come yet.
    at_stacks: HashMap<StackKey, (MonotonicNs, ThreadContext)>,
}

/// Event of a program that a stack is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum StackKey {
    /// The next one of this thread at this trace point.
    Next { tid: i32, address: u64 },
    /// The one of this thread at this time.
    At { tid: i32, time: MonotonicNs },
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
        if header.event_type == EventTypeId::STACK {
            self.note_stack(event);
            return false;
        }
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

    /// Notes the context of the program's own event that a stack is of.
    fn note_stack(&mut self, event: &Event<'_>) {
        let header = &event.header;
        if self.of.is_empty() && self.at_stacks.is_empty() {
            return;
        }
        let Some(taken) = RecordedStack::parse(event.data) else {
            return;
        };
        let of = EventTypeId(taken.head.event_type);
        let tid = header.tid;
        let key = if of == NEXT_USER_EVENT {
            let address = taken.user().next();
            address.map(|address| StackKey::Next { tid, address })
        } else {
            let time = header.time;
            of.is_user().then_some(StackKey::At { tid, time })
        };
        let Some(key) = key else {
            return;
        };
        match self.of.get(&(header.pid, tid)) {
            Some(known) => {
                if self.at_stacks.len() >= MOST_STACKS {
                    self.at_stacks.clear();
                }
                let context = known.context;
                self.at_stacks.insert(key, (header.time, context));
            }
            None => drop(self.at_stacks.remove(&key)),
        }
    }

    /// Returns the context of a program's own event, by its stack.
    fn take_at_stack(&mut self, header: &EventHeader) -> Option<ThreadContext> {
        if self.at_stacks.is_empty() {
            return None;
        }
        let (tid, time) = (header.tid, header.time);
        let address = header.program_address;
        let at = self.at_stacks.remove(&StackKey::At { tid, time });
        let next = self.at_stacks.remove(&StackKey::Next { tid, address });
        let (since, context) = at.or(next)?;
        let ago = time.0.checked_sub(since.0)?;
        (ago <= LONGEST_BEFORE).then_some(context)
    }

    /// Returns the context of an event that was learnt; `None` where it has none, or none is known.
    /// `is_probe` tells of a type that is not the system's whether it is one of a probe.
    pub fn context(
        &mut self,
        event: &Event<'_>,
        is_probe: impl FnOnce() -> bool,
    ) -> Option<ThreadContext> {
        if self.is_empty() {
            return None;
        }
        let header = &event.header;
        if header.event_type.is_user() {
            let known = self.of.get(&(header.pid, header.tid));
            let known = known.map(|known| known.context);
            let at_stack = self.take_at_stack(header);
            return at_stack.or_else(|| known.filter(|_| is_probe()));
        }
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
        self.of.is_empty() && self.at_stacks.is_empty()
    }

    /// Forgets all: events are missing.
    pub fn forget(&mut self) {
        self.of.clear();
        self.at_stacks.clear();
    }
}

/// Contexts of threads that a log has, and since when.
#[derive(Debug, Default)]
pub struct WrittenContexts {
    of: HashMap<(i32, i32), (Option<ThreadContext>, MonotonicNs)>,
}

impl WrittenContexts {
    /// Threads that are remembered. Beyond that, all are forgotten.
    const MOST: usize = 1 << 20;

    /// Time after which a context is written again: a reader may have missed it, or the beginning
    /// of the log.
    const AGAIN_NS: u64 = 1_000_000_000;

    /// Tells whether this context of an event's thread is to be written before the event, and
    /// remembers that it is. `has_context` tells whether it counts for the event
    /// ([`has_context_at`]).
    pub fn differs(
        &mut self,
        event: &Event<'_>,
        context: Option<ThreadContext>,
        has_context: impl FnOnce(&Event<'_>) -> bool,
    ) -> bool {
        let header = &event.header;
        if header.event_type == EventTypeId::OVERFLOW {
            // So does who reads the log.
            self.of.clear();
        }
        if context.is_none() && self.of.is_empty() || !has_context(event) {
            return false;
        }
        let thread = (header.pid, header.tid);
        let is_written = match self.of.get(&thread) {
            None => context.is_none(),
            Some((before, at)) => {
                let is_old = header.time.0.saturating_sub(at.0) >= Self::AGAIN_NS;
                *before == context && !(is_old && context.is_some())
            }
        };
        if is_written {
            return false;
        }
        if self.of.len() >= Self::MOST {
            // What is forgotten may be in the log: it is written again, or that there is none.
            self.of.retain(|_, (context, _)| context.is_some());
        }
        self.of.insert(thread, (context, header.time));
        // The event itself says it.
        header.event_type != EventTypeId::THREAD_CONTEXT
    }

    /// Has each context written again before the next event that has it: who reads on may not have
    /// what was written before.
    pub fn write_again(&mut self) {
        for (_, at) in self.of.values_mut() {
            *at = MonotonicNs(0);
        }
    }
}

/// Returns the header and the data of the event that says from when on a thread has a context:
/// right before the event with this header.
#[must_use]
pub fn context_event(
    before: &EventHeader,
    context: Option<ThreadContext>,
) -> (EventHeader, ThreadContextData) {
    let header = EventHeader {
        event_type: EventTypeId::THREAD_CONTEXT,
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
        ..*before
    };
    let data = ThreadContextData {
        trace_id: context.map_or([0; 16], |context| context.trace_id),
        span_id: context.map_or([0; 8], |context| context.span_id),
        route: context.map_or(Route::NONE, |context| context.route).0,
    };
    (header, data)
}

/// Returns the data of the event as it is written: without what follows the route.
#[must_use]
pub fn written(data: &ThreadContextData) -> &[u8] {
    let name = Route(data.route).name().map_or(0, <[u8]>::len);
    let end = offset_of!(ThreadContextData, route) + name + 1;
    let bytes = data.as_bytes();
    bytes.get(..end).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use tracer_common::kernel::StackData;
    use zerocopy::FromZeros as _;

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

    /// The data of a stack of a user event at a trace point.
    fn user_stack(of: EventTypeId, address: u64) -> Vec<u8> {
        let mut data = StackData::new_zeroed();
        (data.event_type, data.user_frames) = (of.0, 1);
        [data.as_bytes(), address.as_bytes()].concat()
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
            [8, 9].map(|tid| Some(contexts.context(&event(id, tid), || false)?.span_id[0]))
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
            let context = contexts.context(&event, || false)?;
            Some(context.span_id[0])
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
            let found = contexts.context(&event, || false);
            assert_eq!(found.map(|context| context.span_id[0]), expected);
        }
    }

    #[test]
    fn a_programs_own_event_has_the_context_of_its_stack_and_a_probe_that_of_its_thread() {
        let mut contexts = ThreadContexts::default();
        let user = EventTypeId(300);
        let (head, data) = says(8, 1);
        let at = |contexts: &mut ThreadContexts, time, event_type, address, data: &[u8]| {
            let event = Event {
                header: EventHeader {
                    time: MonotonicNs(time),
                    program_address: address,
                    ..header(event_type, 8)
                },
                data,
            };
            contexts.learn(&event);
            let found = contexts.context(&event, || address == 0x999);
            found.map(|context| context.span_id[0])
        };
        contexts.learn(&Event {
            header: head,
            data: &data,
        });
        // Of a probe, which reads it; and of none, without a stack.
        assert_eq!(at(&mut contexts, 5, user, 0x999, b""), Some(1));
        assert_eq!(at(&mut contexts, 6, user, 0x400, b""), None);
        // Of the next event at this trace point, once, whatever comes in between.
        let next = user_stack(NEXT_USER_EVENT, 0x400);
        at(&mut contexts, 7, EventTypeId::STACK, 0, &next);
        assert_eq!(at(&mut contexts, 8, user, 0x500, b""), None);
        at(&mut contexts, 8, EventTypeId::THREAD_CONTEXT, 0, &[2; 24]);
        assert_eq!(at(&mut contexts, 9, user, 0x400, b""), Some(1));
        assert_eq!(at(&mut contexts, 10, user, 0x400, b""), None);
        // As a log has it: of the event at this time.
        let own = user_stack(user, 0x400);
        at(&mut contexts, 11, EventTypeId::STACK, 0, &own);
        assert_eq!(at(&mut contexts, 11, user, 0x400, b""), Some(2));
        // Too long ago; and of a thread that has none by then.
        at(&mut contexts, 12, EventTypeId::STACK, 0, &next);
        assert_eq!(
            at(&mut contexts, 13 + LONGEST_BEFORE, user, 0x400, b""),
            None
        );
        at(&mut contexts, 14, EventTypeId::STACK, 0, &next);
        at(&mut contexts, 15, EventTypeId::THREAD_CONTEXT, 0, &[0; 24]);
        at(&mut contexts, 16, EventTypeId::STACK, 0, &next);
        assert_eq!(at(&mut contexts, 17, user, 0x400, b""), None);
    }
}
