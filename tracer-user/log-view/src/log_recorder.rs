//! Consumer that writes a log: events with their stacks and contexts, and at the end the names of
//! the addresses in these.

use tracer_binary::stacks::{Stack, SymbolNames};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};

use super::log_output::{LogOutput, LogSetup};
use tracer_event::consumer::{Consumer, FlushReason, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::probe::is_probe;
use tracer_event::summary::{Summary, WriteLosses};
use tracer_event::thread_contexts::{WrittenContexts, context_event, has_context_at, written};

/// Writes the events that it takes to a log. Beside those it is to be given what names the
/// addresses of stacks.
pub struct LogRecorder {
    log: LogOutput,
    /// Event types that are known by now.
    types: EventTypes,
    /// Events lost by now.
    lost: Ledger,
    /// Contexts of threads that are in the log.
    contexts: WrittenContexts,
    /// Resolver of the addresses in stacks; `None` before the first stack.
    names: Option<SymbolNames>,
    /// Losses of the log, once it is complete.
    written: Option<WriteLosses>,
}

impl LogRecorder {
    /// Makes the log, or opens the one that is continued; then its event types are returned too.
    ///
    /// # Errors
    ///
    /// The log cannot be made or continued.
    pub fn open(setup: &LogSetup) -> anyhow::Result<(Self, Option<EventTypes>)> {
        let (log, types) = LogOutput::open(setup)?;
        let recorder = Self {
            log,
            types: EventTypes::default(),
            lost: Ledger::default(),
            contexts: WrittenContexts::default(),
            names: None,
            written: None,
        };
        Ok((recorder, types))
    }

    /// Lets a log that was made anew begin at this moment, from which its times count: what it
    /// took to get ready, since the file was made, is no part of the trace.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub fn begin_at(&mut self, at: MonotonicNs) -> anyhow::Result<()> {
        self.log.begin(at)
    }

    /// Adds the context of an event's thread, where the log does not have it yet.
    fn add_context(&mut self, view: &EventView<'_>) {
        let is_at =
            |event: &Event<'_>| has_context_at(event, || is_probe(view.name), view.stack.is_some());
        if self.contexts.differs(&view.event, view.context, is_at) {
            let (header, data) = context_event(&view.event.header, view.context);
            let event = Event {
                header,
                data: written(&data),
            };
            self.log.add(&event, view.comm, &self.types);
        }
    }

    /// Adds the stack of an event, whose addresses are named at the end.
    fn add_stack(&mut self, view: &EventView<'_>, stack: &Stack<'_>) {
        let names = self.names.get_or_insert_with(|| stack.names.clone());
        names.note(stack.pid, stack.at.0, stack.data);
        if view.event.header.event_type != EventTypeId::STACK {
            let event = stack_event(&view.event, stack);
            self.log.add(&event, view.comm, &self.types);
        }
    }

    /// Gives the log the names of the addresses that were seen since the last time.
    fn name_stacks(&mut self) {
        if let Some(names) = &self.names {
            self.log.name(names.take_seen());
        }
    }
}

impl Consumer for LogRecorder {
    fn learn_types(&mut self, types: &EventTypes) {
        self.types.catch_up(types);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        self.lost.clone_from(&losses.by_cause);
        self.log.count_losses(&self.lost);
        Ok(())
    }

    /// Adds an event with its stack and context. A log that cannot be written says so once, and
    /// counts the events.
    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.add_context(view);
        if let Some(stack) = &view.stack {
            self.add_stack(view, stack);
        }
        self.log.add(&view.event, view.comm, &self.types);
        Ok(())
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.log.advance(now);
    }

    fn flush(&mut self, reason: FlushReason) {
        match reason {
            FlushReason::Regular => self.log.write_now_and_then(&self.lost),
            FlushReason::Asked => {
                if self.log.makes_snapshots() {
                    self.name_stacks();
                }
                self.log.flush(&self.types, &self.lost);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.log.is_at_end()
    }

    fn complete(&mut self) -> Option<WriteLosses> {
        if self.written.is_none() {
            self.name_stacks();
            self.written = Some(self.log.complete(&self.types, &self.lost));
        }
        self.written
    }

    fn finish(mut self: Box<Self>, _: &Summary) -> anyhow::Result<()> {
        self.complete();
        Ok(())
    }
}

/// Returns the event of the stack of `event`.
fn stack_event<'a>(event: &Event<'a>, stack: &Stack<'a>) -> Event<'a> {
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
        data: stack.data,
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::FIRST_USER_EVENT;
    use tracer_common::kernel::StackData;
    use tracer_engine::source::LossCause;
    use tracer_engine::{LogFullPolicy, StreamFullPolicy};
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::super::log_output::Existing;
    use super::*;

    #[test]
    fn a_log_has_what_its_consumer_was_told() {
        let folder = tempfile::tempdir().unwrap();
        let setup = LogSetup {
            path: folder.path().join("log"),
            existing: Existing::Stays,
            max_size: 0,
            policy: LogFullPolicy::Append,
            stream_policy: StreamFullPolicy::Flush,
            stream_bytes: 1 << 20,
            stream_name: "tracer-user".to_owned(),
            inherit: true,
            snapshots: None,
        };
        let (recorder, _) = LogRecorder::open(&setup).unwrap();
        let mut recorder = Box::new(recorder);
        let (first, second) = (FIRST_USER_EVENT + 1, FIRST_USER_EVENT + 2);
        let mut types = EventTypes::default();
        types.define_user(b"first", Some(EventTypeId(first)));
        recorder.learn_types(&types);
        types.define_user(b"second", Some(EventTypeId(second)));
        recorder.learn_types(&types);
        let mut losses = TraceLosses::default();
        losses.by_cause.lose(LossCause::KernelNotReported, 3);
        recorder.count_losses(&losses).unwrap();

        let at = tracer_log::clocks_now().monotonic;
        let header = EventHeader {
            time: at,
            event_type: EventTypeId(first),
            pid: 7,
            tid: 8,
            cpu: None,
            thread_id: 5,
            program_address: 6,
            truncation: Truncation::None,
        };
        let names = SymbolNames::live();
        let mut of_waker = StackData::new_zeroed();
        of_waker.event_type = first;
        let view = EventView {
            stack: Some(Stack {
                pid: 70,
                tid: 80,
                at,
                data: of_waker.as_bytes(),
                names: &names,
            }),
            ..EventView::bare(Event { header, data: b"x" }, b"comm")
        };
        recorder.event(&view).unwrap();
        recorder.flush(FlushReason::Regular);
        recorder.flush(FlushReason::Asked);
        let end = MonotonicNs(at.0 + 9);
        recorder.idle(end);
        let written = recorder.complete();
        assert_eq!(written, Some(WriteLosses::default()));
        assert_eq!(recorder.complete(), written);
        recorder.finish(&Summary::default()).unwrap();

        let mut log = crate::open(&setup.path).unwrap();
        assert_eq!(
            log.event_types().name(EventTypeId(second)),
            Some(&b"second"[..])
        );
        let mut events = Vec::new();
        while log.advance().unwrap() {
            let record = log.record().unwrap();
            let of = record.event.header;
            events.push((of.event_type, of.pid, of.tid, of.thread_id));
        }
        let expected = [
            (EventTypeId::STACK, 70, 80, 0),
            (EventTypeId(first), 7, 8, 5),
        ];
        assert_eq!(events, expected);
        assert_eq!(log.lost(LossCause::KernelNotReported), 3);
        assert_eq!(log.ended(), Some(end));
    }
}
