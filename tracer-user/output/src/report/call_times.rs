//! Durations of system calls: from their beginning to their end, where both are shown.

use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::MonotonicNs;
use zerocopy::FromBytes;

use tracer_event::event_view::EventView;

/// Limit of threads whose calls are known. Beyond it, all are forgotten.
const MOST: usize = 65_536;

/// System call, by its table and its number.
type Call = (u32, i32);

/// Calls that have begun, by their threads.
#[derive(Debug, Default)]
pub struct CallTimes(HashMap<i32, (Call, MonotonicNs)>);

impl CallTimes {
    /// Learns from an event. Returns the duration of a call in nanoseconds, where the event is the
    /// end of a call whose beginning was seen.
    pub fn took(&mut self, line: &EventView<'_>) -> Option<u64> {
        let header = &line.event.header;
        match header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                let (call, _) = SyscallEnterData::read_from_prefix(line.event.data).ok()?;
                if self.0.len() >= MOST {
                    self.0.clear();
                }
                let began = ((call.compat, call.number), header.time);
                self.0.insert(header.tid, began);
                None
            }
            EventTypeId::SYSCALL_EXIT => {
                let (call, _) = SyscallExitData::read_from_prefix(line.event.data).ok()?;
                let (began, at) = self.0.remove(&header.tid)?;
                let is_it = began == (call.compat, call.number);
                is_it.then(|| header.time.0.saturating_sub(at.0))
            }
            EventTypeId::EXIT | EventTypeId::THREAD_EXIT => {
                self.0.remove(&header.tid);
                None
            }
            _ => None,
        }
    }

    /// Forgets the calls that have begun, as events are missing.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
