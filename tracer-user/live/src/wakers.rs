//! Processes that wake traced ones, and are traced too then.

use std::collections::HashSet;
use std::mem::offset_of;

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::WakeupData;
use tracer_engine::event::Event;

use tracer_text::say;

/// Most processes that are traced for this: on a busy machine every process wakes every other in
/// the end.
const MOST_FOLLOWED: usize = 256;

/// The processes that are traced because they wake others.
#[derive(Debug)]
pub struct Wakers {
    own: i32,
    followed: HashSet<i32>,
    /// Number of them so far.
    count: usize,
    new: Vec<i32>,
}

impl Wakers {
    /// Starts with none. This process never is one.
    pub fn new() -> Self {
        Self {
            own: i32::try_from(std::process::id()).unwrap_or(0),
            followed: HashSet::new(),
            count: 0,
            new: Vec::new(),
        }
    }

    /// Looks at an event: a process that wakes a thread by it is one from now on, unless it
    /// `is_traced` already.
    pub fn look_at(&mut self, event: &Event<'_>, is_traced: impl Fn(i32) -> bool) {
        if event.header.event_type == EventTypeId::EXIT {
            // Its pid may be given to a process that is traced for itself.
            self.followed.remove(&event.header.pid);
        }
        if event.header.event_type != EventTypeId::WAKEUP {
            return;
        }
        let least = offset_of!(WakeupData, waker_context);
        let Some(data) = read_grown::<WakeupData>(event.data, least) else {
            return;
        };
        let waker = data.waker_pid.cast_signed();
        if waker > 0
            && waker != self.own
            && self.count < MOST_FOLLOWED
            && !is_traced(waker)
            && self.followed.insert(waker)
        {
            self.count += 1;
            if self.count == MOST_FOLLOWED {
                say(&format!(
                    "{MOST_FOLLOWED} processes are traced because they wake others: more are only named"
                ));
            }
            self.new.push(waker);
        }
    }

    /// Returns the processes that were found since the last call.
    pub fn take_new(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.new)
    }

    /// Tells whether a process is traced for this alone.
    pub fn has(&self, pid: i32) -> bool {
        self.followed.contains(&pid)
    }
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;

    fn look_at(wakers: &mut Wakers, event_type: EventTypeId, pid: i32, waker: u32) {
        let mut data = WakeupData::new_zeroed();
        data.waker_pid = waker;
        let header = EventHeader {
            time: MonotonicNs(1),
            event_type,
            pid,
            tid: pid,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let data = data.as_bytes();
        wakers.look_at(&Event { header, data }, |pid| pid == 10);
    }

    #[test]
    fn each_waker_is_followed_once_and_one_that_has_ended_is_none() {
        let own = std::process::id();
        let mut wakers = Wakers::new();
        for waker in [20, 10, 0, own, 20, 21] {
            look_at(&mut wakers, EventTypeId::WAKEUP, 10, waker);
        }
        assert_eq!(wakers.take_new(), [20, 21]);
        assert!(wakers.has(20) && !wakers.has(10) && wakers.take_new().is_empty());

        look_at(&mut wakers, EventTypeId::EXIT, 20, 0);
        assert!(!wakers.has(20));
    }

    #[test]
    fn there_are_no_more_than_so_many() {
        let mut wakers = Wakers::new();
        for waker in 1_000_000..1_001_000 {
            look_at(&mut wakers, EventTypeId::WAKEUP, 10, waker);
        }
        assert_eq!(wakers.take_new().len(), MOST_FOLLOWED);
    }
}
