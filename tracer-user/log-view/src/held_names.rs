//! Events that name functions, and for which a full stream has no space.
//!
//! A stack that comes later, once the stream takes events again, would have the names of what was
//! mapped before.

use std::collections::BTreeMap;

use tracer_binary::stacks::{Mapping, names_stacks, push_mapping};
use tracer_common::event_type::EventTypeId;
use tracer_engine::StreamCore;
use tracer_engine::event::EventHeader;
use tracer_engine::source::LossCause;

/// Events that are held. Beyond that, it is only known of which processes something is missing.
const MOST: usize = 16_384;

/// Event, with its record as a stream has it.
pub type HeldRecord = (EventHeader, Vec<u8>);

/// Events that a stream had no space for.
#[derive(Debug, Default)]
pub struct HeldNames(Vec<HeldRecord>);

impl HeldNames {
    /// Gives an event to a stream; holds it where the stream does not take it, if it names
    /// functions. The first `prefix` bytes of its record are none of its data.
    pub fn feed(
        &mut self,
        stream: &mut StreamCore,
        header: &EventHeader,
        (record, prefix): (&[u8], usize),
    ) {
        if !names_stacks(header.event_type) {
            stream.feed(*header, record);
            return;
        }
        let refused = |stream: &StreamCore| {
            let lost = stream.ledger();
            lost.lost(LossCause::StreamFull) + lost.lost(LossCause::Late)
        };
        let before = refused(stream);
        if stream.is_running() {
            stream.feed(*header, record);
            if refused(stream) == before {
                return;
            }
        }
        if self.0.len() >= MOST {
            self.sum_up(prefix);
        }
        self.0.push((*header, record.to_vec()));
    }

    /// Holds for each process only that nothing is known of what it has mapped.
    fn sum_up(&mut self, prefix: usize) {
        let mut nothing = vec![0; prefix];
        push_mapping(&mut nothing, &Mapping::nothing());
        let mut last = BTreeMap::new();
        for (header, _) in self.0.drain(..) {
            let event_type = EventTypeId::MAPPING;
            last.insert(
                header.pid,
                EventHeader {
                    event_type,
                    ..header
                },
            );
        }
        let last = last.into_values();
        self.0 = last.map(|header| (header, nothing.clone())).collect();
        self.0.sort_by_key(|(header, _)| header.time);
    }

    /// Takes those that come before another event, in order of time; all of them where there is
    /// none.
    pub fn take_before(&mut self, next: Option<&EventHeader>) -> impl Iterator<Item = HeldRecord> {
        let before = next.map_or(self.0.len(), |next| {
            self.0.partition_point(|(held, _)| held.time <= next.time)
        });
        self.0.drain(..before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracer_engine::event::{MonotonicNs, Truncation};
    use tracer_engine::{Origin, StreamFullPolicy};

    fn header(event_type: EventTypeId, pid: i32, time: u64) -> EventHeader {
        EventHeader {
            time: MonotonicNs(time),
            event_type,
            pid,
            tid: pid,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    #[test]
    fn what_names_functions_is_held_while_a_stream_is_full_and_comes_in_order() {
        let mut stream = StreamCore::new(StreamFullPolicy::UntilFull, 2000);
        stream.start(MonotonicNs(0), Origin::NONE);
        let mut held = HeldNames::default();
        let mut feed = |stream: &mut StreamCore, event_type, time| {
            held.feed(stream, &header(event_type, 7, time), (&[0; 300], 0));
        };
        for time in 1..20 {
            feed(&mut stream, EventTypeId::STACK, 3 * time);
            feed(&mut stream, EventTypeId::MAPPING, 3 * time + 1);
        }
        assert!(!stream.is_running());
        let mut all = Vec::new();
        let mut record = Vec::new();
        let mut feed_late = true;
        loop {
            let next = stream.next(&mut record, || MonotonicNs(100));
            all.extend(held.take_before(next.as_ref()).map(|(held, _)| held));
            let Some(next) = next else { break };
            all.push(next);
            if next.time.0 == 100 && std::mem::take(&mut feed_late) {
                held.feed(
                    &mut stream,
                    &header(EventTypeId::MAPPING, 7, 101),
                    (&[0; 300], 0),
                );
            }
        }
        assert!(all.is_sorted_by_key(|header| header.time));
        let mappings = all.iter();
        let mappings = mappings.filter(|header| header.event_type == EventTypeId::MAPPING);
        let times: Vec<u64> = mappings.map(|header| header.time.0).collect();
        let expected = (1..20).map(|time| 3 * time + 1).chain([101]);
        assert_eq!(times, expected.collect::<Vec<_>>());
        assert!(stream.ledger().lost(LossCause::StreamFull) > 0);
    }

    #[test]
    fn of_too_many_it_is_known_of_which_processes_they_are() {
        let mut stream = StreamCore::new(StreamFullPolicy::UntilFull, 100);
        stream.start(MonotonicNs(0), Origin::NONE);
        let mut held = HeldNames::default();
        for time in 0..3 * MOST as u64 {
            let pid = i32::try_from(time % 5).unwrap();
            let header = header(EventTypeId::MAPPING, pid, time);
            held.feed(&mut stream, &header, (&[0; 200], 4));
            assert!(held.0.len() <= MOST);
        }
        let all: Vec<_> = held.take_before(None).collect();
        let nothing =
            |(_, record): &&HeldRecord| Mapping::parse(&record[4..]) == Some(Mapping::nothing());
        assert_eq!(all.iter().take_while(nothing).count(), 5);
        assert!(all.is_sorted_by_key(|(header, _)| header.time));
    }
}
