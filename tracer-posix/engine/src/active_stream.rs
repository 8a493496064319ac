//! An active stream: sources, merge, policy, reading.

use std::time::{Duration, Instant};

use tracer_common::event_type::EventTypeId;

use super::merge::{Merge, Merged, has_more};
use super::stream::{Filtering, Origin, Status, StreamCore};
use super::{EventSet, EventTypes, Ledger, StreamFullPolicy};
use crate::event::{Event, EventHeader, MonotonicNs};
use crate::source::{Control, Source, WaitingWord};

mod settle;

#[doc(hidden)]
pub use settle::{CallTerms, SettledStream};

/// An active trace stream. Where it has a log, a flush takes its events away.
pub struct ActiveStream<L: Flush = NoLog> {
    core: StreamCore,
    types: EventTypes,
    sources: Vec<Merged>,
    merge: Merge,
    /// The data of the event that is lent out.
    lent: Vec<u8>,
    log: L,
    now: fn() -> MonotonicNs,
    /// How long a collection may take.
    limit: Option<Duration>,
    /// The source that was asked last.
    turn: usize,
    /// When it was stopped last.
    stopped: MonotonicNs,
    sources_so_far: u32,
    /// Whether there is too little memory to collect.
    is_poor: bool,
    /// Terms of the call at hand.
    terms: CallTerms,
    /// Whether its sources were told that it takes events, by a call.
    is_started: bool,
}

/// Time that a stream which ends takes at most to count what its sources have not brought.
const COUNTED_WITHIN: Duration = Duration::from_millis(500);

/// Destination to which a stream is flushed.
pub trait Flush {
    /// Takes away what the stream holds. The stream itself calls this, with [`Origin::NONE`],
    /// before an event for which there is no space under `POSIX_TRACE_FLUSH`.
    fn flush(&mut self, core: &mut StreamCore, types: &EventTypes, caller: Origin);
}

/// Destination of a stream without a log, which is never flushed.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Flush for NoLog {
    fn flush(&mut self, _: &mut StreamCore, _: &EventTypes, _: Origin) {}
}

impl<L: Flush> std::fmt::Debug for ActiveStream<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActiveStream")
            .field("core", &self.core)
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

impl ActiveStream {
    /// Makes a suspended, empty stream with an empty filter that holds `capacity` bytes of events.
    /// `now` is the clock of its own events.
    #[must_use]
    pub fn new(policy: StreamFullPolicy, capacity: usize, now: fn() -> MonotonicNs) -> Self {
        Self::with_log(policy, capacity, now, NoLog)
    }
}

impl<L: Flush> ActiveStream<L> {
    /// Makes a stream as [`new`](ActiveStream::new) does, which is flushed to `log`.
    #[must_use]
    pub fn with_log(
        policy: StreamFullPolicy,
        capacity: usize,
        now: fn() -> MonotonicNs,
        log: L,
    ) -> Self {
        Self {
            core: StreamCore::new(policy, capacity),
            types: EventTypes::default(),
            sources: Vec::new(),
            merge: Merge::default(),
            lent: Vec::new(),
            log,
            now,
            limit: None,
            turn: 0,
            stopped: MonotonicNs(0),
            sources_so_far: 0,
            is_poor: false,
            terms: CallTerms::default(),
            is_started: false,
        }
    }

    /// Sets whether there is too little memory to [collect](Self::memory_needed) anything. Until
    /// this is taken back, nothing is collected, and all other calls work with what is there.
    /// Events that were emitted before and are collected afterwards count as late.
    #[doc(hidden)]
    pub fn set_poor(&mut self, is_poor: bool) {
        self.is_poor = is_poor;
    }

