//! The state machine of an active stream.
//!
//! ```text
//!                     start                        full (UNTIL_FULL)
//!   SUSPENDED, NOT_FULL ──► RUNNING, NOT_FULL ──────────────────────► SUSPENDED, FULL
//!            ▲        stop ◄──┘      ▲                                      │ read
//!            │                       │ read empty: restarts by itself       ▼
//!            │                       └────────────────────────── SUSPENDED, NOT_FULL
//!            └── stop cancels the restart ──────────────────────────────────┘
//!
//!   LOOP: RUNNING, NOT_FULL ◄──► RUNNING, FULL; never stops by itself
//! ```

use tracer_common::event_type::EventTypeId;

use super::buffer::{Buffer, Gap, Oldest};
use crate::event::{EventHeader, MonotonicNs, Truncation, stop};
use crate::sizes::{MAX_SYSTEM_DATA, event_size};
use crate::source::{Loss, LossCause, Mark};
use crate::{EventSet, Ledger, StreamFullPolicy};

/// How `posix_trace_set_filter()` combines the given set with the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// The given set becomes the filter.
    Set,
    /// The given set is added to the filter.
    Add,
    /// The given set is taken out of the filter.
    Sub,
}

impl Filtering {
    /// Returns the filter that results from the one before and the given set.
    #[must_use]
    pub fn apply(self, before: &EventSet, set: &EventSet) -> EventSet {
        match self {
            Self::Set => *set,
            Self::Add => before.union(set),
            Self::Sub => before.difference(set),
        }
    }
}

/// State of a stream, as `posix_trace_get_status()` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Status {
    /// Whether it records (`POSIX_TRACE_RUNNING`).
    pub is_running: bool,
    /// Whether its space is used up (`POSIX_TRACE_FULL`).
    pub is_full: bool,
    /// Whether events were lost since this was last asked (`POSIX_TRACE_OVERRUN`).
    pub is_overrun: bool,
}

/// Whether a stream records, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Running {
        since: MonotonicNs,
        is_restarted: bool,
    },
    /// Suspended by a call, or never started.
    Suspended,
    /// Stopped by itself, because it was full. It restarts when it has been emptied.
    StoppedFull,
    /// Suspended because its log takes nothing more since this time.
    LogFull(MonotonicNs),
}

/// An active stream without its sources.
#[derive(Debug)]
pub struct StreamCore {
    policy: StreamFullPolicy,
    /// Bytes for events, space for an automatic STOP not counted.
    capacity: usize,
    activity: Activity,
    is_full: bool,
    is_overrun: bool,
    filter: EventSet,
    /// When the filter was changed last.
    filter_since: MonotonicNs,
    /// Events that the stream holds. On the heap: the buffer is large, and would be moved about on
    /// the stack.
    buffer: Box<Buffer>,
    ledger: Ledger,
    /// Time up to which events were fed; older events are late.
    horizon: MonotonicNs,
    /// The time of the last event given out.
    last_reported: MonotonicNs,
    /// A `RESUME` to be given out before the next event.
    resume: Option<MonotonicNs>,
    /// Whether a source is full, and takes nothing until it is told that the stream has space
    /// again.
    is_source_full: bool,
}

impl StreamCore {
    /// Returns a suspended, empty stream with an empty filter that holds `capacity` bytes of
    /// events.
    #[must_use]
    pub fn new(policy: StreamFullPolicy, capacity: usize) -> Self {
        Self {
            policy,
            capacity,
            activity: Activity::Suspended,
            is_full: false,
            is_overrun: false,
            filter: EventSet::EMPTY,
            filter_since: MonotonicNs(0),
            buffer: Buffer::on_heap(),
            ledger: Ledger::default(),
            horizon: MonotonicNs(0),
            last_reported: MonotonicNs(0),
            resume: None,
            is_source_full: false,
        }
    }

    /// Takes the next event of the merged sequence: records it, or not, as state, filter and policy
    /// say.
    pub fn feed(&mut self, header: EventHeader, data: &[u8]) {
        self.take(&header, data);
    }

