//! Place of the next packet, and the packets that it overwrites.
//!
//! With `APPEND` and `UNTIL_FULL` packets follow one another. With `LOOP` they go round in the
//! region: a packet that does not fit before the region's end goes to its start, and what it would
//! overlap is overwritten, oldest first.

use std::collections::VecDeque;

use super::layout::{ALIGNMENT, REGION_START};
use tracer_engine::LogFullPolicy;

/// A packet in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    length: u32,
    events: u32,
    sequence: u64,
}

/// The part of the file that packets go to.
#[derive(Clone, Debug)]
pub(super) struct Region {
    policy: LogFullPolicy,
    /// The offset just past the last byte that packets may take.
    limit: u64,
    /// Where the next packet goes, if it fits.
    head: u64,
    /// The offset just past the last byte that any packet ever took.
    end: u64,
    /// The packets of a `LOOP` log, oldest first. They lie one after the other from `tail` to the
    /// head, on the way round.
    extents: VecDeque<Extent>,
    tail: u64,
    /// Where the lap that `tail` is in ends, once the head is in the next one.
    lap_end: Option<u64>,
    is_overwriting: bool,
    events: u64,
}

impl Region {
    /// Returns an empty region of `max_size` bytes. `APPEND` ignores the size.
    pub fn new(policy: LogFullPolicy, max_size: u64) -> Self {
        let limit = match policy {
            LogFullPolicy::Append => u64::MAX,
            LogFullPolicy::Loop | LogFullPolicy::UntilFull => {
                REGION_START.saturating_add(max_size / ALIGNMENT as u64 * ALIGNMENT as u64)
            }
        };
        Self {
            policy,
            limit,
            head: REGION_START,
            end: REGION_START,
            extents: VecDeque::new(),
            tail: REGION_START,
            lap_end: None,
            is_overwriting: false,
            events: 0,
        }
    }

    /// Returns the longest packet that fits when `pending` bytes are to be written before it.
    pub fn space(&self, pending: usize) -> usize {
        let used = match self.policy {
            LogFullPolicy::Append => return usize::MAX,
            // The packet overwrites older ones.
            LogFullPolicy::Loop => REGION_START,
            LogFullPolicy::UntilFull => self.head.saturating_add(pending as u64),
        };
        usize::try_from(self.limit.saturating_sub(used)).unwrap_or(usize::MAX)
    }

    /// Returns where a packet of `length` bytes goes, and how many events it overwrites. These no
    /// longer count from now on, even if the packet is not written.
    pub fn allocate(&mut self, length: usize) -> (u64, u64) {
        if self.policy != LogFullPolicy::Loop {
            return (self.head, 0);
        }
        let length = length as u64;
        let mut overwritten = 0;
        if self.head.saturating_add(length) > self.limit {
            // What is left of the lap before this one lies between the head and the region's end.
            while self.lap_end.is_some() {
                overwritten += self.give_up_oldest();
            }
            self.lap_end = Some(self.head);
            self.head = REGION_START;
        }
        while self.lap_end.is_some() && self.head.saturating_add(length) > self.tail {
            overwritten += self.give_up_oldest();
        }
        (self.head, overwritten)
    }

    fn give_up_oldest(&mut self) -> u64 {
        let Some(oldest) = self.extents.pop_front() else {
            self.lap_end = None;
            self.tail = REGION_START;
            return 0;
        };
        self.is_overwriting = true;
        self.tail += u64::from(oldest.length);
        if self.lap_end.is_some_and(|end| self.tail >= end) {
            self.lap_end = None;
            self.tail = REGION_START;
        }
        self.events = self.events.saturating_sub(u64::from(oldest.events));
        u64::from(oldest.events)
    }

    /// Records that a packet was written where [`allocate`](Self::allocate) said.
    pub fn written(&mut self, length: usize, events: u32, sequence: u64) {
        if self.policy == LogFullPolicy::Loop {
            self.extents.push_back(Extent {
                length: u32::try_from(length).unwrap_or(u32::MAX),
                events,
                sequence,
            });
        }
        self.head = self.head.saturating_add(length as u64);
        self.end = self.end.max(self.head);
        self.events = self.events.saturating_add(u64::from(events));
    }

    /// Records a packet that the file holds already, behind all others so far. Bytes between them
    /// are overwritten together with it.
    pub fn found(&mut self, offset: u64, length: usize, events: u32, sequence: u64) {
        let between = offset.saturating_sub(self.head);
        let length = length.saturating_add(usize::try_from(between).unwrap_or(usize::MAX));
        self.written(length, events, sequence);
    }

