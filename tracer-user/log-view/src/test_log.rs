//! A log that a test makes up.

use std::io;

use tracer_common::event_type::EventTypeId;
use tracer_engine::ClockPair;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::source::LossCause;
use tracer_engine::{Attributes, EventTypes};
use tracer_log::{Damage, FinalStatus, LogHeader, LogRecord, System};

use super::Log;

/// A log made up of events in memory. It was made when the monotonic clock showed 100 ns.
#[derive(Debug)]
pub struct TestLog {
    /// Its start.
    pub header: LogHeader,
    /// The system that it was made on.
    pub system: System,
    /// Its event types.
    pub types: EventTypes,
    /// Its events.
    pub events: Vec<TestEvent>,
    /// Index of the next of them.
    pub next: usize,
    /// Its status at the end.
    pub status: Option<FinalStatus>,
    /// End of the trace.
    pub ended: Option<MonotonicNs>,
    /// Damage: what could not be read.
    pub damage: Damage,
    /// Events that came too late.
    pub late: u64,
    /// Events that were lost for an unknown cause.
    pub lost_for_other_causes: u64,
    /// Events that the log lost.
    pub lost_in_log: u64,
}

/// An event of it.
#[derive(Clone, Debug)]
pub struct TestEvent {
    header: EventHeader,
    data: Vec<u8>,
    comm: Vec<u8>,
}

impl TestEvent {
    /// Makes it an event of a thread whose name is not known.
    pub fn forget_name(&mut self) {
        self.comm.clear();
    }
}

const START: u64 = 100;
/// 2001-09-09T01:46:40Z
const START_DATE: u64 = 1_000_000_000_000_000_000;

impl Default for TestLog {
    fn default() -> Self {
        Self {
            header: LogHeader {
                attributes: Attributes::default().with_name("made up"),
                anchor: ClockPair {
                    monotonic: MonotonicNs(START),
                    realtime: RealtimeNs(START_DATE),
                },
            },
            system: System {
                kernel_release: b"6.1.0".to_vec(),
                machine: b"x86_64".to_vec(),
            },
            types: EventTypes::default(),
            events: Vec::new(),
            next: 0,
            status: None,
            ended: None,
            damage: Damage::default(),
            late: 0,
            lost_for_other_causes: 0,
            lost_in_log: 0,
        }
    }
}

impl TestLog {
    /// Returns the date when the monotonic clock showed `ns`.
    pub fn date(ns: u64) -> RealtimeNs {
        RealtimeNs(START_DATE - START + ns)
    }

    /// Defines a user event type.
    pub fn define(&mut self, name: &[u8]) -> EventTypeId {
        self.types.define_user(name, None)
    }

    /// Adds an event of a thread (process and thread), on CPU 0, with the thread name "worker".
    pub fn push(&mut self, ns: u64, event_type: EventTypeId, thread: (i32, i32), data: &[u8]) {
        let header = EventHeader {
            time: MonotonicNs(ns),
            event_type,
            pid: thread.0,
            tid: thread.1,
            cpu: (!event_type.is_user()).then_some(0),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        self.push_event(header, data, b"worker");
    }

    /// Adds any event.
    pub fn push_event(&mut self, header: EventHeader, data: &[u8], comm: &[u8]) {
        self.events.push(TestEvent {
            header,
            data: data.to_vec(),
            comm: comm.to_vec(),
        });
    }
}

impl Log for TestLog {
    fn header(&self) -> &LogHeader {
        &self.header
    }

    fn system(&self) -> &System {
        &self.system
    }

    fn event_types(&self) -> &EventTypes {
        &self.types
    }

    fn final_status(&self) -> Option<FinalStatus> {
        self.status
    }

    fn ended(&self) -> Option<MonotonicNs> {
        self.ended
    }

    fn advance(&mut self) -> io::Result<bool> {
        let has_event = self.next < self.events.len();
        self.next += usize::from(has_event);
        Ok(has_event)
    }

    fn record(&self) -> Option<LogRecord<'_>> {
        let event = self.events.get(self.next.checked_sub(1)?)?;
        Some(LogRecord {
            event: Event {
                header: event.header,
                data: &event.data,
            },
            comm: &event.comm,
            realtime: Self::date(event.header.time.0),
            types: &self.types,
        })
    }

    fn losses_version(&self) -> u64 {
        // Each event may have others missing before it.
        self.progress().0
    }

    fn skip_to(&mut self, _: MonotonicNs) {
        // Skipping is allowed, not asked for.
    }

    fn damage(&self) -> Damage {
        self.damage
    }

    fn lost(&self, cause: LossCause) -> u64 {
        if cause == LossCause::Late {
            self.late
        } else {
            0
        }
    }

    fn losses_counted_by(&self) -> Option<MonotonicNs> {
        None
    }

    fn lost_for_other_causes(&self) -> u64 {
        self.lost_for_other_causes
    }

    fn lost_in_log(&self) -> u64 {
        self.lost_in_log
    }

    fn progress(&self) -> (u64, u64) {
        let bytes = |count| u64::try_from(count).unwrap_or(u64::MAX);
        (bytes(self.next), bytes(self.events.len()))
    }
}
