//! The kernel's events as a source of a stream.

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    ContextPlace, PythonProcess, TRACEPOINT_RECORDS, ThreadContextData, wanted,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::{Batch, Control, Loss, LossCause, Source, Unread};

use super::calls::WantedMaps;
use super::decode::{ExecSign, UnseenStep, decode, exec_sign, unseen_step};
use super::diagnostics::Diagnostics;
use super::error::LoadError;
use super::first_names::FirstNames;
use super::look::LookRecords;
use super::losses::LossReader;
use super::mapped::MappingReport;
use super::moves::MoveHooks;
use super::probes::{NO_PREFERENCE, ProbeNames, address_of_trace_point, with_type};
use super::python::{InterpreterPlaces, PythonStacks};
use super::rings::Rings;
use super::stacks::{WaitingStacks, is_stack};
use super::switches::{SWITCHES, Switches};
use super::thread_contexts::ContextWatch;
use super::tracepoints::Layouts;
use tracer_binary::stacks::StackOptions;
use tracer_syscalls::descriptors::{DescriptorOptions, Descriptors, is_descriptors};

/// Distance by which the watermark stays behind the clock.
///
/// The programs' clock is the kernel's fast monotonic one. It may differ from the clock that is
/// read here while the kernel adjusts its frequency: by at most 500 parts in a million of the time
/// since the kernel's last update. This time is a tick of 10 ms at most, or longer where a host
/// holds up the virtual machine. A difference of 15 µs was seen. The distance is enough for 200 ms
/// since the last update.
const CLOCK_MARGIN_NS: u64 = 100_000;

/// Data of an event that says that a thread has no context, or that its context is not known.
pub const NO_CONTEXT: &[u8] = &[0; size_of::<ThreadContextData>()];

/// Returns the header of an event that says, with [`NO_CONTEXT`], that the contexts of all threads
/// are unknown from this time on.
#[must_use]
pub fn no_contexts(since: MonotonicNs) -> EventHeader {
    EventHeader {
        time: since,
        event_type: EventTypeId::THREAD_CONTEXT,
        pid: 0,
        tid: 0,
        cpu: None,
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
    }
}

/// A source that also reports the steps of execs.
pub trait ReportsExecs {
    /// Takes the steps since the last call, and forgets them.
    fn take_exec_signs(&mut self) -> Vec<ExecSign>;
}

/// The kernel's events as a source of a stream.
pub struct KernelSource {
    rings: Rings,
    losses: LossReader,
    wanted: WantedMaps,
    /// The optional types that the programs were loaded for, as bits.
    loaded_for: u64,
    probes: ProbeNames,
    tracepoints: Layouts,
    watermark: MonotonicNs,
    diagnostics: Option<Diagnostics>,
    /// Steps of execs since they were last taken.
    signs: Vec<ExecSign>,
    /// Steps of guarded processes that no event reports, since they were last taken.
    unseen: Vec<UnseenStep>,
    switches: Switches,
    /// Whether the stream takes switches.
    has_switches: bool,
    /// Stacks, where they are recorded.
    stacks: Option<WaitingStacks>,
    /// Descriptions of descriptors, where they are recorded.
    descriptors: Option<Descriptors>,
    /// Contexts of threads, where they are recorded.
    contexts: Option<ContextWatch>,
    /// Interpreters of processes, where other processes find them.
    interpreters: Option<InterpreterPlaces>,
    /// States of threads when the trace began.
    looks: LookRecords,
    first_names: FirstNames,
}

impl ReportsExecs for KernelSource {
    fn take_exec_signs(&mut self) -> Vec<ExecSign> {
        std::mem::take(&mut self.signs)
    }
}

impl KernelSource {
    pub(super) fn new(
        rings: Rings,
        losses: LossReader,
        wanted: WantedMaps,
        loaded_for: u64,
        probes: ProbeNames,
        tracepoints: Layouts,
        diagnostics: Option<Diagnostics>,
    ) -> Self {
        let source = Self {
            rings,
            losses,
            wanted,
            loaded_for,
            probes,
            tracepoints,
            watermark: MonotonicNs(0),
            diagnostics,
            signs: Vec::new(),
            unseen: Vec::new(),
            switches: Switches::default(),
            has_switches: true,
            stacks: None,
            descriptors: None,
            contexts: None,
            interpreters: None,
            looks: LookRecords::default(),
            first_names: FirstNames::default(),
        };
        source.wanted.set_recorded(loaded_for);
        source
    }

    /// Returns the source, which also takes stacks where they are recorded.
    pub(super) fn with_stacks(
        self,
        options: &StackOptions,
        hooks: MoveHooks<'_>,
        for_others: bool,
        python: Option<PythonStacks>,
    ) -> Self {
        let are_recorded = options.are_wanted();
        Self {
            stacks: are_recorded.then(|| WaitingStacks::begin(options, hooks, for_others, python)),
            ..self
        }
    }

    /// Takes the steps of guarded processes since the last call that no event reports, since the
    /// processes could not be looked into. A process that one of them has made is traced as its
    /// parent is.
    pub fn take_unseen(&mut self) -> Vec<UnseenStep> {
        std::mem::take(&mut self.unseen)
    }

