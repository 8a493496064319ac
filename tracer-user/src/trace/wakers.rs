//! Who wakes traced processes, and is traced too then.

use std::collections::HashSet;
use std::mem::offset_of;

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::WakeupData;
use tracer_engine::event::Event;

/// Processes that are traced for this: on a busy machine everybody wakes everybody in the end.
const MOST_FOLLOWED: usize = 256;

/// The processes that are traced because they wake others.
#[derive(Debug)]
pub struct Wakers {
    own: i32,
    followed: HashSet<i32>,
    new: Vec<i32>,
}

impl Wakers {
    /// None yet. This process never is one.
    pub fn new() -> Self {
        Self {
            own: i32::try_from(std::process::id()).unwrap_or(0),
            followed: HashSet::new(),
            new: Vec::new(),
        }
    }

    /// Looks at an event: whoever wakes a thread by it is one from now on, unless it `is_traced`
    /// already.
    pub fn look_at(&mut self, event: &Event<'_>, is_traced: impl Fn(i32) -> bool) {
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
            && self.followed.len() < MOST_FOLLOWED
            && !is_traced(waker)
            && self.followed.insert(waker)
        {
            self.new.push(waker);
        }
    }

    /// Those that were found since the last call.
    pub fn take_new(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.new)
    }

    /// Whether a process is traced for this alone.
    pub fn has(&self, pid: i32) -> bool {
        self.followed.contains(&pid)
    }
}
