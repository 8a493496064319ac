//! The recordings of the kernel's events, for as long as there are subscriptions.
//!
//! There are two, each with its own programs and rings. The first has the types that say much and
//! cost little, for every subscription. The second has those that some subscription has chosen by
//! name ([`ON_DEMAND`]): system calls above all, whose tracepoints slow every process of the
//! machine as long as a program is attached to them. It comes and goes without a gap in the first.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracer_area::monotonic_now;
use tracer_common::event_type::{EventOrigin, EventTypeId, SYSTEM_EVENT_TYPES, SystemEventType};
use tracer_common::kernel::{ContextPlace, wanted};
use tracer_engine::EventTypes;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Batch, Loss, LossCause, Pending, Source as _};
use tracer_kernel::{
    KernelOptions, KernelSource, KernelTracer, LoadError, ReportsExecs as _, give_back_what_is_free,
};
use tracer_posix::agent::protocol::Detail;
use tracer_syscalls::choice::SyscallSet;
use tracer_text::say;

use super::detail::{descriptors_of, stacks_of};
use crate::Hub;
use crate::hub::TracedFor;

/// Bytes of each ring.
const RING_BYTES: u32 = 2 << 20;

/// Bytes of each ring, where each stack takes some thousand.
const LARGE_RING_BYTES: u32 = 8 << 20;

/// Bytes of each ring, where calls are to be recorded no more as soon as there are too many: a
/// client hears of those once all before them are read.
const SMALL_RING_BYTES: u32 = 1 << 20;

/// Most bytes that are read of what an argument of a system call points to: as many as tracers ask
/// for that are not told otherwise.
const STRING_BYTES: u32 = 64;

/// Types that are recorded where a subscription has chosen them by a filter.
pub const ON_DEMAND: u64 = collect_bits(false);

/// Types that are recorded for every subscription.
const USUAL: u64 = collect_bits(true);

/// Those that slow every system call of every process as long as they are recorded.
const CALLS: u64 = wanted::bit(EventTypeId::SYSCALL_ENTER) | wanted::bit(EventTypeId::SYSCALL_EXIT);

/// Time for which types stay that no subscription wants any more.
const LINGER: Duration = Duration::from_secs(5);

/// Families of types for which programs would be loaded that no subscription can ask for.
const NEVER: &[&str] = &["stack", "sample"];

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

fn types(bits: u64, has_samples: bool) -> Vec<EventTypeId> {
    let chosen = |entry: &&SystemEventType| {
        let is_sample = has_samples && entry.id == EventTypeId::SAMPLE;
        wanted::bit(entry.id) & bits != 0 && (is_sample || !NEVER.contains(&entry.family))
    };
    let chosen = SYSTEM_EVENT_TYPES.iter().filter(chosen);
    chosen.map(|entry| entry.id).collect()
}

/// Programs in the kernel, and what they record.
struct Recording {
    // Dropped in this order: the source owns the rings.
    source: KernelSource,
    ring: Option<AsyncFd<OwnedFd>>,
    tracer: KernelTracer,
    /// The types that were asked for, as bits.
    bits: u64,
}

impl Recording {
    /// Loads the programs for these types, in this detail; `is_beside` a recording that has what
    /// says which processes exist.
    fn load(bits: u64, detail: Option<Detail>, is_beside: bool) -> Result<Self, String> {
        let detail = detail.unwrap_or(Detail {
            string_bytes: STRING_BYTES,
            calls: *SyscallSet::all().words(),
            ..Detail::default()
        });
        let options = KernelOptions {
            ring_bytes: if detail.copied_bytes > 0 {
                LARGE_RING_BYTES
            } else if detail.releases_calls {
                SMALL_RING_BYTES
            } else {
                RING_BYTES
            },
            syscalls: SyscallSet::from_words(detail.calls),
            wanted: types(bits, detail.samples_per_second > 0),
            string_bytes: detail.string_bytes,
            descriptors: descriptors_of(&detail),
            calls_at_exit: detail.calls_at_exit,
            detaches_calls: detail.releases_calls,
            stacks: stacks_of(&detail),
            stacks_for_others: true,
            guards: true,
            thread_contexts: detail.contexts,
            contexts_for_others: true,
            is_beside,
            ..KernelOptions::default()
        };
        let (tracer, source) = KernelTracer::load(&options).map_err(|error| in_words(&error))?;
        // It has no stream of its own: subscriptions alone say what is recorded.
        tracer.wanted().set_types(0);
        let ring = watched(&tracer).map_err(|error| in_words(&error))?;
        give_back_what_is_free();
        Ok(Self {
            source,
            ring,
            tracer,
            bits,
        })
    }

