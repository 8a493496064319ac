//! System calls, with how long they took.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::durations::Durations;

/// Threads whose calls are followed at a time.
const MOST_THREADS: usize = 65_536;

/// Different calls: more than a table has.
const MOST_CALLS: usize = 4096;

/// The lowest value that is an error number, negated: the kernel returns no lower one.
const LOWEST_ERROR: i64 = -4095;

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey {
    /// Whether its system call number is one of the table for 32-bit programs.
    pub is_compat: bool,
    /// Its system call number.
    pub nr: i32,
}

/// What is known of all runs of a system call.
#[derive(Clone, Debug, Default)]
pub struct CallTotal {
    /// Times that it returned.
    pub count: u64,
    /// Times that it returned an error.
    pub errors: u64,
    /// How long it took, where its entry was seen too.
    pub took: Durations,
}

/// The system calls of all threads.
#[derive(Debug, Default)]
pub struct Calls {
    entered: HashMap<i32, (CallKey, MonotonicNs), RandomState>,
    totals: HashMap<CallKey, CallTotal, RandomState>,
}

impl Calls {
    /// Events were lost before the next one: which call a thread is in is not known.
    pub fn lose(&mut self) {
        self.entered.clear();
    }

    /// Goes on by one event.
    pub fn feed(&mut self, event: &Event<'_>) {
        let header = event.header;
        match header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                let Ok((data, _)) = SyscallEnterData::read_from_prefix(event.data) else {
                    return;
                };
                let key = CallKey {
                    is_compat: data.compat != 0,
                    nr: data.number,
                };
                if self.entered.len() < MOST_THREADS || self.entered.contains_key(&header.tid) {
                    self.entered.insert(header.tid, (key, header.time));
                }
            }
            EventTypeId::SYSCALL_EXIT => {
                let Ok((data, _)) = SyscallExitData::read_from_prefix(event.data) else {
                    return;
                };
                let key = CallKey {
                    is_compat: data.compat != 0,
                    nr: data.number,
                };
                let entered = self.entered.remove(&header.tid);
                self.count(key, data.ret, entered, header.time);
            }
            EventTypeId::EXIT | EventTypeId::THREAD_EXIT => {
                self.entered.remove(&header.tid);
            }
            _ => {}
        }
    }

    fn count(
        &mut self,
        key: CallKey,
        returned: i64,
        entered: Option<(CallKey, MonotonicNs)>,
        at: MonotonicNs,
    ) {
        if self.totals.len() >= MOST_CALLS && !self.totals.contains_key(&key) {
            return;
        }
        let total = self.totals.entry(key).or_default();
        total.count += 1;
        total.errors += u64::from((LOWEST_ERROR..0).contains(&returned));
        if let Some((of, since)) = entered
            && of == key
        {
            total.took.add(at.0.saturating_sub(since.0));
        }
    }

    /// The calls, those that took most time first.
    #[must_use]
    pub fn sorted(&self) -> Vec<(CallKey, &CallTotal)> {
        let mut sorted: Vec<_> = self.totals.iter().map(|(key, one)| (*key, one)).collect();
        sorted.sort_unstable_by_key(|(key, one)| (std::cmp::Reverse(one.took.total()), *key));
        sorted
    }
}
