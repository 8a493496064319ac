//! Loads the programs, and chooses the processes.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use aya::Ebpf;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{PID_LIMIT, traced, wanted};

use super::call_links::CallRates;
use super::calls::WantedMaps;
use super::choice;
use super::counts::CountReader;
use super::error::LoadError;
use super::first_names::FirstNames;
use super::guard::Guard;
use super::loading::{Plan, object, usize_of};
use super::look::Looker;
use super::losses::{LossReader, LostByCpu};
use super::moves::MoveHooks;
use super::namespace::ProcessListing;
use super::options::KernelOptions;
use super::probes::{ProbeAttachments, ProbeNames};
use super::python::{InterpreterPlaces, PythonStacks};
use super::requirements::{self, Kernel};
use super::source::KernelSource;
use super::thread_contexts::ContextWatch;
use super::traced::{TracedMap, VisibleMap};
use super::tracepoints::{self, Layouts};
use super::types;
use super::unended::UnendedRequests;
use super::withheld::{Withheld, WithheldMap};
use tracer_syscalls::choice::SyscallSet;

/// The loaded and attached eBPF programs. They end with the process, or when this and its
/// [`KernelSource`] are dropped.
pub struct KernelTracer {
    /// Holds the programs and their attachments.
    ebpf: Ebpf,
    _probes: ProbeAttachments,
    _tracepoints: tracepoints::TracepointAttachments,
    traced: TracedMap,
    /// `None` where no process can be guarded.
    visible: Option<VisibleMap>,
    withheld: WithheldMap,
    /// List of processes, where the tracer's pid namespace is not the first one.
    listing: Option<ProcessListing>,
    /// Look at threads when the trace begins, where that is wanted.
    looker: Option<Looker>,
    /// Readable when one of the rings is.
    ring_fd: OwnedFd,
    wanted: WantedMaps,
    lost: LostByCpu,
    first_names: FirstNames,
    /// Reader of what is counted, until it is taken.
    counts: Option<CountReader>,
    is_counting: bool,
    /// Rates of system calls, until they are taken.
    call_rates: Option<CallRates>,
    /// Kind that is to be counted, but that this kernel cannot count.
    uncounted: Option<&'static str>,
    /// The types that are recorded, as bits.
    recorded: u64,
    /// Reading of the memory that arguments of system calls point to.
    reads_arguments: bool,
    /// Recording of the contexts of threads.
    has_contexts: bool,
    /// Description of the events that are not recorded.
    left_out: Option<&'static str>,
}

