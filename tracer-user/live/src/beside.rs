//! Two consumers of one trace: a recorder, and what is beside it.

use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use tracer_binary::stacks::names_stacks;
use tracer_event::consumer::{Consumer, FlushReason, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::{Summary, WriteLosses};

/// Gives all to a recorder, and to another consumer the events that are asked for, or nothing but
/// the end.
pub struct BesideRecorder {
    recorder: Box<dyn Consumer>,
    other: Box<dyn Consumer>,
    gets_events: bool,
}

impl BesideRecorder {
    /// Returns both as one consumer; `gets_events` tells whether the other one gets events.
    pub fn new(recorder: Box<dyn Consumer>, other: Box<dyn Consumer>, gets_events: bool) -> Self {
        Self {
            recorder,
            other,
            gets_events,
        }
    }

    fn both(&mut self) -> [&mut Box<dyn Consumer>; 2] {
        [&mut self.recorder, &mut self.other]
    }
}

impl Consumer for BesideRecorder {
    fn begin(&mut self) {
        self.recorder.begin();
        if self.gets_events {
            self.other.begin();
        }
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.both()
            .into_iter()
            .for_each(|one| one.learn_types(types));
    }

    fn gap(&mut self, gap: &Gap) {
        self.both().into_iter().for_each(|one| one.gap(gap));
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        self.both()
            .into_iter()
            .try_for_each(|one| one.count_losses(losses))
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.recorder.event(view)?;
        if self.gets_events && !names_stacks(view.event.header.event_type) {
            self.other.event(view)?;
        }
        Ok(())
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.recorder.idle(now);
        if self.gets_events {
            self.other.idle(now);
        }
    }

    fn flush(&mut self, reason: FlushReason) {
        self.both().into_iter().for_each(|one| one.flush(reason));
    }

    fn is_done(&self) -> bool {
        self.recorder.is_done() || self.other.is_done()
    }

    fn complete(&mut self) -> Option<WriteLosses> {
        let [recorder, other] = self.both().map(|one| one.complete());
        recorder.or(other)
    }

    fn finish(self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        let recorded = self.recorder.finish(summary);
        recorded.and(self.other.finish(summary))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::{Event, EventHeader, Truncation};

    use super::*;

    /// Calls that a consumer has had: the type of each event, and the end.
    type Had = Rc<RefCell<Vec<Option<EventTypeId>>>>;

    struct Listener {
        had: Had,
        written: Option<WriteLosses>,
    }

    impl Consumer for Listener {
        fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
            let id = view.event.header.event_type;
            self.had.borrow_mut().push(Some(id));
            Ok(())
        }

        fn complete(&mut self) -> Option<WriteLosses> {
            self.written
        }

        fn finish(self: Box<Self>, _: &Summary) -> anyhow::Result<()> {
            self.had.borrow_mut().push(None);
            anyhow::bail!("it fails");
        }
    }

    /// Returns what the recorder has had, and the other consumer.
    fn had(gets_events: bool) -> [Vec<Option<EventTypeId>>; 2] {
        let (recorded, beside) = (Had::default(), Had::default());
        let listener = |had: &Had, written| {
            let had = Rc::clone(had);
            Box::new(Listener { had, written }) as Box<dyn Consumer>
        };
        let written = Some(WriteLosses {
            unwritten: 2,
            ..WriteLosses::default()
        });
        let recorder = listener(&recorded, written);
        let mut both = Box::new(BesideRecorder::new(
            recorder,
            listener(&beside, None),
            gets_events,
        ));
        for event_type in [EventTypeId::MAPPING, EventTypeId::EXIT] {
            let header = EventHeader {
                time: MonotonicNs(1),
                event_type,
                pid: 1,
                tid: 1,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            let event = Event { header, data: b"" };
            both.event(&EventView::bare(event, b"")).unwrap();
        }
        assert_eq!(both.complete(), written);
        assert!(both.finish(&Summary::default()).is_err());
        [recorded.take(), beside.take()]
    }

    #[test]
    fn what_is_beside_a_recorder_gets_the_end_and_the_events_that_are_asked_for() {
        let (mapping, exit) = (Some(EventTypeId::MAPPING), Some(EventTypeId::EXIT));
        assert_eq!(had(true), [vec![mapping, exit, None], vec![exit, None]]);
        assert_eq!(had(false), [vec![mapping, exit, None], vec![None]]);
    }
}
