//! Access to the kernel's events: the programs that this process loads itself, where it has the
//! rights; or else the service, which gives every user those of the user's own processes.
//!
//! - `service`: the service as the source of the events;
//! - `permission`: processes that may be traced through it;
//! - `collected`: events that it has given, before a trace takes its part of them;
//! - `calls`: system calls that it records, counted, and the CPU time of their processes;
//! - `acquaintances`: processes of the same user, which may wake traced ones;
//! - `detail`: detail that a trace asks it for;
//! - `given`: events and system calls that a trace takes of those that it gives, with the functions
//!   of stacks;
//! - `lacking`: options whose events it does not give.

mod acquaintances;
mod calls;
mod collected;
mod detail;
mod given;
mod lacking;
mod permission;
mod searches;
mod service;

use std::collections::HashSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tracer_agent::{Hub, Tee};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::Source;
use tracer_kernel::{
    CallCounts, CallRates, CountReader, FirstNames, KernelOptions, KernelTracer, LostByCpu, Unmet,
    WantedMaps, capabilities,
};
use tracer_posix::agent::{AgentError, reach};

use super::{Setup, Targets};
use service::{Service, ServiceSource};

pub use calls::GivenCalls;
pub use service::{ServiceScope, service_scope};

/// Context of an error of either way.
const CANNOT: &str = "cannot trace kernel events (--no-system traces user events alone)";

/// Way to the kernel's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Programs of this process.
    Own,
    /// The service at this address.
    Service(PathBuf),
}

impl Way {
    /// Chooses the way: programs of this process where it may load them, or where there is no
    /// service: then loading them says what is missing.
    ///
    /// # Errors
    ///
    /// The service is there and cannot be believed or used.
    fn choose() -> Result<Self, AgentError> {
        if !lacks_rights() {
            return Ok(Self::Own);
        }
        match reach() {
            Ok(address) => Ok(Self::Service(address)),
            Err(AgentError::NoAgent) => Ok(Self::Own),
            Err(error) => Err(error),
        }
    }
}

/// Tells whether this process lacks the rights to load programs.
fn lacks_rights() -> bool {
    let unmet = capabilities().err();
    unmet.is_some_and(|unmet| matches!(unmet, Unmet::Capabilities { .. } | Unmet::UserNamespace))
}

/// Tells whether the kernel's events are available to this process: it may load programs, or the
/// service is there.
#[must_use]
pub fn may_trace_kernel() -> bool {
    capabilities().is_ok() || reach().is_ok()
}

/// Count of system calls, and the way to have these recorded or not.
pub enum CallMeter {
    /// By the programs of this process.
    Own(Arc<CallRates>, WantedMaps),
    /// By what the service gives.
    Service(GivenCalls),
}

impl CallMeter {
    /// Returns the counts of the kernel's programs, and the maps by which these record events or
    /// not; `None` where the service decides.
    pub fn own(&self) -> Option<(Arc<CallRates>, WantedMaps)> {
        match self {
            Self::Own(rates, wanted) => Some((rates.clone(), wanted.clone())),
            Self::Service(_) => None,
        }
    }

    /// Returns how much longer a call of a thread that is not traced takes while calls are
    /// recorded, in nanoseconds.
    pub fn floor_ns(&self) -> u64 {
        match self {
            Self::Own(rates, _) => rates.floor_ns(),
            Self::Service(calls) => calls.floor_ns(),
        }
    }

    /// Returns how long the cheapest call takes while calls are not recorded, in nanoseconds.
    pub fn cheapest_ns(&self) -> u64 {
        match self {
            Self::Own(rates, _) => rates.cheapest_ns(),
            Self::Service(calls) => calls.cheapest_ns(),
        }
    }

    /// Returns the counts as of this time of the monotonic clock.
    pub fn counts(&self, now: MonotonicNs) -> CallCounts {
        match self {
            Self::Own(rates, _) => rates.counts(now.0),
            Self::Service(calls) => calls.counts(),
        }
    }

    /// Has system calls recorded, before the stream takes them.
    ///
    /// # Errors
    ///
    /// They cannot be: nothing is changed.
    pub fn open(&self) -> io::Result<()> {
        match self {
            Self::Own(_, wanted) => wanted.attach_calls(),
            Self::Service(calls) => {
                calls.open();
                Ok(())
            }
        }
    }

