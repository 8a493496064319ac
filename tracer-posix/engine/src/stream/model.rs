//! The stream, checked against a model that is too simple to be wrong: a plain list and a sum of
//! bytes.

use proptest::prelude::*;
use tracer_common::event_type::EventTypeId;

use super::core::{Origin, StreamCore};
use crate::StreamFullPolicy;
use crate::event::{EventHeader, MonotonicNs, Truncation};
use crate::sizes::event_size;
use crate::source::LossCause;

#[derive(Clone, Debug)]
enum Op {
    Record { length: usize },
    Read,
    Start,
    Stop,
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => (0_usize..120).prop_map(|length| Op::Record { length }),
        8 => Just(Op::Read),
        2 => Just(Op::Start),
        1 => Just(Op::Stop),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 0..250)
}

const CAPACITY: usize = 1024;
const USER: EventTypeId = EventTypeId(300);

fn user_event(time: MonotonicNs) -> EventHeader {
    EventHeader {
        time,
        event_type: USER,
        pid: 1,
        tid: 1,
        cpu: None,
        thread_id: 1,
        program_address: 0,
        truncation: Truncation::None,
    }
}

/// An event as the model holds it: when, what, and whether it takes space.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    time: u64,
    event_type: EventTypeId,
    size: usize,
}

/// The standard's words, as literally as they can be put.
struct Model {
    policy: StreamFullPolicy,
    held: Vec<Held>,
    is_running: bool,
    is_full: bool,
    restarts: bool,
    lost: u64,
    overrun: bool,
}

impl Model {
    fn used(&self) -> usize {
        self.held.iter().map(|event| event.size).sum()
    }

    fn put(&mut self, event: Held) {
        match self.policy {
            StreamFullPolicy::Loop => {
                self.held.push(event);
                while self.used() > CAPACITY {
                    self.held.remove(0);
                    self.lost += 1;
                    self.overrun = true;
                    self.is_full = true;
                }
            }
            StreamFullPolicy::UntilFull
                if event.size == 0 || self.used() + event.size <= CAPACITY =>
            {
                self.held.push(event);
            }
            StreamFullPolicy::UntilFull | StreamFullPolicy::Flush => {
                self.lost += 1;
                self.overrun = true;
                self.is_running = false;
                self.is_full = true;
                self.restarts = true;
                self.held.push(Held {
                    event_type: EventTypeId::STOP,
                    size: 0,
                    ..event
                });
            }
        }
    }

    fn record(&mut self, time: u64, length: usize) {
        if self.is_running {
            self.put(Held {
                time,
                event_type: USER,
                size: event_size(length),
            });
        } else if self.restarts {
            self.lost += 1;
            self.overrun = true;
        }
    }

    fn start(&mut self, time: u64, filter_bytes: usize) {
        let stays_suspended = self.is_full && self.policy != StreamFullPolicy::Loop;
        if self.is_running || stays_suspended {
            return;
        }
        self.is_running = true;
        self.restarts = false;
        if !self.is_full {
            let size = event_size(filter_bytes);
            self.put(Held {
                time,
                event_type: EventTypeId::START,
                size,
            });
        }
    }

    fn stop(&mut self, time: u64) {
        if self.is_running && !self.is_full {
            let size = event_size(4);
            let is_looping = self.policy == StreamFullPolicy::Loop;
            let has_space = is_looping || self.used() + size <= CAPACITY;
            self.put(Held {
                time,
                event_type: EventTypeId::STOP,
                size: if has_space { size } else { 0 },
            });
        }
        self.is_running = false;
        self.restarts = false;
    }

    fn clear(&mut self) {
        self.held.clear();
        self.is_full = false;
        self.overrun = false;
        self.restarts = false;
    }

    fn read(&mut self, now: u64, filter_bytes: usize) -> Option<Held> {
        if self.held.is_empty() {
            return None;
        }
        let event = self.held.remove(0);
        self.is_full = false;
        if self.restarts && self.held.is_empty() {
            self.restarts = false;
            self.is_running = true;
            let size = event_size(filter_bytes);
            self.put(Held {
                time: now,
                event_type: EventTypeId::START,
                size,
            });
        }
        Some(event)
    }
}

/// Returns the event that the stream gives next, without the marks of an overflow, as the model has
/// none.
fn read(core: &mut StreamCore, now: MonotonicNs) -> Option<(u64, EventTypeId)> {
    let mut data = Vec::new();
    loop {
        let header = core.next(&mut data, || now)?;
        if ![EventTypeId::OVERFLOW, EventTypeId::RESUME].contains(&header.event_type) {
            return Some((header.time.0, header.event_type));
        }
    }
}

fn agrees(policy: StreamFullPolicy, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut core = StreamCore::new(policy, CAPACITY);
    let mut model = Model {
        policy,
        held: Vec::new(),
        is_running: false,
        is_full: false,
        restarts: false,
        lost: 0,
        overrun: false,
    };
    let filter_bytes = core.filter().to_bytes().len();
    for (time, op) in (1_u64..).zip(ops) {
        let now = MonotonicNs(time);
        match op {
            Op::Record { length } => {
                core.feed(user_event(now), &vec![0; length]);
                model.record(time, length);
            }
            Op::Read => {
                let expected = model.read(time, filter_bytes);
                let expected = expected.map(|event| (event.time, event.event_type));
                prop_assert_eq!(read(&mut core, now), expected);
            }
            Op::Start => {
                core.start(now, Origin::NONE);
                model.start(time, filter_bytes);
            }
            Op::Stop => {
                core.stop(now, Origin::NONE);
                model.stop(time);
            }
            Op::Clear => {
                core.clear(now);
                model.clear();
            }
        }
        prop_assert!(core.ledger().balances(core.held() as u64));
        prop_assert_eq!(core.held(), model.held.len());
    }
    let status = core.status();
    prop_assert_eq!(status.is_running, model.is_running);
    prop_assert_eq!(status.is_full, model.is_full);
    prop_assert_eq!(status.is_overrun, model.overrun);
    prop_assert!(!core.status().is_overrun, "reported once");
    let lost = core.ledger().lost(LossCause::StreamOverwritten)
        + core.ledger().lost(LossCause::StreamFull);
    prop_assert_eq!(lost, model.lost);
    Ok(())
}

proptest! {
    #[test]
    fn a_looping_stream_does_what_a_list_would_do(ops in ops()) {
        agrees(StreamFullPolicy::Loop, ops)?;
    }

    #[test]
    fn a_stream_until_full_does_what_a_list_would_do(ops in ops()) {
        agrees(StreamFullPolicy::UntilFull, ops)?;
    }
}