    /// Takes the kernel's reports of mappings since the last call, each with its time and in order
    /// of time, where stacks are [for others](super::KernelOptions::stacks_for_others).
    pub fn take_mappings(&mut self) -> Vec<(u64, MappingReport)> {
        let stacks = self.stacks.as_mut();
        stacks.map_or_else(Vec::new, WaitingStacks::take_reports)
    }

    /// Tells the programs where a process has the contexts of its threads, or that it has none,
    /// where contexts are [for others](super::KernelOptions::contexts_for_others).
    ///
    /// # Errors
    ///
    /// There are too many processes, or contexts are not for others.
    pub fn place_contexts(
        &mut self,
        pid: i32,
        place: Option<ContextPlace>,
    ) -> Result<(), LoadError> {
        match &mut self.contexts {
            Some(contexts) => contexts.place(pid, place),
            None => Err(LoadError::PartMissing {
                name: "CONTEXT_PLACES",
            }),
        }
    }

    /// Tells the programs which interpreter of Python a process has, or that it has none, where
    /// stacks are [for others](super::KernelOptions::stacks_for_others).
    ///
    /// # Errors
    ///
    /// There are too many processes, or Python frames are not for others.
    pub fn place_interpreter(
        &mut self,
        pid: i32,
        process: Option<PythonProcess>,
    ) -> Result<(), LoadError> {
        match &mut self.interpreters {
            Some(interpreters) => interpreters.place(pid, process),
            None => Err(LoadError::PartMissing { name: "PYTHON" }),
        }
    }

    /// Has each function of Python recorded anew, for a reader that has not had those so far.
    pub fn renew_functions(&mut self) {
        if let Some(interpreters) = &mut self.interpreters {
            interpreters.renew();
        }
    }

    /// Returns the source, for whose programs other processes find interpreters.
    pub(super) fn with_interpreters(self, interpreters: Option<InterpreterPlaces>) -> Self {
        Self {
            interpreters,
            ..self
        }
    }

    /// Has the context of each thread recorded anew, for a reader that has not had the contexts so
    /// far.
    pub fn renew_contexts(&mut self) {
        if let Some(contexts) = &mut self.contexts {
            contexts.begin_epoch();
        }
    }

    /// Returns the source, which also watches over contexts of threads where they are recorded.
    pub(super) fn with_contexts(self, contexts: Option<ContextWatch>) -> Self {
        Self { contexts, ..self }
    }

    /// Pushes an event that says that no context is known since that time, as some may have been
    /// lost, and has all contexts recorded anew.
    fn lose_contexts(&mut self, since: MonotonicNs, batch: &mut Batch<'_>) {
        let Some(contexts) = &mut self.contexts else {
            return;
        };
        contexts.begin_epoch();
        batch.push(no_contexts(since), NO_CONTEXT);
    }

    /// Returns the source, which also takes descriptions of descriptors where they are recorded.
    pub(super) fn with_descriptors(self, options: DescriptorOptions) -> Self {
        Self {
            descriptors: Descriptors::from_options(options),
            ..self
        }
    }

    /// Returns the names that threads have as they come to be traced.
    pub(super) fn first_names(&self) -> FirstNames {
        self.first_names.clone()
    }

    /// Returns the source, which also takes looks at threads.
    pub(super) fn with_looks(self, looks: Option<LookRecords>) -> Self {
        Self {
            looks: looks.unwrap_or_default(),
            ..self
        }
    }

    fn collect_losses(&mut self, batch: &mut Batch<'_>, damaged: u64, untold_switches: u64) {
        let full: Vec<_> = self.losses.ring_full().collect();
        for lost in full {
            // All losses up to the watermark have been reported.
            let since = lost.since.max(self.watermark);
            if let Some(stacks) = &mut self.stacks {
                stacks.forget();
            }
            tracing::debug!(cpu = lost.cpu, count = lost.count, "a ring was full");
            self.lose_contexts(since, batch);
            batch.lose(Loss {
                cause: LossCause::KernelRingFull,
                count: lost.count,
                since,
                is_marked: false,
            });
        }
        let since = self.watermark;
        let untold = untold_switches + self.losses.untold_ends();
        if let Some(contexts) = self.contexts.as_mut().filter(|_| untold > 0) {
            // The service doubts the context of such a thread until it is recorded again.
            contexts.begin_epoch();
        }
        let missed = self.losses.missed();
        if missed > 0 {
            self.lose_contexts(since, batch);
        }
        for (cause, count) in [
            (LossCause::KernelMissed, missed),
            (LossCause::ReturnTooDeep, self.losses.unseen_returns()),
            (LossCause::KernelNotReported, untold),
            (LossCause::Damaged, damaged),
        ] {
            batch.lose(Loss {
                cause,
                count,
                since,
                // The thread's next event shows this loss. A mark would put other threads in doubt
                // too.
                is_marked: cause == LossCause::KernelNotReported,
            });
        }
    }
}

