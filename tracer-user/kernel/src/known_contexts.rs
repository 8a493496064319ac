//! Contexts of threads as of the watermark, to be said again where consumers forget them though
//! none was lost: the stream marks that the kernel has not reported a switch as it marks a loss.

use std::collections::HashMap;

use tracer_binary::thread_context::ThreadContext;
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::Batch;

/// Threads whose contexts are said again. Those of others are not known until they are recorded
/// anew.
const MOST: usize = 4096;

/// Process and thread.
type Of = (i32, i32);

/// Event that says from when on a thread has a context, or none.
#[derive(Clone, Debug)]
struct Said {
    header: EventHeader,
    data: Box<[u8]>,
}

/// Contexts of threads as of the watermark.
#[derive(Debug, Default)]
pub struct KnownContexts {
    of: HashMap<Of, Said>,
    /// Changes that are newer than the watermark: as many as the events that wait for it. The rings
    /// of different CPUs bring those of one thread in any order.
    newer: Vec<Said>,
}

impl KnownContexts {
    /// Notes an event, if a thread has another context from then on.
    pub fn note(&mut self, header: &EventHeader, data: &[u8]) {
        let data = match header.event_type {
            EventTypeId::THREAD_CONTEXT => data,
            EventTypeId::EXIT | EventTypeId::THREAD_EXIT => &[],
            _ => return,
        };
        self.newer.push(Said {
            header: *header,
            data: data.into(),
        });
    }

    /// Takes in what was said up to the watermark.
    pub fn settle(&mut self, watermark: MonotonicNs) {
        if self.newer.is_empty() {
            return;
        }
        self.newer.sort_by_key(|said| said.header.time);
        let later = self
            .newer
            .partition_point(|said| said.header.time <= watermark);
        for said in self.newer.drain(..later) {
            let of = (said.header.pid, said.header.tid);
            if ThreadContext::of_event(&said.data).is_none() {
                self.of.remove(&of);
            } else if self.of.len() < MOST || self.of.contains_key(&of) {
                self.of.insert(of, said);
            }
        }
    }

    /// Forgets what was said up to this moment: all is recorded anew from now on.
    pub fn forget(&mut self, since: MonotonicNs) {
        self.of.clear();
        self.newer.retain(|said| said.header.time > since);
    }

    /// Says again, right after the watermark, what every thread has at it that has one.
    pub fn say_again(&self, watermark: MonotonicNs, batch: &mut Batch<'_>) {
        for said in self.of.values() {
            let header = EventHeader {
                time: MonotonicNs(watermark.0.saturating_add(1)),
                ..said.header
            };
            batch.push(header, &said.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_engine::EventTypes;
    use tracer_engine::event::Truncation;

    use super::*;

    fn header(event_type: EventTypeId, tid: i32, time: u64) -> EventHeader {
        EventHeader {
            time: MonotonicNs(time),
            event_type,
            pid: 1,
            tid,
            cpu: Some(0),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    fn note(known: &mut KnownContexts, tid: i32, time: u64, byte: u8) {
        let said = header(EventTypeId::THREAD_CONTEXT, tid, time);
        known.note(&said, &[byte; 24]);
    }

    /// Returns the threads whose contexts are said again, each with a byte of it.
    fn said_again(known: &KnownContexts, at: u64) -> Vec<(i32, u8)> {
        let (mut types, mut events) = (EventTypes::default(), Vec::new());
        let (mut data, mut losses) = (Vec::new(), Vec::new());
        let mut batch = Batch::new(&mut types, &mut events, &mut data, &mut losses);
        known.say_again(MonotonicNs(at), &mut batch);
        let mut said: Vec<_> = batch
            .since(0)
            .inspect(|(header, _)| assert_eq!(header.time, MonotonicNs(at + 1)))
            .map(|(header, data)| (header.tid, data[0]))
            .collect();
        said.sort_unstable();
        said
    }

    #[test]
    fn what_each_thread_has_at_the_watermark_is_said_again_whatever_came_after_it() {
        let mut known = KnownContexts::default();
        // The rings of two CPUs, one after the other.
        note(&mut known, 7, 30, 3);
        note(&mut known, 8, 10, 1);
        note(&mut known, 7, 20, 2);
        note(&mut known, 7, 60, 9);
        note(&mut known, 9, 15, 4);
        known.settle(MonotonicNs(40));
        assert_eq!(said_again(&known, 40), [(7, 3), (8, 1), (9, 4)]);
        // One has none any more, one ends, and of one it is not known yet.
        note(&mut known, 8, 50, 0);
        known.note(&header(EventTypeId::THREAD_EXIT, 9, 55), &[1; 4]);
        known.note(&header(EventTypeId::SWITCH_OUT, 7, 55), &[1; 4]);
        known.settle(MonotonicNs(70));
        assert_eq!(said_again(&known, 70), [(7, 9)]);
        // After a loss only what was said since then is known.
        note(&mut known, 8, 80, 5);
        note(&mut known, 9, 90, 6);
        known.forget(MonotonicNs(85));
        known.settle(MonotonicNs(100));
        assert_eq!(said_again(&known, 100), [(9, 6)]);
    }

    #[test]
    fn so_many_are_remembered_and_no_more() {
        let mut known = KnownContexts::default();
        let most = i32::try_from(MOST).unwrap();
        for tid in 0..=most {
            note(&mut known, tid, 10, 1);
        }
        note(&mut known, 0, 10, 2);
        known.settle(MonotonicNs(10));
        let said = said_again(&known, 10);
        assert_eq!((said.len(), said[0]), (MOST, (0, 2)));
        known.forget(MonotonicNs(10));
        assert_eq!(said_again(&known, 10), []);
    }
}
