//! System calls, with how long they took.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ForkData, SyscallEnterData, SyscallExitData};
use tracer_engine::EventSet;
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::durations::Durations;
use crate::open_calls::OpenCalls;
use crate::state::Thread;

/// Threads that are known to be new at a time.
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

impl CallKey {
    /// Returns the key of a system call by its number; `is_compat` for 32-bit programs.
    #[must_use]
    pub const fn new(is_compat: bool, nr: i32) -> Self {
        Self { is_compat, nr }
    }

    /// Returns the key of the call that begins, by the data of its event; `None` where that is
    /// truncated.
    #[must_use]
    pub fn from_enter(untrusted: &[u8]) -> Option<Self> {
        let (data, _) = SyscallEnterData::read_from_prefix(untrusted).ok()?;
        Some(Self::new(data.compat != 0, data.number))
    }

    /// Returns the key of the call that ends, and its result, by the data of its event; `None`
    /// where that is truncated.
    #[must_use]
    pub fn from_exit(untrusted: &[u8]) -> Option<(Self, i64)> {
        let (data, _) = SyscallExitData::read_from_prefix(untrusted).ok()?;
        Some((Self::new(data.compat != 0, data.number), data.ret))
    }

    /// Tells whether it runs another program: `execve`, `execveat`, and those of 32-bit programs.
    pub(crate) fn is_exec(self) -> bool {
        let numbers: &[i32] = match (self.is_compat, cfg!(target_arch = "x86_64")) {
            (false, true) => &[59, 322],
            (true, true) => &[11, 358],
            (_, false) => &[],
        };
        numbers.contains(&self.nr)
    }

    /// Tells whether it puts back registers of before: a return from a signal handler, or from a
    /// function or an instruction that a probe is at (`uretprobe`, `uprobe`), which the kernel has
    /// the program call. It returns what was in a register, and its number is gone as it ends.
    pub(crate) fn restores_registers(self) -> bool {
        let numbers: &[i32] = match (self.is_compat, cfg!(target_arch = "x86_64")) {
            (false, true) => &[15, 335, 336],
            (true, true) => &[119, 173],
            (_, false) => &[139],
        };
        numbers.contains(&self.nr)
    }

    /// Tells whether it ends with this value as a failure. What the end of a signal handler gives
    /// back is the register of who was interrupted.
    #[must_use]
    pub fn fails_with(self, returned: i64) -> bool {
        is_error(returned) && !self.restores_registers()
    }
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
        self.key.fails_with(self.returned)
    }
}

fn is_error(returned: i64) -> bool {
    (LOWEST_ERROR..0).contains(&returned)
}

/// Tells whether system calls are recorded as a whole from now on, where an event says that: the
/// stream's filter was changed.
#[must_use]
pub fn calls_are_recorded(event: &Event<'_>) -> Option<bool> {
    if event.header.event_type != EventTypeId::FILTER {
        return None;
    }
    let filter = EventSet::from_bytes(event.data.get(size_of::<EventSet>()..)?)?;
    let types = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
    Some(types.iter().all(|id| !filter.contains(*id)))
}

/// The system calls of all threads.
#[derive(Debug, Default)]
pub struct Calls {
    entered: OpenCalls<MonotonicNs>,
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
                let key = CallKey::from_enter(event.data)?;
                self.new.remove(&header.tid);
                self.entered.enter(header.tid, key, header.time);
            }
            EventTypeId::SYSCALL_EXIT => {
                let (key, returned) = CallKey::from_exit(event.data)?;
                let entered = self.entered.leave(header.tid, key, returned);
                if self.new.remove(&header.tid) && entered.is_none() {
                    return None;
                }
                let thread = Thread {
                    pid: header.pid,
                    tid: header.tid,
                };
                let entered = entered.filter(|begun| begun.is_ended);
                let key = entered.map_or(key, |begun| begun.key);
                let run = entered.map(|begun| CallRun {
                    thread,
                    key,
                    from: begun.facts,
                    to: header.time,
                    returned,
                });
                self.count(key, returned, run);
                return run;
            }
            EventTypeId::FORK | EventTypeId::THREAD_CREATE if self.new.len() < MOST_THREADS => {
                if let Ok((data, _)) = ForkData::read_from_prefix(event.data) {
                    self.new.insert(data.child_tid.cast_signed());
                }
            }
            EventTypeId::EXIT | EventTypeId::THREAD_EXIT => {
                self.new.remove(&header.tid);
                self.entered.follow(event);
            }
            // A call that is seen to end began later than it: of one that began before, the end was
            // not recorded.
            EventTypeId::FILTER if calls_are_recorded(event) == Some(false) => self.lose(),
            _ => {
                self.entered.follow(event);
            }
        }
        None
    }

    fn count(&mut self, key: CallKey, returned: i64, run: Option<CallRun>) {
        if self.totals.len() >= MOST_CALLS && !self.totals.contains_key(&key) {
            return;
        }
        let total = self.totals.entry(key).or_default();
        total.count += 1;
        total.errors += u64::from(key.fails_with(returned));
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
    use tracer_common::kernel::ExecData;
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
    fn a_call_that_begins_before_calls_are_left_out_is_not_joined_with_an_end_after_it() {
        let mut calls = Calls::default();
        let mut feed = |at, event_type, data: &[u8]| {
            let header = header(at, event_type, 10, 0);
            calls.feed(&Event { header, data })
        };
        let enter = SyscallEnterData::new_zeroed();
        let exit = SyscallExitData::new_zeroed();
        let [all, mut fewer] = [EventSet::EMPTY; 2];
        fewer.insert(EventTypeId::SYSCALL_ENTER);
        fewer.insert(EventTypeId::SYSCALL_EXIT);
        let change = |from: EventSet, to: EventSet| [from.to_bytes(), to.to_bytes()].concat();
        feed(10, EventTypeId::SYSCALL_ENTER, enter.as_bytes());
        feed(11, EventTypeId::FILTER, &change(all, fewer));
        feed(20, EventTypeId::FILTER, &change(fewer, all));
        assert_eq!(feed(21, EventTypeId::SYSCALL_EXIT, exit.as_bytes()), None);
        feed(22, EventTypeId::SYSCALL_ENTER, enter.as_bytes());
        let run = feed(25, EventTypeId::SYSCALL_EXIT, exit.as_bytes());
        assert_eq!(run.map(|run| run.ns()), Some(3));
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
