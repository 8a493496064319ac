//! The service as the source of the kernel's events: one conversation, in which all traced
//! processes are named.

use std::collections::{HashSet, VecDeque};
use std::mem::take;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracer_area::{RingMode, monotonic_now, own_pid};
use tracer_common::event_type::{EventTypeId, system_event_type};
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Batch, Control, Source, Unread};
use tracer_kernel::{Availability, availability, cheapest_call_ns, look_in_proc};
use tracer_posix::agent::{AgentError, AgentSource, Request, SYSTEM_ADDRESS};
use tracer_text::say;

use super::acquaintances::{Acquaintances, ShownProcesses};
use super::calls::{CallTally, GivenCalls};
use super::collected::Collected;
use super::detail;
use super::given::GivenEvents;
use super::permission::{self, NotPermitted};
use super::searches::Searches;
use crate::{Setup, proc_fs};

/// Words that say what stacks lack.
const WITHOUT_KERNEL: &str = "stacks have the functions of programs alone: those of the kernel are for who may read \
                              their addresses (run as root; or kernel.kptr_restrict is 0 and \
                              kernel.perf_event_paranoid at most 1)";

/// Longest time between two questions while there is nothing new.
const ASK_AT_LEAST_EVERY: Duration = Duration::from_millis(50);

/// Bytes after which calls are counted that are to be recorded no more where there are too many.
const MOST_AT_ONCE: usize = 256 << 10;

/// Shortest time between two questions after one that has brought nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Interval at which processes are named while the service is gone.
const NAME_EVERY: Duration = Duration::from_secs(1);

/// Distance by which the watermark stays behind the clock while no process is traced: the kernel's
/// clock may differ from the one that is read here.
const CLOCK_MARGIN_NS: u64 = 1_000_000;

/// Reason why a process is not traced through the service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The user may not.
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
    /// The service does not do it.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl ServiceError {
    /// Tells whether it is a matter of the process alone: others may be traced.
    fn is_of_process(&self) -> bool {
        match self {
            Self::NotPermitted(error) => error.is_of_process(),
            Self::Agent(error) => {
                [libc::EPERM, libc::EACCES, libc::ESRCH].contains(&error.error_number())
                    && matches!(error, AgentError::Refused { .. })
            }
        }
    }

    /// Tells whether the process is gone.
    fn is_of_the_past(&self) -> bool {
        match self {
            Self::NotPermitted(error) => error.has_ended(),
            Self::Agent(error) => error.error_number() == libc::ESRCH,
        }
    }
}

/// Processes of which the service gives a user the kernel's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceScope {
    /// Those that the user may trace.
    Own,
    /// Every process.
    Every,
}