    /// Takes an event as [`feed`](Self::feed) does, without a copy of its header.
    #[inline]
    pub(crate) fn take(&mut self, header: &EventHeader, data: &[u8]) {
        if header.time < self.horizon {
            self.take_late(header);
            return;
        }
        self.horizon = header.time;
        if self.filter.contains(header.event_type) {
            return;
        }
        match self.activity {
            Activity::Running { since, .. } if header.time >= since => self.record(header, data),
            Activity::Running {
                is_restarted: true, ..
            }
            | Activity::StoppedFull => {
                self.is_overrun = true;
                self.ledger.lose(LossCause::StreamFull, 1);
            }
            // Generated before the start or after the stop: the stream does not record it.
            Activity::Running {
                is_restarted: false,
                ..
            }
            | Activity::Suspended
            | Activity::LogFull(_) => {}
        }
    }

    /// Takes an event that came after newer ones were given out: it is lost unless it was filtered.
    #[cold]
    fn take_late(&mut self, header: &EventHeader) {
        let is_of_filter = header.time >= self.filter_since;
        if !(is_of_filter && self.filter.contains(header.event_type)) {
            self.lose(LossCause::Late, 1, header.time);
        }
    }

    /// Notes that events were lost before they came here.
    pub fn feed_loss(&mut self, loss: Loss) {
        if self.is_not_to_record_from(loss.since) {
            return;
        }
        if loss.is_marked {
            self.ledger.lose(loss.cause, loss.count);
            self.is_overrun = true;
        } else {
            self.lose(loss.cause, loss.count, loss.since.max(self.horizon));
        }
    }

    /// Notes a source's mark: events are missing after all that were fed so far.
    pub(crate) fn take_mark(&mut self, mark: Mark) {
        if self.is_not_to_record_from(mark.time) {
            return;
        }
        let at = mark.time.max(self.horizon);
        self.is_overrun = true;
        if self.policy != StreamFullPolicy::UntilFull {
            self.buffer.push_gap(Gap { since: at });
        } else if mark.is_full {
            self.is_source_full = true;
            if self.is_running() {
                self.horizon = at;
                self.stop_full(at);
            }
        }
    }

    /// Tells whether the log was full at this time, so that what was generated later is no loss.
    fn is_not_to_record_from(&self, time: MonotonicNs) -> bool {
        matches!(self.activity, Activity::LogFull(since) if time >= since)
    }

    /// Tells whether sources that are full have to wait until the stream has been read.
    pub(crate) fn waits_for_its_reader(&self) -> bool {
        self.policy == StreamFullPolicy::UntilFull
    }

    /// Lets the sources that were full take events again.
    pub(crate) fn sources_take_again(&mut self) {
        self.is_source_full = false;
    }

    /// Tells whether the stream has stopped itself and holds nothing: its STOP was read, or is
    /// filtered.
    pub(crate) fn is_stopped_and_empty(&self) -> bool {
        self.activity == Activity::StoppedFull && self.buffer.events() == 0
    }

    fn lose(&mut self, cause: LossCause, count: u64, since: MonotonicNs) {
        self.ledger.lose(cause, count);
        self.is_overrun = true;
        // A stream that stops when it is full marks what is missing by its STOP and START.
        if self.policy != StreamFullPolicy::UntilFull {
            self.buffer.push_gap(Gap { since });
        }
    }

    fn record(&mut self, header: &EventHeader, data: &[u8]) {
        let size = event_size(data.len());
        match self.policy {
            StreamFullPolicy::Loop => {
                while self.buffer.used().saturating_add(size) > self.capacity {
                    if !self.buffer.overwrite_oldest() {
                        break;
                    }
                    self.ledger.lose(LossCause::StreamOverwritten, 1);
                    self.is_full = true;
                    self.is_overrun = true;
                }
                self.hold(header, data);
            }
            StreamFullPolicy::UntilFull | StreamFullPolicy::Flush => {
                if self.buffer.used().saturating_add(size) <= self.capacity {
                    self.hold(header, data);
                } else {
                    self.stop_full(header.time);
                    self.is_overrun = true;
                    self.ledger.lose(LossCause::StreamFull, 1);
                }
            }
        }
    }

