//! Wake-ups as flows: from the waker to the moment when the woken thread gets a CPU.

use std::collections::HashMap;

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::WakeupData;

use crate::names::LogThread;
use tracer_event::event_view::EventView;
use tracer_event::fields::until_null;

/// Limit of remembered threads that wait for a CPU.
const MOST_WOKEN: usize = 65_536;

/// Threads that were woken and have no CPU yet.
#[derive(Debug, Default)]
pub struct Wakeups {
    woken: HashMap<LogThread, WakingThread>,
    flows: u64,
}

/// Waker of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakingThread {
    /// Thread that woke it.
    pub thread: LogThread,
    /// Name of the thread: any bytes.
    pub comm: Vec<u8>,
    /// Number of the flow.
    pub flow: u64,
}

impl Wakeups {
    /// Notes an event. Returns the waker, where it is a wake-up by a thread.
    pub fn wake(&mut self, entry: &EventView<'_>, thread: LogThread) -> Option<WakingThread> {
        let event = &entry.event;
        if event.header.event_type != EventTypeId::WAKEUP {
            return None;
        }
        // The waker of an earlier wake-up has nothing to do with the next time that the thread
        // runs.
        self.woken.remove(&thread);
        let waker_end = std::mem::offset_of!(WakeupData, waker_context);
        let data: WakeupData = read_grown(event.data, waker_end)?;
        if data.waker_tid == 0 || self.woken.len() >= MOST_WOKEN {
            return None;
        }
        self.flows += 1;
        let waker = WakingThread {
            thread: LogThread {
                pid: data.waker_pid.cast_signed(),
                tid: data.waker_tid.cast_signed(),
            },
            comm: until_null(&data.waker_comm).to_vec(),
            flow: self.flows,
        };
        self.woken.insert(thread, waker.clone());
        Some(waker)
    }

    /// Returns the waker of a thread that gets a CPU by this event.
    pub fn run(&mut self, entry: &EventView<'_>, thread: LogThread) -> Option<WakingThread> {
        let is_switch = entry.event.header.event_type == EventTypeId::SWITCH_IN;
        if is_switch {
            self.woken.remove(&thread)
        } else {
            None
        }
    }
}
