//! Subscriptions to the kernel's events, and the events that wait for them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Sight, wanted};
use tracer_engine::EventSet;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Loss, LossCause};
use tracer_posix::agent::protocol::Answer;

use super::code::{MappedCode, Said};
use super::concerned::Concerned;
use super::leaving::Leaving;
use super::mask::masked;
use super::queue::Queue;
use super::share::{Most, Shares};
use super::viewer::Viewer;
use super::watched::{Fate, Held, Watched};
use tracer_binary::stacks::push_mapping;
use tracer_kernel::{
    ExecSign, ExecStep, MappingReport, NO_CONTEXT, UnseenStep, WantedMaps, Withheld,
};

/// Subscriptions that there may be at the agent of one trace.
pub const MOST_SUBSCRIPTIONS: Most = Most {
    a_user: 16,
    all_but_root: 24,
    all: 32,
};

/// Subscriptions that there may be at the service.
pub const MOST_AT_SERVICE: Most = Most {
    a_user: 32,
    all_but_root: 192,
    all: 256,
};

/// Bytes of memory for events that wait.
pub const MOST_MEMORY: Most = Most {
    a_user: 32 << 20,
    all_but_root: 64 << 20,
    all: 96 << 20,
};

/// Most processes that a subscription asks for; the children that these make are not counted.
const MOST_PROCESSES: usize = 4096;

/// Names one subscription; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId(u64);

impl SubscriptionId {
    #[cfg(test)]
    pub fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// Purpose of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The controller.
    pub viewer: Viewer,
    /// The process.
    pub pid: i32,
    /// Whether its children count as well.
    pub inherit: bool,
    /// Bytes of events that are held.
    pub capacity: u64,
    /// Whether new events are refused when there is no space.
    pub keeps_oldest: bool,
}

/// Tracing of a process, for all subscriptions that have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracedFor {
    /// Whether the children that it makes are wanted too.
    pub inherit: bool,
    /// Whether the kernel records its events only while its own user may look into it: one of the
    /// subscriptions is that user's.
    pub is_guarded: bool,
}

impl TracedFor {
    /// Serves another subscription on these terms too.
    fn serve(&mut self, terms: &Terms) {
        self.inherit |= terms.inherit;
        self.is_guarded |= !terms.viewer.sees_all();
    }
}

/// Hub shared by the source that feeds it and the conversations that it feeds.
#[derive(Clone)]
pub struct Hub {
    state: Arc<Mutex<State>>,
    /// Time up to which all events have been handed over.
    watermark: Arc<watch::Sender<MonotonicNs>>,
}

struct State {
    /// The traced processes.
    family: HashSet<i32>,
    subscriptions: HashMap<SubscriptionId, Subscription>,
    /// Those that each event may concern.
    concerned: Concerned,
    /// Shares of the users, of this hub and of those beside it.
    limits: Arc<Mutex<Limits>>,
    next: u64,
    /// Processes of the family that are in an exec.
    in_exec: HashSet<i32>,
    /// Events later than the last watermark, and steps of execs among them.
    early: Held,
    signs: Vec<ExecSign>,
    /// Recordings that learn the types that all of them want.
    kernel: Vec<WantedMaps>,
    /// Types that a subscription gets only where it has chosen them by a filter.
    by_choice: u64,
    /// Code that the processes have mapped, where stacks are recorded.
    code: MappedCode,
    /// Reports of that which are later than the last watermark.
    reports: VecDeque<(u64, MappingReport)>,
    /// Steps of guarded processes that no event says, later than the last watermark.
    unseen: Vec<UnseenStep>,
    /// Events that were withheld, by process, of which it is not known yet who may hear of them.
    withheld: HashMap<Option<i32>, WithheldSoFar>,
    /// Threads that have a CPU, where contexts are recorded.
    running: Option<HashSet<i32>>,
}

/// Events of a process that were withheld.
struct WithheldSoFar {
    count: u64,
    /// Time at which they were last counted: what is known of the process by events that are no
    /// later says whose it was.
    at: MonotonicNs,
}

/// Shares of the users.
struct Limits {
    /// Subscriptions of each user.
    slots: Shares,
    /// Memory of each user for events that wait.
    memory: Shares,
}

impl Limits {
    fn new(most: Most) -> Self {
        Self {
            slots: Shares::new(most),
            memory: Shares::new(MOST_MEMORY),
        }
    }

    fn lock(limits: &Mutex<Self>) -> MutexGuard<'_, Self> {
        limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parts of a hub that its subscriptions use as they take an event.
struct Common<'a> {
    by_choice: u64,
    memory: &'a mut Shares,
    code: &'a MappedCode,
}

