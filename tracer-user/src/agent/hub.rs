//! Who wants which of the kernel's events, and what waits for them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tracer_common::event_type::EventTypeId;
use tracer_posix::agent::protocol::Answer;
use tracer_posix::engine::EventSet;
use tracer_posix::event::{EventHeader, MonotonicNs};
use tracer_posix::source::Loss;

use super::queue::Queue;
use super::share::{Most, Shares};
use crate::kernel::Wanted;

/// Subscriptions that there may be.
pub const MOST_SUBSCRIPTIONS: Most = Most {
    a_user: 16,
    all_but_root: 24,
    all: 32,
};

/// Bytes of memory for events that wait.
pub const MOST_MEMORY: Most = Most {
    a_user: 32 << 20,
    all_but_root: 64 << 20,
    all: 96 << 20,
};

/// Names one subscription; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId(u64);

/// What a subscription is for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The user of the controller.
    pub user: u32,
    /// The process.
    pub pid: i32,
    /// Whether its children count as well.
    pub inherit: bool,
    /// Bytes of events that are kept.
    pub capacity: u64,
    /// Whether new events are refused when there is no room.
    pub keeps_oldest: bool,
}

/// Shared by the source that feeds it and the conversations that it feeds.
#[derive(Clone, Default)]
pub struct Hub {
    state: Arc<Mutex<State>>,
    /// Up to here all events have been handed over.
    watermark: Arc<watch::Sender<MonotonicNs>>,
}

struct State {
    /// The traced processes.
    family: HashSet<i32>,
    subscriptions: HashMap<SubscriptionId, Subscription>,
    /// Who has how many of them.
    places: Shares,
    /// Who has how much memory for what waits.
    memory: Shares,
    next: u64,
    /// Told what all of them want.
    kernel: Option<Wanted>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            family: HashSet::new(),
            subscriptions: HashMap::new(),
            places: Shares::new(MOST_SUBSCRIPTIONS),
            memory: Shares::new(MOST_MEMORY),
            next: 0,
            kernel: None,
        }
    }
}

impl State {
    /// The types that somebody wants, as bits.
    fn wanted(&self) -> u64 {
        let running = self.subscriptions.values().filter(|one| one.is_running);
        running.fold(0, |bits, one| {
            let [filter, ..] = one.filter.words();
            bits | !filter
        })
    }

    /// Has the kernel drop what nobody wants.
    fn tell_kernel(&self) {
        if let Some(kernel) = &self.kernel {
            kernel.set_types_of_others(self.wanted());
        }
    }
}

struct Subscription {
    wish: Wish,
    processes: HashSet<i32>,
    is_running: bool,
    filter: EventSet,
    queue: Queue,
}

impl State {
    fn take(&mut self, header: &EventHeader, data: &[u8]) {
        let child = (header.event_type == EventTypeId::FORK)
            .then(|| data.first_chunk().map(|pid| i32::from_ne_bytes(*pid)))
            .flatten();
        if let Some(child) = child
            && self.family.contains(&header.pid)
        {
            self.family.insert(child);
        }
        for subscription in self.subscriptions.values_mut() {
            subscription.take(header, data, child, &mut self.memory);
        }
        if header.event_type == EventTypeId::EXIT {
            self.family.remove(&header.pid);
        }
    }
}

impl Hub {
    /// Tells `kernel` from now on what is wanted here.
    pub fn tell(&self, kernel: Wanted) {
        let mut state = self.lock();
        state.kernel = Some(kernel);
        state.tell_kernel();
    }

    /// A process is traced.
    pub fn add_process(&self, pid: i32) {
        self.lock().family.insert(pid);
    }

    /// Whether a process is traced.
    #[must_use]
    pub fn has_process(&self, pid: i32) -> bool {
        self.lock().family.contains(&pid)
    }

    /// Takes events of the kernel's, which may be in any order.
    pub fn take<'e>(&self, events: impl Iterator<Item = (&'e EventHeader, &'e [u8])>) {
        let mut state = self.lock();
        if state.family.is_empty() && state.subscriptions.is_empty() {
            return;
        }
        let of_family = |id| matches!(id, EventTypeId::FORK | EventTypeId::EXIT);
        let is_subscribed = !state.subscriptions.is_empty();
        let heard = events.filter(|(header, _)| is_subscribed || of_family(header.event_type));
        let mut heard: Vec<_> = heard.collect();
        // Each ring brings its events in order, but there are several.
        heard.sort_by_key(|(header, _)| header.time);
        for (header, data) in heard {
            state.take(header, data);
        }
    }

    /// Takes the word that events of the kernel's were lost: nobody knows whose.
    pub fn lose(&self, loss: Loss) {
        for subscription in self.lock().subscriptions.values_mut() {
            if subscription.is_running {
                subscription.queue.lose(loss);
            }
        }
    }

    /// Nothing older than this will be taken any more.
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

    /// Keeps events for somebody from now on; `None` when that user, or all, have too many already.
    #[must_use]
    pub fn subscribe(&self, wish: Wish) -> Option<SubscriptionId> {
        let mut state = self.lock();
        if !state.places.take(wish.user, 1) {
            return None;
        }
        let id = SubscriptionId(state.next);
        state.next += 1;
        let subscription = Subscription {
            wish,
            processes: HashSet::from([wish.pid]),
            is_running: false,
            filter: EventSet::EMPTY,
            queue: Queue::new(wish.user, wish.capacity, wish.keeps_oldest),
        };
        state.subscriptions.insert(id, subscription);
        Some(id)
    }

    /// Keeps nothing any more.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        let mut locked = self.lock();
        let state = &mut *locked;
        if let Some(mut subscription) = state.subscriptions.remove(&id) {
            subscription.queue.clear(&mut state.memory);
            state.places.give_back(subscription.wish.user, 1);
        }
        state.tell_kernel();
    }

    /// What a subscription wants from now on.
    pub fn control(&self, id: SubscriptionId, is_running: bool, filter: EventSet) {
        let mut state = self.lock();
        if let Some(subscription) = state.subscriptions.get_mut(&id) {
            subscription.is_running = is_running;
            subscription.filter = filter;
        }
        state.tell_kernel();
    }

    /// What waits for a subscription, or the first part of it.
    #[must_use]
    pub fn collect(&self, id: SubscriptionId) -> Answer {
        let watermark = *self.watermark.borrow();
        let mut locked = self.lock();
        let state = &mut *locked;
        let Some(subscription) = state.subscriptions.get_mut(&id) else {
            return Answer::Done;
        };
        subscription.queue.collect(watermark, &mut state.memory)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    fn take(&mut self, header: &EventHeader, data: &[u8], child: Option<i32>, memory: &mut Shares) {
        if !self.processes.contains(&header.pid) {
            return;
        }
        if let Some(child) = child.filter(|_| self.wish.inherit) {
            self.processes.insert(child);
        }
        if self.is_running && !self.filter.contains(header.event_type) {
            self.queue.push(header, data, memory);
        }
        // The number may become that of a process which is none of ours.
        if header.event_type == EventTypeId::EXIT {
            self.processes.remove(&header.pid);
        }
    }
}