    async fn readable(&self) {
        let Some(ring) = &self.ring else {
            return std::future::pending().await;
        };
        match ring.readable().await {
            Ok(mut guard) => guard.clear_ready(),
            // The tick goes on without it.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Has a process traced for its subscriptions, or no longer. In a pid namespace of its own it may
/// have ended; else one that has is marked until a new process has its pid.
fn mark(tracer: &mut KernelTracer, pid: i32, traced: Option<TracedFor>) -> Result<(), LoadError> {
    match traced {
        Some(traced) if traced.is_guarded => tracer.trace_guarded(pid, traced.inherit),
        Some(traced) => tracer.trace(pid, traced.inherit),
        None => tracer.untrace(pid),
    }
}

fn watched(tracer: &KernelTracer) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let ring = tracer.ring_fd();
    if ring < 0 {
        return Ok(None);
    }
    // SAFETY: the tracer lives, and this borrow ends with the call.
    let ring = unsafe { BorrowedFd::borrow_raw(ring) };
    let ring = ring.try_clone_to_owned()?;
    // SAFETY: it owns its descriptor, which it neither closes nor replaces.
    unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
        .map(Some)
        .map_err(|error| error.into_parts().1)
}

fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words.push_str(": ");
        words.push_str(&error.to_string());
        source = error.source();
    }
    words
}

/// Events of one round, and what is kept between rounds.
#[derive(Default)]
struct Collected {
    types: EventTypes,
    events: Vec<Pending>,
    data: Vec<u8>,
    losses: Vec<Loss>,
}

impl Collected {
    /// Collects from a source. Returns its watermark.
    fn collect(&mut self, source: &mut KernelSource) -> MonotonicNs {
        source.collect(&mut self.batch())
    }

    /// Forgets all of it, and gives the memory of a large round back.
    fn clear(&mut self) {
        /// More than rounds bring that nothing holds up.
        const MOST_KEPT_BYTES: usize = 1 << 20;
        let kept = self.events.capacity() * size_of::<Pending>() + self.data.capacity();
        if kept > MOST_KEPT_BYTES {
            (self.events, self.data) = Default::default();
        }
        self.events.clear();
        self.data.clear();
        self.losses.clear();
    }

    fn batch(&mut self) -> Batch<'_> {
        Batch::new(
            &mut self.types,
            &mut self.events,
            &mut self.data,
            &mut self.losses,
        )
    }
}

