//! An active stream without a log: sources, merge, policy, reading.

use tracer_common::event_type::EventTypeId;

use super::merge::Merge;
use super::stream::{Filtering, Origin, Status, StreamCore};
use super::{EventSet, EventTypes, Ledger, StreamFullPolicy};
use crate::event::{Event, MonotonicNs};
use crate::source::{Control, Source};

/// An active trace stream without a log.
pub struct ActiveStream {
    core: StreamCore,
    types: EventTypes,
    sources: Vec<Box<dyn Source>>,
    merge: Merge,
    /// The data of the event that is lent out.
    lent: Vec<u8>,
    now: fn() -> MonotonicNs,
}

impl ActiveStream {
    /// Makes a suspended, empty stream with an empty filter that holds `capacity` bytes of events.
    /// `now` is the clock of its own events.
    #[must_use]
    pub fn new(policy: StreamFullPolicy, capacity: usize, now: fn() -> MonotonicNs) -> Self {
        Self {
            core: StreamCore::new(policy, capacity),
            types: EventTypes::default(),
            sources: Vec::new(),
            merge: Merge::default(),
            lent: Vec::new(),
            now,
        }
    }

    /// Adds a source and tells it what the stream wants.
    pub fn add_source(&mut self, mut source: Box<dyn Source>) {
        source.control(&self.wanted());
        self.sources.push(source);
    }

    /// Starts the stream.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_start()`.
    pub fn start(&mut self, caller: Origin) {
        // Trace points are let go first, and what they emit before the start is not recorded: so
        // no event after it is missed.
        let mut wanted = self.wanted();
        wanted.running = true;
        self.tell(&wanted);
        let at = self.sync();
        self.core.start(at, caller);
        self.tell(&self.wanted());
    }

    /// Stops the stream; what is recorded stays readable.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_stop()`.
    pub fn stop(&mut self, caller: Origin) {
        let at = self.sync();
        self.core.stop(at, caller);
        self.tell(&self.wanted());
    }

    /// Changes the filter: the set of types that are not recorded.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_set_filter()`.
    pub fn set_filter(&mut self, set: &EventSet, how: Filtering, caller: Origin) {
        let at = self.sync();
        self.core.set_filter(set, how, at, caller);
        self.tell(&self.wanted());
    }

    /// Drops everything recorded so far, and the filter.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_clear()`.
    pub fn clear(&mut self) {
        let at = self.sync();
        self.core.clear(at);
        self.tell(&self.wanted());
    }

    /// Collects from all sources, merges, and applies filter and policy. Returns the watermark up
    /// to which the stream is now complete.
    pub fn sync(&mut self) -> MonotonicNs {
        self.merge
            .round(&mut self.sources, &mut self.types, &mut self.core, self.now)
    }

    /// The oldest event, if one is there. Does not collect: call [`sync`](Self::sync) before.
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        let header = self.core.next(&mut self.lent, self.now)?;
        Some(Event {
            header,
            data: &self.lent,
        })
    }

    /// The oldest event; collects when none is there.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_trygetnext_event()`.
    pub fn try_next_event(&mut self) -> Option<Event<'_>> {
        if self.core.held() == 0 {
            self.sync();
        }
        self.next_event()
    }

    /// The number of the user event type `name`, in the target as well as in this stream; defines it
    /// where it is new.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_trid_eventid_open()`.
    pub fn define_event_type(&mut self, name: &[u8]) -> EventTypeId {
        let own = self
            .sources
            .iter_mut()
            .find_map(|source| source.define_event_type(name));
        self.types.define_user(name, own)
    }

    /// Asks the sources for types that they have defined since.
    pub fn learn_event_types(&mut self) {
        let types = &mut self.types;
        for source in &mut self.sources {
            source.event_types(&mut |name, own| types.define_user(name, Some(own)));
        }
    }

    /// Ends the stream: it takes nothing any more, and its sources are given up.
    pub fn end(&mut self) {
        self.sources.clear();
    }

    /// The status now; that events were lost is told once.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_get_status()`.
    pub fn status(&mut self) -> Status {
        self.sync();
        self.core.status()
    }

    /// The set of types that are not recorded.
    #[must_use]
    pub fn filter(&self) -> &EventSet {
        self.core.filter()
    }

    /// Where every event went so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.core.ledger()
    }

    /// Events that are there to be read without collecting.
    #[must_use]
    pub fn held(&self) -> usize {
        self.core.held()
    }

    /// Its event types.
    #[must_use]
    pub fn event_types(&self) -> &EventTypes {
        &self.types
    }

    /// The name of a type as text; its number where it has none.
    #[must_use]
    pub fn event_name(&self, id: EventTypeId) -> String {
        self.types.name(id).map_or_else(
            || format!("#{}", id.0),
            |name| String::from_utf8_lossy(name).into_owned(),
        )
    }

    fn wanted(&self) -> Control {
        Control {
            running: self.core.wants_events(),
            filter: *self.core.filter(),
        }
    }

    /// Tells the sources what is wanted. What is filtered is not recorded from then on, and not just
    /// left out when it comes here: for that they have to know the stream's numbers.
    fn tell(&mut self, control: &Control) {
        if control.filter != EventSet::EMPTY {
            self.learn_event_types();
        }
        for source in &mut self.sources {
            source.control(control);
        }
    }
}
