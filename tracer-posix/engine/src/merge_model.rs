//! The merge, checked against a sorted list, with any events of sources in any portions.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use proptest::prelude::*;
use tracer_common::event_type::EventTypeId;

use super::{ActiveStream, StreamFullPolicy};
use crate::event::{EventHeader, MonotonicNs, Truncation};
use crate::source::{Batch, Control, Loss, LossCause, Source, Unread};

/// An event: its time and its index. Its data is the index, `length` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    time: u64,
    index: u8,
    length: usize,
}

/// Events that a source is to bring, and how many of them in the next round.
#[derive(Clone, Default)]
struct Portions(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    events: Vec<Made>,
    portion: usize,
    lost: u64,
    lost_since: u64,
    is_last: bool,
}

const USER: EventTypeId = EventTypeId(300);

impl Source for Portions {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let mut queue = self.0.lock().unwrap();
        let count = queue.portion.min(queue.events.len());
        // In any order: it is for the merge to sort them.
        for made in queue.events.drain(..count).rev() {
            let header = EventHeader {
                time: MonotonicNs(made.time),
                event_type: USER,
                pid: 1,
                tid: i32::from(made.index),
                cpu: None,
                thread_id: 1,
                program_address: 0,
                truncation: Truncation::None,
            };
            batch.push(header, &vec![made.index; made.length]);
        }
        batch.lose(Loss {
            cause: LossCause::KernelRingFull,
            count: std::mem::take(&mut queue.lost),
            since: MonotonicNs(queue.lost_since),
            is_marked: false,
        });
        queue.portion = 0;
        match queue.events.first() {
            Some(next) => MonotonicNs(next.time),
            None if queue.is_last => MonotonicNs(u64::MAX),
            None => MonotonicNs(u64::MAX - 1),
        }
    }

    fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
        Unread::Nothing
    }

    fn control(&mut self, _: &Control) {}
}

/// Returns the events that the stream gives out now, with the data's first byte as the index.
fn given(stream: &mut ActiveStream) -> Vec<Made> {
    let mut all = Vec::new();
    while let Some(event) = stream.next_event() {
        if event.header.event_type == USER {
            let index = u8::try_from(event.header.tid).unwrap();
            assert!(
                event.data.iter().all(|byte| *byte == index),
                "another's data"
            );
            all.push(Made {
                time: event.header.time.0,
                index,
                length: event.data.len(),
            });
        }
    }
    all
}

#[test]
fn a_loss_is_marked_before_the_event_that_came_after_it() {
    let made = |index: u8| Made {
        time: 10 * u64::from(index),
        index,
        length: 0,
    };
    let source = Portions::default();
    source.0.lock().unwrap().events = [1, 2, 3].map(made).to_vec();
    let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 1 << 20, || MonotonicNs(0));
    stream.add_source(Box::new(source.clone()));
    stream.start(super::Origin::NONE);
    {
        let mut queue = source.0.lock().unwrap();
        (queue.lost, queue.lost_since) = (7, 15);
        (queue.portion, queue.is_last) = (3, true);
    }
    stream.sync();

    let mut seen = Vec::new();
    while let Some(event) = stream.next_event() {
        seen.push((event.header.event_type, event.header.time.0));
    }
    let expected = [
        (EventTypeId::START, 10),
        (USER, 10),
        (EventTypeId::OVERFLOW, 15),
        (EventTypeId::RESUME, 20),
        (USER, 20),
        (USER, 30),
    ];
    assert_eq!(seen, expected);
    assert_eq!(stream.ledger().lost(LossCause::KernelRingFull), 7);
}

#[test]
fn a_loss_stays_after_an_event_that_is_not_certain_yet() {
    let made = |index: u8| Made {
        time: 10 * u64::from(index),
        index,
        length: 0,
    };
    let (source, slower) = (Portions::default(), Portions::default());
    source.0.lock().unwrap().events = [1, 3].map(made).to_vec();
    slower.0.lock().unwrap().events = [2].map(made).to_vec();
    let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 1 << 20, || MonotonicNs(0));
    stream.add_source(Box::new(source.clone()));
    stream.add_source(Box::new(slower.clone()));
    stream.start(super::Origin::NONE);
    {
        // What was lost after the event at 30 is known before that is certain.
        let mut queue = source.0.lock().unwrap();
        (queue.lost, queue.lost_since) = (7, 30);
        (queue.portion, queue.is_last) = (2, true);
    }
    stream.sync();
    {
        let mut queue = slower.0.lock().unwrap();
        queue.events.push(made(4));
        (queue.portion, queue.is_last) = (2, true);
    }
    stream.sync();

    let mut seen = Vec::new();
    while let Some(event) = stream.next_event() {
        seen.push((event.header.event_type, event.header.time.0));
    }
    let expected = [
        (EventTypeId::START, 10),
        (USER, 10),
        (USER, 20),
        (USER, 30),
        (EventTypeId::OVERFLOW, 30),
        (EventTypeId::RESUME, 40),
        (USER, 40),
    ];
    assert_eq!(seen, expected);
}

proptest! {
    /// Events come out once, whole, in order of time, and none before all sources have vouched that
    /// no older one comes; what is reported lost is counted once.
    #[test]
    fn what_sources_bring_in_portions_comes_out_as_one_sorted_list(
        made in prop::collection::vec((0_usize..3, 1_u64..4, 0_usize..40), 0..60),
        rounds in prop::collection::vec((0_usize..3, 0_usize..8, 0_u64..3), 0..60),
    ) {
        let sources = [Portions::default(), Portions::default(), Portions::default()];
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 1 << 20, || MonotonicNs(0));
        for source in &sources {
            stream.add_source(Box::new(source.clone()));
        }
        let queue = |source: usize| sources[source].0.lock().unwrap();
        let mut expected = Vec::new();
        let mut time = 10;
        for (index, (source, pause, length)) in (0_u8..).zip(made) {
            time += pause;
            let made = Made { time, index, length };
            queue(source).events.push(made);
            expected.push(made);
        }
        stream.start(super::Origin::NONE);
        let (mut seen, mut lost) = (Vec::new(), 0);
        for (source, portion, losses) in rounds {
            queue(source).portion = portion;
            queue(source).lost = losses;
            lost += losses;
            stream.sync();
            seen.extend(given(&mut stream));
            let first_to_come = (0..3).filter_map(|source| Some(queue(source).events.first()?.time)).min();
            let certain = expected.iter().filter(|made| first_to_come.is_none_or(|first| made.time < first));
            prop_assert_eq!(&seen, &certain.copied().collect::<Vec<_>>());
        }
        for source in 0..3 {
            queue(source).portion = usize::MAX;
            queue(source).is_last = true;
        }
        stream.sync();
        seen.extend(given(&mut stream));
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(stream.ledger().lost_in_all(), lost);
    }
}
