//! Subscriptions to the kernel's events, and the events that wait for them.

mod state;
mod subscription;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tracer_area::monotonic_now;
use tracer_engine::EventSet;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::Loss;
use tracer_kernel::Guard;
use tracer_posix::agent::protocol::Answer;

use super::share::{Most, Pool, PoolPart};
use super::viewer::Viewer;
use super::watched::Watched;
use state::{HubState, WithheldSoFar};
use subscription::Subscription;
use tracer_kernel::{ExecSign, MappingReport, UnseenStep, WantedMaps, Withheld};

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
    /// Where the kernel records its events only while its own user may look into it, as one of the
    /// subscriptions is that user's: what all of those may look into.
    pub guard: Option<Guard>,
}

impl TracedFor {
    /// Serves another subscription on these terms too.
    fn serve(&mut self, terms: &Terms) {
        self.inherit |= terms.inherit;
        let guard = terms.viewer.guard();
        self.guard = match (self.guard, guard) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// Hub shared by the source that feeds it and the conversations that it feeds.
#[derive(Clone)]
pub struct Hub {
    state: Arc<Mutex<HubState>>,
    /// Time up to which all events have been handed over.
    watermark: Arc<watch::Sender<MonotonicNs>>,
}

/// Resources that the users share, of a hub and of those beside it.
#[derive(Clone)]
struct Limits {
    /// Subscriptions of each user.
    slots: Pool,
    /// Memory of each user for events.
    memory: Pool,
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
        let limits = Limits {
            slots: Pool::new(most),
            memory: Pool::new(MOST_MEMORY),
        };
        Self::within(limits, by_choice)
    }

    fn within(limits: Limits, by_choice: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(HubState::new(limits, by_choice))),
            watermark: Arc::default(),
        }
    }

    /// Makes a hub for events that are recorded apart, whose users have no more than is left of
    /// their shares of this one; with contexts of threads, or without.
    #[must_use]
    pub fn beside(&self, has_contexts: bool) -> Self {
        let state = self.lock();
        let beside = Self::within(state.limits.clone(), state.by_choice);
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
        self.lock().reports.add(reports);
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
        self.lock().take_all(events, signs, watermark);
    }

    /// Takes the report that events of the kernel's were lost: it is not known of which process.
    pub fn lose(&self, loss: Loss) {
        let mut state = self.lock();
        for subscription in state.subscriptions.values_mut() {
            if subscription.is_running {
                subscription.queue.lose(loss);
            }
        }
        state.doubt(loss.cause);
    }

    /// Takes the report that events of some of these types, as bits, were lost, and no others: what
    /// says who may see a process was not among them.
    pub fn lose_of_types(&self, loss: Loss, types: u64) {
        let mut locked = self.lock();
        let state = &mut *locked;
        for subscription in state.subscriptions.values_mut() {
            if subscription.wanted(state.by_choice) & types != 0 {
                subscription.queue.lose(loss);
            }
        }
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
        let slot = state.limits.slots.take(wish.viewer.user, 1)?;
        state.doubt_one(wish.pid);
        let id = SubscriptionId(state.next);
        state.next += 1;
        let mut subscription = Subscription::new(wish, slot, &state.limits.memory);
        subscription.ask_for(wish.pid, state.in_exec.contains(&wish.pid));
        state.forget_ended(wish.pid);
        state.watch_code(wish.pid);
        state.subscriptions.insert(id, subscription);
        state.concerned.add(wish.pid, id);
        Some(id)
    }

    /// Returns how many subscriptions there may be.
    #[must_use]
    pub fn most_subscriptions(&self) -> Most {
        self.lock().limits.slots.most()
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
        subscription.ask_for(pid, is_in_exec);
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
        if let Some(subscription) = state.subscriptions.remove(&id) {
            for pid in subscription.known() {
                state.concerned.remove(pid, id);
            }
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

    /// Returns the events that wait for a subscription, or the first part of them, and the memory
    /// that they take: hold it until they are sent.
    #[must_use]
    pub fn collect(&self, id: SubscriptionId) -> (Answer, Option<PoolPart>) {
        let watermark = *self.watermark.borrow();
        let mut locked = self.lock();
        let state = &mut *locked;
        let Some(subscription) = state.subscriptions.get_mut(&id) else {
            return (Answer::Done, None);
        };
        let held = subscription.processes.values();
        let held = held.filter_map(Watched::held_since).min();
        let watermark = held.map_or(watermark, |held| watermark.min(held));
        let (answer, memory) = subscription.queue.collect(watermark);
        (answer, Some(memory))
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