impl KernelTracer {
    /// Checks the kernel, and loads and attaches the programs. Nothing is traced yet.
    ///
    /// Where the kernel does not take programs that read what arguments of system calls point to,
    /// these are loaded without that ([`reads_arguments`](Self::reads_arguments)).
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn load(options: &KernelOptions) -> Result<(Self, KernelSource), LoadError> {
        match Self::load_with(options) {
            // Reading what arguments point to makes up most of these programs, and is more than old
            // verifiers accept.
            Err(error) if options.string_bytes > 0 && error.is_for_system_calls() => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "what arguments of system calls point to is left out"
                );
                Self::load_with(&KernelOptions {
                    string_bytes: 0,
                    ..options.clone()
                })
            }
            loaded => loaded,
        }
    }

    fn load_with(options: &KernelOptions) -> Result<(Self, KernelSource), LoadError> {
        let object = object();
        let ring_bytes = options.rounded_ring_bytes()?;
        let kernel = requirements::examine(options.types.as_deref())?;
        if options.stacks.copied_bytes > 0 && !kernel.gives_registers() {
            return Err(match kernel.btf {
                Some(_) => LoadError::NoRegisters,
                None => LoadError::NoRegistersWithFile,
            });
        }
        let plan = Plan::new(options, &kernel, ring_bytes);

        let mut ebpf = plan.load(object)?;
        let maps = plan.map(&mut ebpf)?;
        let attached = plan.attach(&mut ebpf)?;
        let call_rates = attached.detachable.map(|(links, tables, rates)| {
            maps.wanted.set_links(links, tables);
            rates
        });

        let has = |name: &str| kernel.tracepoints.contains(&name);
        let uncounted = options.counting.map(|counting| counting.lacking(has));
        let counts = options.counting.map(|_| CountReader::take(&mut ebpf));
        let losses = LossReader::new(
            maps.lost.clone(),
            attached.programs,
            maps.unseen_returns,
            maps.untold_ends,
            unended(&mut ebpf, &kernel, attached.recorded),
        );
        let source = KernelSource::new(
            maps.rings,
            losses,
            maps.wanted.clone(),
            attached.recorded & wanted::OPTIONAL,
            ProbeNames {
                kinds: options.probes.kinds.clone(),
                trace_points: options.probes.trace_points,
            },
            Layouts::from_tracepoints(&options.tracepoints),
            maps.log,
        );
        let has_python = options.stacks.python_frames > 0;
        let interpreters = (has_python && options.stacks_for_others)
            .then(|| InterpreterPlaces::from_object(&mut ebpf));
        let python =
            (has_python && !options.stacks_for_others).then(|| PythonStacks::begin(&mut ebpf));
        let are_pids_ours = kernel.namespace.is_none();
        let contexts = options.thread_contexts;
        let contexts = contexts.then(|| match options.contexts_for_others {
            true => ContextWatch::begin_for_others(&mut ebpf),
            false => ContextWatch::begin(&mut ebpf, are_pids_ours),
        });
        let has_calls = attached.recorded & wanted::bit(EventTypeId::SYSCALL_EXIT) != 0;
        let hooks = MoveHooks {
            btf: kernel.btf.as_ref(),
            at_calls: has_calls && !options.detaches_calls,
        };
        let source = source
            .with_contexts(contexts.transpose()?)
            .with_interpreters(interpreters.transpose()?)
            .with_stacks(
                &options.stacks,
                hooks,
                options.stacks_for_others,
                python.transpose()?,
            )
            .with_descriptors(options.descriptors)
            .with_looks(attached.looker.as_ref().map(Looker::found));
        let tracer = Self {
            traced: TracedMap::from_object(&ebpf)?,
            visible: options.guards.then_some(maps.visible),
            withheld: maps.withheld,
            listing: attached.listing,
            looker: attached.looker,
            ring_fd: maps.ring_fd,
            wanted: maps.wanted,
            lost: maps.lost,
            first_names: source.first_names(),
            counts: counts.transpose()?,
            is_counting: options.counting.is_some(),
            call_rates,
            uncounted: uncounted.flatten(),
            recorded: attached.recorded,
            reads_arguments: options.string_bytes > 0,
            has_contexts: options.thread_contexts,
            left_out: kernel.btf.is_none().then_some(types::LEFT_OUT),
            ebpf,
            _probes: attached.probes,
            _tracepoints: attached.tracepoints,
        };
        Ok((tracer, source))
    }

    /// Traces process `pid` (all its threads) from now on; with `inherit` also the children that
    /// it makes from now on, and theirs.
    ///
    /// Where the tracer's pid namespace is the first one, this does not check whether such a
    /// process exists: an unused pid is marked only until a new process gets it.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoSuchPid`]: no process can have this pid. [`LoadError::NotHere`]: no process
    /// in this process's pid namespace has it.
    pub fn trace(&mut self, pid: i32, inherit: bool) -> Result<(), LoadError> {
        let process = self.find(pid)?;
        self.traced.set(process, choice::bits(inherit))
    }

    /// Traces process `pid`, which is about to run a command, as [`trace`](Self::trace) does. What
    /// the process does is counted from its next exec on.
    ///
    /// # Errors
    ///
    /// As of [`trace`](Self::trace).
    pub fn trace_command(&mut self, pid: i32, inherit: bool) -> Result<(), LoadError> {
        let process = self.find(pid)?;
        let unstarted = if self.is_counting {
            traced::UNSTARTED
        } else {
            0
        };
        self.traced.set(process, choice::bits(inherit) | unstarted)
    }

    /// Returns the kind that is to be counted but for which this kernel has no tracepoint, in
    /// words.
    #[must_use]
    pub fn uncounted(&self) -> Option<&'static str> {
        self.uncounted
    }

    /// Takes the maps of what is [counted](KernelOptions::counting).
    #[must_use]
    pub fn take_counts(&mut self) -> Option<CountReader> {
        self.counts.take()
    }

    /// Takes the rates of system calls, where the programs at these
    /// [can be detached](KernelOptions::detaches_calls).
    #[must_use]
    pub fn take_call_rates(&mut self) -> Option<CallRates> {
        self.call_rates.take()
    }

    /// Traces process `pid`, which a user may look into now, as [`trace`](Self::trace) does. The
    /// events of the process are recorded only while the rule of `ptrace` still allows its own user
    /// to look into it: while it has one user and one group, no capability, no user namespace of
    /// its own, and memory that may be dumped; or, by [`Guard::OwnNamespaces`], while it is in a
    /// user namespace that its user has made, and the memory may be dumped or counts there. The
    /// programs check this before each event; the events that they withhold are
    /// [counted](Self::withheld). Processes that it makes are guarded too.
    ///
    /// Two kinds of events are recorded in any case, since the caller has to judge by them: an
    /// exec, with the properties of the new program, and the new name with which an exec begins. So
    /// is the end of a process that could be looked into when this was last checked. A
    /// [look](Self::look) by an eBPF program (since 5.15) checks this too. A look in `/proc`, as
    /// that at [newcomers](Self::look_at_newcomers), does not: this process looks with its own
    /// rights.
    ///
    /// # Errors
    ///
    /// As of [`trace`](Self::trace); [`LoadError::PartMissing`] where the programs were loaded
    /// without [guards](KernelOptions::guards).
    pub fn trace_guarded(
        &mut self,
        pid: i32,
        inherit: bool,
        guard: Guard,
    ) -> Result<(), LoadError> {
        let process = self.find(pid)?;
        self.guard(process, inherit, guard)
    }

    /// Traces those of the processes `pids` that are still there, as [`trace`](Self::trace) does.
    /// Returns those of them that were not traced so before, as children of traced ones are.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn trace_found(&mut self, pids: &[i32], inherit: bool) -> Result<Vec<i32>, LoadError> {
        let bits = choice::bits(inherit);
        let mut new = Vec::new();
        for (process, pid) in self.find_all(pids)? {
            if self.traced.add(process, bits)? {
                new.push(pid);
            }
        }
        Ok(new)
    }

    /// Traces those of the processes `pids` that are still there, as
    /// [`trace_guarded`](Self::trace_guarded) does.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn trace_found_guarded(
        &mut self,
        pids: &[i32],
        inherit: bool,
        guard: Guard,
    ) -> Result<(), LoadError> {
        for (process, _) in self.find_all(pids)? {
            self.guard(process, inherit, guard)?;
        }
        Ok(())
    }

    /// Traces every process of this process's pid namespace, except this process and those that it
    /// makes from now on.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn trace_everything(&mut self, inherit: bool) -> Result<(), LoadError> {
        let own = std::process::id();
        let bits = choice::bits(inherit);
        let Some(listing) = &self.listing else {
            return self.traced.set_all(bits, usize_of(own));
        };
        // The second pass finds children made meanwhile by processes that were not marked yet.
        for _ in 0..2 {
            let processes = listing.processes(&mut self.ebpf)?;
            for process in processes.iter().filter(|one| one.here != own.cast_signed()) {
                self.traced.set(checked(process.first)?, bits)?;
            }
        }
        Ok(())
    }

    /// Records the state of every thread of the traced processes, where that is wanted, as an event
    /// of each. `pids` are those processes.
    pub fn look(&mut self, pids: &[i32]) {
        if let Some(looker) = &self.looker {
            looker.look(&mut self.ebpf, pids);
        }
    }

    /// Looks at the threads of the processes `pids` alone, which are traced from now on.
    pub fn look_at_newcomers(&self, pids: &[i32]) {
        if let Some(looker) = &self.looker {
            looker.look_at_newcomers(pids);
        }
    }

    /// Traces process `pid` no longer. Children that are traced already stay so.
    ///
    /// # Errors
    ///
    /// As of [`trace`](Self::trace).
    pub fn untrace(&mut self, pid: i32) -> Result<(), LoadError> {
        let process = self.find(pid)?;
        self.traced.set(process, 0)
    }

    /// Records these system calls from now on, as far as the types are wanted. All of the change
    /// is in force at once.
    pub fn set_syscalls(&mut self, calls: &SyscallSet) {
        self.wanted.set_syscalls(calls);
    }

    /// Tells whether the memory that arguments of system calls point to is read: the kernel may
    /// have refused the programs that do so.
    #[must_use]
    pub fn reads_arguments(&self) -> bool {
        self.reads_arguments
    }

    /// Tells whether events of this type are recorded where they are wanted: the kernel may have no
    /// tracepoint for it.
    #[must_use]
    pub fn records(&self, id: EventTypeId) -> bool {
        let is_recorded = self.recorded & wanted::bit(id) != 0;
        is_recorded || self.has_contexts && id == EventTypeId::THREAD_CONTEXT
    }

    /// Returns the events that are not recorded because the kernel's types are from a file, in
    /// words; `None` where they are its own.
    #[must_use]
    pub fn left_out(&self) -> Option<&'static str> {
        self.left_out
    }

    /// Returns the maps of the events that the programs are to record, which the streams of others
    /// change.
    #[must_use]
    pub fn wanted(&self) -> WantedMaps {
        self.wanted.clone()
    }

    /// Returns the counts of events that the programs could not record on each CPU, for a caller
    /// that reads them at the end.
    #[must_use]
    pub fn lost_by_cpu(&self) -> LostByCpu {
        self.lost.clone()
    }

    /// Returns how many events of [guarded](Self::trace_guarded) processes were withheld so far.
    #[must_use]
    pub fn withheld(&self) -> u64 {
        self.lost.withheld()
    }

    /// Takes the events of [guarded](Self::trace_guarded) processes that were withheld since the
    /// last call, by process.
    pub fn take_withheld(&mut self) -> Vec<Withheld> {
        self.withheld.take(&self.lost)
    }

    /// Returns the names that threads have as they come to be traced.
    #[must_use]
    pub fn first_names(&self) -> FirstNames {
        self.first_names.clone()
    }

    /// Returns a descriptor that becomes readable when a ring has filled past its threshold: to be
    /// used with `AsyncFd`. The descriptor is valid as long as this value lives.
    #[must_use]
    pub fn ring_fd(&self) -> RawFd {
        self.ring_fd.as_raw_fd()
    }

    /// Marks a process as guarded, by its index.
    fn guard(&self, process: usize, inherit: bool, guard: Guard) -> Result<(), LoadError> {
        let visible = self.visible.as_ref();
        let visible = visible.ok_or(LoadError::PartMissing { name: "GUARDS" })?;
        visible.note(process);
        let bits = choice::bits(inherit) | guard.bits();
        self.traced.set(process, bits)
    }

    /// Returns the index of process `pid`.
    fn find(&mut self, pid: i32) -> Result<usize, LoadError> {
        let index = checked(pid)?;
        let Some(listing) = &self.listing else {
            return Ok(index);
        };
        let processes = listing.processes(&mut self.ebpf)?;
        let found = processes.iter().find(|process| process.here == pid);
        let process = found.ok_or(LoadError::NotHere { pid })?;
        checked(process.first)
    }

    /// Returns the indices of those of the processes `pids` that are there, each with its pid.
    fn find_all(&mut self, pids: &[i32]) -> Result<Vec<(usize, i32)>, LoadError> {
        let indexed = |first, pid| Ok((checked(first)?, pid));
        if pids.is_empty() {
            return Ok(Vec::new());
        }
        let Some(listing) = &self.listing else {
            return pids.iter().map(|pid| indexed(*pid, *pid)).collect();
        };
        let processes = listing.processes(&mut self.ebpf)?.into_iter();
        let wanted: HashSet<i32> = pids.iter().copied().collect();
        let found = processes.filter(|process| wanted.contains(&process.here));
        found
            .map(|process| indexed(process.first, process.here))
            .collect()
    }
}

/// Returns the reader of requests whose end was not reported, where ends are recorded. Without it,
/// these ends are counted only when their requests are reused.
fn unended(ebpf: &mut Ebpf, kernel: &Kernel, recorded: u64) -> Option<UnendedRequests> {
    let state = kernel.request_state?;
    if recorded & wanted::bit(EventTypeId::BLOCK_COMPLETE) == 0 {
        return None;
    }
    UnendedRequests::take(ebpf, state)
        .inspect_err(|error| {
            tracing::debug!(
                error = error as &dyn std::error::Error,
                "requests are not looked at in the end"
            );
        })
        .ok()
}

/// Returns the index of a process, by its pid in the first pid namespace.
fn checked(pid: i32) -> Result<usize, LoadError> {
    let limit = usize_of(PID_LIMIT);
    usize::try_from(pid)
        .ok()
        .filter(|pid| (1..limit).contains(pid))
        .ok_or(LoadError::NoSuchPid {
            pid,
            last: limit - 1,
        })
}
