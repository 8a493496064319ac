//! The state of threads when the trace began, as the tracer looked at them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::kernel::{ThreadStateData, thread_state};
use tracer_engine::event::MonotonicNs;
use zerocopy::FromBytes as _;

use crate::state::{Reason, State, Wait};

/// Threads that are remembered: more than any machine has CPUs.
const MOST_RUNNING: usize = 16_384;

/// A look at a thread, as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLook {
    /// State of the thread.
    pub state: State,
    /// Whether its switches are recorded from then on.
    pub is_followed: bool,
}

impl ThreadLook {
    /// Reads the data of a look; `None` where it is too short.
    pub fn read(untrusted: &[u8]) -> Option<Self> {
        let (data, _) = ThreadStateData::read_from_prefix(untrusted).ok()?;
        let state = match data.state {
            thread_state::RUNNING => State::Running,
            thread_state::RUNNABLE => State::Runnable(Wait::Unsaid),
            thread_state::BLOCKED => State::Blocked(Reason::from_bits(data.waits_in, data.syscall)),
            thread_state::STOPPED | thread_state::TRACED => State::Stopped,
            _ => State::Unknown,
        };
        Some(Self {
            state,
            is_followed: data.followed != 0,
        })
    }
}

/// Threads that ran when they were looked at, and when that was. The kernel's count of how long
/// they had the CPU begins with a switch that was not recorded.
#[derive(Debug, Default)]
pub struct RunningSince(HashMap<i32, MonotonicNs, RandomState>);

impl RunningSince {
    /// Notes that the thread runs at this moment.
    pub fn add(&mut self, tid: i32, at: MonotonicNs) {
        if self.0.len() < MOST_RUNNING {
            self.0.insert(tid, at);
        }
    }

    /// Notes that the thread has a CPU at this moment, and may have had it before.
    pub fn add_first(&mut self, tid: i32, at: MonotonicNs) {
        if self.0.len() < MOST_RUNNING {
            self.0.entry(tid).or_insert(at);
        }
    }

    /// Removes a thread that leaves its CPU now, and returns since when it is known to run.
    pub fn remove(&mut self, tid: i32) -> Option<MonotonicNs> {
        if self.0.is_empty() {
            return None;
        }
        self.0.remove(&tid)
    }
}