/// The kernel's events of the subscriptions.
pub struct Recordings {
    hub: Hub,
    /// The detail, where it is not the usual one: then all is one recording, of the types that its
    /// clients may ask for.
    detail: Option<Detail>,
    usual: Option<Recording>,
    on_demand: Option<Recording>,
    collected: [Collected; 2],
    /// Processes that are looked at again when everything up to a time is known.
    unsure: Option<Unsure>,
    /// Since when types are recorded on demand that no subscription wants.
    surplus_since: Option<Instant>,
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
            on_demand: None,
            collected: Default::default(),
            unsure: None,
            surplus_since: None,
        }
    }

    /// Tells whether programs are in the kernel.
    pub fn is_loaded(&self) -> bool {
        self.usual.is_some()
    }

    /// Waits until a ring has something.
    pub async fn readable(&self) {
        let (usual, on_demand) = (self.usual.as_ref(), self.on_demand.as_ref());
        let one = async |recording: Option<&Recording>| match recording {
            Some(recording) => recording.readable().await,
            None => std::future::pending().await,
        };
        tokio::select! {
            () = one(usual) => {}
            () = one(on_demand) => {}
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
        for recording in [&mut self.usual, &mut self.on_demand].into_iter().flatten() {
            let marked = mark(&mut recording.tracer, pid, traced);
            marked.map_err(|error| in_words(&error))?;
        }
        // The next subscription has heard of none so far.
        if let Some(usual) = &mut self.usual {
            usual.source.renew_contexts();
        }
        Ok(())
    }

    /// Notes where a process has the contexts of its threads.
    ///
    /// # Errors
    ///
    /// There are too many processes, or contexts are not recorded: in words.
    pub fn place_contexts(&mut self, pid: i32, place: Option<ContextPlace>) -> Result<(), String> {
        let Some(usual) = &mut self.usual else {
            return Err("nothing is recorded".to_owned());
        };
        let placed = usual.source.place_contexts(pid, place);
        placed.map_err(|error| in_words(&error))
    }

    fn load_usual(&mut self) -> Result<(), String> {
        if self.usual.is_some() {
            return Ok(());
        }
        let types = match self.detail {
            Some(detail) => detail.types & (USUAL | ON_DEMAND),
            None => USUAL,
        };
        let loaded = Recording::load(types, self.detail, false);
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
        let (wanted, has) = (self.wanted_on_demand(), self.on_demand_bits());
        if wanted & !has != 0 && self.usual.is_some() {
            self.reload(wanted | has);
        }
        let is_surplus = self.on_demand_bits() & !wanted != 0;
        let since = self.surplus_since.unwrap_or_else(Instant::now);
        self.surplus_since = is_surplus.then_some(since);
    }

    /// Takes away what has not been wanted for a while.
    fn shed(&mut self) {
        let is_due = |since: &mut Instant| since.elapsed() >= LINGER;
        if self.surplus_since.take_if(is_due).is_some() {
            match self.wanted_on_demand() {
                0 => self.drop_on_demand(),
                wanted => self.reload(wanted),
            }
        }
    }

    /// Returns the types on demand that subscriptions want: of each of two groups all, where any is
    /// wanted, so that there are few changes.
    fn wanted_on_demand(&self) -> u64 {
        if self.detail.is_some() {
            return 0;
        }
        let wanted = self.hub.wanted();
        let groups = [CALLS, ON_DEMAND & !CALLS].into_iter();
        groups
            .filter(|group| wanted & group != 0)
            .fold(0, |bits, group| bits | group)
    }

    fn on_demand_bits(&self) -> u64 {
        self.on_demand.as_ref().map_or(0, |loaded| loaded.bits)
    }

    /// Records these types on demand in place of those that are recorded.
    fn reload(&mut self, bits: u64) {
        let before = self.on_demand_bits();
        if before != 0 {
            // Those that have some of these types miss them until the others are there too.
            self.collect();
            self.drop_on_demand();
            self.hub.lose_one_of(before);
        }
        match Recording::load(bits, None, true) {
            Ok(mut loaded) => {
                let processes = self.hub.processes();
                let pids: Vec<i32> = processes.keys().copied().collect();
                self.hub.doubt_some(&pids);
                for (pid, traced) in processes {
                    let _ = mark(&mut loaded.tracer, pid, Some(traced));
                }
                self.hub.report_to(loaded.tracer.wanted());
                self.on_demand = Some(loaded);
                // What these have made meanwhile is known a round later.
                self.be_unsure(Vec::new());
            }
            Err(error) => {
                say(&format!(
                    "cannot record what a program has chosen by name: {error}"
                ));
                self.hub.lose_one_of(bits);
            }
        }
    }

    fn drop_on_demand(&mut self) {
        if self.on_demand.take().is_some() {
            self.hub.report_to_none();
            if let Some(usual) = &self.usual {
                self.hub.report_to(usual.tracer.wanted());
            }
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
            for recording in [&mut self.usual, &mut self.on_demand].into_iter().flatten() {
                let _ = mark(&mut recording.tracer, *pid, kept);
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
                let _ = mark(&mut usual.tracer, pid, Some(traced));
            }
            if let Some(on_demand) = &mut self.on_demand {
                let _ = mark(&mut on_demand.tracer, pid, Some(traced));
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
        if let Some(on_demand) = &mut self.on_demand {
            self.hub.withhold(&on_demand.tracer.take_withheld());
        }
        let [first, second] = &mut self.collected;
        let mut watermark = first.collect(&mut usual.source);
        let signs = usual.source.take_exec_signs();
        self.hub.take_unseen(usual.source.take_unseen());
        self.hub.take_mappings(usual.source.take_mappings());
        if let Some(on_demand) = &mut self.on_demand {
            watermark = watermark.min(second.collect(&mut on_demand.source));
            // The first one has them too.
            drop(on_demand.source.take_exec_signs());
            drop(on_demand.source.take_unseen());
        }
        // First: what was lost may be what says who may see the others.
        for loss in first.losses.iter().chain(&second.losses) {
            // What the kernel did not report is of one thread, which not every program may see.
            if loss.cause != LossCause::KernelNotReported {
                self.hub.lose(*loss);
            }
        }
        let (first, second) = (first.batch(), second.batch());
        let is_on_demand =
            |(header, _): &(&EventHeader, &[u8])| wanted::bit(header.event_type) & ON_DEMAND != 0;
        let all = first.since(0).chain(second.since(0).filter(is_on_demand));
        self.hub.take(all, signs, watermark);
        self.collected.iter_mut().for_each(Collected::clear);
        if !withheld.is_empty() {
            // Who hears of it as a loss knows no context any more.
            usual.source.renew_contexts();
        }
        self.hub.complete_up_to(watermark);
        self.be_sure(watermark);
    }

    /// Takes all programs out of the kernel.
    pub fn unload(&mut self) {
        self.hub.report_to_none();
        self.hub.begin_anew();
        self.on_demand = None;
        self.usual = None;
        self.unsure = None;
        self.surplus_since = None;
        self.collected = Default::default();
        give_back_what_is_free();
    }
}
