//! Intervals of the threads, as columns.
//!
//! Columns are divided by the state of an interval: a thread that has a CPU (`run`), one that waits
//! for it (`got`, since that is how it ends), one that is off it until it is woken (`off`).

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_analysis::{Interval, IntervalEnd, State, Task, Thread, Wait, Waker};

use super::code::Code;
use super::columns::{Dictionary, IntegerColumn};
use super::guess::Guesses;

/// Columns, and the guesses that keep them short.
pub struct Intervals {
    code: IntegerColumn,
    from: IntegerColumn,
    ran: Ran,
    got: Got,
    off: Off,
    /// Threads that were not guessed.
    thread: IntegerColumn,
    /// Tasks that were not guessed; 0 is an unknown task, where there are too many.
    task: IntegerColumn,
    /// Number of intervals of each thread.
    counts: Vec<u32>,
    /// End of the last interval of each thread.
    ends: HashMap<Thread, u64, RandomState>,
    /// Task by which each thread was named last.
    named: HashMap<Thread, u32, RandomState>,
    last: u64,
    guesses: Guesses,
}

struct Ran {
    cpu: IntegerColumn,
    thread: IntegerColumn,
    to: IntegerColumn,
}

struct Got {
    cpu: IntegerColumn,
    thread: IntegerColumn,
    before: IntegerColumn,
    to: IntegerColumn,
}

struct Off {
    waker: IntegerColumn,
    thread: IntegerColumn,
    cpu: IntegerColumn,
    to: IntegerColumn,
}

/// Interval as its columns say it.
#[derive(Clone, Copy)]
struct Row {
    thread: u32,
    cpu: Option<u32>,
    task: Option<u32>,
    named: Option<u32>,
    /// Time since the end of the interval before it.
    to: i64,
}

impl Default for Intervals {
    fn default() -> Self {
        let new = IntegerColumn::new;
        Self {
            code: new("interval.code"),
            from: new("interval.from"),
            ran: Ran {
                cpu: new("run.cpu"),
                thread: new("run.thread"),
                to: new("run.to"),
            },
            got: Got {
                cpu: new("got.cpu"),
                thread: new("got.thread"),
                before: new("got.before"),
                to: new("got.to"),
            },
            off: Off {
                waker: new("off.waker"),
                thread: new("off.thread"),
                cpu: new("off.cpu"),
                to: new("off.to"),
            },
            thread: new("interval.thread"),
            task: new("interval.task"),
            counts: Vec::new(),
            ends: HashMap::default(),
            named: HashMap::default(),
            last: 0,
            guesses: Guesses::default(),
        }
    }
}

impl Intervals {
    /// Adds an interval of the thread with this index, from and to these moments. Tells whether the
    /// dictionary had space for its code.
    pub fn push(
        &mut self,
        interval: &Interval,
        thread: u32,
        (from, to): (u64, u64),
        codes: &mut Dictionary<Code>,
        tasks: &mut Dictionary<Task>,
    ) -> bool {
        let end = self.ends.get(&interval.thread).copied().unwrap_or_default();
        let skipped = from.wrapping_sub(end);
        let code = Code::from_interval(interval, skipped != 0);
        let index = codes.index(&code);
        let Some(index) = index.or_else(|| codes.index(&code.coarse())) else {
            return false;
        };
        self.ends.insert(interval.thread, to);
        self.count(thread);
        self.code.push(index);
        if code.is_apart {
            self.from.push_signed(skipped.cast_signed());
        }
        let task = match interval.end {
            IntervalEnd::Woken(Waker::Thread(task)) => Some(task),
            IntervalEnd::GotCpu(behind) => Some(behind.task),
            IntervalEnd::Open | IntervalEnd::Unsaid | IntervalEnd::Woken(_) => None,
        };
        let task = task.map(|task| match tasks.index(&task) {
            Some(index) => {
                self.named.insert(task.thread, index + 1);
                index + 1
            }
            None => 0,
        });
        let row = Row {
            thread,
            cpu: interval.cpu,
            task,
            named: self.named.get(&interval.thread).copied(),
            to: to.wrapping_sub(self.last).cast_signed(),
        };
        self.last = to;
        match interval.state {
            State::Running => self.ran(row),
            State::Runnable(wait) => self.got(row, wait == Wait::Woken),
            State::Blocked(_) | State::Stopped | State::Unknown | State::Dead => self.off(row),
        }
        if let Some(cpu) = row.cpu {
            self.guesses.was_on(thread, cpu);
        }
        true
    }

    fn ran(&mut self, row: Row) {
        if let Some(cpu) = row.cpu {
            self.ran.cpu.push(self.guesses.cpu(cpu));
        }
        let thread = self.guesses.ran(row.thread, row.named);
        self.ran.thread.push(thread);
        self.ran.to.push_signed(row.to);
    }

    fn got(&mut self, row: Row, is_woken: bool) {
        if let Some(cpu) = row.cpu {
            self.got.cpu.push(self.guesses.cpu(cpu));
        }
        let rank = self.guesses.got(row.thread, is_woken);
        self.got.thread.push(rank);
        if rank == 0 {
            self.thread.push(row.thread);
        }
        if let Some(task) = row.task {
            self.got.before.push(self.guesses.before(task));
        }
        if let Some(named) = row.named {
            self.guesses.ready(named);
        }
        self.got.to.push_signed(row.to);
    }

    fn off(&mut self, row: Row) {
        if let Some(task) = row.task {
            let rank = self.guesses.waker(task);
            self.off.waker.push(rank);
            if rank == 0 {
                self.task.push(task);
            }
        }
        let woken = self.guesses.woken(row.thread, row.task);
        self.off.thread.push(woken);
        if woken == 1 {
            self.thread.push(row.thread);
        }
        if let Some(cpu) = row.cpu {
            self.off.cpu.push(self.guesses.cpu_of(row.thread, cpu));
        }
        self.guesses.wait(row.thread);
        self.off.to.push_signed(row.to);
    }

    fn count(&mut self, thread: u32) {
        let index = usize::try_from(thread).unwrap_or_default();
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
    }

    /// Returns the number of intervals of each thread, as far as threads have any.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns the columns.
    pub fn into_columns(self) -> impl Iterator<Item = IntegerColumn> {
        let (ran, got, off) = (self.ran, self.got, self.off);
        [
            self.code,
            self.from,
            ran.cpu,
            ran.thread,
            ran.to,
            got.cpu,
            got.thread,
            got.before,
            got.to,
            off.waker,
            off.thread,
            off.cpu,
            off.to,
            self.thread,
            self.task,
        ]
        .into_iter()
    }
}
