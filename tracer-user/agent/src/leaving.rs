//! Processes that have ended, and whose threads leave their CPUs for the last time after that.
//!
//! The end of a process is recorded while its last thread still runs: it wakes the parent then, and
//! is switched away. Its pid may be given to another process meanwhile, which is not shown for it:
//! the hub knows of each process that comes to be traced.

use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SwitchOutData;
use tracer_engine::event::{EventHeader, MonotonicNs};
use zerocopy::FromBytes as _;

/// The kernel's state of a thread that leaves its CPU for good (`TASK_DEAD`).
const DEAD: u32 = 0x80;

/// Nanoseconds after its end for which a process is named by the events of others: a pid is not
/// used again so soon.
const NAMED_FOR_NS: u64 = 10_000_000;

/// Nanoseconds after which an ended process is forgotten.
const FORGOTTEN_AFTER_NS: u64 = 60_000_000_000;

/// Processes that have ended.
#[derive(Debug, Default)]
pub struct Leaving {
    ended: HashMap<i32, Ended>,
    /// Number of those after the last tidying.
    tidied: usize,
}

/// Number of ended processes among which none is looked for that is to be forgotten.
const FEW: usize = 64;

/// Number of them beyond which those whose last thread has left are forgotten after
/// [`FORGOTTEN_SOON_NS`]: another thread that is still on its way is rare.
const MANY: usize = 16_384;

/// Nanoseconds.
const FORGOTTEN_SOON_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Ended {
    /// Its last thread.
    tid: i32,
    at: MonotonicNs,
    /// Time at which that thread has left its CPU.
    left: Option<MonotonicNs>,
}

impl Ended {
    /// Tells whether it ended so long before this time that it is forgotten.
    fn is_forgotten(&self, now: MonotonicNs) -> bool {
        now.0.saturating_sub(self.at.0) > FORGOTTEN_AFTER_NS
    }

    /// Tells whether its last thread left its CPU some time before this one.
    fn has_left(&self, now: MonotonicNs) -> bool {
        let since = self.left.map(|left| now.0.saturating_sub(left.0));
        since.is_some_and(|since| since > FORGOTTEN_SOON_NS)
    }
}

impl Leaving {
    /// Adds a process that ends with this thread.
    pub fn add(&mut self, pid: i32, tid: i32, at: MonotonicNs) {
        self.insert(
            pid,
            Ended {
                tid,
                at,
                left: None,
            },
        );
    }

    /// Adds a process of which no event says that it ends: nor will one say that it leaves.
    pub fn add_unseen(&mut self, pid: i32, tid: i32, at: MonotonicNs) {
        let left = Some(at);
        self.insert(pid, Ended { tid, at, left });
    }

    fn insert(&mut self, pid: i32, new: Ended) {
        let count = self.ended.len();
        if count > FEW + 2 * self.tidied {
            self.ended.retain(|_, ended| {
                let is_over = ended.is_forgotten(new.at) || count > MANY && ended.has_left(new.at);
                !is_over
            });
            self.tidied = self.ended.len();
        }
        self.ended.insert(pid, new);
    }

