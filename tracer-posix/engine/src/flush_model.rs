//! A stream that is flushed, checked against a model that is too simple to be wrong: a list.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use proptest::prelude::*;
use tracer_common::event_type::EventTypeId;

use super::{
    ActiveStream, EventSet, EventTypes, Filtering, Flush, Origin, StreamCore, StreamFullPolicy,
};
use crate::event::{EventHeader, MonotonicNs, Truncation};
use crate::source::{Batch, Control, Source, Unread};

#[derive(Clone, Debug)]
enum Op {
    /// This many events, of so many bytes each, come before the stream collects.
    Emit {
        count: u8,
        length: usize,
    },
    Sync,
    Flush,
    Show,
    Start,
    Stop,
    Filter {
        is_on: bool,
    },
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        10 => (1_u8..40, 0_usize..120).prop_map(|(count, length)| Op::Emit { count, length }),
        5 => Just(Op::Sync),
        3 => Just(Op::Flush),
        5 => Just(Op::Show),
        3 => Just(Op::Start),
        1 => Just(Op::Stop),
        2 => any::<bool>().prop_map(|is_on| Op::Filter { is_on }),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 0..120)
}

const USER: EventTypeId = EventTypeId(300);
const CAPACITY: usize = 4096;

/// Events that are emitted: the time is the event's index. Shared with the source.
#[derive(Clone, Default)]
struct Emitted(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    events: Vec<(u64, usize)>,
    clock: u64,
}

impl Emitted {
    fn emit(&self, length: usize) -> u64 {
        let mut emitted = self.0.lock().unwrap();
        emitted.clock += 1;
        let time = emitted.clock;
        emitted.events.push((time, length));
        time
    }
}

impl Source for Emitted {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let mut emitted = self.0.lock().unwrap();
        for (time, length) in emitted.events.drain(..) {
            let header = EventHeader {
                time: MonotonicNs(time),
                event_type: USER,
                pid: 1,
                tid: 1,
                cpu: None,
                thread_id: 1,
                program_address: 0,
                truncation: Truncation::None,
            };
            batch.push(header, &vec![0xa5; length]);
        }
        // What is emitted next has a later time than this, as with a real clock.
        emitted.clock += 1;
        MonotonicNs(emitted.clock)
    }

    fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
        Unread::Nothing
    }

    fn control(&mut self, _: &Control) {}
}

/// A log that writes everything down.
#[derive(Default)]
struct Log(Vec<(EventTypeId, u64, usize)>);

impl Flush for Log {
    fn flush(&mut self, core: &mut StreamCore, _: &EventTypes, caller: Origin) {
        core.begin_flush(caller);
        let mut data = Vec::new();
        while let Some(header) = core.next(&mut data, || MonotonicNs(0)) {
            self.0.push((header.event_type, header.time.0, data.len()));
        }
        core.end_flush(caller);
    }
}

fn user_events(log: &[(EventTypeId, u64, usize)]) -> Vec<(u64, usize)> {
    let user = log.iter().filter(|(event_type, ..)| *event_type == USER);
    user.map(|(_, time, length)| (*time, *length)).collect()
}

proptest! {
    /// Whatever is emitted, however much at once: what was recorded while the stream ran is in the
    /// log, once, in order and whole, unless it was cleared before it was flushed; and nothing is
    /// lost.
    #[test]
    fn a_flushed_stream_loses_nothing(ops in ops()) {
        let emitted = Emitted::default();
        let mut stream = ActiveStream::with_log(
            StreamFullPolicy::Flush,
            CAPACITY,
            || MonotonicNs(0),
            Log::default(),
        );
        stream.add_source(Box::new(emitted.clone()));
        // Recorded and expected in the log, in order. Those not synced yet are not known to the
        // stream.
        let mut expected: Vec<(u64, usize)> = Vec::new();
        let mut shown = Vec::new();
        let (mut is_running, mut is_filtered) = (false, false);
        for op in ops {
            match op {
                Op::Emit { count, length } => {
                    for _ in 0..count {
                        let time = emitted.emit(length);
                        if is_running && !is_filtered {
                            expected.push((time, length));
                        }
                    }
                }
                Op::Sync => {
                    stream.sync();
                }
                Op::Flush => {
                    stream.sync();
                    stream.flush(Origin::NONE);
                }
                Op::Show => {
                    stream.sync();
                    if let Some(event) = stream.show_next()
                        && event.header.event_type == USER
                    {
                        prop_assert!(event.data.iter().all(|byte| *byte == 0xa5));
                        shown.push((event.header.time.0, event.data.len()));
                    }
                }
                Op::Start => {
                    stream.start(Origin::NONE);
                    is_running = true;
                }
                Op::Stop => {
                    stream.stop(Origin::NONE);
                    is_running = false;
                }
                Op::Filter { is_on } => {
                    let mut set = EventSet::EMPTY;
                    set.insert(USER);
                    let how = if is_on { Filtering::Add } else { Filtering::Sub };
                    stream.set_filter(&set, how, Origin::NONE);
                    is_filtered = is_on;
                }
                Op::Clear => {
                    stream.clear();
                    is_filtered = false;
                    let (log, ..) = stream.log();
                    expected = user_events(&log.0);
                }
            }
        }
        stream.stop(Origin::NONE);
        stream.flush(Origin::NONE);
        prop_assert_eq!(stream.ledger().lost_in_all(), 0);
        let (log, ..) = stream.into_log();
        prop_assert!(log.0.is_sorted_by_key(|(_, time, _)| *time));
        prop_assert_eq!(user_events(&log.0), expected);
        prop_assert!(shown.is_sorted_by(|one, next| one.0 < next.0), "each at most once, in order");
        let flushes = |id| log.0.iter().filter(|(event_type, ..)| *event_type == id).count();
        prop_assert!(flushes(EventTypeId::OVERFLOW) == 0);
        prop_assert!(flushes(EventTypeId::FLUSH_STOP) <= flushes(EventTypeId::FLUSH_START));
    }
}