    /// Limits each collection from now on to this time, or a little more. A [`sync`](Self::sync)
    /// may then leave something for the next one. This is for a process that reads the areas of
    /// many untrusted processes, and has other things to do as well.
    pub fn collect_within(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    /// Tells whether the last collection has left something for the next one.
    #[must_use]
    pub fn has_more(&self) -> bool {
        has_more(&self.sources)
    }

    /// Gives the stream the event types of another stream that it continues. To be called before
    /// the stream has sources.
    pub fn adopt_event_types(&mut self, types: EventTypes) {
        self.types = types;
    }

    /// Adds a source and gives it what the stream wants.
    pub fn add_source(&mut self, mut source: Box<dyn Source>) {
        source.control(&self.wanted());
        source.keep_newest(self.core.keeps_newest());
        self.sources.push(Merged {
            source,
            stated: MonotonicNs(0),
            number: self.sources_so_far,
        });
        self.sources_so_far = self.sources_so_far.wrapping_add(1);
    }

    /// Starts the stream.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_start()`.
    pub fn start(&mut self, caller: Origin) {
        // Trace points are allowed to emit before the start, and what they emit until then is not
        // recorded. So no event after the start is missed.
        let mut wanted = self.wanted();
        wanted.running = true;
        self.control(&wanted);
        self.let_sources_take_again();
        let at = self.settle_at();
        self.core.start(at, caller);
        self.control(&self.wanted());
        self.is_started = self.core.wants_events();
    }

    /// Stops the stream; what is recorded stays readable.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_stop()`.
    pub fn stop(&mut self, caller: Origin) {
        // Otherwise threads that emit meanwhile might overwrite events from before the call.
        for merged in &mut self.sources {
            merged.source.hold_emitters();
        }
        self.stopped = (self.now)();
        let settled = self.settle_for_call();
        let mut at = settled.until;
        if settled.has_all {
            // Events that are newer than all that was emitted before the call come after the stop.
            self.stopped = self.stopped.min(at);
        } else if self.limit.is_none() {
            // Events from before the stop that come only later count as late.
            at = self.stopped;
            self.feed(at);
        } else {
            // Collecting is limited, and the caller's own limit has been reached.
        }
        self.is_started = false;
        self.make_space_for_own();
        self.core.stop(at, caller);
        self.control(&self.wanted());
    }

    /// Changes the filter: the set of types that are not recorded.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_set_filter()`.
    pub fn set_filter(&mut self, set: &EventSet, how: Filtering, caller: Origin) {
        let at = self.settle_at();
        self.make_space_for_own();
        self.core.set_filter(set, how, at, caller);
        self.control(&self.wanted());
    }

    /// Drops everything recorded so far, and the filter.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_clear()`.
    pub fn clear(&mut self) {
        let at = self.settle_at();
        self.core.clear(at);
        self.control(&self.wanted());
    }

    /// Collects from all sources, merges, and applies filter and policy. Returns the watermark up
    /// to which the stream is now complete.
    pub fn sync(&mut self) -> MonotonicNs {
        if self.is_poor {
            return (self.now)();
        }
        let watermark = match self.limit {
            Some(limit) => self.sync_until(Instant::now() + limit),
            None => self.sync_all(),
        };
        self.stop_sources_of_full_log();
        watermark
    }

    /// Collects as [`sync`](Self::sync) does, without a limit.
    fn sync_all(&mut self) -> MonotonicNs {
        // A look or a round that has begun earlier would bring only what was there then.
        for merged in &mut self.sources {
            merged.source.begin_anew();
        }
        loop {
            let watermark = self.sync_portion();
            if !has_more(&self.sources) {
                return watermark;
            }
        }
    }

    /// Collects until an event is there, or until all events are collected that were emitted before
    /// this call. A stream that has much to read does not read it all for one event.
    pub fn fetch(&mut self) {
        if self.is_poor {
            return;
        }
        let mut is_from_now = !has_more(&self.sources);
        while self.core.held() == 0 {
            self.sync_portion();
            if !has_more(&self.sources) && std::mem::replace(&mut is_from_now, true) {
                return;
            }
        }
    }

    /// Collects as [`sync`](Self::sync) does, but only one portion from each source. The next call
    /// brings what is left.
    fn sync_portion(&mut self) -> MonotonicNs {
        let Self {
            core,
            types,
            sources,
            merge,
            log,
            now,
            ..
        } = self;
        let watermark = merge.round(sources, types, core, *now, &mut |core, types| {
            log.flush(core, types, Origin::NONE);
        });
        self.go_on_where_it_was_full();
        watermark
    }

    /// Lets sources that were full take events again, where no events have to be read before that.
    fn go_on_where_it_was_full(&mut self) {
        let full = self.merge.take_full();
        if !self.core.waits_for_its_reader() {
            let is_full = |merged: &&mut Merged| full.contains(&merged.number);
            let sources = self.sources.iter_mut().filter(is_full);
            sources.for_each(|merged| merged.source.take_again());
        } else if self.core.is_stopped_and_empty() {
            self.let_sources_take_again();
            self.core.restart((self.now)());
        }
    }

    /// Lets sources that were full record events again.
    fn let_sources_take_again(&mut self) {
        for merged in &mut self.sources {
            merged.source.take_again();
        }
        self.core.sources_take_again();
        self.merge.forget_full();
    }

    /// Collects as [`sync`](Self::sync) does, until `end`.
    fn sync_until(&mut self, end: Instant) -> MonotonicNs {
        let Self {
            core,
            types,
            sources,
            merge,
            log,
            now,
            turn,
            ..
        } = self;
        let mut flush = |core: &mut StreamCore, types: &EventTypes| {
            log.flush(core, types, Origin::NONE);
        };
        let watermark = merge.round_until((sources, turn), types, core, *now, end, &mut flush);
        self.go_on_where_it_was_full();
        watermark
    }

    /// Sleeps until an event is there, but not for longer than `time`, and where not every source
    /// can wake a reader, for no longer than `interval`. Collects before it sleeps.
    pub fn sleep(&mut self, time: Duration, interval: Duration) {
        let can_wake = self.announce_sleep();
        self.sync();
        let sole = self.sources.first_mut().filter(|_| can_wake);
        let sole = sole.map(|merged| &mut merged.source);
        match (self.core.held(), sole) {
            (0, Some(source)) => source.sleep(time),
            (0, None) => std::thread::sleep(time.min(interval)),
            (_, Some(source)) => source.retract_sleep(),
            (_, None) => {}
        }
    }

    /// Returns the word that the stream's emitters wake its reader by; `None` where not all of them
    /// can.
    pub fn waiting_word(&self) -> Option<Box<dyn WaitingWord>> {
        match self.sources.as_slice() {
            [sole] => sole.source.waiting_word(),
            _ => None,
        }
    }

    /// Says that the reader is about to sleep, where the emitters can wake it; it has to collect
    /// once more.
    pub fn announce_sleep(&mut self) -> bool {
        match self.sources.as_mut_slice() {
            [sole] => sole.source.announce_sleep(),
            _ => false,
        }
    }

    /// Takes in what has come up to `until`, though an older event may still come.
    fn feed(&mut self, until: MonotonicNs) {
        let Self {
            core,
            types,
            merge,
            log,
            ..
        } = self;
        merge.feed(until, core, &mut |core| {
            log.flush(core, types, Origin::NONE)
        });
    }

    /// Flushes the stream where it otherwise has no space for an event of its own.
    fn make_space_for_own(&mut self) {
        if self.core.needs_flush_before_own() {
            self.flush(Origin::NONE);
        }
    }

    /// Flushes what the stream holds to its log, for `caller`. Does not collect: call
    /// [`sync`](Self::sync) before.
    pub fn flush(&mut self, caller: Origin) {
        self.log.flush(&mut self.core, &self.types, caller);
        self.stop_sources_of_full_log();
    }

    /// Tells the sources that the stream takes nothing more, where a flush has suspended it.
    fn stop_sources_of_full_log(&mut self) {
        if self.is_started && !self.core.wants_events() {
            self.is_started = false;
            self.control(&self.wanted());
        }
    }

    /// Returns the stream's log, with what it needs to be written: the stream without its sources,
    /// and its event types.
    pub fn log(&mut self) -> (&mut L, &mut StreamCore, &EventTypes) {
        (&mut self.log, &mut self.core, &self.types)
    }

    /// Returns the stream's log, and where its events went: for completing the log.
    pub fn into_log(self) -> (L, EventTypes, Ledger) {
        let ledger = self.core.ledger().clone();
        (self.log, self.types, ledger)
    }

    /// Returns the oldest event that was not shown yet. The event stays where it is, to be flushed.
    pub fn show_next(&mut self) -> Option<Event<'_>> {
        let header = self.core.show_next(&mut self.lent)?;
        Some(Event {
            header,
            data: &self.lent,
        })
    }

