//! Events that wait for one controller: bounded, and every loss counted.

use std::collections::{BTreeMap, VecDeque};

use tracer_binary::stacks::{Mapping, push_mapping};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, EventHeader, MonotonicNs};
use tracer_engine::sizes;
use tracer_engine::source::{Loss, LossCause};
use tracer_posix::agent::protocol::{Answer, MOST_REPLY_BYTES, sent_cause};
use tracer_posix::wire::SentEvent;

use super::share::PoolPart;

/// Processes whose code is said to be in doubt in one answer.
const MOST_DOUBTS: usize = 4096;

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
    /// The last mapping of each process that has given way. What is known of the process's code is
    /// in doubt from its time on.
    code_gone: BTreeMap<i32, EventHeader>,
    /// Those that its user does not know of yet.
    new_gone: Vec<(i32, MonotonicNs)>,
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
            code_gone: BTreeMap::new(),
            new_gone: Vec::new(),
        }
    }

    /// Adds an event, for which older ones may have to go: where the queue has no more space, or
    /// the user no more memory. Returns whether it was added.
    pub fn push(&mut self, header: &EventHeader, data: &[u8]) -> bool {
        let size = size_of_event(data);
        while self.used + size > self.capacity || !self.memory.grow(bytes_held(data)) {
            let since = match self.oldest_to_give_way() {
                Some(oldest) => oldest.time,
                None => {
                    self.lose_one(header.time);
                    return false;
                }
            };
            self.lose_one(since);
        }
        self.used += size;
        self.events.push_back((*header, data.into()));
        true
    }

    /// Takes the processes, each with a time, of which mappings of that time have given way since
    /// the last call.
    pub fn take_code_gone(&mut self) -> Vec<(i32, MonotonicNs)> {
        std::mem::take(&mut self.new_gone)
    }

    fn oldest_to_give_way(&mut self) -> Option<EventHeader> {
        if self.keeps_oldest {
            return None;
        }
        let (header, data) = self.pop()?;
        self.memory.shrink(bytes_held(&data));
        if header.event_type == EventTypeId::MAPPING {
            self.code_gone.insert(header.pid, header);
            self.new_gone.push((header.pid, header.time));
        }
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
        let mut events = self.take_doubts();
        while self.code_gone.is_empty()
            && bytes < MOST_REPLY_BYTES
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
            has_more: !self.events.is_empty() || !self.code_gone.is_empty(),
        };
        (answer, self.memory.split_off(memory))
    }

    /// Returns events that say of which processes nothing is known of what they have mapped, as
    /// some of that has given way. They are older than those that wait.
    fn take_doubts(&mut self) -> Vec<SentEvent> {
        let mut data = Vec::new();
        push_mapping(&mut data, &Mapping::nothing());
        let gone = std::iter::from_fn(|| self.code_gone.pop_first());
        let doubts = gone.take(MOST_DOUBTS);
        let doubts = doubts.map(|(_, header)| {
            SentEvent::new(&Event {
                header,
                data: &data,
            })
        });
        doubts.collect()
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
    use tracer_engine::event::Truncation;
    use tracer_posix::wire::framed;

    use super::*;
    use crate::share::{Most, Pool};

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

    /// Collects what waits, each with its process, its time, and whether it says that nothing is
    /// known; and whether there is more.
    fn collect(queue: &mut Queue) -> (Vec<(i32, u64, bool)>, bool) {
        let (answer, _memory) = queue.collect(MonotonicNs(1000));
        let Answer::Events {
            events, has_more, ..
        } = answer
        else {
            panic!("no events");
        };
        let nothing = |data: &[u8]| Mapping::parse(data) == Some(Mapping::nothing());
        let events = events.iter().map(|sent| {
            let header = sent.header();
            (header.pid, header.time.0, nothing(&sent.data))
        });
        (events.collect(), has_more)
    }

    #[test]
    fn where_a_mapping_has_given_way_nothing_is_known_of_its_process() {
        let pool = Pool::new(Most {
            a_user: 1 << 30,
            all_but_root: 1 << 30,
            all: 1 << 30,
        });
        let queue_of = |bytes, keeps_oldest| Queue::new(pool.part_of(1), bytes, keeps_oldest);
        let data = [1; 100];
        let size = size_of_event(&data);
        let push = |queue: &mut Queue, event_type, pid, time| {
            queue.push(&header(event_type, pid, time), &data)
        };
        let mut queue = queue_of(3 * size, false);
        for (event_type, pid, time) in [
            (EventTypeId::MAPPING, 7, 10),
            (EventTypeId::STACK, 7, 10),
            (EventTypeId::MAPPING, 8, 11),
        ] {
            assert!(push(&mut queue, event_type, pid, time));
        }
        assert!(queue.take_code_gone().is_empty());
        assert!(push(&mut queue, EventTypeId::STACK, 7, 12));
        assert_eq!(queue.take_code_gone(), [(7, MonotonicNs(10))]);
        assert!(queue.take_code_gone().is_empty());
        let doubted = (
            vec![
                (7, 10, true),
                (7, 10, false),
                (8, 11, false),
                (7, 12, false),
            ],
            false,
        );
        assert_eq!(collect(&mut queue), doubted);
        assert!(collect(&mut queue).0.is_empty());

        // One for which there is no space is not there, and nothing gives way for it.
        let mut queue = queue_of(size, true);
        let mut push_at = |time| push(&mut queue, EventTypeId::MAPPING, 7, time);
        assert_eq!([push_at(1), push_at(2)], [true, false]);
        assert!(queue.take_code_gone().is_empty());

        // Each answer has so many doubts and no more, before all events.
        let mut queue = queue_of(5 * size, false);
        for pid in 1..=i32::try_from(MOST_DOUBTS).unwrap() + 10 {
            push(&mut queue, EventTypeId::MAPPING, pid, 1);
        }
        let (first, has_more) = collect(&mut queue);
        assert_eq!((first.len(), has_more), (MOST_DOUBTS, true));
        let (rest, has_more) = collect(&mut queue);
        assert_eq!((rest.len(), has_more), (10, false));
        assert_eq!(rest.iter().filter(|(.., is_doubt)| *is_doubt).count(), 5);
    }

    #[test]
    fn what_an_answer_takes_is_its_users_until_it_is_sent() {
        const MOST: u64 = 4 << 20;
        let pool = Pool::new(Most {
            a_user: MOST,
            all_but_root: MOST,
            all: MOST,
        });
        let header = header(EventTypeId::SIGNAL_GENERATE, 7, 1);
        let mut queue = Queue::new(pool.part_of(1), u64::MAX, false);
        let fill = |queue: &mut Queue| {
            (0..100_000).for_each(|_| _ = queue.push(&header, &[0; 100]));
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
