//! Counts that the kernel keeps of a running trace, as their consumers see them.

use std::cell::RefCell;
use std::rc::Rc;

use tracer_common::kernel::{CountKey, CountSum, CountedThread, NotCounted, ThreadStateData};
use tracer_engine::event::{EventHeader, MonotonicNs};

/// Counts of one moment, since the trace began.
#[derive(Clone, Debug, Default)]
pub struct CountsRead {
    /// The moment.
    pub at: MonotonicNs,
    /// The sums.
    pub sums: Vec<(CountKey, CountSum)>,
    /// Activity of threads at that moment, by the number of each.
    pub threads: Vec<(i32, CountedThread)>,
    /// Events that found no space in the kernel.
    pub not_counted: NotCounted,
}

/// Names of what is counted by an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointNames {
    /// Names of the probes; several may have one name.
    pub probes: Vec<String>,
    /// Names of the tracepoints.
    pub tracepoints: Vec<String>,
}

/// Where counts are read.
pub trait CountSource {
    /// Returns the names of the probes and tracepoints that are counted.
    fn names(&self) -> PointNames;

    /// Reads what was counted so far.
    ///
    /// # Errors
    ///
    /// The kernel does not give it.
    fn read(&mut self) -> anyhow::Result<CountsRead>;

    /// Notes what a thread did at the time of an event that says it: it is counted from then on.
    fn note(&mut self, header: &EventHeader, state: &ThreadStateData);
}

/// Source of counts that a trace shares with its consumer.
pub type SharedCounts = Rc<RefCell<dyn CountSource>>;
