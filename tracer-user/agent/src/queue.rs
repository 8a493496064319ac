//! Events that wait for one controller: bounded, and every loss counted.

use std::collections::VecDeque;

use tracer_engine::event::{Event, EventHeader, MonotonicNs};
use tracer_engine::sizes;
use tracer_engine::source::{Loss, LossCause};
use tracer_posix::agent::protocol::{Answer, MOST_REPLY_BYTES, sent_cause};
use tracer_posix::wire::SentEvent;

use super::share::PoolPart;

type Waiting = (EventHeader, Box<[u8]>);

/// Events that wait for one controller.
#[derive(Debug)]
pub struct Queue {
    /// Memory that its events take.
    memory: PoolPart,
    /// Bytes, counted as in a stream.
    capacity: u64,
    keeps_oldest: bool,
    events: VecDeque<Waiting>,
    /// Bytes of the capacity that are used.
    used: u64,
    /// Losses, one for each cause.
    lost: Vec<Loss>,
}

impl Queue {
    /// Makes an empty one, with its part of its user's memory.
    pub fn new(memory: PoolPart, capacity: u64, keeps_oldest: bool) -> Self {
        Self {
            memory,
            capacity,
            keeps_oldest,
            events: VecDeque::new(),
            used: 0,
            lost: Vec::new(),
        }
    }

    /// Adds an event, for which older ones may have to go: where the queue has no more space, or
    /// the user no more memory.
    pub fn push(&mut self, header: &EventHeader, data: &[u8]) {
        let size = size_of_event(data);
        while self.used + size > self.capacity || !self.memory.grow(bytes_held(data)) {
            let since = match self.oldest_to_give_way() {
                Some(oldest) => oldest.time,
                None => {
                    self.lose_one(header.time);
                    return;
                }
            };
            self.lose_one(since);
        }
        self.used += size;
        self.events.push_back((*header, data.into()));
    }

    fn oldest_to_give_way(&mut self) -> Option<EventHeader> {
        if self.keeps_oldest {
            return None;
        }
        let (header, data) = self.pop()?;
        self.memory.shrink(bytes_held(&data));
        Some(header)
    }

    /// Takes the first event out, but not its memory.
    fn pop(&mut self) -> Option<Waiting> {
        let (header, data) = self.events.pop_front()?;
        self.used -= size_of_event(&data);
        Some((header, data))
    }

    /// Counts one event as lost for want of space, at this time.
    pub fn lose_one(&mut self, since: MonotonicNs) {
        self.lose_one_by(LossCause::KernelRingFull, since);
    }

    /// Counts one event as lost for this cause, at this time.
    pub fn lose_one_by(&mut self, cause: LossCause, since: MonotonicNs) {
        self.lose(Loss {
            cause,
            count: 1,
            since,
            is_marked: false,
        });
    }

    /// Counts a loss. Losses of one cause are reported as one.
    pub fn lose(&mut self, loss: Loss) {
        let known = self.lost.iter_mut().find(|known| known.cause == loss.cause);
        match known {
            Some(known) => {
                known.count = known.count.saturating_add(loss.count);
                known.since = known.since.min(loss.since);
            }
            None => self.lost.push(loss),
        }
    }

    /// Returns the events that wait, or the first part of them, and the memory that they take.
    pub fn collect(&mut self, watermark: MonotonicNs) -> (Answer, PoolPart) {
        let (mut bytes, mut memory) = (0, 0);
        let mut events = Vec::new();
        while bytes < MOST_REPLY_BYTES
            && let Some((header, data)) = self.pop()
        {
            memory += bytes_held(&data);
            bytes += data.len() + size_of::<EventHeader>();
            events.push(SentEvent::new(&Event {
                header,
                data: &data,
            }));
        }
        if self.events.len() < self.events.capacity() / 4 {
            self.events.shrink_to_fit();
        }
        let lost = self.lost.drain(..);
        let lost = lost.map(|loss| (sent_cause(loss.cause), loss.count, loss.since.0));
        let answer = Answer::Events {
            events,
            lost: lost.collect(),
            watermark: watermark.0,
            has_more: !self.events.is_empty(),
        };
        (answer, self.memory.split_off(memory))
    }
}

/// Returns the bytes that an event takes, as in a stream.
fn size_of_event(data: &[u8]) -> u64 {
    sizes::event_size(data.len()) as u64
}

/// Returns the bytes of memory that an event takes at most: its slot in a queue that may be half
/// empty, and its data with what the allocator needs for it. As bytes of an answer it takes less.
pub fn bytes_held(data: &[u8]) -> u64 {
    const ALLOCATION: usize = 32;
    (2 * size_of::<Waiting>() + data.len() + ALLOCATION) as u64
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::Truncation;
    use tracer_posix::wire::framed;

    use super::*;
    use crate::share::{Most, Pool};

    #[test]
    fn what_an_answer_takes_is_its_users_until_it_is_sent() {
        const MOST: u64 = 4 << 20;
        let pool = Pool::new(Most {
            a_user: MOST,
            all_but_root: MOST,
            all: MOST,
        });
        let header = EventHeader {
            time: MonotonicNs(1),
            event_type: EventTypeId::SIGNAL_GENERATE,
            pid: 7,
            tid: 7,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let mut queue = Queue::new(pool.part_of(1), u64::MAX, false);
        let fill = |queue: &mut Queue| {
            (0..100_000).for_each(|_| queue.push(&header, &[0; 100]));
            queue.events.len() as u64
        };
        let all = fill(&mut queue);
        assert_eq!(all, MOST / bytes_held(&[0; 100]));
        let (answer, mut memory) = queue.collect(MonotonicNs(2));
        let Answer::Events { events, lost, .. } = answer else {
            panic!("no events");
        };
        let answered = events.len() as u64;
        assert_eq!(
            lost,
            [(sent_cause(LossCause::KernelRingFull), 100_000 - all, 1)]
        );
        // A client that does not listen has so much less.
        assert_eq!(fill(&mut queue), all - answered);
        // The bytes that are sent are fewer.
        let bytes = framed(&events).unwrap().len() as u64;
        assert!(bytes < answered * bytes_held(&[0; 100]));
        memory.shrink_to(bytes);
        let more = fill(&mut queue);
        assert!(more > all - answered && more < all, "{more}");
        drop(memory);
        assert_eq!(fill(&mut queue), all);
        drop(queue);
        assert!(pool.take(1, MOST).is_some());
    }
}
