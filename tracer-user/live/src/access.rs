//! Access to the kernel's events: the programs that this process has loaded itself.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tracer_agent::{Hub, Tee};
use tracer_common::event_type::EventTypeId;
use tracer_engine::source::Source;
use tracer_kernel::{FirstNames, KernelOptions, KernelTracer, LoadError, LostByCpu};

/// Access to the kernel's events, by which processes come to be traced. The events come from the
/// source that is made with it.
pub enum KernelAccess {
    /// Programs of this process, which end with it.
    Own(Box<KernelTracer>),
}

impl KernelAccess {
    /// Loads the programs. What they record goes to `hub` too.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn load(options: &KernelOptions, hub: &Hub) -> Result<(Self, Box<dyn Source>), LoadError> {
        let (tracer, source) = KernelTracer::load(options)?;
        hub.report_to(tracer.wanted());
        let source = Tee::new(source, hub.clone());
        Ok((Self::Own(Box::new(tracer)), Box::new(source)))
    }

    /// Traces process `pid` from now on; with `inherit` also the children that it makes from now
    /// on, and theirs.
    ///
    /// # Errors
    ///
    /// It cannot be traced.
    pub fn trace(&mut self, pid: i32, inherit: bool) -> anyhow::Result<()> {
        match self {
            Self::Own(tracer) => Ok(tracer.trace(pid, inherit)?),
        }
    }

    /// Traces those of the processes `pids` that are still there, as [`trace`](Self::trace) does.
    ///
    /// # Errors
    ///
    /// They cannot be traced.
    pub fn trace_found(&mut self, pids: &[i32], inherit: bool) -> anyhow::Result<()> {
        match self {
            Self::Own(tracer) => Ok(tracer.trace_found(pids, inherit)?),
        }
    }

    /// Traces every process but this one and those that it makes from now on.
    ///
    /// # Errors
    ///
    /// They cannot be traced.
    pub fn trace_everything(&mut self, inherit: bool) -> anyhow::Result<()> {
        match self {
            Self::Own(tracer) => Ok(tracer.trace_everything(inherit)?),
        }
    }

    /// Records the state of every thread of the traced processes `pids`, where that is wanted, as
    /// an event of each.
    pub fn look(&mut self, pids: &[i32]) {
        match self {
            Self::Own(tracer) => tracer.look(pids),
        }
    }

    /// Looks at the threads of the processes `pids` alone, which are traced from now on.
    pub fn look_at_newcomers(&mut self, pids: &[i32]) {
        match self {
            Self::Own(tracer) => tracer.look_at_newcomers(pids),
        }
    }

    /// Tells whether what arguments of system calls point to is read.
    pub fn reads_arguments(&self) -> bool {
        match self {
            Self::Own(tracer) => tracer.reads_arguments(),
        }
    }

    /// Tells whether events of this type are recorded where they are wanted.
    pub fn records(&self, id: EventTypeId) -> bool {
        match self {
            Self::Own(tracer) => tracer.records(id),
        }
    }

    /// Returns the events that are not recorded because the kernel's types are from a file, in
    /// words.
    pub fn left_out(&self) -> Option<&'static str> {
        match self {
            Self::Own(tracer) => tracer.left_out(),
        }
    }

    /// Returns the counts of events that could not be recorded on each CPU.
    pub fn lost_by_cpu(&self) -> Option<LostByCpu> {
        match self {
            Self::Own(tracer) => Some(tracer.lost_by_cpu()),
        }
    }

    /// Returns the names that threads have as they come to be traced.
    pub fn first_names(&self) -> FirstNames {
        match self {
            Self::Own(tracer) => tracer.first_names(),
        }
    }

    /// Duplicates the descriptor that becomes readable when there are many events, so that it stays
    /// open as long as it is waited for.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn ring(&self) -> io::Result<Option<OwnedFd>> {
        let Self::Own(tracer) = self;
        let ring = tracer.ring_fd();
        if ring < 0 {
            return Ok(None);
        }
        // SAFETY: the tracer, which lives as long as `self`, holds the descriptor open, and this
        // borrow ends with the call.
        let ring = unsafe { BorrowedFd::borrow_raw(ring) };
        ring.try_clone_to_owned().map(Some)
    }
}
