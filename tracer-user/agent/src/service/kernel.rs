//! The recordings of the kernel's events, for as long as there are subscriptions.
//!
//! The usual one has the types that say much and cost little, for every subscription. Two others
//! have those that some subscription has chosen by name ([`ON_DEMAND`]): system calls, whose
//! tracepoints slow every process of the machine as long as a program is attached to them, and the
//! rest. Each has its own programs and rings, and comes and goes without a gap in the others.

use std::time::{Duration, Instant};

use tracer_area::monotonic_now;
use tracer_common::event_type::{EventOrigin, EventTypeId, SYSTEM_EVENT_TYPES};
use tracer_common::kernel::wanted;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::LossCause;
use tracer_kernel::{ReportsExecs as _, give_back_what_is_free};
use tracer_posix::agent::protocol::Detail;
use tracer_text::say;

use super::orders::Found;
use super::recording::{KernelRecording, in_words};
use crate::Hub;

/// Types that are recorded where a subscription has chosen them by a filter.
pub const ON_DEMAND: u64 = collect_bits(false);

/// Types that are recorded for every subscription.
const USUAL: u64 = collect_bits(true);

/// Those that slow every system call of every process as long as they are recorded.
const CALLS: u64 = wanted::bit(EventTypeId::SYSCALL_ENTER) | wanted::bit(EventTypeId::SYSCALL_EXIT);

/// Time for which types stay that no subscription wants any more.
const LINGER: Duration = Duration::from_secs(5);

#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const fn collect_bits(is_default: bool) -> u64 {
    let mut bits = 0;
    let mut index = 0;
    while index < SYSTEM_EVENT_TYPES.len() {
        let entry = &SYSTEM_EVENT_TYPES[index];
        // Events of no process are given to none.
        let is_kernels = matches!(entry.origin, EventOrigin::Kernel) && entry.has_process;
        if is_kernels && entry.is_default == is_default {
            bits |= wanted::bit(entry.id);
        }
        index += 1;
    }
    bits & wanted::OPTIONAL
}

/// The kernel's events of the subscriptions.
pub struct Recordings {
    hub: Hub,
    /// The detail, where it is not the usual one: then all is one recording, of the types that its
    /// clients may ask for.
    detail: Option<Detail>,
    usual: Option<KernelRecording>,
    on_demand: [Group; 2],
    /// Processes that are looked at again when everything up to a time is known.
    unsure: Option<Unsure>,
}

/// Types that are recorded on demand: all of them where any is wanted, so that there are few
/// changes.
struct Group {
    /// The types, as bits.
    types: u64,
    recording: Option<KernelRecording>,
    /// Since when they are recorded though no subscription wants any.
    surplus_since: Option<Instant>,
}

impl Group {
    fn new(types: u64) -> Self {
        Self {
            types,
            recording: None,
            surplus_since: None,
        }
    }

    /// Tells whether an event is one of these types.
    fn has(&self, header: &EventHeader) -> bool {
        wanted::bit(header.event_type) & self.types != 0
    }

    /// Notes whether it is wanted by now.
    fn note_whether_wanted(&mut self, is_wanted: bool) {
        let is_surplus = self.recording.is_some() && !is_wanted;
        let since = self.surplus_since.unwrap_or_else(Instant::now);
        self.surplus_since = is_surplus.then_some(since);
    }
}

/// Processes of which it is not known yet whether they are marked in the kernel as they should be.
#[derive(Debug)]
struct Unsure {
    /// Time by which it is known.
    at: MonotonicNs,
    /// Those that were marked as not traced: another that is traced may have had the pid by then.
    untraced: Vec<i32>,
}

impl Recordings {
    /// Begins without any.
    pub fn new(hub: Hub, detail: Option<Detail>) -> Self {
        Self {
            hub,
            detail,
            usual: None,
            on_demand: [CALLS, ON_DEMAND & !CALLS].map(Group::new),
            unsure: None,
        }
    }

    /// Returns all that are in the kernel.
    fn all(&mut self) -> impl Iterator<Item = &mut KernelRecording> {
        let on_demand = self.on_demand.iter_mut();
        let on_demand = on_demand.filter_map(|group| group.recording.as_mut());
        self.usual.as_mut().into_iter().chain(on_demand)
    }

    /// Tells whether programs are in the kernel.
    pub fn is_loaded(&self) -> bool {
        self.usual.is_some()
    }

