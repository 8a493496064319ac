//! Last stage of a trace that goes into a log: events with their stacks, and at the end the names
//! of the addresses in these.

use std::collections::HashMap;

use tracer_binary::stacks::{Owned, SymbolNames};
use tracer_binary::thread_context::ThreadContext;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ThreadContextData;
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use tracer_event::probe::is_probe;
use tracer_event::thread_contexts::has_context_at;
use tracer_log_view::log_output::LogOutput;
use zerocopy::IntoBytes as _;

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
            let data = ThreadContextData {
                trace_id: context.map_or([0; 16], |context| context.trace_id),
                span_id: context.map_or([0; 8], |context| context.span_id),
            };
            let event = Event {
                header: EventHeader {
                    event_type: EventTypeId::THREAD_CONTEXT,
                    thread_id: 0,
                    program_address: 0,
                    truncation: Truncation::None,
                    ..event.header
                },
                data: data.as_bytes(),
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

/// Contexts of threads that a log has, and since when.
#[derive(Debug, Default)]
struct WrittenContexts {
    of: HashMap<(i32, i32), (Option<ThreadContext>, MonotonicNs)>,
}

impl WrittenContexts {
    /// Threads that are remembered. Beyond that, all are forgotten.
    const MOST: usize = 1 << 20;

    /// Time after which a context is written again: a reader may have missed it, or the beginning
    /// of the log.
    const AGAIN_NS: u64 = 1_000_000_000;

    /// Tells whether this context of an event's thread is to be written before the event, and
    /// remembers that it is. `has_context` tells whether it counts for the event.
    fn differs(
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