impl Source for KernelSource {
    /// Collects the records up to the present. The clock is read first, then the end of each ring.
    /// A record gets its time after its space is reserved. So a record beyond the end that was read
    /// has a later time than the clock showed.
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let now = monotonic_now();
        // The clock is read before the ends of the rings: the proof above depends on it.
        fence(Ordering::SeqCst);
        self.rings.look_at_ends();
        let (mut damaged, mut untold) = (0, 0);
        let (switches, has_switches) = (&mut self.switches, self.has_switches);
        let (signs, unseen) = (&mut self.signs, &mut self.unseen);
        let stacks = &mut self.stacks;
        let descriptors = &mut self.descriptors;
        if let Some(stacks) = stacks {
            stacks.look(self.watermark);
        }
        let mut take = |record: &[u8]| {
            if let Some(tid) = self.first_names.take(record) {
                switches.begins(tid);
                return;
            }
            if let Some(step) = unseen_step(record) {
                unseen.push(step);
                return;
            }
            if let Some(stacks) = stacks
                && is_stack(record)
            {
                damaged += u64::from(stacks.take(record, batch).is_none());
                return;
            }
            if let Some(descriptors) = descriptors
                && is_descriptors(record)
            {
                damaged += u64::from(descriptors.take(record).is_none());
                return;
            }
            let each = |header: EventHeader, data: &[u8]| {
                if let Some(index) = tracepoint_index(&header) {
                    match self.tracepoints.event(index, data) {
                        Some((name, data)) => {
                            let id = batch.user_event_type(name.as_bytes(), NO_PREFERENCE);
                            let record_type = header.event_type.0;
                            let header = with_type(header, id);
                            if let Some(stacks) = stacks {
                                stacks.push_before(record_type, &header, batch);
                            }
                            batch.push(header, &data);
                        }
                        None => damaged += 1,
                    }
                    return;
                }
                let record_type = header.event_type.0;
                if self.probes.is_trace_point(&header) {
                    let address = address_of_trace_point(data);
                    let both = stacks.as_mut().zip(address);
                    damaged += u64::from(both.is_none());
                    if let Some((stacks, address)) = both {
                        stacks.push_of_user_event(&header, address, batch);
                    }
                    return;
                }
                let data = &*self.probes.data(&header, data);
                match self.probes.identified(header, batch) {
                    Some(header) => {
                        if let Some(stacks) = stacks {
                            stacks.push_before(record_type, &header, batch);
                        }
                        untold += u64::from(has_switches && switches.misses_one(&header, data));
                        signs.extend(exec_sign(record));
                        match descriptors {
                            Some(all) => batch.push(header, &all.join(&header, data)),
                            None => batch.push(header, data),
                        }
                    }
                    None => damaged += 1,
                }
            };
            if let Err(error) = decode(record, each) {
                damaged += 1;
                tracing::debug!(error = &error as &dyn std::error::Error, "damaged record");
            }
        };
        // The thread that collects is also the one that looks: its looks are over by now.
        for record in self.looks.take() {
            take(&record);
        }
        let is_whole = self.rings.drain(take);
        // Losses are read after the clock, too: they count before their time is read, so that a
        // loss that is not counted here yet has a later time.
        self.collect_losses(batch, damaged, untold);
        if let Some(contexts) = &mut self.contexts {
            contexts.tick();
        }
        if let Some(interpreters) = &mut self.interpreters {
            interpreters.tick();
        }
        if let Some(diagnostics) = &mut self.diagnostics {
            diagnostics.flush();
        }
        if is_whole {
            let complete = MonotonicNs(now.0.saturating_sub(CLOCK_MARGIN_NS));
            let complete = self
                .wanted
                .held_at()
                .map_or(complete, |at| complete.min(at));
            self.watermark = self.watermark.max(complete);
        }
        self.watermark
    }

    fn comes_first(&self) -> bool {
        true
    }

    /// Returns what is left to read. Only its reader finds out how many records are in a ring.
    fn count_unread(&mut self, until: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
        if self.watermark >= until {
            Unread::Nothing
        } else {
            Unread::Unknown
        }
    }

    /// Makes the programs drop the types that are filtered out, and all optional types while the
    /// stream does not run, from now on. Types that report which processes exist are still
    /// recorded.
    fn control(&mut self, control: &Control) {
        let [filter, ..] = control.filter.words();
        let bits = if control.running { !filter } else { 0 };
        self.wanted.let_go();
        self.has_switches = bits & SWITCHES == SWITCHES;
        if !self.has_switches {
            // Those that come later do not follow on these.
            self.switches = Switches::default();
        }
        self.wanted
            .set_types(bits & self.loaded_for & wanted::OPTIONAL);
        // A stream that ends collects once more: that must bring the final counts.
        self.losses.ask_soon(!control.running);
    }
}

/// Returns the index of the tracepoint that a record is of, if it is of one.
fn tracepoint_index(header: &EventHeader) -> Option<u32> {
    header
        .event_type
        .0
        .checked_sub(u32::from(TRACEPOINT_RECORDS))
}