    /// Waits until a ring has something.
    pub async fn readable(&self) {
        let one = async |recording: Option<&KernelRecording>| match recording {
            Some(recording) => recording.readable().await,
            None => std::future::pending().await,
        };
        let [calls, others] = &self.on_demand;
        tokio::select! {
            () = one(self.usual.as_ref()) => {}
            () = one(calls.recording.as_ref()) => {}
            () = one(others.recording.as_ref()) => {}
        }
    }

    /// Traces a process from now on, for the subscriptions that have it.
    ///
    /// # Errors
    ///
    /// The programs cannot be loaded, or no process can have this pid: in words.
    pub fn trace(&mut self, pid: i32) -> Result<(), String> {
        self.load_usual()?;
        let traced = self.hub.traced_for(pid);
        self.all()
            .try_for_each(|recording| recording.mark(pid, traced))?;
        // The next subscription has heard of none so far.
        if let Some(usual) = &mut self.usual {
            usual.source.renew_contexts();
            usual.source.renew_functions();
        }
        Ok(())
    }

    /// Notes what a client has found in a process.
    ///
    /// # Errors
    ///
    /// There are too many processes, or this is not recorded: in words.
    pub fn note_found(&mut self, pid: i32, found: Found) -> Result<(), String> {
        let Some(usual) = &mut self.usual else {
            return Err("nothing is recorded".to_owned());
        };
        let noted = match found {
            Found::Contexts(place) => usual.source.place_contexts(pid, place),
            Found::Interpreter(process) => usual.source.place_interpreter(pid, process),
        };
        noted.map_err(|error| in_words(&error))
    }

    fn load_usual(&mut self) -> Result<(), String> {
        if self.usual.is_some() {
            return Ok(());
        }
        let types = match self.detail {
            Some(detail) => detail.types & (USUAL | ON_DEMAND),
            None => USUAL,
        };
        let loaded = KernelRecording::load(types, self.detail, false);
        let loaded = loaded.inspect_err(|error| {
            say(&format!("cannot record the kernel's events: {error}"));
        })?;
        self.hub.begin_anew();
        self.hub.report_to(loaded.tracer.wanted());
        self.usual = Some(loaded);
        Ok(())
    }

    /// Records what the subscriptions want by now. What none wants any more goes a little later: a
    /// client that changes its mind all the time does not have programs loaded each time.
    pub fn adjust(&mut self) {
        let wanted = self.wanted_on_demand();
        for index in 0..self.on_demand.len() {
            let Some(group) = self.on_demand.get_mut(index) else {
                continue;
            };
            let is_wanted = wanted & group.types != 0;
            let is_there = group.recording.is_some();
            group.note_whether_wanted(is_wanted);
            if is_wanted && !is_there && self.usual.is_some() {
                let types = group.types;
                let loaded = self.loaded_on_demand(types);
                if let Some(group) = self.on_demand.get_mut(index) {
                    group.recording = loaded;
                }
            }
        }
    }

    /// Takes away what has not been wanted for a while.
    fn shed(&mut self) {
        let is_due = |since: &mut Instant| since.elapsed() >= LINGER;
        let mut is_shed = false;
        for group in &mut self.on_demand {
            if group.surplus_since.take_if(is_due).is_some() {
                group.recording = None;
                is_shed = true;
            }
        }
        if is_shed {
            self.report_to_all();
        }
    }

    /// Returns the types on demand that subscriptions want.
    fn wanted_on_demand(&self) -> u64 {
        if self.detail.is_some() {
            return 0;
        }
        self.hub.wanted() & ON_DEMAND
    }

    /// Begins to record these types on demand.
    fn loaded_on_demand(&mut self, types: u64) -> Option<KernelRecording> {
        match KernelRecording::load(types, None, true) {
            Ok(mut loaded) => {
                let processes = self.hub.processes();
                let pids: Vec<i32> = processes.keys().copied().collect();
                self.hub.doubt_some(&pids);
                for (pid, traced) in processes {
                    let _ = loaded.mark(pid, Some(traced));
                }
                self.hub.report_to(loaded.tracer.wanted());
                // What these have made meanwhile is known a round later.
                self.be_unsure(Vec::new());
                Some(loaded)
            }
            Err(error) => {
                say(&format!(
                    "cannot record what a program has chosen by name: {error}"
                ));
                self.hub.lose_one_of(types);
                None
            }
        }
    }

    fn report_to_all(&mut self) {
        self.hub.report_to_none();
        let kernels: Vec<_> = self.all().map(|one| one.tracer.wanted()).collect();
        for kernel in kernels {
            self.hub.report_to(kernel);
        }
    }