    fn hold(&mut self, header: &EventHeader, data: &[u8]) {
        self.ledger.recorded += 1;
        self.buffer.push(header, data, true);
    }

    /// Stops the stream, which is full, by itself. The STOP takes none of the space: it has space
    /// of its own.
    fn stop_full(&mut self, at: MonotonicNs) {
        self.activity = Activity::StoppedFull;
        self.is_full = true;
        if !self.filter.contains(EventTypeId::STOP) {
            self.ledger.recorded += 1;
            let header = Origin::NONE.header(EventTypeId::STOP, at);
            self.buffer
                .push(&header, &stop::AUTOMATIC.to_ne_bytes(), false);
        }
    }

    /// Starts the stream at `at`, which is not before anything that was fed.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_start()`. A full stream under `POSIX_TRACE_UNTIL_FULL` is left alone.
    pub fn start(&mut self, at: MonotonicNs, caller: Origin) {
        let is_startable = match self.activity {
            Activity::Running { .. } => false,
            Activity::Suspended | Activity::StoppedFull | Activity::LogFull(_) => {
                !self.is_full || self.policy == StreamFullPolicy::Loop
            }
        };
        if is_startable {
            self.horizon = self.horizon.max(at);
            self.activity = Activity::Running {
                since: self.horizon,
                is_restarted: false,
            };
            self.record_start(caller);
            if self.is_source_full {
                self.stop_full(self.horizon);
            }
        }
    }

    fn record_start(&mut self, caller: Origin) {
        let data = self.filter.to_bytes();
        self.record_own(EventTypeId::START, caller, &data);
    }

    /// Stops the stream at `at`; what is recorded stays readable.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_stop()`. Stopping a stream that stopped itself cancels its restart.
    pub fn stop(&mut self, at: MonotonicNs, caller: Origin) {
        self.horizon = self.horizon.max(at);
        if self.is_running() {
            self.record_stop(caller);
        }
        self.activity = Activity::Suspended;
    }

    /// Records the STOP of a call. Where there is no space for it, it has that of the automatic
    /// one, which does not come any more.
    fn record_stop(&mut self, caller: Origin) {
        let data = stop::CALLED.to_ne_bytes();
        let is_looping = self.policy == StreamFullPolicy::Loop;
        let used = self.buffer.used().saturating_add(event_size(data.len()));
        if is_looping || used <= self.capacity {
            self.record_own(EventTypeId::STOP, caller, &data);
        } else if !self.filter.contains(EventTypeId::STOP) {
            self.ledger.recorded += 1;
            let header = caller.header(EventTypeId::STOP, self.horizon);
            self.buffer.push(&header, &data, false);
        }
    }

    /// Changes the filter at `at`.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_set_filter()`. The event is recorded while the stream runs, unless the old
    /// filter holds its type.
    pub fn set_filter(&mut self, set: &EventSet, how: Filtering, at: MonotonicNs, caller: Origin) {
        let old = self.filter;
        let new = how.apply(&old, set);
        self.horizon = self.horizon.max(at);
        if self.is_running() {
            let data = [old.to_bytes(), new.to_bytes()].concat();
            self.record_own(EventTypeId::FILTER, caller, &data);
        }
        self.filter = new;
        self.filter_since = self.horizon;
    }

    /// Records an event of the stream's own, unless the event is filtered, or the stream loops and
    /// is full.
    fn record_own(&mut self, event_type: EventTypeId, caller: Origin, data: &[u8]) {
        let is_full_loop = self.policy == StreamFullPolicy::Loop && self.is_full;
        if !self.filter.contains(event_type) && !is_full_loop {
            self.record(&caller.header(event_type, self.horizon), data);
        }
    }

    /// Drops all that is recorded, and the filter; a running stream goes on running.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_clear()`. A stream that had stopped itself stays suspended.
    pub fn clear(&mut self, at: MonotonicNs) {
        self.horizon = self.horizon.max(at);
        self.ledger.cleared += self.buffer.events() as u64;
        self.buffer.clear();
        self.resume = None;
        self.filter = EventSet::EMPTY;
        self.filter_since = self.horizon;
        self.is_full = false;
        self.is_overrun = false;
        if self.activity == Activity::StoppedFull {
            self.activity = Activity::Suspended;
        }
    }