impl State {
    fn new(limits: Arc<Mutex<Limits>>, by_choice: u64) -> Self {
        Self {
            family: HashSet::new(),
            subscriptions: HashMap::new(),
            concerned: Concerned::default(),
            limits,
            next: 0,
            in_exec: HashSet::new(),
            early: Vec::new(),
            signs: Vec::new(),
            kernel: Vec::new(),
            by_choice,
            code: MappedCode::default(),
            reports: VecDeque::new(),
            unseen: Vec::new(),
            withheld: HashMap::new(),
            running: None,
        }
    }

    /// Tells whether a thread has its CPU again of which no event says that it left it, as the
    /// kernel has not reported that: what it works for was not read then.
    fn misses_a_switch(&mut self, header: &EventHeader) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        match header.event_type {
            EventTypeId::SWITCH_IN => !running.insert(header.tid),
            EventTypeId::SWITCH_OUT => {
                running.remove(&header.tid);
                false
            }
            _ => false,
        }
    }

    /// Returns the types that any subscription wants, as bits.
    fn wanted(&self) -> u64 {
        let all = self.subscriptions.values();
        all.fold(0, |bits, one| bits | one.wanted(self.by_choice))
    }

    /// Has the kernel drop the types that no subscription wants.
    fn update_kernel(&self) {
        for kernel in &self.kernel {
            kernel.set_types_of_others(self.wanted());
        }
    }
}

/// Time of a process of which it is not known yet whether it still is the one that was asked for.
const NOT_CONFIRMED: MonotonicNs = MonotonicNs(u64::MAX);

struct Subscription {
    wish: Terms,
    processes: HashMap<i32, Watched>,
    /// Since when it is known of processes that were asked for that they are these: what is older
    /// is not theirs, or not to be seen.
    asked: HashMap<i32, MonotonicNs>,
    leaving: Leaving,
    is_running: bool,
    filter: EventSet,
    /// Whether it ran, and its filter, before they were changed last; and when that was. What was
    /// recorded before comes later.
    before: (bool, EventSet),
    changed: MonotonicNs,
    queue: Queue,
    /// Parts of the processes' code that it was given.
    said: HashMap<i32, Said>,
}

impl State {
    /// Takes the steps up to a time that no event says.
    fn take_unseen(&mut self, until: MonotonicNs) {
        if self.unseen.iter().all(|step| step.time > until) {
            return;
        }
        let mut unseen = std::mem::take(&mut self.unseen);
        unseen.sort_by_key(|step| step.time);
        for step in unseen.extract_if(.., |step| step.time <= until) {
            if let Some(child) = step.child {
                self.forget_reused(child, step.pid, step.time);
            }
            for id in self.concerned.with(step.pid) {
                let Some(subscription) = self.subscriptions.get_mut(id) else {
                    continue;
                };
                match step.child {
                    Some(child) => subscription.inherit(child, step.pid, step.time),
                    None => subscription.end_unseen(&step),
                }
            }
            match step.child {
                Some(child) => self.concern_with(child, step.pid),
                None => self.end(step.pid),
            }
        }
        self.unseen = unseen;
    }

    /// Forgets a process that has ended.
    fn end(&mut self, pid: i32) {
        self.family.remove(&pid);
        self.in_exec.remove(&pid);
    }

    /// Forgets what had the pid of a new process before.
    fn forget_reused(&mut self, child: i32, parent: i32, time: MonotonicNs) {
        for id in self.concerned.with(child) {
            if let Some(subscription) = self.subscriptions.get_mut(id) {
                subscription.forget_reused(child, parent, time);
            }
        }
    }

    /// Has a new process concern the subscriptions that have it.
    fn concern_with(&mut self, child: i32, parent: i32) {
        let subscriptions = &self.subscriptions;
        self.concerned.inherit(child, parent, |id| {
            let subscription = subscriptions.get(&id);
            subscription.is_some_and(|subscription| subscription.knows(child))
        });
    }

    /// Takes the reports of what was mapped up to a time.
    fn take_reports(&mut self, until: MonotonicNs) {
        while let Some((time, report)) = self.reports.pop_front_if(|(time, _)| *time <= until.0) {
            self.code.take(time, report);
        }
    }