    /// Returns their pids.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.ended.keys().copied()
    }

    /// Tells whether a process of this pid is one of them.
    pub fn has(&self, pid: i32) -> bool {
        self.ended.contains_key(&pid)
    }

    /// Forgets a process: another one has its pid.
    pub fn forget(&mut self, pid: i32) {
        self.ended.remove(&pid);
    }

    /// Tells whether this is the last switch of a thread of one of them, or a switch of the thread
    /// that ended last, before that.
    pub fn takes(&mut self, header: &EventHeader, data: &[u8]) -> bool {
        let is_out = header.event_type == EventTypeId::SWITCH_OUT;
        if !is_out && header.event_type != EventTypeId::SWITCH_IN {
            return false;
        }
        let Some(ended) = self.ended.get_mut(&header.pid) else {
            return false;
        };
        if ended.is_forgotten(header.time) {
            return false;
        }
        let switch = SwitchOutData::read_from_prefix(data);
        let is_last = is_out && switch.is_ok_and(|(switch, _)| switch.state & DEAD != 0);
        let is_leaving = header.tid == ended.tid && ended.left.is_none();
        if is_last && is_leaving {
            ended.left = Some(header.time);
        }
        is_last || is_leaving
    }

    /// Tells whether it is one of them that had this pid at that time.
    pub fn had(&self, pid: i32, time: MonotonicNs) -> bool {
        self.ended.get(&pid).is_some_and(|ended| {
            let until = ended.left.unwrap_or(MonotonicNs(u64::MAX));
            let soon = MonotonicNs(ended.at.0.saturating_add(NAMED_FOR_NS));
            (ended.at..=until.min(soon)).contains(&time)
        })
    }
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::Truncation;
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

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

    fn switch(state: u32) -> Vec<u8> {
        let mut data = SwitchOutData::new_zeroed();
        data.state = state;
        data.as_bytes().to_vec()
    }

    #[test]
    fn an_ended_process_leaves_its_cpu_and_does_nothing_else() {
        let mut leaving = Leaving::default();
        leaving.add(7, 7, MonotonicNs(100));
        let at = |time| header(EventTypeId::SWITCH_OUT, 7, time);
        // It may have to give way before.
        assert!(leaving.takes(&at(110), &switch(0)));
        assert!(leaving.takes(&header(EventTypeId::SWITCH_IN, 7, 110), &[]));
        assert!(!leaving.takes(&header(EventTypeId::SIGNAL_GENERATE, 7, 110), &switch(DEAD)));
        assert!(!leaving.takes(&header(EventTypeId::SWITCH_OUT, 8, 110), &switch(DEAD)));
        assert!(leaving.had(7, MonotonicNs(150)));
        assert!(leaving.takes(&at(120), &switch(DEAD)));
        let had = [99, 100, 120, 121].map(|time| leaving.had(7, MonotonicNs(time)));
        assert_eq!(had, [false, true, true, false]);
        assert!(!leaving.takes(&at(130), &switch(0)));
        // Its other threads may leave theirs later.
        assert!(leaving.takes(&at(130), &switch(DEAD)));
    }

    #[test]
    fn another_process_with_the_pid_is_not_taken_for_it() {
        let mut leaving = Leaving::default();
        leaving.add(7, 7, MonotonicNs(100));
        assert!(!leaving.had(7, MonotonicNs(101 + NAMED_FOR_NS)));
        leaving.forget(7);
        assert!(!leaving.had(7, MonotonicNs(101)));
        let switched = |time| header(EventTypeId::SWITCH_OUT, 7, time);
        assert!(!leaving.takes(&switched(110), &switch(DEAD)));
        leaving.add(7, 7, MonotonicNs(100));
        let late = 101 + FORGOTTEN_AFTER_NS;
        assert!(!leaving.takes(&switched(late), &switch(DEAD)));
    }

    #[test]
    fn those_that_ended_long_ago_take_no_memory() {
        let mut leaving = Leaving::default();
        for pid in 0..1000 {
            leaving.add(pid, pid, MonotonicNs(0));
        }
        for pid in 1000..3000 {
            leaving.add(pid, pid, MonotonicNs(1 + FORGOTTEN_AFTER_NS));
        }
        assert!(!leaving.has(7) && leaving.has(2999));
        assert_eq!(leaving.pids().count(), 2000);
        // Where there are very many, those that have left are forgotten sooner.
        for pid in 0..200_000_u32 {
            let at = MonotonicNs(2 * FORGOTTEN_AFTER_NS + u64::from(pid) * 100_000);
            leaving.add_unseen(3000 + pid.cast_signed(), 1, at);
        }
        assert!(leaving.pids().count() < 4 * MANY);
        assert!(leaving.has(3000 + 199_999));
    }
}