    /// Traces those of these processes no longer that no subscription has by now.
    pub fn release(&mut self, pids: &[i32]) {
        // Which have ended is known then: their pids may be others'.
        self.collect();
        self.hub.doubt_some(pids);
        let mut untraced = Vec::new();
        for pid in pids {
            let kept = self.hub.traced_for(*pid);
            for recording in self.all() {
                let _ = recording.mark(*pid, kept);
            }
            if kept.is_none() {
                untraced.push(*pid);
            }
        }
        self.adjust();
        self.be_unsure(untraced);
    }

    fn be_unsure(&mut self, untraced: Vec<i32>) {
        let mut untraced = untraced;
        if let Some(unsure) = &mut self.unsure {
            untraced.append(&mut unsure.untraced);
        }
        self.unsure = Some(Unsure {
            at: monotonic_now(),
            untraced,
        });
    }

    /// Marks anew what turns out to be another process than it was taken for, or was not known.
    fn be_sure(&mut self, watermark: MonotonicNs) {
        let Some(unsure) = self.unsure.take_if(|unsure| unsure.at <= watermark) else {
            return;
        };
        let processes = self.hub.processes();
        let pids: Vec<i32> = processes.keys().copied().collect();
        self.hub.doubt_some(&pids);
        for (pid, traced) in processes {
            let is_another = unsure.untraced.contains(&pid);
            if is_another {
                self.hub.lose_of(pid);
            }
            if let Some(usual) = self.usual.as_mut().filter(|_| is_another) {
                let _ = usual.mark(pid, Some(traced));
            }
            for group in &mut self.on_demand {
                if let Some(recording) = &mut group.recording {
                    let _ = recording.mark(pid, Some(traced));
                }
            }
        }
    }

    /// Brings the subscriptions what was recorded since the last time, and takes away what has not
    /// been wanted for a while.
    pub fn round(&mut self) {
        self.collect();
        self.shed();
    }

    fn collect(&mut self) {
        let Some(usual) = &mut self.usual else {
            return;
        };
        // First: whether a process is another's by then is known by what was recorded before it.
        let withheld = usual.tracer.take_withheld();
        self.hub.withhold(&withheld);
        for group in &mut self.on_demand {
            if let Some(recording) = &mut group.recording {
                self.hub.withhold(&recording.tracer.take_withheld());
            }
        }
        let mut watermark = usual.collect();
        let signs = usual.source.take_exec_signs();
        self.hub.take_unseen(usual.source.take_unseen());
        self.hub.take_mappings(usual.source.take_mappings());
        for group in &mut self.on_demand {
            if let Some(recording) = &mut group.recording {
                watermark = watermark.min(recording.collect());
                // The usual one has them too.
                drop(recording.source.take_exec_signs());
                drop(recording.source.take_unseen());
            }
        }
        // First: what was lost may be what says who may see the others.
        self.report_losses();
        let usual = self.usual.iter().flat_map(KernelRecording::events);
        let on_demand = self.on_demand.iter().flat_map(|group| {
            let events = group.recording.iter().flat_map(KernelRecording::events);
            events.filter(|(header, _)| group.has(header))
        });
        self.hub.take(usual.chain(on_demand), signs, watermark);
        self.all().for_each(KernelRecording::clear);
        if let Some(usual) = self.usual.as_mut().filter(|_| !withheld.is_empty()) {
            // Who hears of it as a loss knows no context any more.
            usual.source.renew_contexts();
        }
        self.hub.complete_up_to(watermark);
        self.be_sure(watermark);
    }

    /// Reports what was lost to the subscriptions that it may concern.
    fn report_losses(&self) {
        let usual = self.usual.iter().flat_map(KernelRecording::losses);
        // What the kernel did not report is of one thread, which not every program may see.
        for loss in usual.filter(|loss| loss.cause != LossCause::KernelNotReported) {
            self.hub.lose(*loss);
        }
        for group in &self.on_demand {
            let losses = group.recording.iter().flat_map(KernelRecording::losses);
            for loss in losses.filter(|loss| loss.cause != LossCause::KernelNotReported) {
                self.hub.lose_of_types(*loss, group.types);
            }
        }
    }

    /// Takes all programs out of the kernel.
    pub fn unload(&mut self) {
        self.hub.report_to_none();
        self.hub.begin_anew();
        for group in &mut self.on_demand {
            *group = Group::new(group.types);
        }
        self.usual = None;
        self.unsure = None;
        give_back_what_is_free();
    }
}
