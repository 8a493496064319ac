//! A stream and the log that it is flushed to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracer_engine::event::{Event, MonotonicNs};
use tracer_engine::source::Source;
use tracer_engine::{
    ActiveStream, CallTerms, EventSet, EventTypes, Filtering, Flush, Origin, StreamCore,
    StreamFullPolicy,
};
use tracer_log::{FinalStatus, LogWriter, WriteError};

use super::thread_names::ThreadNames;
use super::{Activity, LoggedStatus};

/// Longest time between two flushes of a stream under `POSIX_TRACE_FLUSH` that has events.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// A log that a stream is flushed to.
struct Log {
    writer: LogWriter,
    /// The number of the first error of a flush since it was asked for; 0 for none.
    first_error: i32,
    /// The number of the first error of the current flush; 0 for none.
    error: i32,
    now: fn() -> MonotonicNs,
    /// The data of the current event.
    data: Vec<u8>,
    names: ThreadNames,
    /// Where it reports that a flush goes on, if anywhere.
    activity: Option<Arc<Activity>>,
    /// Number of events that the stream had recorded when the last flush ended.
    recorded: u64,
}

impl Log {
    fn note(&mut self, result: Result<(), WriteError>) {
        if let Err(error) = result {
            let code = error.error_number();
            if self.error == 0 {
                self.error = code;
            }
            if self.first_error == 0 {
                self.first_error = code;
            }
        }
    }
}

impl Log {
    /// Writes what was copied to the log's file.
    fn write(&mut self, core: &StreamCore) {
        let activity = self.activity.clone();
        let _flushing = activity.as_deref().map(Activity::flushing);
        let result = self.writer.flush(core.ledger());
        self.note(result);
    }
}

impl Flush for Log {
    fn flush(&mut self, core: &mut StreamCore, types: &EventTypes, caller: Origin) {
        let activity = self.activity.clone();
        let _flushing = activity.as_deref().map(Activity::flushing);
        let had_error = self.first_error != 0;
        self.error = 0;
        core.begin_flush(caller);
        self.writer.count_losses(core.ledger());
        let flushed_at = Instant::now();
        let mut data = std::mem::take(&mut self.data);
        while let Some(header) = core.next(&mut data, self.now) {
            let comm = self.names.read(&header, flushed_at);
            let result = self.writer.append(&header, &data, comm, types);
            self.note(result);
            if self.writer.is_closed() {
                core.suspend();
            }
        }
        self.data = data;
        if caller == Origin::NONE && self.error != 0 && !had_error {
            core.report_error(self.error);
        }
        core.end_flush(caller);
        self.recorded = core.ledger().recorded();
    }
}

/// A stream and its log: what the standard says of a stream with a log, whichever process makes the
/// calls.
pub struct LogRecording {
    stream: ActiveStream<Log>,
    policy: StreamFullPolicy,
    last_write: Instant,
    /// Up to when a flush still has to write, since it did not wait for an emission under way.
    owed: Option<MonotonicNs>,
}

impl std::fmt::Debug for LogRecording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl LogRecording {
    /// Returns a suspended, empty stream that holds `capacity` bytes of events and is flushed to
    /// `log`.
    #[must_use]
    pub fn new(
        policy: StreamFullPolicy,
        capacity: usize,
        now: fn() -> MonotonicNs,
        log: LogWriter,
    ) -> Self {
        let log = Log {
            writer: log,
            first_error: 0,
            error: 0,
            now,
            data: Vec::new(),
            names: ThreadNames::default(),
            activity: None,
            recorded: 0,
        };
        Self {
            stream: ActiveStream::with_log(policy, capacity, now, log),
            policy,
            last_write: Instant::now(),
            owed: None,
        }
    }

    /// Reads the name of a process, which may be gone when its events are flushed.
    pub(super) fn register(&mut self, pid: i32) {
        self.stream.log().0.names.ask(pid, pid, Instant::now());
    }

    /// Adds a source and tells it what the stream wants.
    pub fn add_source(&mut self, source: Box<dyn Source>) {
        self.stream.add_source(source);
    }

    /// Makes it report in `activity` from now on while it flushes.
    pub(super) fn set_activity(&mut self, activity: Arc<Activity>) {
        self.stream.log().0.activity = Some(activity);
    }

