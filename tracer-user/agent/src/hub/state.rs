//! State of a hub: the traced processes, the subscriptions, and the steps that events go through.

use std::collections::{HashMap, HashSet};

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Loss, LossCause};

use super::subscription::{Common, Subscription};
use super::{Limits, SubscriptionId};
use crate::code::{MappedCode, WaitingReports};
use crate::concerned::Concerned;
use crate::watched::Held;
use tracer_kernel::{ExecSign, ExecStep, NO_CONTEXT, UnseenStep, WantedMaps};

/// The state.
pub struct HubState {
    /// The traced processes.
    pub family: HashSet<i32>,
    pub subscriptions: HashMap<SubscriptionId, Subscription>,
    /// Those that each event may concern.
    pub concerned: Concerned,
    /// Shares of the users, of this hub and of those beside it.
    pub limits: Limits,
    pub next: u64,
    /// Processes of the family that are in an exec.
    pub in_exec: HashSet<i32>,
    /// Events later than the last watermark, and steps of execs among them.
    pub early: Held,
    pub signs: Vec<ExecSign>,
    /// Recordings that learn the types that all of them want.
    pub kernel: Vec<WantedMaps>,
    /// Types that a subscription gets only where it has chosen them by a filter.
    pub by_choice: u64,
    /// Code that the processes have mapped, where stacks are recorded.
    pub code: MappedCode,
    /// Reports of that which are later than the last watermark.
    pub reports: WaitingReports,
    /// Steps of guarded processes that no event says, later than the last watermark.
    pub unseen: Vec<UnseenStep>,
    /// Events that were withheld, by process, of which it is not known yet who may hear of them.
    pub withheld: HashMap<Option<i32>, WithheldSoFar>,
    /// Threads that have a CPU, where contexts are recorded.
    pub running: Option<HashSet<i32>>,
}

/// Events of a process that were withheld.
pub struct WithheldSoFar {
    pub count: u64,
    /// Time at which they were last counted: what is known of the process by events that are no
    /// later says whose it was.
    pub at: MonotonicNs,
}

impl HubState {
    pub fn new(limits: Limits, by_choice: u64) -> Self {
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
            reports: WaitingReports::default(),
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
    pub fn wanted(&self) -> u64 {
        let all = self.subscriptions.values();
        all.fold(0, |bits, one| bits | one.wanted(self.by_choice))
    }

    /// Has the kernel drop the types that no subscription wants.
    pub fn update_kernel(&self) {
        for kernel in &self.kernel {
            kernel.set_types_of_others(self.wanted());
        }
    }

    /// Takes the steps up to a time that no event says.
    pub fn take_unseen(&mut self, until: MonotonicNs) {
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
        while let Some((time, report)) = self.reports.next(until.0) {
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

    /// Takes events, which may be in any order, and the steps of execs among them, up to a time
    /// before which nothing more will come. Later ones wait.
    pub fn take_all<'e>(
        &mut self,
        events: impl Iterator<Item = (&'e EventHeader, &'e [u8])>,
        signs: Vec<ExecSign>,
        watermark: MonotonicNs,
    ) {
        if self.family.is_empty() && self.subscriptions.is_empty() {
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
        let is_subscribed = !self.subscriptions.is_empty();
        let new = events.filter(|(header, _)| is_subscribed || is_of_family(header.event_type));
        let early = std::mem::take(&mut self.early);
        let mut heard: Vec<(&EventHeader, &[u8])> = Vec::with_capacity(early.len());
        heard.extend(early.iter().map(|(header, data)| (header, &**data)));
        // Each ring brings its events in order, but there are several.
        new.for_each(|event| heard.push(event));
        heard.sort_by_key(|(header, _)| header.time);
        self.signs.extend(signs);
        let steps: HashMap<_, _> = self
            .signs
            .iter()
            .map(|sign| ((sign.pid, sign.time), sign.step))
            .collect();
        let mut later = Vec::new();
        for (header, data) in heard {
            if header.time > watermark {
                later.push((*header, data.into()));
            } else {
                let step = steps.get(&(header.pid, header.time)).copied();
                let is_step = matches!(header.event_type, EventTypeId::EXEC | EventTypeId::RENAME);
                self.take_unseen(header.time);
                self.take_reports(header.time);
                self.take(header, data, step.filter(|_| is_step));
            }
        }
        self.take_unseen(watermark);
        self.take_reports(watermark);
        self.code.tidy(watermark.0);
        self.early = later;
        self.tidy();
        self.signs.retain(|sign| sign.time > watermark);
        self.tell_withheld(watermark);
    }

    fn take(&mut self, header: &EventHeader, data: &[u8], step: Option<ExecStep>) {
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
                let common = Common {
                    by_choice: self.by_choice,
                    code: &self.code,
                };
                if misses_a_switch {
                    let header = EventHeader {
                        event_type: EventTypeId::THREAD_CONTEXT,
                        ..*header
                    };
                    subscription.take_seen(&header, NO_CONTEXT, &common);
                }
                subscription.take(header, data, step, child, &common);
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
    pub fn doubt_one(&mut self, pid: i32) {
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
    pub fn watch_code(&mut self, pid: i32) {
        if self.concerned.with(pid).is_empty() {
            self.code.watch(pid, monotonic_now().0);
        }
    }

    /// Forgets a process that has ended: another one, which has its pid, comes to be traced.
    pub fn forget_ended(&mut self, pid: i32) {
        for subscription in self.subscriptions.values_mut() {
            subscription.leaving.forget(pid);
        }
    }

    /// Handles events that were lost, of unknown processes: an exec may be among them. For each
    /// controller that may not see everything, rights are checked anew, and what happened meanwhile
    /// is lost to it.
    pub fn doubt(&mut self, cause: LossCause) {
        self.code.begin_all(monotonic_now().0);
        for subscription in self.subscriptions.values_mut() {
            subscription.doubt(cause);
        }
    }
}
