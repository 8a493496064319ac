//! An event as its consumers see it: with its type, its thread, its date and its stack.

use tracer_common::event_type::{SystemEventType, system_event_type};
use tracer_engine::event::{Event, MonotonicNs, RealtimeNs};

use tracer_binary::stacks::Stack;
use tracer_binary::thread_context::ThreadContext;

/// One event, with its type and thread as far as they are known.
#[derive(Clone, Copy, Debug)]
pub struct EventView<'a> {
    /// The event.
    pub event: Event<'a>,
    /// Its entry in the table of system event types; `None` for a user event.
    pub entry: Option<&'static SystemEventType>,
    /// The name of its type, as the target gave it: any bytes.
    pub name: &'a [u8],
    /// The name of its thread at that time, where known: any bytes.
    pub comm: Option<&'a [u8]>,
    /// Its date. Never decreases within a trace.
    pub date: RealtimeNs,
    /// Its process and thread in their own pid namespace, where those differ.
    pub inside: Option<NamespaceIds>,
    /// The stack that its thread was in.
    pub stack: Option<Stack<'a>>,
    /// The trace and span of OpenTelemetry that its thread worked for, where that is known.
    pub context: Option<ThreadContext>,
}

impl<'a> EventView<'a> {
    /// Returns the view of an event of which nothing more is known than the name of its thread.
    #[must_use]
    pub fn bare(event: Event<'a>, comm: &'a [u8]) -> Self {
        Self {
            event,
            entry: system_event_type(event.header.event_type),
            name: b"?",
            comm: (!comm.is_empty()).then_some(comm),
            date: RealtimeNs(0),
            inside: None,
            stack: None,
            context: None,
        }
    }

    /// Returns the time of the event on the trace's monotonic clock. Never decreases within a
    /// trace.
    #[must_use]
    pub fn at(&self) -> MonotonicNs {
        self.event.header.time
    }
}

/// A process and a thread of it, as their own pid namespace knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamespaceIds {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
}