    /// Returns the oldest packet that counts when `next` is the one to be written.
    pub fn oldest_sequence(&self, next: u64) -> u64 {
        match self.policy {
            LogFullPolicy::Loop => self.extents.front().map_or(next, |oldest| oldest.sequence),
            LogFullPolicy::UntilFull | LogFullPolicy::Append => 0,
        }
    }

    /// Tells whether packets were overwritten.
    pub fn is_overwriting(&self) -> bool {
        self.is_overwriting
    }

    /// Returns the number of events in the log.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the offset just past the last byte that counts: the rest of the file may go.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns where the trailer goes: after the last packet, or after the region when packets have
    /// gone round in it.
    pub fn trailer(&self) -> u64 {
        if self.is_overwriting || self.lap_end.is_some() {
            self.limit
        } else {
            self.head
        }
    }

    /// Returns the number of bytes that the log may take for packets; `None` for no limit.
    pub fn capacity(&self) -> Option<u64> {
        (self.limit != u64::MAX).then(|| self.limit.saturating_sub(REGION_START))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes a packet; returns where it went and how many events gave way.
    fn write(region: &mut Region, length: usize, events: u32) -> (u64, u64) {
        let allocated = region.allocate(length);
        region.written(length, events, u64::from(events));
        allocated
    }

    #[test]
    fn packets_follow_one_another_in_a_log_without_a_limit() {
        let mut region = Region::new(LogFullPolicy::Append, 0);

        assert_eq!(write(&mut region, 800, 1), (REGION_START, 0));
        assert_eq!(write(&mut region, 800, 1), (REGION_START + 800, 0));
        assert_eq!(region.trailer(), REGION_START + 1600);
    }

    #[test]
    fn a_packet_that_does_not_fit_goes_to_the_start_and_overwrites_the_oldest() {
        let mut region = Region::new(LogFullPolicy::Loop, 1000);
        write(&mut region, 400, 4);
        write(&mut region, 400, 5);

        assert_eq!(write(&mut region, 400, 6), (REGION_START, 4));
        assert_eq!(region.oldest_sequence(100), 5);
        assert_eq!(write(&mut region, 400, 7), (REGION_START + 400, 5));
        assert_eq!(region.events(), 13);
        assert_eq!(region.trailer(), REGION_START + 1000);
    }

    #[test]
    fn what_lies_behind_the_last_packet_of_a_lap_gives_way_when_the_next_lap_begins() {
        let mut region = Region::new(LogFullPolicy::Loop, 1000);
        for events in 1..=5 {
            write(&mut region, 200, events);
        }
        assert_eq!(write(&mut region, 304, 10), (REGION_START, 3));

        // Packets 2 to 4 are left, and 504 bytes more overlap two of them.
        assert_eq!(write(&mut region, 304, 11), (REGION_START + 304, 7));

        // No packet of the next lap overlaps packet 4. It gives way all the same, to keep the
        // order.
        assert_eq!(write(&mut region, 608, 12), (REGION_START, 5 + 10 + 11));
    }

    proptest! {
        /// Compares with a list of the packets that count, with their offsets.
        #[test]
        fn live_packets_never_overlap_and_every_event_is_in_the_log_or_was_given_up(
            lengths in prop::collection::vec(1_usize..=40, 1..200),
            limit in 40_u64..200,
        ) {
            let mut region = Region::new(LogFullPolicy::Loop, limit * 8);
            let mut live: VecDeque<(u64, u64, u64)> = VecDeque::new();
            let (mut written, mut given_up) = (0_u64, 0_u64);
            for (sequence, length) in lengths.iter().enumerate() {
                let length = *length as u64 * 8;
                let (offset, overwritten) = region.allocate(usize::try_from(length).unwrap());
                given_up += overwritten;
                while live.front().is_some_and(|oldest| oldest.2 < region.oldest_sequence(sequence as u64)) {
                    live.pop_front();
                }
                prop_assert!(offset >= REGION_START);
                prop_assert!(offset + length <= REGION_START + limit * 8);
                for (start, end, _) in &live {
                    prop_assert!(offset + length <= *start || offset >= *end);
                }
                region.written(usize::try_from(length).unwrap(), 1, sequence as u64);
                written += 1;
                live.push_back((offset, offset + length, sequence as u64));
                prop_assert_eq!(live.len() as u64, region.events());
                prop_assert_eq!(region.events() + given_up, written);
            }
        }
    }
}
