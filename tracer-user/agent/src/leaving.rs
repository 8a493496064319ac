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
pub struct Leaving(HashMap<i32, Ended>);

#[derive(Clone, Copy, Debug)]
struct Ended {
    /// Its last thread.
    tid: i32,
    at: MonotonicNs,
    /// Time at which that thread has left its CPU.
    left: Option<MonotonicNs>,
}

impl Leaving {
    /// Adds a process, by the event of its end.
    pub fn add(&mut self, exit: &EventHeader) {
        let oldest = exit.time.0.saturating_sub(FORGOTTEN_AFTER_NS);
        self.0.retain(|_, ended| ended.at.0 >= oldest);
        let ended = Ended {
            tid: exit.tid,
            at: exit.time,
            left: None,
        };
        self.0.insert(exit.pid, ended);
    }

    /// Returns their pids.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.0.keys().copied()
    }

    /// Tells whether a process of this pid is one of them.
    pub fn has(&self, pid: i32) -> bool {
        self.0.contains_key(&pid)
    }

    /// Forgets a process: another one has its pid.
    pub fn forget(&mut self, pid: i32) {
        self.0.remove(&pid);
    }

    /// Tells whether this is the last switch of a thread of one of them, or a switch of the thread
    /// that ended last, before that.
    pub fn takes(&mut self, header: &EventHeader, data: &[u8]) -> bool {
        let is_out = header.event_type == EventTypeId::SWITCH_OUT;
        if !is_out && header.event_type != EventTypeId::SWITCH_IN {
            return false;
        }
        let Some(ended) = self.0.get_mut(&header.pid) else {
            return false;
        };
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
        self.0.get(&pid).is_some_and(|ended| {
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
        leaving.add(&header(EventTypeId::EXIT, 7, 100));
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
        leaving.add(&header(EventTypeId::EXIT, 7, 100));
        assert!(!leaving.had(7, MonotonicNs(101 + NAMED_FOR_NS)));
        leaving.forget(7);
        assert!(!leaving.had(7, MonotonicNs(101)));
        let last = header(EventTypeId::SWITCH_OUT, 7, 110);
        assert!(!leaving.takes(&last, &switch(DEAD)));
        leaving.add(&header(EventTypeId::EXIT, 7, 100));
        leaving.add(&header(EventTypeId::EXIT, 8, 101 + FORGOTTEN_AFTER_NS));
        assert!(!leaving.takes(&last, &switch(DEAD)));
    }
}
