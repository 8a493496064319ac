//! System calls, with how long they took.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ExecData, ForkData, SyscallEnterData, SyscallExitData};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::durations::Durations;
use crate::state::Thread;

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

/// Totals of all runs of a system call.
#[derive(Clone, Debug, Default)]
pub struct CallTotal {
    /// Times that it returned.
    pub count: u64,
    /// Times that it returned an error.
    pub errors: u64,
    /// How long it took, where its entry was seen too.
    pub took: Durations,
}

/// A system call that has returned, and whose entry was seen too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRun {
    /// Thread that made it.
    pub thread: Thread,
    /// System call that it was.
    pub key: CallKey,
    /// When it was entered.
    pub from: MonotonicNs,
    /// When it returned.
    pub to: MonotonicNs,
    /// Return value.
    pub returned: i64,
}

impl CallRun {
    /// Returns how long it took, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }

    /// Tells whether it returned an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        is_error(self.returned)
    }
}

fn is_error(returned: i64) -> bool {
    (LOWEST_ERROR..0).contains(&returned)
}

/// Tells whether a call runs another program: `execve`, `execveat`, and those of 32-bit programs.
fn is_exec(key: CallKey) -> bool {
    let numbers: &[i32] = match (key.is_compat, cfg!(target_arch = "x86_64")) {
        (false, true) => &[59, 322],
        (true, true) => &[11, 358],
        (_, false) => &[],
    };
    numbers.contains(&key.nr)
}

/// The system calls of all threads.
#[derive(Debug, Default)]
pub struct Calls {
    entered: HashMap<i32, (CallKey, MonotonicNs), RandomState>,
    /// Threads that were made and have made no call yet: they return from the one that made them,
    /// which their maker has made.
    new: HashSet<i32, RandomState>,
    totals: HashMap<CallKey, CallTotal, RandomState>,
}

impl Calls {
    /// Notes that events were lost before the next one: which call a thread is in is not known.
    pub fn lose(&mut self) {
        self.entered.clear();
    }

    /// Goes on by one event: the call that it ends, where its entry was seen too.
    pub fn feed(&mut self, event: &Event<'_>) -> Option<CallRun> {
        let header = event.header;
        match header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                let (data, _) = SyscallEnterData::read_from_prefix(event.data).ok()?;
                let key = CallKey {
                    is_compat: data.compat != 0,
                    nr: data.number,
                };
                self.new.remove(&header.tid);
                if self.entered.len() < MOST_THREADS || self.entered.contains_key(&header.tid) {
                    self.entered.insert(header.tid, (key, header.time));
                }
            }
            EventTypeId::SYSCALL_EXIT => {
                let (data, _) = SyscallExitData::read_from_prefix(event.data).ok()?;
                let key = CallKey {
                    is_compat: data.compat != 0,
                    nr: data.number,
                };
                let entered = self.entered.remove(&header.tid);
                if self.new.remove(&header.tid) && entered.is_none() {
                    return None;
                }
                let thread = Thread {
                    pid: header.pid,
                    tid: header.tid,
                };
                // The kernel shows a successful execveat as an execve when it returns.
                let key = match entered {
                    Some((of, _)) if is_exec(of) && is_exec(key) && data.ret == 0 => of,
                    _ => key,
                };
                let entered = entered.filter(|(of, _)| *of == key);
                let run = entered.map(|(_, from)| CallRun {
                    thread,
                    key,
                    from,
                    to: header.time,
                    returned: data.ret,
                });
                self.count(key, data.ret, run);
                return run;
            }
            // The thread goes on under another tid, in the call that it has entered.
            EventTypeId::EXEC => {
                let old = ExecData::old_tid_of(event.data).filter(|old| *old != header.tid)?;
                let entered = self.entered.remove(&old);
                self.entered.remove(&header.tid);
                if let Some(entered) = entered {
                    self.entered.insert(header.tid, entered);
                }
            }
            EventTypeId::FORK | EventTypeId::THREAD_CREATE if self.new.len() < MOST_THREADS => {
                if let Ok((data, _)) = ForkData::read_from_prefix(event.data) {
                    self.new.insert(data.child_tid.cast_signed());
                }
            }
            EventTypeId::EXIT | EventTypeId::THREAD_EXIT => {
                self.new.remove(&header.tid);
                self.entered.remove(&header.tid);
            }
            _ => {}
        }
        None
    }

    fn count(&mut self, key: CallKey, returned: i64, run: Option<CallRun>) {
        if self.totals.len() >= MOST_CALLS && !self.totals.contains_key(&key) {
            return;
        }
        let total = self.totals.entry(key).or_default();
        total.count += 1;
        total.errors += u64::from(is_error(returned));
        if let Some(run) = run {
            total.took.add(run.ns());
        }
    }

    /// Returns the calls, those that took most time first.
    #[must_use]
    pub fn sorted(&self) -> Vec<(CallKey, &CallTotal)> {
        let mut sorted: Vec<_> = self.totals.iter().map(|(key, one)| (*key, one)).collect();
        sorted.sort_unstable_by_key(|(key, one)| (std::cmp::Reverse(one.took.total()), *key));
        sorted
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::story::header;

    #[test]
    fn who_was_made_by_a_call_has_not_made_it() {
        let mut calls = Calls::default();
        let mut feed = |at, event_type, tid, data: &[u8]| {
            let header = header(at, event_type, tid, 0);
            calls.feed(&Event { header, data });
        };
        let mut data = SyscallEnterData::new_zeroed();
        data.number = 435;
        let enter = data;
        let mut data = SyscallExitData::new_zeroed();
        data.number = 435;
        let exit = data;
        let mut made = ForkData::new_zeroed();
        made.child_tid = 11;
        feed(10, EventTypeId::SYSCALL_ENTER, 10, enter.as_bytes());
        feed(11, EventTypeId::THREAD_CREATE, 10, made.as_bytes());
        feed(12, EventTypeId::SYSCALL_EXIT, 11, exit.as_bytes());
        feed(20, EventTypeId::SYSCALL_EXIT, 10, exit.as_bytes());
        // Its own calls are its own, and one that began before the trace counts.
        feed(30, EventTypeId::SYSCALL_ENTER, 11, enter.as_bytes());
        feed(31, EventTypeId::SYSCALL_EXIT, 11, exit.as_bytes());
        feed(40, EventTypeId::SYSCALL_EXIT, 12, exit.as_bytes());

        let [(_, total)] = calls.sorted()[..] else {
            panic!("{calls:?}");
        };
        assert_eq!((total.count, total.took.count()), (3, 2));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn who_runs_another_program_returns_from_the_call_that_it_made() {
        let mut calls = Calls::default();
        let mut feed = |at, event_type, tid, data: &[u8]| {
            let header = header(at, event_type, tid, 0);
            calls.feed(&Event { header, data });
        };
        let mut enter = SyscallEnterData::new_zeroed();
        enter.number = 322;
        let mut exit = SyscallExitData::new_zeroed();
        exit.number = 59;
        let mut exec = ExecData::new_zeroed();
        exec.old_tid = 11;
        // A thread that is not the first of its process.
        feed(10, EventTypeId::SYSCALL_ENTER, 11, enter.as_bytes());
        feed(20, EventTypeId::EXEC, 10, &exec.as_bytes()[..21]);
        feed(30, EventTypeId::SYSCALL_EXIT, 10, exit.as_bytes());
        let [(key, total)] = calls.sorted()[..] else {
            panic!("{calls:?}");
        };
        assert_eq!((key.nr, total.count, total.took.total()), (322, 1, 20));
    }
}