    /// Tells whether this stream is one that is flushed, would record this event, and has no space
    /// for it.
    #[must_use]
    pub fn needs_flush_before(&self, header: &EventHeader, data_length: usize) -> bool {
        let has_space =
            || self.buffer.used().saturating_add(event_size(data_length)) <= self.capacity;
        self.policy == StreamFullPolicy::Flush
            && matches!(self.activity, Activity::Running { since, .. } if header.time >= since)
            && !self.filter.contains(header.event_type)
            && !has_space()
    }

    /// Tells whether this stream is one that is flushed, and has no space for an event of its own.
    #[must_use]
    pub fn needs_flush_before_own(&self) -> bool {
        self.policy == StreamFullPolicy::Flush
            && self.is_running()
            && self
                .buffer
                .used()
                .saturating_add(event_size(MAX_SYSTEM_DATA))
                > self.capacity
    }

    /// Tells whether half of the space is used up.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        self.buffer.used() >= self.capacity / 2
    }

    /// Begins a flush: records `FLUSH_START` if the stream runs. The event takes none of the space,
    /// since the flush takes it away at once.
    pub fn begin_flush(&mut self, caller: Origin) {
        let event_type = EventTypeId::FLUSH_START;
        if self.is_running() && !self.filter.contains(event_type) {
            self.ledger.recorded += 1;
            let header = caller.header(event_type, self.horizon);
            self.buffer.push(&header, &[], false);
        }
    }

    /// Ends a flush: records `FLUSH_STOP` if the stream runs.
    pub fn end_flush(&mut self, caller: Origin) {
        if self.is_running() {
            self.record_own(EventTypeId::FLUSH_STOP, caller, &[]);
        }
    }

    /// Records that the trace system failed, with the error number, if the stream runs.
    pub fn report_error(&mut self, error: i32) {
        if self.is_running() {
            self.record_own(EventTypeId::ERROR, Origin::NONE, &error.to_ne_bytes());
        }
    }

    /// Suspends the stream where the log is full: nothing is recorded any more until the stream is
    /// cleared and started, and that is no loss.
    pub fn suspend(&mut self) {
        if self.wants_events() {
            self.activity = Activity::LogFull(self.horizon);
        }
    }

    /// Notes that all events from before `at` were fed: what the stream records of itself next has
    /// this time.
    pub fn advance(&mut self, at: MonotonicNs) {
        self.horizon = self.horizon.max(at);
    }

    /// Returns the oldest event that was not shown yet. The event stays where it is, to be flushed.
    pub fn show_next(&mut self, data: &mut Vec<u8>) -> Option<EventHeader> {
        self.buffer.show_next(data)
    }

    /// Returns the oldest event, if there is one; its data is put into `data`. `now` is called only
    /// when the stream restarts itself because it has become empty.
    #[inline(always)]
    pub fn next(
        &mut self,
        data: &mut Vec<u8>,
        now: impl FnOnce() -> MonotonicNs,
    ) -> Option<EventHeader> {
        loop {
            if let Some(time) = self.resume.take()
                && !self.filter.contains(EventTypeId::RESUME)
            {
                data.clear();
                return Some(self.reported(Origin::NONE.header(EventTypeId::RESUME, time)));
            }
            match self.buffer.pop(data)? {
                Oldest::Gap(gap) => {
                    // The buffer gives a gap out only when an event follows it.
                    self.resume = self.buffer.oldest_time();
                    if !self.filter.contains(EventTypeId::OVERFLOW) {
                        data.clear();
                        let until = self.resume.unwrap_or(gap.since);
                        let since = gap.since.min(until);
                        return Some(
                            self.reported(Origin::NONE.header(EventTypeId::OVERFLOW, since)),
                        );
                    }
                }
                Oldest::Event(header) => {
                    self.ledger.reported += 1;
                    self.free_space(now);
                    return Some(self.reported(header));
                }
            }
        }
    }

    /// Returns the header as the reader gets it: time does not go back for the reader.
    #[inline(always)]
    fn reported(&mut self, mut header: EventHeader) -> EventHeader {
        header.time = header.time.max(self.last_reported);
        self.last_reported = header.time;
        header
    }

    /// Tells whether the stream has stopped itself, and restarts when the one event that it holds
    /// is read.
    #[inline]
    #[must_use]
    pub fn restarts_when_read(&self) -> bool {
        self.activity == Activity::StoppedFull && self.buffer.events() == 1
    }

    /// Frees space after an event was read: the stream restarts when it is empty.
    #[inline]
    fn free_space(&mut self, now: impl FnOnce() -> MonotonicNs) {
        self.is_full = false;
        // A source that is full has to be told before the stream restarts.
        if self.is_stopped_and_empty() && !self.is_source_full {
            self.restart(now());
        }
    }

    /// Starts a stream again that had stopped itself, now that it is empty.
    #[cold]
    pub(crate) fn restart(&mut self, at: MonotonicNs) {
        let at = at.max(self.horizon);
        self.activity = Activity::Running {
            since: at,
            is_restarted: true,
        };
        if !self.filter.contains(EventTypeId::START) {
            let header = Origin::NONE.header(EventTypeId::START, at);
            let data = self.filter.to_bytes();
            self.hold(&header, &data);
        }
    }

    /// Has the next status say that events were lost: they may have been, and cannot be counted.
    pub fn report_overrun(&mut self) {
        self.is_overrun = true;
    }

    /// Returns the status now; that events were lost is reported once.
    pub fn status(&mut self) -> Status {
        let is_running = self.is_running();
        let is_overrun = std::mem::take(&mut self.is_overrun);
        Status {
            is_running,
            is_full: self.is_full,
            is_overrun,
        }
    }

    /// Tells whether it records.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.activity, Activity::Running { .. })
    }

    /// Tells whether its space is used up.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns how many bytes it keeps of its newest events, if it records all that comes.
    #[must_use]
    pub fn keeps_newest(&self) -> Option<usize> {
        let is_all = self.is_running() && self.filter == EventSet::EMPTY;
        (self.policy == StreamFullPolicy::Loop && is_all).then_some(self.capacity)
    }

    /// Tells whether sources should bring events: also while the stream has stopped itself, since
    /// what it loses then is counted.
    #[must_use]
    pub fn wants_events(&self) -> bool {
        matches!(
            self.activity,
            Activity::Running { .. } | Activity::StoppedFull
        )
    }

    /// Returns the set of types that are not recorded.
    #[must_use]
    pub fn filter(&self) -> &EventSet {
        &self.filter
    }

    /// Returns where every event went so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the number of events that are there to be read.
    #[must_use]
    pub fn held(&self) -> usize {
        self.buffer.events()
    }
}