    /// Has them recorded no more, from the returned moment on: the source is complete up to it, and
    /// no further until the stream's filter is changed.
    pub fn close(&self) -> MonotonicNs {
        match self {
            Self::Own(_, wanted) => wanted.detach_calls(),
            Self::Service(calls) => calls.close(),
        }
    }
}

/// Access to the kernel's events, by which processes come to be traced. The events come from the
/// source that is made with it.
pub enum KernelAccess {
    /// Programs of this process, which end with it.
    Own(Box<KernelTracer>),
    /// The service.
    Service(Box<Service>),
}

impl KernelAccess {
    /// Chooses the way to the events that `setup` asks for, and makes sure that they are available
    /// there, as far as that is known before anything is touched.
    ///
    /// # Errors
    ///
    /// They are not.
    pub fn choose(setup: &Setup) -> anyhow::Result<Way> {
        let way = Way::choose().context(CANNOT)?;
        if let Way::Service(_) = way {
            lacking::refuse(setup)?;
        }
        Ok(way)
    }

    /// Loads the programs. What they record goes to `hub` too.
    ///
    /// # Errors
    ///
    /// See [`LoadError`](tracer_kernel::LoadError).
    pub fn load(options: &KernelOptions, hub: &Hub) -> anyhow::Result<(Self, Box<dyn Source>)> {
        let loaded = KernelTracer::load(options).map_err(anyhow::Error::new);
        let (tracer, source) = loaded.context(CANNOT)?;
        hub.report_to(tracer.wanted());
        let source = Tee::new(source, hub.clone());
        Ok((Self::Own(Box::new(tracer)), Box::new(source)))
    }

    /// Takes the events from the service at this address, and says so.
    pub fn from_service(setup: &Setup, address: &Path) -> (Self, Box<dyn Source>) {
        let service = Service::new(setup, address);
        let source = ServiceSource::from_service(&service, setup);
        (Self::Service(Box::new(service)), Box::new(source))
    }