/// Asks a service, as the programs of this user would, what it gives. `None` where there is none.
///
/// # Errors
///
/// It refuses, is not to be believed, or does not answer.
pub fn service_scope() -> anyhow::Result<Option<ServiceScope>> {
    /// A process that is root's, where it is seen at all.
    const FIRST: i32 = 1;
    let request = Request {
        pid: own_pid(),
        inherit: false,
        capacity: 1,
        mode: RingMode::KeepOldest,
        detail: None,
    };
    match AgentSource::connect(&request) {
        Ok(mut agent) => Ok(Some(match agent.add(FIRST) {
            Ok(()) => ServiceScope::Every,
            Err(_refused) => ServiceScope::Own,
        })),
        Err(AgentError::NoAgent) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Conversation with the service, as the one who traces has it.
pub struct Service {
    link: Arc<Mutex<Link>>,
    request: Request,
    is_followed: bool,
    /// Whether children are traced too.
    inherits: bool,
    /// Those that may wake traced ones, where these are followed; and which are shown.
    acquaintances: Option<(Acquaintances, ShownProcesses)>,
    lacks: Box<dyn Fn(EventTypeId) -> bool>,
    left_alone: usize,
    /// Whether the service has refused what the kernel does not let this user trace: it need not be
    /// asked for each process.
    is_by_rights_alone: bool,
    /// Searches in processes.
    searches: Searches,
}

/// Conversation with the service, and what waits for it and for the stream.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// `None` before the first process is traced.
    pub(super) agent: Option<AgentSource>,
    /// State that the stream asked for last.
    pub(super) control: Option<Control>,
    /// Whether the service has gone or come back, and that was not noticed yet.
    has_changed: bool,
    /// Time since which it is gone, or was asked about since.
    gone: Option<Instant>,
    /// Events that were collected and not handed on.
    early: Collected,
    /// Events of looks at threads.
    looks: VecDeque<(EventHeader, Vec<u8>)>,
    /// Counts of system calls, where their cost is bounded.
    pub(super) calls: Option<CallTally>,
}

impl Link {
    /// Notes whether there is a service now.
    fn note(&mut self, is_gone: bool) {
        if is_gone != self.gone.is_some() {
            self.gone = is_gone.then(Instant::now);
            self.has_changed = true;
        }
    }

    /// Asks for what the stream asks for, with system calls or without them.
    pub(super) fn record_calls(&mut self, are_recorded: bool) {
        let (Some(agent), Some(control)) = (&mut self.agent, &self.control) else {
            return;
        };
        let mut control = control.clone();
        for id in [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT] {
            if are_recorded {
                control.filter.remove(id);
            } else {
                control.filter.insert(id);
            }
        }
        agent.control(&control);
    }
}

impl Service {
    /// Prepares the conversation, and says where the kernel's events are from.
    pub fn new(setup: &Setup, address: &Path) -> Self {
        say(&in_words(address));
        if setup.recording.stacks.are_wanted() && detail::lacks_kernel_frames(setup) {
            say(WITHOUT_KERNEL);
        }
        let link: Arc<Mutex<Link>> = Arc::default();
        lock(&link).calls = setup.recording.most_call_cost.map(|_| CallTally::default());
        let searches = Searches::begin(&setup.recording, &link);
        let available = availability(None).ok();
        let selection = &setup.recording.selection;
        Self {
            link,
            request: Request {
                pid: 0,
                // Of those that are named and not shown the children are to be known too.
                inherit: setup.followed.children || setup.followed.wakers,
                capacity: setup.buffers.stream_bytes,
                mode: RingMode::OverwriteOldest,
                detail: detail::from_setup(setup).map(Box::new),
            },
            is_followed: selection.has(EventTypeId::SWITCH_IN)
                && selection.has(EventTypeId::SWITCH_OUT),
            inherits: setup.followed.children,
            acquaintances: setup
                .followed
                .wakers
                .then(|| (Acquaintances::none(), ShownProcesses::default())),
            lacks: Box::new(move |id| {
                let known = available.as_ref().map(|available| available(id));
                matches!(known, Some(Availability::Lacks(_)))
            }),
            left_alone: 0,
            is_by_rights_alone: false,
            searches,
        }
    }

    /// Traces process `pid` from now on; with `inherit` also the children that it makes.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`].
    pub fn trace(&mut self, pid: i32, inherit: bool) -> Result<(), ServiceError> {
        self.name(pid)?;
        if let Some((_, shown)) = &self.acquaintances {
            shown.show(pid, inherit);
        }
        self.searches.begins(pid);
        Ok(())
    }

    /// Learns of processes of this user that may wake traced ones.
    pub fn meet(&mut self) {
        let is_connected = lock(&self.link).agent.is_some();
        let Some((acquaintances, _)) = self.acquaintances.as_mut().filter(|_| is_connected) else {
            return;
        };
        for pid in acquaintances.look() {
            if let Err(error) = self.name(pid) {
                tracing::debug!(pid, error = &error as &dyn std::error::Error, "not met");
            }
        }
    }

    /// Names a process to the service.
    fn name(&mut self, pid: i32) -> Result<(), ServiceError> {
        match permission::check(pid) {
            Ok(()) => self.ask_for(pid),
            Err(error) if error.is_of_rights() && !self.is_by_rights_alone => {
                // This user may be of the group that sees every process.
                match self.ask_for(pid) {
                    Err(refusal) if refusal.is_of_process() => {
                        self.is_by_rights_alone = !refusal.is_of_the_past();
                        Err(error.into())
                    }
                    answered => answered,
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn ask_for(&self, pid: i32) -> Result<(), ServiceError> {
        let mut link = lock(&self.link);
        let Link {
            agent,
            control,
            calls,
            ..
        } = &mut *link;
        if let Some(agent) = agent {
            agent.add(pid)?;
            if let Some(calls) = calls {
                calls.add(pid);
            }
            return Ok(());
        }
        let before_ns = calls.as_ref().map_or(0, |_| cheapest_call_ns());
        let mut connected = AgentSource::connect(&Request {
            pid,
            ..self.request.clone()
        })?;
        if let Some(control) = control {
            connected.control(control);
        }
        if let Some(calls) = calls {
            calls.add(pid);
            calls.cheapest_ns = before_ns;
            calls.floor_ns = cheapest_call_ns().saturating_sub(before_ns);
            connected.collect_at_most(MOST_AT_ONCE);
        }
        *agent = Some(connected);
        Ok(())
    }

    /// Traces those of the processes that are still there and may be traced. Returns these.
    ///
    /// # Errors
    ///
    /// The service serves this user no further.
    pub fn trace_found(&mut self, pids: &[i32]) -> anyhow::Result<Vec<i32>> {
        let mut traced = Vec::new();
        for pid in pids {
            match self.trace(*pid, self.inherits) {
                Ok(()) => traced.push(*pid),
                Err(error) if error.is_of_process() => {
                    // The files of one that ends are root's as soon as it has no memory any more.
                    let is_there = !error.is_of_the_past() && proc_fs::has_memory(*pid);
                    self.left_alone += usize::from(is_there);
                    tracing::debug!(pid, error = &error as &dyn std::error::Error, "left alone");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(traced)
    }

    /// Traces those of the processes that are not traced yet, and are still there and may be
    /// traced. Returns these. `traced` are processes that are known to be traced; those are added
    /// that have come to be traced since, as children too.
    ///
    /// # Errors
    ///
    /// The service serves this user no further.
    pub fn trace_untraced(
        &mut self,
        pids: &[i32],
        traced: &mut HashSet<i32>,
    ) -> anyhow::Result<Vec<i32>> {
        let mut new = pids.to_vec();
        new.retain(|pid| !traced.contains(pid));
        if new.is_empty() {
            return Ok(new);
        }
        let mut link = lock(&self.link);
        let Link { agent, early, .. } = &mut *link;
        if let Some(agent) = agent {
            early.collect_all(agent, traced);
        }
        drop(link);
        // Of one that has ended by now the events may say that too.
        new.retain(|pid| !traced.contains(pid) && !proc_fs::has_ended(*pid));
        let new = self.trace_found(&new)?;
        traced.extend(&new);
        Ok(new)
    }

    /// Returns what counts system calls, where their cost is bounded.
    pub fn call_meter(&self) -> Option<GivenCalls> {
        let counts = lock(&self.link).calls.is_some();
        counts.then(|| GivenCalls(Arc::clone(&self.link)))
    }

    /// Tells whether the children of traced processes are traced too.
    pub fn inherits(&self) -> bool {
        self.inherits
    }

    /// Tells whether the processes that are traced by now have to be named anew: the service has
    /// gone, or has come back; or is gone still, once a second. It knows those alone that are named
    /// to it.
    pub fn asks_anew(&mut self) -> bool {
        let mut link = lock(&self.link);
        if let Some(gone) = &mut link.gone
            && gone.elapsed() >= NAME_EVERY
        {
            *gone = Instant::now();
            return true;
        }
        let has_changed = take(&mut link.has_changed);
        if let Some((acquaintances, _)) = self.acquaintances.as_mut().filter(|_| has_changed) {
            acquaintances.forget();
        }
        has_changed
    }

    /// Tells whether it has gone, and is not back.
    pub fn is_gone(&self) -> bool {
        lock(&self.link).gone.is_some()
    }

    fn shown(&self) -> Option<ShownProcesses> {
        let (_, shown) = self.acquaintances.as_ref()?;
        Some(shown.clone())
    }

    /// Returns the number of processes that were found and may not be traced.
    pub fn left_alone(&self) -> usize {
        self.left_alone
    }

    /// Looks at the threads of the processes `pids` in `/proc`.
    pub fn look(&self, pids: &[i32]) {
        let mut looks = VecDeque::new();
        for pid in pids {
            look_in_proc(*pid, self.is_followed, |header, data| {
                looks.push_back((header, data.to_vec()));
            });
        }
        lock(&self.link).looks.append(&mut looks);
    }

    /// Tells whether there are events of this type: the kernel has what records them, and they are
    /// of a process, to whose user the service gives them.
    pub fn records(&self, id: EventTypeId) -> bool {
        let is_of_process = system_event_type(id).is_none_or(|entry| entry.has_process);
        is_of_process && !(self.lacks)(id)
    }
}

/// Conversation with the service, as the stream has it.
pub struct ServiceSource {
    link: Arc<Mutex<Link>>,
    given: Option<GivenEvents>,
    searches: Searches,
    watermark: MonotonicNs,
    /// Time of the next question, and the pause after it if it brings nothing.
    due: Instant,
    pause: Duration,
}

impl ServiceSource {
    /// Returns the source of the stream of a trace, for which `service` names the processes.
    pub fn from_service(service: &Service, setup: &Setup) -> Self {
        Self {
            link: Arc::clone(&service.link),
            given: GivenEvents::from_setup(setup, service.shown(), service.searches.clone()),
            searches: service.searches.clone(),
            watermark: MonotonicNs(0),
            due: Instant::now(),
            pause: Duration::ZERO,
        }
    }

    /// Notes when to ask again: at once as long as events come, and less and less often while none
    /// do.
    fn pause_after(&mut self, has_brought: bool) {
        self.pause = if has_brought {
            Duration::ZERO
        } else {
            (2 * self.pause).clamp(FIRST_PAUSE, ASK_AT_LEAST_EVERY)
        };
        self.due = Instant::now() + self.pause;
    }
}

impl Source for ServiceSource {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let now = monotonic_now();
        let link = Arc::clone(&self.link);
        let mut link = lock(&link);
        for (header, data) in link.looks.drain(..) {
            batch.push(header, &data);
        }
        let Link {
            agent,
            calls,
            early,
            ..
        } = &mut *link;
        let Some(agent) = agent else {
            // Nothing is traced, so that nothing older can come.
            let so_far = MonotonicNs(now.0.saturating_sub(CLOCK_MARGIN_NS));
            self.watermark = self.watermark.max(so_far);
            return self.watermark;
        };
        if Instant::now() < self.due {
            return self.watermark;
        }
        let before = batch.len();
        if let Some(given) = &mut self.given {
            given.look(self.watermark);
        }
        take(early).hand_on(self.given.as_mut(), calls.as_mut(), batch);
        let (watermark, has_brought) = match &mut self.given {
            None => (agent.collect(batch), batch.len() > before),
            Some(given) => {
                let watermark = early.collect(agent);
                let has_events = take(early).hand_on(Some(given), calls.as_mut(), batch);
                (watermark, has_events)
            }
        };
        let held_at = calls.as_ref().and_then(|calls| calls.held_at);
        let watermark = held_at.map_or(watermark, |at| watermark.min(at));
        self.watermark = self.watermark.max(watermark);
        let is_gone = agent.as_raw_fd() < 0;
        match (link.gone.is_some(), is_gone) {
            (false, true) => self.searches.doubt(),
            (true, false) => self.searches.begin_anew(),
            _ => {}
        }
        link.note(is_gone);
        self.pause_after(has_brought);
        self.watermark
    }

    fn has_more(&self) -> bool {
        let link = lock(&self.link);
        link.agent.as_ref().is_some_and(Source::has_more)
    }

    fn comes_first(&self) -> bool {
        true
    }

    fn count_unread(&mut self, until: MonotonicNs, end: Instant, batch: &mut Batch<'_>) -> Unread {
        match &mut lock(&self.link).agent {
            Some(agent) => agent.count_unread(until, end, batch),
            None => Unread::Nothing,
        }
    }

    fn may_have_lost(&mut self) -> bool {
        let mut link = lock(&self.link);
        link.agent.as_mut().is_some_and(Source::may_have_lost)
    }

    fn control(&mut self, control: &Control) {
        let mut link = lock(&self.link);
        if let Some(agent) = &mut link.agent {
            agent.control(control);
        }
        if let Some(calls) = &mut link.calls {
            calls.held_at = None;
        }
        link.control = Some(control.clone());
        // A stream that ends collects once more.
        self.due = Instant::now();
    }
}

/// Says where the kernel's events are from. The agent of another trace has those alone that this
/// trace records.
fn in_words(address: &Path) -> String {
    let shown = address.display();
    if address == Path::new(SYSTEM_ADDRESS) {
        format!("kernel events from the service at {shown}")
    } else {
        format!("kernel events from the agent at {shown}, as far as that one records them")
    }
}

pub(super) fn lock(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}