    /// Reports the status of stream and log in shared memory.
    pub(super) fn report(&mut self) {
        self.stream.note_what_is_unknown();
        let (log, core, _) = self.stream.log();
        if let Some(activity) = &log.activity {
            let stream = core.status();
            activity.report(LoggedStatus {
                is_running: stream.is_running,
                is_full: stream.is_full,
                is_overrun: stream.is_overrun,
                is_flushing: self.owed.is_some(),
                flush_error: std::mem::take(&mut log.first_error),
                is_log_full: log.writer.is_full(),
                is_log_overrun: log.writer.take_overrun(),
            });
        }
    }

    /// Does the recorder's regular work: under `POSIX_TRACE_FLUSH` it collects, and flushes before
    /// the stream is full. Returns whether events have come, or were lost.
    pub fn tick(&mut self) -> bool {
        let has_written = self.write_what_is_owed();
        if self.policy != StreamFullPolicy::Flush {
            return has_written;
        }
        let come = |stream: &ActiveStream<Log>| {
            let ledger = stream.ledger();
            (ledger.recorded(), ledger.lost_in_all())
        };
        let before = come(&self.stream);
        self.stream.sync();
        let (log, core, types) = self.stream.log();
        if core.is_half_full() {
            log.flush(core, types, Origin::NONE);
        }
        if self.last_write.elapsed() > FLUSH_INTERVAL {
            // The end of the flush before is no reason for another.
            if core.held() > 0 && core.ledger().recorded() != log.recorded {
                log.flush(core, types, Origin::NONE);
            }
            log.write(core);
            self.last_write = Instant::now();
        }
        has_written || come(&self.stream) != before
    }

    /// Tells whether [`tick`](Self::tick) has anything to do: a flush is not complete, or the
    /// stream is flushed regularly and takes events.
    #[must_use]
    pub fn needs_ticks(&mut self) -> bool {
        let is_flushed = self.policy == StreamFullPolicy::Flush;
        self.owed.is_some() || is_flushed && self.stream.log().1.wants_events()
    }

    /// Sets the terms of the call that comes next.
    pub(super) fn set_terms(&mut self, terms: CallTerms) {
        self.stream.set_terms(terms);
    }

    /// Completes a flush that did not wait for an emission under way, once that emission is over.
    /// Returns whether it has.
    fn write_what_is_owed(&mut self) -> bool {
        let Some(until) = self.owed else { return false };
        if self.stream.sync() < until {
            return false;
        }
        self.owed = None;
        self.flush_now(Origin::NONE);
        true
    }

    fn flush_now(&mut self, caller: Origin) {
        self.stream.flush(caller);
        let (log, core, _) = self.stream.log();
        log.write(core);
        self.last_write = Instant::now();
    }

    /// See [`ActiveStream::start`].
    pub fn start(&mut self, caller: Origin) {
        self.stream.start(caller);
    }

    /// See [`ActiveStream::stop`].
    pub fn stop(&mut self, caller: Origin) {
        self.stream.stop(caller);
    }

    /// Drops all that stream and log hold.
    ///
    /// # Errors
    ///
    /// The number of the error with which the log could not be cleared.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_clear()`. A log under `POSIX_TRACE_APPEND` is cleared as well.
    pub fn clear(&mut self) -> Result<(), i32> {
        self.stream.clear();
        self.owed = None;
        let (log, ..) = self.stream.log();
        log.first_error = 0;
        if let Some(activity) = &log.activity {
            activity.forget_losses();
        }
        log.writer.clear().map_err(|error| error.error_number())
    }

    /// Changes the filter; see [`ActiveStream::set_filter`].
    pub fn set_filter(&mut self, set: &EventSet, how: Filtering, caller: Origin) {
        self.stream.set_filter(set, how, caller);
    }

