//! Guesses of the properties of an interval, by the intervals before it: an expected value takes
//! nearly no space.
//!
//! The script `page/guess.js` makes the same guesses from the values it has read, and so reads the
//! ones stored here. A wrong guess costs space and nothing else.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Limit of the values of a [`Recent`]. Beyond it, half of them are dropped at once. More would
/// save a hundredth of the space, and take the browser twice as long.
const MOST_RECENT: usize = 64;

/// Limit of CPUs with guesses of their own; the rest share one.
const MOST_CPUS: u32 = 4096;

/// Values, the most recent last.
#[derive(Debug, Default)]
struct Recent(Vec<u32>);

impl Recent {
    fn index(&self, value: u32) -> Option<usize> {
        self.0.iter().rposition(|one| *one == value)
    }

    /// Returns the position of a value counted from the most recent one, which is 1; 0 where it is
    /// not there.
    fn rank(&self, value: u32) -> u32 {
        let index = self.index(value);
        let rank = index.map_or(0, |index| self.0.len() - index);
        u32::try_from(rank).unwrap_or_default()
    }

    fn remove(&mut self, value: u32) {
        if let Some(index) = self.index(value) {
            self.0.remove(index);
        }
    }

    fn add(&mut self, value: u32) {
        if self.0.len() >= MOST_RECENT {
            self.0.drain(..MOST_RECENT / 2);
        }
        self.0.push(value);
    }
}

/// List that a thread is in.
#[derive(Clone, Copy, Debug, Default)]
enum Listed {
    #[default]
    Nowhere,
    Off,
    Woken(u32),
}

/// State of a CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Thread that has it.
    on: Option<u32>,
    /// Task that had it before.
    before: Option<u32>,
    /// Threads that were woken and wait for it.
    woken: Recent,
}

/// State of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    cpu: Option<u32>,
    listed: Listed,
    /// Thread that was woken after it by the same waker.
    next: Option<u32>,
}

/// Everything that guesses are made from. Threads and tasks are indices of their dictionaries; 0 is
/// a task without an index.
#[derive(Debug, Default)]
pub struct Guesses {
    /// CPU of the last interval.
    cpu: u32,
    cpus: HashMap<u32, Cpu, RandomState>,
    threads: HashMap<u32, Known, RandomState>,
    /// Threads that have no CPU, and were not woken yet.
    off: Recent,
    wakers: Recent,
    /// Thread that each waker woke last.
    woke: HashMap<u32, u32, RandomState>,
}

impl Guesses {
    /// Returns the value to be stored for a CPU: 0 where it is that of the last interval.
    pub fn cpu(&mut self, cpu: u32) -> u64 {
        let is_same = cpu == self.cpu;
        self.cpu = cpu;
        if is_same { 0 } else { u64::from(cpu) + 1 }
    }

    /// Returns the value to be stored for the CPU of a thread that was blocked: 0 where it is the
    /// thread's last.
    pub fn cpu_of(&mut self, thread: u32, cpu: u32) -> u64 {
        let is_same = self.known(thread).cpu == Some(cpu);
        self.cpu = cpu;
        if is_same { 0 } else { u64::from(cpu) + 1 }
    }

    /// Returns the value to be stored for the thread that ran on the CPU of this interval: 0 where
    /// it is the thread that got the CPU. Notes its task, where that is known.
    pub fn ran(&mut self, thread: u32, task: Option<u32>) -> u32 {
        let cpu = self.here();
        let is_same = cpu.on == Some(thread);
        (cpu.on, cpu.before) = (None, task);
        self.list(thread, Listed::Off);
        if is_same { 0 } else { thread + 1 }
    }

    /// Returns the value to be stored for the thread that was runnable, after it was woken or
    /// otherwise: its rank among those, or 0 where it is not there.
    pub fn got(&mut self, thread: u32, is_woken: bool) -> u32 {
        let cpu = self.here();
        cpu.on = Some(thread);
        let rank = cpu.woken.rank(thread);
        let rank = if is_woken {
            rank
        } else {
            self.off.rank(thread)
        };
        self.list(thread, Listed::Nowhere);
        rank
    }

    /// Returns the value to be stored for the task that had the CPU before: 0 where it is the task
    /// that ran.
    pub fn before(&mut self, task: u32) -> u32 {
        if self.here().before == Some(task) {
            0
        } else {
            task + 1
        }
    }

    /// Returns the value to be stored for the waker: its rank among wakers and tasks that ran, or 0
    /// where it is not there.
    pub fn waker(&mut self, task: u32) -> u32 {
        let rank = self.wakers.rank(task);
        self.ready(task);
        rank
    }

    /// Notes that the task may wake others soon.
    pub fn ready(&mut self, task: u32) {
        self.wakers.remove(task);
        self.wakers.add(task);
    }

    /// Returns the value to be stored for the thread that was woken by this task, if by any: 0
    /// where it is the expected next one, 1 where it is not there, or else its rank and 1.
    pub fn woken(&mut self, thread: u32, waker: Option<u32>) -> u32 {
        // Of no task, as of none whose index is known.
        let last = self.woke.insert(waker.unwrap_or_default(), thread);
        let is_next = last.is_some_and(|last| {
            let next = &mut self.known(last).next;
            next.replace(thread) == Some(thread)
        });
        if is_next {
            0
        } else {
            self.off.rank(thread) + 1
        }
    }

    /// Notes that the woken thread waits for the CPU of this interval.
    pub fn wait(&mut self, thread: u32) {
        self.list(thread, Listed::Woken(self.cpu.min(MOST_CPUS)));
    }

    /// Notes the last CPU of the thread.
    pub fn was_on(&mut self, thread: u32, cpu: u32) {
        self.known(thread).cpu = Some(cpu);
    }

    /// Returns the CPU of this interval.
    fn here(&mut self) -> &mut Cpu {
        self.at(self.cpu.min(MOST_CPUS))
    }

    fn at(&mut self, cpu: u32) -> &mut Cpu {
        self.cpus.entry(cpu).or_default()
    }

    fn known(&mut self, thread: u32) -> &mut Known {
        self.threads.entry(thread).or_default()
    }

    /// Moves the thread into this list, and out of any other one.
    fn list(&mut self, thread: u32, listed: Listed) {
        let before = std::mem::replace(&mut self.known(thread).listed, listed);
        if let Some(list) = self.list_of(before) {
            list.remove(thread);
        }
        if let Some(list) = self.list_of(listed) {
            list.add(thread);
        }
    }

    fn list_of(&mut self, listed: Listed) -> Option<&mut Recent> {
        match listed {
            Listed::Nowhere => None,
            Listed::Off => Some(&mut self.off),
            Listed::Woken(cpu) => Some(&mut self.at(cpu).woken),
        }
    }
}