/// Origin of a control event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Process; 0 for the trace system.
    pub pid: i32,
    /// Thread, by the kernel's identifier; 0 for the trace system.
    pub tid: i32,
    /// The thread's `pthread_t`; 0 for the trace system.
    pub thread_id: u64,
    /// Address of the call; 0 for the trace system.
    pub program_address: u64,
}

impl Origin {
    /// The trace system itself.
    pub const NONE: Self = Self {
        pid: 0,
        tid: 0,
        thread_id: 0,
        program_address: 0,
    };

    pub(crate) fn header(self, event_type: EventTypeId, time: MonotonicNs) -> EventHeader {
        EventHeader {
            time,
            event_type,
            pid: self.pid,
            tid: self.tid,
            cpu: None,
            thread_id: self.thread_id,
            program_address: self.program_address,
            truncation: Truncation::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64) -> EventHeader {
        Origin::NONE.header(EventTypeId(300), MonotonicNs(time))
    }

    fn read_all(core: &mut StreamCore, now: u64) -> Vec<(u64, EventTypeId)> {
        let mut data = Vec::new();
        std::iter::from_fn(|| core.next(&mut data, || MonotonicNs(now)))
            .map(|header| (header.time.0, header.event_type))
            .collect()
    }

    /// Returns a started stream with space for `events` events without data, its START already
    /// read.
    fn started(policy: StreamFullPolicy, events: usize) -> StreamCore {
        let mut core = StreamCore::new(policy, event_size(0) * events);
        core.filter.insert(EventTypeId::START);
        core.start(MonotonicNs(1), Origin::NONE);
        core
    }

    const USER: EventTypeId = EventTypeId(300);

    #[test]
    fn what_a_looping_stream_overwrote_is_marked_by_its_first_and_the_next_time() {
        let mut core = started(StreamFullPolicy::Loop, 2);
        for time in 10..15 {
            core.feed(event(time), b"");
        }

        assert_eq!(
            read_all(&mut core, 20),
            [
                (10, EventTypeId::OVERFLOW),
                (13, EventTypeId::RESUME),
                (13, USER),
                (14, USER)
            ]
        );
        assert_eq!(core.ledger().lost(LossCause::StreamOverwritten), 3);
    }

    #[test]
    fn a_loss_in_a_source_is_marked_where_it_happened() {
        let mut core = started(StreamFullPolicy::Loop, 9);
        core.feed(event(10), b"");
        core.feed_loss(Loss {
            cause: LossCause::KernelRingFull,
            count: 7,
            since: MonotonicNs(11),
            is_marked: false,
        });
        core.feed(event(12), b"");

        assert_eq!(
            read_all(&mut core, 20),
            [
                (10, USER),
                (11, EventTypeId::OVERFLOW),
                (12, EventTypeId::RESUME),
                (12, USER)
            ]
        );
        assert_eq!(core.ledger().lost(LossCause::KernelRingFull), 7);
        assert!(core.status().is_overrun);
    }

    #[test]
    fn a_stream_until_full_stops_itself_and_restarts_once_it_was_read_empty() {
        let mut core = started(StreamFullPolicy::UntilFull, 2);
        for time in 10..14 {
            core.feed(event(time), b"");
        }
        assert_eq!(
            core.status(),
            Status {
                is_running: false,
                is_full: true,
                is_overrun: true
            }
        );

        assert_eq!(
            read_all(&mut core, 20),
            [(10, USER), (11, USER), (12, EventTypeId::STOP)]
        );
        // Generated before the restart, merged after it: lost all the same.
        core.feed(event(19), b"");
        core.feed(event(21), b"");

        assert_eq!(read_all(&mut core, 30), [(21, USER)]);
        assert_eq!(core.ledger().lost(LossCause::StreamFull), 3);
    }

    #[test]
    fn an_event_older_than_what_was_given_out_is_late_and_counted() {
        let mut core = started(StreamFullPolicy::Loop, 9);
        core.feed(event(10), b"");
        core.feed(event(9), b"");

        assert_eq!(read_all(&mut core, 20), [(10, USER)]);
        assert_eq!(core.ledger().lost(LossCause::Late), 1);
    }

    #[test]
    fn an_event_that_is_late_and_filtered_is_no_loss() {
        let mut core = started(StreamFullPolicy::Loop, 9);
        core.feed(event(10), b"");
        let mut set = EventSet::EMPTY;
        set.insert(USER);
        core.set_filter(&set, Filtering::Add, MonotonicNs(20), Origin::NONE);
        core.feed(Origin::NONE.header(EventTypeId(301), MonotonicNs(30)), b"");
        core.feed(event(25), b"");
        assert_eq!(core.ledger().lost_in_all(), 0);
        // It was not filtered then.
        core.feed(event(15), b"");
        assert_eq!(core.ledger().lost(LossCause::Late), 1);
    }

    #[test]
    fn events_before_the_start_and_after_the_stop_are_no_loss() {
        let mut core = StreamCore::new(StreamFullPolicy::Loop, 4096);
        core.feed(event(10), b"");
        core.start(MonotonicNs(11), Origin::NONE);
        core.feed(event(12), b"");
        core.stop(MonotonicNs(13), Origin::NONE);
        core.feed(event(14), b"");

        assert_eq!(
            read_all(&mut core, 20),
            [
                (11, EventTypeId::START),
                (12, USER),
                (13, EventTypeId::STOP)
            ]
        );
        assert_eq!(core.ledger().lost_in_all(), 0);
        assert!(!core.status().is_overrun);
    }
}