    /// Copies what the stream holds to the log, and the log to its file. For a real-time thread it
    /// does not wait for an emission under way: newer events are written once the emission is over,
    /// and until then the status says that the flush goes on.
    ///
    /// # Errors
    ///
    /// The number of the first error.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_flush()`.
    pub fn flush(&mut self, caller: Origin) -> Result<(), i32> {
        let settled = self.stream.settle_for_call();
        if settled.has_all {
            let (_, core, _) = self.stream.log();
            core.advance(settled.until.min(settled.called));
        }
        self.flush_now(caller);
        self.owed = (!settled.has_all).then_some(settled.called);
        match self.stream.log().0.error {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// Returns the most bytes of memory that a call takes, together with what the stream holds.
    /// That is twice what a collection needs, since blocks of many sizes leave holes, and what the
    /// log needs: two packets of at most 1 MiB, an event's data, and the names of event types and
    /// threads.
    pub(super) fn memory_needed(&self) -> usize {
        const LOG: usize = 8 << 20;
        let collecting = self.stream.memory_needed().saturating_mul(2);
        collecting.saturating_add(LOG)
    }

    /// Returns the shared status that it reports in, if there is one.
    pub(super) fn activity(&mut self) -> Option<Arc<Activity>> {
        self.stream.log().0.activity.clone()
    }

    /// Notes that there is no memory to collect anything any more.
    pub(super) fn set_poor(&mut self) {
        self.stream.set_poor(true);
    }

    /// Collects all events up to now.
    pub(super) fn collect(&mut self) {
        self.stream.sync();
    }

    /// Returns the oldest event that was neither flushed nor shown yet; it stays in the stream.
    pub fn show_next(&mut self) -> Option<Event<'_>> {
        self.stream.sync();
        self.stream.show_next()
    }

    /// Returns the number of the user event type `name`, which is `id` in the target, if that is
    /// known; see [`ActiveStream::define_event_type`].
    pub fn define_event_type(
        &mut self,
        name: &[u8],
        id: Option<crate::EventTypeId>,
    ) -> crate::EventTypeId {
        match id {
            Some(id) => self.stream.define_event_type_as(name, id),
            None => self.stream.define_event_type(name),
        }
    }

    /// Returns the event types that are known now.
    pub fn event_types(&mut self) -> &EventTypes {
        self.stream.learn_event_types();
        self.stream.event_types()
    }

    /// Stops the stream, flushes what it holds, and completes the log.
    ///
    /// # Errors
    ///
    /// The number of the first error of this last flush.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_shutdown()`.
    pub fn complete(mut self, caller: Origin) -> Result<(), i32> {
        // A suspended stream has nothing to wait for; this stops a running one.
        self.stream.stop(caller);
        let is_all_counted = self.stream.end();
        self.stream.flush(caller);
        let status = self.stream.status();
        let (mut log, types, ledger) = self.stream.into_log();
        // Status that was reported, and not read by the controller yet.
        let reported = log.activity.as_deref().map(Activity::status);
        let reported = reported.unwrap_or_default();
        let status = FinalStatus {
            is_full: status.is_full,
            is_overrun: status.is_overrun || reported.is_overrun || !is_all_counted,
            flush_error: match reported.flush_error {
                0 => log.first_error,
                first => first,
            },
            is_log_full: log.writer.is_full(),
            is_log_overrun: log.writer.take_overrun() || reported.is_log_overrun,
        };
        let flushed = log.error;
        let completed = log.writer.complete(&types, &ledger, status);
        match (flushed, completed) {
            (0, Ok(())) => Ok(()),
            (0, Err(error)) => Err(error.error_number()),
            (error, _) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;
    use crate::EventTypeId;
    use tracer_area::monotonic_now;
    use tracer_engine::Attributes;
    use tracer_engine::ClockPair;
    use tracer_engine::event::{EventHeader, RealtimeNs, Truncation};
    use tracer_engine::source::{Batch, Control, Loss, LossCause, Unread};
    use tracer_log::{LogHeader, LogOptions, LogReader};

    /// A source that never has everything, and may know how many events it has not brought.
    struct Behind {
        unread: Option<u64>,
    }

    impl Source for Behind {
        fn collect(&mut self, _: &mut Batch<'_>) -> MonotonicNs {
            MonotonicNs(1)
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, batch: &mut Batch<'_>) -> Unread {
            let Some(count) = self.unread else {
                return Unread::Unknown;
            };
            batch.lose(Loss {
                cause: LossCause::NotRead,
                count,
                since: MonotonicNs(1),
                is_marked: false,
            });
            Unread::Counted
        }

        fn control(&mut self, _: &Control) {}
    }

    /// Returns a recording of a suspended stream with its log in `file`.
    fn recording_to(file: &File, policy: StreamFullPolicy) -> LogRecording {
        let header = LogHeader {
            attributes: Attributes::default(),
            anchor: ClockPair {
                monotonic: MonotonicNs(0),
                realtime: RealtimeNs(1),
            },
        };
        let options = LogOptions {
            policy: header.attributes.log_full_policy(),
            max_size: 1 << 20,
        };
        let log = LogWriter::create(file.try_clone().unwrap(), &header, options).unwrap();
        LogRecording::new(policy, 1 << 16, monotonic_now, log)
    }

    /// A source with an event, and with a thread whose emission began before that.
    #[derive(Clone, Default)]
    struct Amid {
        is_over: Arc<AtomicBool>,
        emitted: Arc<AtomicU64>,
    }

    impl Source for Amid {
        fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
            let until = monotonic_now();
            let emitted = self.emitted.swap(0, Relaxed);
            if emitted > 0 {
                let header = EventHeader {
                    time: MonotonicNs(emitted),
                    event_type: EventTypeId::UNNAMED_USEREVENT,
                    pid: 1,
                    tid: 1,
                    cpu: None,
                    thread_id: 1,
                    program_address: 0,
                    truncation: Truncation::None,
                };
                batch.push(header, b"newer");
            }
            if self.is_over.load(Relaxed) {
                until
            } else {
                MonotonicNs(1)
            }
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
            Unread::Nothing
        }

        fn control(&mut self, _: &Control) {}
    }

    #[test]
    fn a_flush_of_a_real_time_thread_goes_on_until_the_emission_is_over() {
        for policy in [StreamFullPolicy::Loop, StreamFullPolicy::Flush] {
            let file = tempfile::tempfile().unwrap();
            let mut recording = recording_to(&file, policy);
            recording.start(Origin::NONE);
            let amid = Amid::default();
            recording.add_source(Box::new(amid.clone()));
            let has_newer = || {
                let mut log = LogReader::open(file.try_clone().unwrap()).unwrap();
                let mut found = false;
                while let Some(record) = log.next_record().unwrap() {
                    found |= record.event.data == b"newer";
                }
                found
            };
            amid.emitted.store(monotonic_now().0, Relaxed);
            recording.set_terms(CallTerms {
                begun_anew: None,
                is_urgent: true,
            });
            recording.flush(Origin::NONE).unwrap();
            recording.tick();
            assert!(!has_newer() && recording.needs_ticks());
            amid.is_over.store(true, Relaxed);
            assert!(recording.tick());
            assert!(has_newer());
            assert!(!recording.tick());
            assert_eq!(recording.needs_ticks(), policy == StreamFullPolicy::Flush);
        }
    }

    #[test]
    fn a_stream_without_events_is_flushed_once() {
        let file = tempfile::tempfile().unwrap();
        let mut recording = recording_to(&file, StreamFullPolicy::Flush);
        recording.start(Origin::NONE);
        for _ in 0..3 {
            recording.last_write = Instant::now() - 2 * FLUSH_INTERVAL;
            recording.tick();
        }
        recording.complete(Origin::NONE).unwrap();
        let mut log = LogReader::open(file).unwrap();
        let mut flushes = 0;
        while let Some(record) = log.next_record().unwrap() {
            flushes += usize::from(record.event.header.event_type == EventTypeId::FLUSH_START);
        }
        assert_eq!(flushes, 1);
    }

    /// Completes a log while a source is behind. Returns how many events count as not read, and
    /// whether it was overrun.
    fn completed_beside(source: Behind) -> (u64, bool) {
        let file = tempfile::tempfile().unwrap();
        let mut recording = recording_to(&file, StreamFullPolicy::Flush);
        recording.start(Origin::NONE);
        recording.add_source(Box::new(source));
        recording.complete(Origin::NONE).unwrap();
        let mut log = LogReader::open(file).unwrap();
        while log.next_record().unwrap().is_some() {}
        let status = log.final_status().unwrap();
        (log.lost(LossCause::NotRead), status.is_overrun)
    }

    #[test]
    fn what_a_shutdown_does_not_wait_for_is_counted_in_the_log() {
        assert_eq!(completed_beside(Behind { unread: Some(5) }), (5, true));
        assert_eq!(completed_beside(Behind { unread: None }), (0, true));
    }
}