    /// Returns the most bytes of memory that it takes to collect all that there is.
    #[must_use]
    pub fn memory_needed(&self) -> usize {
        let needed = self
            .sources
            .iter()
            .map(|merged| merged.source.memory_needed());
        needed.fold(0, usize::saturating_add)
    }

    /// Returns the clock of the stream's own events.
    #[must_use]
    pub fn now(&self) -> MonotonicNs {
        (self.now)()
    }

    /// Returns the oldest event, if one is there. Does not collect: call [`sync`](Self::sync)
    /// before.
    #[inline(always)]
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        self.prepare_restart();
        let header = self.core.next(&mut self.lent, self.now)?;
        Some(Event {
            header,
            data: &self.lent,
        })
    }

    /// Returns the oldest event as [`next_event`](Self::next_event) does, with the stream's types.
    /// So the caller can look up the event's name while it holds the event.
    #[inline(always)]
    pub fn next_event_and_types(&mut self) -> Option<(Event<'_>, &EventTypes)> {
        self.prepare_restart();
        let header = self.core.next(&mut self.lent, self.now)?;
        let event = Event {
            header,
            data: &self.lent,
        };
        Some((event, &self.types))
    }

    /// Tells whether events may still come: the stream runs, or starts again when it has been read.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.core.wants_events()
    }

    /// Fetches what came while the stream was full, where the stream restarts because the next
    /// event leaves it empty. So the sources have space for all that comes after the restart, and
    /// what was lost was lost before it.
    #[inline]
    fn prepare_restart(&mut self) {
        if self.core.restarts_when_read() {
            self.sync();
            self.let_sources_take_again();
        }
    }

    /// Returns the oldest event, if one is there, as in [`next_event`](Self::next_event); its data
    /// is put into `data`.
    pub fn take_next(&mut self, data: &mut Vec<u8>) -> Option<EventHeader> {
        self.prepare_restart();
        self.core.next(data, self.now)
    }

    /// Returns the oldest event; collects when none is there.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_trygetnext_event()`.
    pub fn try_next_event(&mut self) -> Option<Event<'_>> {
        self.fetch();
        self.next_event()
    }

    /// Returns the identifier of the user event type `name`, in the target as well as in this
    /// stream; defines it where it is new.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_trid_eventid_open()`.
    pub fn define_event_type(&mut self, name: &[u8]) -> EventTypeId {
        let own = self.define_in_sources(name);
        self.types.define_asked(name, own)
    }

    /// Defines a type as [`define_event_type`](Self::define_event_type) does, where the caller
    /// knows which identifier it has in the target.
    #[doc(hidden)]
    pub fn define_event_type_as(&mut self, name: &[u8], id: EventTypeId) -> EventTypeId {
        self.define_in_sources(name);
        self.types.define_asked(name, Some(id))
    }

    fn define_in_sources(&mut self, name: &[u8]) -> Option<EventTypeId> {
        self.sources
            .iter_mut()
            .find_map(|merged| merged.source.define_event_type(name))
    }

    /// Asks the sources for types that were defined there since the last time.
    pub fn learn_event_types(&mut self) {
        let types = &mut self.types;
        for Merged { source, .. } in &mut self.sources {
            source.event_types(&mut |name, own| types.define_listed(name, own));
        }
    }

    /// Gives up the sources that are behind `until`, as the stream ends and no longer waits for
    /// them. What they have not brought counts as lost. Returns whether all of that could be
    /// counted by `end`. The other sources are collected as before.
    pub fn leave_sources_behind(&mut self, until: MonotonicNs, end: Instant) -> bool {
        // A source that was given up can no longer be asked for names.
        self.learn_event_types();
        let Self {
            merge,
            sources,
            types,
            ..
        } = self;
        merge.count_unread(sources, types, until, end)
    }

    /// Ends the stream, which was stopped: it takes nothing any more, and its sources are given up.
    /// What they have not brought counts as lost. Returns whether all of that could be counted.
    pub fn end(&mut self) -> bool {
        let is_known = self.leave_sources_behind(self.stopped, Instant::now() + COUNTED_WITHIN);
        self.sources.clear();
        self.feed(MonotonicNs(u64::MAX));
        is_known
    }

    /// Returns the status now; that events were lost is reported once.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_get_status()`.
    pub fn status(&mut self) -> Status {
        self.sync();
        self.note_what_is_unknown();
        self.core.status()
    }

    /// Has the next status say that events were lost, where a source does not know whether it has
    /// lost any.
    pub fn note_what_is_unknown(&mut self) {
        for Merged { source, .. } in &mut self.sources {
            if source.may_have_lost() {
                self.core.report_overrun();
            }
        }
    }

    /// Returns the set of types that are not recorded.
    #[must_use]
    pub fn filter(&self) -> &EventSet {
        self.core.filter()
    }

    /// Returns where every event went so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.core.ledger()
    }

    /// Returns the number of events that are there to be read without collecting.
    #[must_use]
    pub fn held(&self) -> usize {
        self.core.held()
    }

    /// Returns its event types.
    #[must_use]
    pub fn event_types(&self) -> &EventTypes {
        &self.types
    }

    /// Returns the name of a type as text; its identifier where it has none.
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

    /// Tells the sources what is wanted. From then on they do not record what is filtered, so that
    /// it does not even come here. For that they have to know the stream's identifiers.
    fn control(&mut self, control: &Control) {
        if control.filter != EventSet::EMPTY {
            self.learn_event_types();
        }
        for Merged { source, .. } in &mut self.sources {
            source.control(control);
            source.keep_newest(self.core.keeps_newest());
        }
    }
}