    /// Tells the subscriptions of what was withheld of their processes: all that was recorded
    /// before that is here. Of one that is in an exec, or begins one, it is kept until it is known
    /// whose program that is; of one that is not known, until what was recorded before is here; of
    /// one that has become another's nothing is told.
    fn tell_withheld(&mut self, watermark: MonotonicNs) {
        for (pid, so_far) in std::mem::take(&mut self.withheld) {
            let loss = |count| Loss {
                cause: LossCause::Withheld,
                count,
                since: watermark,
                is_marked: false,
            };
            let Some(pid) = pid else {
                // It is not known how many are of which subscription.
                let all = self.subscriptions.values_mut();
                for subscription in all.filter(|one| !one.wish.viewer.sees_all()) {
                    subscription.withhold(loss(1));
                }
                continue;
            };
            let begins = self.signs.iter().any(|sign| sign.pid == pid);
            let is_in_exec = self.concerned.with(pid).iter().any(|id| {
                let subscription = self.subscriptions.get(id);
                subscription.is_some_and(|subscription| subscription.has_in_exec(pid))
            });
            let is_to_be_known = so_far.at > watermark && self.concerned.with(pid).is_empty();
            if begins || is_in_exec || is_to_be_known {
                self.withheld.insert(Some(pid), so_far);
                continue;
            }
            for id in self.concerned.with(pid) {
                if let Some(subscription) = self.subscriptions.get_mut(id)
                    && subscription.may_hear_of(pid)
                {
                    subscription.withhold(loss(so_far.count));
                }
            }
        }
    }

    fn take(
        &mut self,
        header: &EventHeader,
        data: &[u8],
        step: Option<ExecStep>,
        memory: &mut Shares,
    ) {
        if matches!(step, Some(ExecStep::Begins)) {
            self.code.begin(header.pid, header.time.0);
        }
        let child = (header.event_type == EventTypeId::FORK)
            .then(|| data.first_chunk().map(|pid| i32::from_ne_bytes(*pid)))
            .flatten();
        if let Some(child) = child
            && self.family.contains(&header.pid)
        {
            self.family.insert(child);
        }
        match step {
            Some(ExecStep::Begins) if self.family.contains(&header.pid) => {
                self.in_exec.insert(header.pid);
            }
            Some(ExecStep::Done(_)) => {
                self.in_exec.remove(&header.pid);
            }
            _ => {}
        }
        if let Some(child) = child {
            self.forget_reused(child, header.pid, header.time);
        }
        let misses_a_switch = self.misses_a_switch(header);
        for id in self.concerned.with(header.pid) {
            if let Some(subscription) = self.subscriptions.get_mut(id) {
                let mut common = Common {
                    by_choice: self.by_choice,
                    memory,
                    code: &self.code,
                };
                if misses_a_switch {
                    let header = EventHeader {
                        event_type: EventTypeId::THREAD_CONTEXT,
                        ..*header
                    };
                    subscription.take_seen(&header, NO_CONTEXT, &mut common);
                }
                subscription.take(header, data, step, child, &mut common);
            }
        }
        if let Some(child) = child {
            self.concern_with(child, header.pid);
        }
        if header.event_type == EventTypeId::EXIT {
            self.end(header.pid);
        }
    }

    /// Asks anew which subscriptions may see a process that is asked for now: what one of them had
    /// under this pid may have ended without a report.
    fn doubt_one(&mut self, pid: i32) {
        for subscription in self.subscriptions.values_mut() {
            subscription.doubt_one(pid);
        }
    }

    /// Forgets which subscriptions an event may concern, where it no longer does.
    fn tidy(&mut self) {
        let subscriptions = &self.subscriptions;
        self.concerned.tidy(|pid, id| {
            let subscription = subscriptions.get(&id);
            subscription.is_some_and(|subscription| subscription.knows(pid))
        });
    }

    /// Keeps what a process maps from now on, if none was interested in it so far.
    fn watch_code(&mut self, pid: i32) {
        if self.concerned.with(pid).is_empty() {
            self.code.watch(pid, monotonic_now().0);
        }
    }

    /// Forgets a process that has ended: another one, which has its pid, comes to be traced.
    fn forget_ended(&mut self, pid: i32) {
        for subscription in self.subscriptions.values_mut() {
            subscription.leaving.forget(pid);
        }
    }

    /// Handles events that were lost, of unknown processes: an exec may be among them. For each
    /// controller that may not see everything, rights are checked anew, and what happened meanwhile
    /// is lost to it.
    fn doubt(&mut self) {
        self.code.begin_all(monotonic_now().0);
        for subscription in self.subscriptions.values_mut() {
            subscription.doubt();
        }
    }
}

impl Default for Hub {
    /// Makes the hub of one trace.
    fn default() -> Self {
        Self::new(MOST_SUBSCRIPTIONS, 0)
    }
}

impl Hub {
    /// Makes a hub for so many subscriptions. Types `by_choice`, as bits, are only for those that
    /// have chosen them by a filter.
    #[must_use]
    pub fn new(most: Most, by_choice: u64) -> Self {
        Self::within(Arc::new(Mutex::new(Limits::new(most))), by_choice)
    }

