//! Events that wait for one controller: bounded, and every loss counted.

use std::collections::VecDeque;

use tracer_engine::event::{Event, EventHeader, MonotonicNs};
use tracer_engine::sizes;
use tracer_engine::source::{Loss, LossCause};
use tracer_posix::agent::protocol::{Answer, MOST_REPLY_BYTES, sent_cause};
use tracer_posix::wire::SentEvent;

use super::share::Shares;

type Waiting = (EventHeader, Box<[u8]>);

/// Events that wait for one controller.
#[derive(Debug)]
pub struct Queue {
    user: u32,
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
    /// Makes an empty one for a controller of this user.
    pub fn new(user: u32, capacity: u64, keeps_oldest: bool) -> Self {
        Self {
            user,
            capacity,
            keeps_oldest,
            events: VecDeque::new(),
            used: 0,
            lost: Vec::new(),
        }
    }

    /// Adds an event, for which older ones may have to go: where the queue has no more space, or
    /// the user no more `memory`.
    pub fn push(&mut self, header: &EventHeader, data: &[u8], memory: &mut Shares) {
        let size = size_of_event(data);
        while self.used + size > self.capacity || !memory.take(self.user, bytes_held(data)) {
            let since = match self.oldest_to_give_way(memory) {
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

    fn oldest_to_give_way(&mut self, memory: &mut Shares) -> Option<EventHeader> {
        if self.keeps_oldest {
            return None;
        }
        self.pop(memory).map(|(header, _)| header)
    }

    fn pop(&mut self, memory: &mut Shares) -> Option<Waiting> {
        let (header, data) = self.events.pop_front()?;
        self.used -= size_of_event(&data);
        memory.give_back(self.user, bytes_held(&data));
        Some((header, data))
    }

    /// Counts one event as lost for want of space, at this time.
    pub fn lose_one(&mut self, since: MonotonicNs) {
        self.lose_one_by(LossCause::KernelRingFull, since);
    }

    /// Counts one event as withheld, at this time: it is not known whether the controller may see
    /// it.
    pub fn withhold_one(&mut self, since: MonotonicNs) {
        self.lose_one_by(LossCause::Withheld, since);
    }

    fn lose_one_by(&mut self, cause: LossCause, since: MonotonicNs) {
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

    /// Returns the events that wait, or the first part of them.
    pub fn collect(&mut self, watermark: MonotonicNs, memory: &mut Shares) -> Answer {
        let mut bytes = 0;
        let mut events = Vec::new();
        while bytes < MOST_REPLY_BYTES
            && let Some((header, data)) = self.pop(memory)
        {
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
        Answer::Events {
            events,
            lost: lost.collect(),
            watermark: watermark.0,
            has_more: !self.events.is_empty(),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self, memory: &mut Shares) {
        while self.pop(memory).is_some() {}
    }
}

/// Returns the bytes that an event takes, as in a stream.
fn size_of_event(data: &[u8]) -> u64 {
    sizes::event_size(data.len()) as u64
}

/// Returns the bytes of memory that an event takes at most: its slot in a queue that may be half
/// empty, and its data with what the allocator needs for it.
fn bytes_held(data: &[u8]) -> u64 {
    const ALLOCATION: usize = 32;
    (2 * size_of::<Waiting>() + data.len() + ALLOCATION) as u64
}
