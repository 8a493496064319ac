//! Last stage of a trace that goes into a log: events with their stacks, and at the end the names
//! of the addresses in these.

use tracer_binary::stacks::{Owned, SymbolNames};
use tracer_binary::thread_context::ThreadContext;
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, EventHeader, Truncation};
use tracer_event::probe::is_probe;
use tracer_event::thread_contexts::{WrittenContexts, context_event, has_context_at, written};
use tracer_log_view::log_output::LogOutput;

/// Log that events go to.
pub struct LogStage {
    /// The log itself.
    pub log: LogOutput,
    /// Names of the addresses that were seen.
    names: SymbolNames,
    /// Contexts of threads that are in the log.
    contexts: WrittenContexts,
}

impl LogStage {
    /// Returns the stage of this log; addresses are named by `names`.
    pub fn new(log: LogOutput, names: SymbolNames) -> Self {
        Self {
            log,
            names,
            contexts: WrittenContexts::default(),
        }
    }

    /// Adds an event with its stack and context; `types` knows the name of its type.
    pub fn add(
        &mut self,
        event: &Event<'_>,
        (stack, context): (Option<&Owned>, Option<ThreadContext>),
        comm: Option<&[u8]>,
        types: &EventTypes,
    ) {
        let name = || types.name(event.header.event_type);
        let is_at = |event: &Event<'_>| {
            has_context_at(event, || name().is_some_and(is_probe), stack.is_some())
        };
        if self.contexts.differs(event, context, is_at) {
            let (header, data) = context_event(&event.header, context);
            let event = Event {
                header,
                data: written(&data),
            };
            self.log.add(&event, comm, types);
        }
        if let Some(stack) = stack {
            self.names.note(stack.pid, stack.at.0, &stack.data);
            if event.header.event_type != EventTypeId::STACK {
                self.log.add(&stack_event(event, stack), comm, types);
            }
        }
        self.log.add(event, comm, types);
    }

    /// Gives the log the names of the addresses that were seen since the last time.
    pub fn name_stacks(&mut self) {
        self.log.name(self.names.take_seen());
    }
}

/// Returns the event of the stack of `event`.
fn stack_event<'a>(event: &Event<'a>, stack: &'a Owned) -> Event<'a> {
    let header = EventHeader {
        pid: stack.pid,
        tid: stack.tid,
        event_type: EventTypeId::STACK,
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
        ..event.header
    };
    Event {
        header,
        data: &stack.data,
    }
}