    fn within(limits: Arc<Mutex<Limits>>, by_choice: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(limits, by_choice))),
            watermark: Arc::default(),
        }
    }

    /// Makes a hub for events that are recorded apart, whose users have no more than is left of
    /// their shares of this one; with contexts of threads, or without.
    #[must_use]
    pub fn beside(&self, has_contexts: bool) -> Self {
        let state = self.lock();
        let beside = Self::within(Arc::clone(&state.limits), state.by_choice);
        beside.lock().running = has_contexts.then(HashSet::new);
        beside
    }

    /// Reports to `kernel` too from now on which events are wanted here.
    pub fn report_to(&self, kernel: WantedMaps) {
        let mut state = self.lock();
        state.kernel.push(kernel);
        state.update_kernel();
    }

    /// Reports no longer which events are wanted here.
    pub fn report_to_none(&self) {
        self.lock().kernel.clear();
    }

    /// Returns the types that any subscription wants, as bits.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.lock().wanted()
    }

    /// Returns the processes that any subscription has, and how each is traced for all of them.
    #[must_use]
    pub fn processes(&self) -> HashMap<i32, TracedFor> {
        let state = self.lock();
        let mut all: HashMap<i32, TracedFor> = HashMap::new();
        for subscription in state.subscriptions.values() {
            for pid in subscription.processes.keys() {
                all.entry(*pid).or_default().serve(&subscription.wish);
            }
        }
        all
    }

    /// Asks anew which of these processes each subscription may see, before they are marked: what
    /// had one of these pids may have ended without a report, and another process may have it.
    pub fn doubt_some(&self, pids: &[i32]) {
        let mut state = self.lock();
        let mut known = HashMap::new();
        for subscription in state.subscriptions.values_mut() {
            let viewer = subscription.wish.viewer;
            for pid in pids {
                let Some(watched) = subscription.processes.get_mut(pid) else {
                    continue;
                };
                let may_see = known
                    .entry((*pid, viewer))
                    .or_insert_with(|| viewer.may_see_now(*pid));
                if !*may_see {
                    *watched = Watched::Hidden;
                }
            }
        }
    }

    /// Returns how a process is traced for all subscriptions that have it, if one has.
    #[must_use]
    pub fn traced_for(&self, pid: i32) -> Option<TracedFor> {
        let state = self.lock();
        let all = state.subscriptions.values();
        let those = all.filter(|one| one.processes.contains_key(&pid));
        those.fold(None, |traced, one| {
            let mut traced = traced.unwrap_or_default();
            traced.serve(&one.wish);
            Some(traced)
        })
    }

    /// Tells whether there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().subscriptions.is_empty()
    }

    /// Forgets what was held back, when the kernel's events end: nothing older will come.
    pub fn begin_anew(&self) {
        let mut state = self.lock();
        state.early.clear();
        state.reports.clear();
        state.unseen.clear();
        state.withheld.clear();
        state.code.begin_all(monotonic_now().0);
        state.signs.clear();
        state.in_exec.clear();
        if let Some(running) = &mut state.running {
            running.clear();
        }
    }

    /// Registers a process as traced.
    pub fn add_process(&self, pid: i32) {
        self.lock().family.insert(pid);
    }

    /// Tells whether a process is traced.
    #[must_use]
    pub fn has_process(&self, pid: i32) -> bool {
        self.lock().family.contains(&pid)
    }

    /// Takes reports of what processes have mapped, in order of time, before the events of the same
    /// time.
    pub fn take_mappings(&self, reports: Vec<(u64, MappingReport)>) {
        self.lock().reports.extend(reports);
    }

    /// Takes the steps of guarded processes that no event says, before the events of the same time.
    pub fn take_unseen(&self, steps: Vec<UnseenStep>) {
        self.lock().unseen.extend(steps);
    }

    /// Takes the report that events were withheld, before the events that were recorded until then.
    pub fn withhold(&self, withheld: &[Withheld]) {
        let mut state = self.lock();
        let at = monotonic_now();
        for one in withheld {
            let new = WithheldSoFar { count: 0, at };
            let so_far = state.withheld.entry(one.pid).or_insert(new);
            so_far.count = so_far.count.saturating_add(one.count);
            so_far.at = at;
        }
    }

    /// Takes events of the kernel's, which may be in any order, and the steps of execs among them.
    /// Nothing older than `watermark` will come; later events wait for the next time, since earlier
    /// ones may not be here yet.
    pub fn take<'e>(
        &self,
        events: impl Iterator<Item = (&'e EventHeader, &'e [u8])>,
        signs: Vec<ExecSign>,
        watermark: MonotonicNs,
    ) {
        let mut locked = self.lock();
        let state = &mut *locked;
        if state.family.is_empty() && state.subscriptions.is_empty() {
            return;
        }
        let is_of_family = |id| {
            let ids = [
                EventTypeId::FORK,
                EventTypeId::EXIT,
                EventTypeId::EXEC,
                EventTypeId::RENAME,
            ];
            ids.contains(&id)
        };
        let is_subscribed = !state.subscriptions.is_empty();
        let new = events.filter(|(header, _)| is_subscribed || is_of_family(header.event_type));
        let early = std::mem::take(&mut state.early);
        let mut heard: Vec<(&EventHeader, &[u8])> = Vec::with_capacity(early.len());
        heard.extend(early.iter().map(|(header, data)| (header, &**data)));
        // Each ring brings its events in order, but there are several.
        new.for_each(|event| heard.push(event));
        heard.sort_by_key(|(header, _)| header.time);
        state.signs.extend(signs);
        let steps: HashMap<_, _> = state
            .signs
            .iter()
            .map(|sign| ((sign.pid, sign.time), sign.step))
            .collect();
        let limits = Arc::clone(&state.limits);
        let mut limits = Limits::lock(&limits);
        let mut later = Vec::new();
        for (header, data) in heard {
            if header.time > watermark {
                later.push((*header, data.into()));
            } else {
                let step = steps.get(&(header.pid, header.time)).copied();
                let is_step = matches!(header.event_type, EventTypeId::EXEC | EventTypeId::RENAME);
                state.take_unseen(header.time);
                state.take_reports(header.time);
                state.take(header, data, step.filter(|_| is_step), &mut limits.memory);
            }
        }
        drop(limits);
        state.take_unseen(watermark);
        state.take_reports(watermark);
        state.code.tidy(watermark.0);
        state.early = later;
        state.tidy();
        state.signs.retain(|sign| sign.time > watermark);
        state.tell_withheld(watermark);
    }

    /// Takes the report that events of the kernel's were lost: it is not known of which process.
    pub fn lose(&self, loss: Loss) {
        let mut state = self.lock();
        for subscription in state.subscriptions.values_mut() {
            if subscription.is_running {
                subscription.queue.lose(loss);
            }
        }
        state.doubt();
    }

    /// Takes the report that events of some of these types, as bits, may be missing.
    pub fn lose_one_of(&self, types: u64) {
        let since = self.watermark();
        let mut locked = self.lock();
        let state = &mut *locked;
        for subscription in state.subscriptions.values_mut() {
            if subscription.wanted(state.by_choice) & types != 0 {
                subscription.queue.lose_one(since);
            }
        }
    }

    /// Takes the report that something of this process may be missing.
    pub fn lose_of(&self, pid: i32) {
        let since = self.watermark();
        let mut state = self.lock();
        for subscription in state.subscriptions.values_mut() {
            if subscription.is_running && subscription.processes.contains_key(&pid) {
                subscription.queue.lose_one(since);
            }
        }
    }

    /// Returns the time up to which everything was taken.
    #[must_use]
    pub fn watermark(&self) -> MonotonicNs {
        *self.watermark.borrow()
    }

    /// Raises the watermark: nothing older than this will be taken any more.
    pub fn complete_up_to(&self, watermark: MonotonicNs) {
        self.watermark.send_replace(watermark);
    }

    /// Waits until everything up to `time` was taken.
    pub async fn wait_for(&self, time: MonotonicNs) {
        // The sender lives as long as we do.
        let _ = self
            .watermark
            .subscribe()
            .wait_for(|known| *known >= time)
            .await;
    }

    /// Holds events for a controller from now on; `None` when its user, or all, have too many
    /// already.
    #[must_use]
    pub fn subscribe(&self, wish: Terms) -> Option<SubscriptionId> {
        let mut state = self.lock();
        if !Limits::lock(&state.limits).slots.take(wish.viewer.user, 1) {
            return None;
        }
        state.doubt_one(wish.pid);
        let id = SubscriptionId(state.next);
        state.next += 1;
        let watched = if state.in_exec.contains(&wish.pid) && !wish.viewer.sees_all() {
            Watched::in_exec()
        } else {
            Watched::SEEN
        };
        let subscription = Subscription {
            wish,
            processes: HashMap::from([(wish.pid, watched)]),
            asked: HashMap::from([(wish.pid, NOT_CONFIRMED)]),
            leaving: Leaving::default(),
            is_running: false,
            filter: EventSet::EMPTY,
            before: (false, EventSet::EMPTY),
            changed: MonotonicNs(0),
            queue: Queue::new(wish.viewer.user, wish.capacity, wish.keeps_oldest),
            said: HashMap::new(),
        };
        state.forget_ended(wish.pid);
        state.watch_code(wish.pid);
        state.subscriptions.insert(id, subscription);
        state.concerned.add(wish.pid, id);
        Some(id)
    }

    /// Returns how many subscriptions there may be.
    #[must_use]
    pub fn most_subscriptions(&self) -> Most {
        Limits::lock(&self.lock().limits).slots.most()
    }

    /// Holds events of another process too. Returns whether they were not held before.
    ///
    /// # Errors
    ///
    /// There are too many, in words.
    pub fn add_to(&self, id: SubscriptionId, pid: i32) -> Result<bool, String> {
        let mut locked = self.lock();
        let state = &mut *locked;
        let is_in_exec = state.in_exec.contains(&pid);
        state.doubt_one(pid);
        state.forget_ended(pid);
        let Some(subscription) = state.subscriptions.get_mut(&id) else {
            return Err("the subscription has ended".to_owned());
        };
        // What is known of one that is there already stays.
        if subscription.processes.contains_key(&pid) {
            return Ok(false);
        }
        if subscription.processes.len() >= MOST_PROCESSES {
            return Err(format!(
                "a stream has at most {MOST_PROCESSES} processes that are asked for"
            ));
        }
        let watched = if is_in_exec && !subscription.wish.viewer.sees_all() {
            Watched::in_exec()
        } else {
            Watched::SEEN
        };
        subscription.processes.insert(pid, watched);
        subscription.asked.insert(pid, NOT_CONFIRMED);
        state.watch_code(pid);
        state.concerned.add(pid, id);
        Ok(true)
    }

    /// Notes that a process which was asked for is the one that was proven to be the asker's to
    /// trace: its events since this time are given.
    pub fn confirm(&self, id: SubscriptionId, pid: i32, since: MonotonicNs) {
        if let Some(subscription) = self.lock().subscriptions.get_mut(&id)
            && let Some(asked) = subscription.asked.get_mut(&pid)
        {
            *asked = since.min(*asked);
        }
    }

    /// Tells whether a subscription has this process, and may see it now.
    #[must_use]
    pub fn has(&self, id: SubscriptionId, pid: i32) -> bool {
        let state = self.lock();
        let watched = state
            .subscriptions
            .get(&id)
            .and_then(|subscription| subscription.processes.get(&pid));
        matches!(watched, Some(Watched::Seen { .. }))
    }

    /// Holds events of this process no longer.
    pub fn remove_from(&self, id: SubscriptionId, pid: i32) {
        if let Some(subscription) = self.lock().subscriptions.get_mut(&id) {
            subscription.processes.remove(&pid);
            subscription.asked.remove(&pid);
        }
    }

    /// Holds nothing any more. Returns the processes that it had.
    pub fn unsubscribe(&self, id: SubscriptionId) -> Vec<i32> {
        let mut locked = self.lock();
        let state = &mut *locked;
        let mut processes = Vec::new();
        if let Some(mut subscription) = state.subscriptions.remove(&id) {
            for pid in subscription.known() {
                state.concerned.remove(pid, id);
            }
            let mut limits = Limits::lock(&state.limits);
            subscription.queue.clear(&mut limits.memory);
            limits.slots.give_back(subscription.wish.viewer.user, 1);
            drop(limits);
            processes.extend(subscription.processes.keys());
        }
        state.update_kernel();
        processes
    }

    /// Sets the events that a subscription wants from now on.
    pub fn control(&self, id: SubscriptionId, is_running: bool, filter: EventSet) {
        let mut state = self.lock();
        if let Some(subscription) = state.subscriptions.get_mut(&id) {
            subscription.control(is_running, filter);
        }
        state.update_kernel();
    }

    /// Returns the events that wait for a subscription, or the first part of them.
    #[must_use]
    pub fn collect(&self, id: SubscriptionId) -> Answer {
        let watermark = *self.watermark.borrow();
        let mut locked = self.lock();
        let state = &mut *locked;
        let Some(subscription) = state.subscriptions.get_mut(&id) else {
            return Answer::Done;
        };
        let held = subscription.processes.values();
        let held = held.filter_map(Watched::held_since).min();
        let watermark = held.map_or(watermark, |held| watermark.min(held));
        let memory = &mut Limits::lock(&state.limits).memory;
        subscription.queue.collect(watermark, memory)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    fn take(
        &mut self,
        header: &EventHeader,
        data: &[u8],
        step: Option<ExecStep>,
        child: Option<i32>,
        common: &mut Common<'_>,
    ) {
        let pid = header.pid;
        if !self.processes.contains_key(&pid) {
            if self.leaving.takes(header, data) && self.wants(header, data, common.by_choice) {
                self.keep(header, data, common);
            }
            return;
        }
        if let Some(ExecStep::Done(sight)) = step {
            self.exec_done(pid, &sight, common);
        }
        let is_older = self.is_older(pid, header.time);
        if !is_older {
            self.take_seen(header, data, common);
        }
        if step == Some(ExecStep::Begins) && !self.wish.viewer.sees_all() {
            self.exec_begins(pid);
        }
        if let Some(child) = child {
            self.inherit(child, pid, header.time);
        }
        // The kernel may give the pid to a process that is not traced.
        if header.event_type == EventTypeId::EXIT && !is_older {
            self.end(pid, header.tid, header.time);
        }
    }

    /// Has a process end with this thread.
    fn end(&mut self, pid: i32, tid: i32, time: MonotonicNs) {
        if self.ends_seen(pid, time) {
            self.leaving.add(pid, tid, time);
        }
    }

    /// Has a process end of which no event says so.
    fn end_unseen(&mut self, step: &UnseenStep) {
        if !self.is_older(step.pid, step.time) && self.ends_seen(step.pid, step.time) {
            self.leaving.add_unseen(step.pid, step.tid, step.time);
        }
    }

    /// Removes a process that ends. Returns whether it is its own until then.
    fn ends_seen(&mut self, pid: i32, time: MonotonicNs) -> bool {
        self.said.remove(&pid);
        self.asked.remove(&pid);
        match self.processes.remove(&pid) {
            Some(Watched::InExec { held, .. }) => {
                held.iter()
                    .for_each(|(held, _)| self.queue.withhold_one(held.time));
                false
            }
            Some(Watched::Seen { from }) => from <= time,
            Some(Watched::Hidden) | None => false,
        }
    }

    /// Tells whether something happened before the process was asked for, to it or to another one
    /// that had its pid.
    fn is_older(&self, pid: i32, time: MonotonicNs) -> bool {
        self.asked.get(&pid).is_some_and(|asked| time < *asked)
    }

    /// Has a child too that one of its processes makes, if it wants children. One that was made
    /// before the parent was asked for is not traced, and its end is not reported.
    fn inherit(&mut self, child: i32, parent: i32, time: MonotonicNs) {
        if self.is_older(parent, time) {
            return;
        }
        if let Some(parent) = self.processes.get(&parent).filter(|_| self.wish.inherit) {
            let watched = parent.child();
            self.processes.insert(child, watched);
        }
    }

    /// Forgets a process whose pid another one has now, the child of `parent`: its end may not have
    /// been reported.
    fn forget_reused(&mut self, child: i32, parent: i32, time: MonotonicNs) {
        // A process that asks for itself soon after its fork is the one that was made.
        if self.is_older(child, time) {
            return;
        }
        self.leaving.forget(child);
        let is_its_own = self.wish.inherit && self.processes.contains_key(&parent);
        self.said.remove(&child);
        if !is_its_own {
            self.processes.remove(&child);
        }
        self.asked.remove(&child);
    }

    /// Returns the processes whose events may concern it.
    fn known(&self) -> impl Iterator<Item = i32> {
        self.processes.keys().copied().chain(self.leaving.pids())
    }

    /// Tells whether events of a process may concern it.
    fn knows(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid) || self.leaving.has(pid)
    }

    /// Hides a process that its controller may not look into now, if there is one of this pid.
    fn doubt_one(&mut self, pid: i32) {
        let viewer = self.wish.viewer;
        if let Some(watched) = self.processes.get_mut(&pid)
            && !viewer.may_see_now(pid)
        {
            *watched = Watched::Hidden;
        }
    }

    /// Tells whether events of the process may be told of, at least by their number: it has not
    /// become another's, nor had when it ended.
    fn may_hear_of(&self, pid: i32) -> bool {
        match self.processes.get(&pid) {
            Some(watched) => matches!(watched, Watched::Seen { .. }),
            None => self.leaving.has(pid),
        }
    }

    /// Tells whether it has a process that is in an exec.
    fn has_in_exec(&self, pid: i32) -> bool {
        matches!(self.processes.get(&pid), Some(Watched::InExec { .. }))
    }

    /// Takes the report that events were withheld.
    fn withhold(&mut self, loss: Loss) {
        if self.is_running {
            self.queue.lose(loss);
        }
    }

    /// Sets what it wants from now on.
    fn control(&mut self, is_running: bool, filter: EventSet) {
        let now = (self.is_running, self.filter);
        if now != (is_running, filter) {
            (self.before, self.changed) = (now, monotonic_now());
            (self.is_running, self.filter) = (is_running, filter);
        }
    }

    /// Returns whether it ran at a time, and its filter.
    fn state_at(&self, time: MonotonicNs) -> (bool, EventSet) {
        if time < self.changed {
            self.before
        } else {
            (self.is_running, self.filter)
        }
    }

    /// Tells whether an event is wanted; a stack, if its event is too.
    fn wants(&self, header: &EventHeader, data: &[u8], by_choice: u64) -> bool {
        if header.event_type == EventTypeId::THREAD_CONTEXT {
            // It has no bit: where it is recorded, that was asked for.
            let (is_running, filter) = self.state_at(header.time);
            return is_running && !filter.contains(header.event_type);
        }
        let wanted = wanted_by(self.state_at(header.time), by_choice);
        let is_wanted = |event_type| wanted & wanted::bit(event_type) != 0;
        let of = (header.event_type == EventTypeId::STACK)
            .then(|| data.first_chunk().map(|of| u32::from_ne_bytes(*of)));
        is_wanted(header.event_type)
            && of.is_none_or(|of| of.is_some_and(|of| is_wanted(EventTypeId(of))))
    }

    /// Returns the types that it wants, as bits.
    fn wanted(&self, by_choice: u64) -> u64 {
        wanted_by((self.is_running, self.filter), by_choice)
    }

    fn take_seen(&mut self, header: &EventHeader, data: &[u8], common: &mut Common<'_>) {
        let is_wanted = self.wants(header, data, common.by_choice);
        let Some(watched) = self.processes.get_mut(&header.pid).filter(|_| is_wanted) else {
            return;
        };
        match watched.fate(header, data) {
            Fate::Keep => self.keep(header, data, common),
            Fate::Hold => watched.hold(header, data),
            Fate::Lose => self.queue.withhold_one(header.time),
            Fate::Hide => {}
        }
    }

    /// Marks the start of an exec: from here on events may be those of a program that the
    /// controller may not look into.
    fn exec_begins(&mut self, pid: i32) {
        if let Some(watched @ Watched::Seen { .. }) = self.processes.get_mut(&pid) {
            *watched = Watched::in_exec();
        }
    }

    /// Marks the end of an exec: now it is known which program it is, and which controllers may
    /// look into it.
    fn exec_done(&mut self, pid: i32, sight: &Sight, common: &mut Common<'_>) {
        let may_see = self.wish.viewer.may_see(sight);
        let now = if may_see {
            Watched::SEEN
        } else {
            Watched::Hidden
        };
        let before = self.processes.insert(pid, now);
        if let Some(Watched::InExec { held, .. }) = before.filter(|_| may_see) {
            for (header, data) in held {
                self.keep(&header, &data, common);
            }
        }
    }

    /// Keeps an event for the controller, without what it says of processes that this does not see;
    /// before a stack, what its process has mapped.
    fn keep(&mut self, header: &EventHeader, data: &[u8], common: &mut Common<'_>) {
        if header.event_type == EventTypeId::STACK {
            self.keep_code(header, common);
        }
        if self.wish.viewer.is_unmasked() {
            self.queue.push(header, data, common.memory);
            return;
        }
        let is_seen = |pid: i32| match self.processes.get(&pid) {
            Some(watched) => matches!(watched, Watched::Seen { .. }),
            None => self.leaving.had(pid, header.time),
        };
        let masked = masked(header, data, is_seen);
        self.queue.push(header, &masked, common.memory);
    }

    fn keep_code(&mut self, header: &EventHeader, common: &mut Common<'_>) {
        let said = self.said.entry(header.pid).or_default();
        for mapping in common.code.unsaid(header.pid, header.time.0, said) {
            let mut data = Vec::new();
            push_mapping(&mut data, &mapping);
            let header = EventHeader {
                event_type: EventTypeId::MAPPING,
                ..*header
            };
            self.queue.push(&header, &data, common.memory);
        }
    }

    fn doubt(&mut self) {
        /// Asking takes some microseconds a process.
        const MOST_ASKED: usize = 256;
        let viewer = self.wish.viewer;
        if viewer.sees_all() {
            return;
        }
        for (asked, (pid, watched)) in self.processes.iter_mut().enumerate() {
            let from = if asked < MOST_ASKED && viewer.may_see_now(*pid) {
                Some(monotonic_now())
            } else {
                None
            };
            if let Watched::InExec { held, .. } = watched {
                held.iter()
                    .for_each(|(held, _)| self.queue.withhold_one(held.time));
            }
            *watched = from.map_or(Watched::Hidden, |from| Watched::Seen { from });
        }
    }
}

/// Returns the types, as bits, that are wanted by one that runs, or does not, and has this filter.
fn wanted_by((is_running, filter): (bool, EventSet), by_choice: u64) -> u64 {
    let [first, ..] = filter.words();
    match (is_running, filter == EventSet::EMPTY) {
        (false, _) => 0,
        (true, true) => !by_choice,
        (true, false) => !first,
    }
}
