//! The thread that each CPU has, as far as events say so.

use tracer_engine::event::MonotonicNs;

use crate::totals::MOST_CPUS;

/// The thread that has a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// Its tid; 0 is the idle task.
    pub tid: i32,
    /// It did not have the CPU before this moment.
    pub not_before: MonotonicNs,
}

/// How an event shows that a thread has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The thread got it at that moment.
    Switch,
    /// The thread has it, since some moment before.
    Event,
}

/// The CPUs.
#[derive(Debug, Default)]
pub struct Cpus(Vec<Option<Holder>>);

impl Cpus {
    /// Returns the thread that has this CPU, where one is known.
    pub fn holder(&self, cpu: u32) -> Option<Holder> {
        let index = usize::try_from(cpu).ok()?;
        self.0.get(index).copied().flatten()
    }

    /// Notes that a thread has this CPU: the other one that had it before. What is older than what
    /// is known changes nothing.
    pub fn take(&mut self, cpu: u32, tid: i32, at: MonotonicNs, sign: Sign) -> Option<i32> {
        let index = usize::try_from(cpu).ok().filter(|at| *at < MOST_CPUS)?;
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        let of_cpu = self.0.get_mut(index)?;
        if of_cpu.is_some_and(|holder| at < holder.not_before) {
            return None;
        }
        let before = of_cpu.filter(|holder| holder.tid != tid);
        let not_before = match (sign, *of_cpu) {
            (Sign::Switch, _) => at,
            (Sign::Event, Some(holder)) => holder.not_before,
            (Sign::Event, None) => MonotonicNs(0),
        };
        *of_cpu = Some(Holder { tid, not_before });
        before.map(|holder| holder.tid)
    }

    /// Notes that events are missing: no holder is known.
    pub fn lose(&mut self) {
        self.0.clear();
    }
}