    /// Tells whether the programs are those of this process.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
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
            Self::Service(service) => Ok(service.trace(pid, inherit)?),
        }
    }

    /// Traces process `pid` as [`trace`](Self::trace) does, which waits to become a command.
    ///
    /// # Errors
    ///
    /// It cannot be traced.
    pub fn trace_command(&mut self, pid: i32, inherit: bool) -> anyhow::Result<()> {
        match self {
            Self::Own(tracer) => Ok(tracer.trace_command(pid, inherit)?),
            Self::Service(service) => Ok(service.trace(pid, inherit)?),
        }
    }

    /// Returns what is to be counted and cannot be, in words.
    pub fn uncounted(&self) -> Option<&'static str> {
        match self {
            Self::Own(tracer) => tracer.uncounted(),
            Self::Service(_) => None,
        }
    }

    /// Takes the maps of what is counted, where that was asked for.
    pub fn take_counts(&mut self) -> Option<CountReader> {
        match self {
            Self::Own(tracer) => tracer.take_counts(),
            Self::Service(_) => None,
        }
    }

    /// Takes what counts system calls, and has these recorded or not, where the programs at them
    /// can be detached.
    pub fn take_call_meter(&mut self) -> Option<CallMeter> {
        match self {
            Self::Own(tracer) => {
                let rates = Arc::new(tracer.take_call_rates()?);
                Some(CallMeter::Own(rates, tracer.wanted()))
            }
            Self::Service(service) => service.call_meter().map(CallMeter::Service),
        }
    }

    /// Traces those of the processes `pids` that are still there and may be traced, as
    /// [`trace`](Self::trace) does. Returns these.
    ///
    /// # Errors
    ///
    /// They cannot be traced.
    pub fn trace_found(&mut self, pids: &[i32], inherit: bool) -> anyhow::Result<Vec<i32>> {
        match self {
            Self::Own(tracer) => {
                tracer.trace_found(pids, inherit)?;
                Ok(pids.to_vec())
            }
            Self::Service(service) => service.trace_found(pids),
        }
    }

    /// Traces those of the processes `pids` that are not traced yet, with the children that they
    /// make from now on. Returns these. `traced` are processes that are known to be traced.
    ///
    /// # Errors
    ///
    /// They cannot be traced.
    pub fn trace_untraced(
        &mut self,
        pids: &[i32],
        traced: &mut HashSet<i32>,
    ) -> anyhow::Result<Vec<i32>> {
        match self {
            Self::Own(tracer) => Ok(tracer.trace_found(pids, true)?),
            Self::Service(service) => service.trace_untraced(pids, traced),
        }
    }

    /// Traces the processes that are chosen by a property and are there by now. Returns these.
    ///
    /// # Errors
    ///
    /// They cannot be traced.
    pub fn trace_chosen(&mut self, targets: &Targets, inherit: bool) -> anyhow::Result<Vec<i32>> {
        if let (Self::Own(tracer), Targets::Everything) = (&mut *self, targets) {
            tracer.trace_everything(inherit)?;
            return Ok(targets.there_now());
        }
        self.trace_found(&targets.there_now(), inherit)
    }

    /// Tells whether processes are chosen as they begin too, and not only where traced ones make
    /// them.
    pub fn chooses_newcomers(&self) -> bool {
        self.is_own()
    }

    /// Learns of processes of this user that may wake traced ones, where those are followed: once a
    /// second.
    pub fn meet(&mut self) {
        if let Self::Service(service) = self {
            service.meet();
        }
    }

    /// Tells whether the service traces the children of traced processes too.
    pub fn inherits(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Service(service) => service.inherits(),
        }
    }

    /// Tells whether the processes that are traced by now have to be named anew.
    pub fn asks_anew(&mut self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Service(service) => service.asks_anew(),
        }
    }

    /// Tells whether the service has gone, and is not back.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Service(service) => service.is_gone(),
        }
    }

    /// Returns the number of processes that were found and may not be traced by this user.
    pub fn left_alone(&self) -> usize {
        match self {
            Self::Own(_) => 0,
            Self::Service(service) => service.left_alone(),
        }
    }

    /// Records the state of every thread of the traced processes `pids`, where that is wanted, as
    /// an event of each.
    pub fn look(&mut self, pids: &[i32]) {
        match self {
            Self::Own(tracer) => tracer.look(pids),
            Self::Service(service) => service.look(pids),
        }
    }

    /// Looks at the threads of the processes `pids` alone, which are traced from now on.
    pub fn look_at_newcomers(&mut self, pids: &[i32]) {
        match self {
            Self::Own(tracer) => tracer.look_at_newcomers(pids),
            Self::Service(service) => service.look(pids),
        }
    }

    /// Tells whether what arguments of system calls point to is read.
    pub fn reads_arguments(&self) -> bool {
        match self {
            Self::Own(tracer) => tracer.reads_arguments(),
            Self::Service(_) => true,
        }
    }

    /// Tells whether events of this type are recorded where they are wanted.
    pub fn records(&self, id: EventTypeId) -> bool {
        match self {
            Self::Own(tracer) => tracer.records(id),
            Self::Service(service) => service.records(id),
        }
    }

    /// Returns words that come before the names of types that are not recorded.
    pub fn lacking_in_words(&self) -> &'static str {
        match self {
            Self::Own(_) => "this kernel has no tracepoint for",
            Self::Service(_) => "without root there are no events of",
        }
    }

    /// Returns the events that are not recorded because the kernel's types are from a file, in
    /// words.
    pub fn left_out(&self) -> Option<&'static str> {
        match self {
            Self::Own(tracer) => tracer.left_out(),
            Self::Service(_) => None,
        }
    }

    /// Returns the counts of events that could not be recorded on each CPU.
    pub fn lost_by_cpu(&self) -> Option<LostByCpu> {
        match self {
            Self::Own(tracer) => Some(tracer.lost_by_cpu()),
            Self::Service(_) => None,
        }
    }

    /// Returns the names that threads have as they come to be traced.
    pub fn first_names(&self) -> FirstNames {
        match self {
            Self::Own(tracer) => tracer.first_names(),
            // A thread that comes to be traced is the child of one, or is named by /proc.
            Self::Service(_) => FirstNames::default(),
        }
    }

    /// Duplicates the descriptor that becomes readable when there are many events, so that it stays
    /// open as long as it is waited for.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn ring(&self) -> io::Result<Option<OwnedFd>> {
        let Self::Own(tracer) = self else {
            // The service holds them until it is asked, which each tick does.
            return Ok(None);
        };
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
