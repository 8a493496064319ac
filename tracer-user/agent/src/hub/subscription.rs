//! A subscription: the processes that it has, whether it may see them, and what of them it wants.

use std::collections::HashMap;

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{PYTHON_CODE_EVENT, Sight, wanted};
use tracer_engine::EventSet;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Loss, LossCause};

use super::Terms;
use crate::code::{MappedCode, Said};
use crate::leaving::Leaving;
use crate::mask::masked;
use crate::queue::Queue;
use crate::share::{Pool, PoolPart};
use crate::watched::{Fate, Watched};
use tracer_binary::stacks::push_mapping;
use tracer_kernel::{ExecStep, UnseenStep};

/// Parts of a hub that its subscriptions use as they take an event.
pub struct Common<'a> {
    pub by_choice: u64,
    pub code: &'a MappedCode,
}

/// Time of a process of which it is not known yet whether it still is the one that was asked for.
const NOT_CONFIRMED: MonotonicNs = MonotonicNs(u64::MAX);

/// Events of some processes that are held for a controller.
pub struct Subscription {
    pub wish: Terms,
    /// Its place among its user's, as long as it is there.
    _slot: PoolPart,
    /// Memory of all users for events.
    memory: Pool,
    pub processes: HashMap<i32, Watched>,
    /// Since when it is known of processes that were asked for that they are these: what is older
    /// is not theirs, or not to be seen.
    pub asked: HashMap<i32, MonotonicNs>,
    pub leaving: Leaving,
    pub is_running: bool,
    filter: EventSet,
    /// Whether it ran, and its filter, before they were changed last; and when that was. What was
    /// recorded before comes later.
    before: (bool, EventSet),
    changed: MonotonicNs,
    pub queue: Queue,
    /// Cause of the loss after which it was asked anew what it may see: what came before is lost
    /// for the same.
    doubted_for: LossCause,
    /// Parts of the processes' code that it was given.
    said: HashMap<i32, Said>,
}

impl Subscription {
    /// Makes one that has no process so far, and does not run.
    pub fn new(wish: Terms, slot: PoolPart, memory: &Pool) -> Self {
        let part = memory.part_of(wish.viewer.user);
        Self {
            wish,
            _slot: slot,
            memory: memory.clone(),
            processes: HashMap::new(),
            asked: HashMap::new(),
            leaving: Leaving::default(),
            is_running: false,
            filter: EventSet::EMPTY,
            before: (false, EventSet::EMPTY),
            changed: MonotonicNs(0),
            queue: Queue::new(part, wish.capacity, wish.keeps_oldest),
            doubted_for: LossCause::KernelRingFull,
            said: HashMap::new(),
        }
    }

    /// Has a process that is asked for, which may be in an exec now.
    pub fn ask_for(&mut self, pid: i32, is_in_exec: bool) {
        let watched = if is_in_exec && !self.wish.viewer.sees_all() {
            self.in_exec()
        } else {
            Watched::SEEN
        };
        self.processes.insert(pid, watched);
        self.asked.insert(pid, NOT_CONFIRMED);
    }

    fn in_exec(&self) -> Watched {
        Watched::in_exec(self.memory.part_of(self.wish.viewer.user))
    }

    pub fn take(
        &mut self,
        header: &EventHeader,
        data: &[u8],
        step: Option<ExecStep>,
        child: Option<i32>,
        common: &Common<'_>,
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
    pub fn end_unseen(&mut self, step: &UnseenStep) {
        if !self.is_older(step.pid, step.time) && self.ends_seen(step.pid, step.time) {
            self.leaving.add_unseen(step.pid, step.tid, step.time);
        }
    }

    /// Removes a process that ends. Returns whether it is its own until then.
    fn ends_seen(&mut self, pid: i32, time: MonotonicNs) -> bool {
        self.said.remove(&pid);
        self.asked.remove(&pid);
        match self.processes.remove(&pid) {
            Some(Watched::InExec(held)) => {
                held.as_loss(LossCause::Withheld)
                    .into_iter()
                    .for_each(|loss| self.queue.lose(loss));
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
    pub fn inherit(&mut self, child: i32, parent: i32, time: MonotonicNs) {
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
    pub fn forget_reused(&mut self, child: i32, parent: i32, time: MonotonicNs) {
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
    pub fn known(&self) -> impl Iterator<Item = i32> {
        self.processes.keys().copied().chain(self.leaving.pids())
    }

    /// Tells whether events of a process may concern it.
    pub fn knows(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid) || self.leaving.has(pid)
    }

    /// Hides a process that its controller may not look into now, if there is one of this pid.
    pub fn doubt_one(&mut self, pid: i32) {
        let viewer = self.wish.viewer;
        if let Some(watched) = self.processes.get_mut(&pid)
            && !viewer.may_see_now(pid)
        {
            *watched = Watched::Hidden;
        }
    }

    /// Tells whether events of the process may be told of, at least by their number: it has not
    /// become another's, nor had when it ended.
    pub fn may_hear_of(&self, pid: i32) -> bool {
        match self.processes.get(&pid) {
            Some(watched) => matches!(watched, Watched::Seen { .. }),
            None => self.leaving.has(pid),
        }
    }

    /// Tells whether it has a process that is in an exec.
    pub fn has_in_exec(&self, pid: i32) -> bool {
        matches!(self.processes.get(&pid), Some(Watched::InExec(_)))
    }

    /// Takes the report that events were withheld.
    pub fn withhold(&mut self, loss: Loss) {
        if self.is_running {
            self.queue.lose(loss);
        }
    }

    /// Sets what it wants from now on.
    pub fn control(&mut self, is_running: bool, filter: EventSet) {
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
        if header.event_type == PYTHON_CODE_EVENT {
            // It is part of the stacks that come after it.
            return is_wanted(EventTypeId::STACK);
        }
        let of = (header.event_type == EventTypeId::STACK)
            .then(|| data.first_chunk().map(|of| u32::from_ne_bytes(*of)));
        is_wanted(header.event_type)
            && of.is_none_or(|of| of.is_some_and(|of| is_wanted(EventTypeId(of))))
    }

    /// Returns the types that it wants, as bits.
    pub fn wanted(&self, by_choice: u64) -> u64 {
        wanted_by((self.is_running, self.filter), by_choice)
    }

    pub fn take_seen(&mut self, header: &EventHeader, data: &[u8], common: &Common<'_>) {
        let is_wanted = self.wants(header, data, common.by_choice);
        let Some(watched) = self.processes.get_mut(&header.pid).filter(|_| is_wanted) else {
            return;
        };
        match watched.fate(header) {
            Fate::Keep => self.keep(header, data, common),
            Fate::Hold => watched.hold(header, data),
            Fate::Lose => self.queue.lose_one_by(self.doubted_for, header.time),
            Fate::Hide => {}
        }
    }

    /// Marks the start of an exec: from here on events may be those of a program that the
    /// controller may not look into.
    fn exec_begins(&mut self, pid: i32) {
        if let Some(Watched::Seen { .. }) = self.processes.get(&pid) {
            self.processes.insert(pid, self.in_exec());
        }
    }

    /// Marks the end of an exec: now it is known which program it is, and which controllers may
    /// look into it.
    fn exec_done(&mut self, pid: i32, sight: &Sight, common: &Common<'_>) {
        let may_see = self.wish.viewer.may_see(sight);
        let now = if may_see {
            Watched::SEEN
        } else {
            Watched::Hidden
        };
        let before = self.processes.insert(pid, now);
        if let Some(Watched::InExec(held)) = before.filter(|_| may_see) {
            let lost = held.let_go(|header, data| self.keep(header, data, common));
            lost.into_iter().for_each(|loss| self.queue.lose(loss));
        }
    }

    /// Keeps an event for the controller, without what it says of processes that this does not see;
    /// before a stack, what its process has mapped.
    fn keep(&mut self, header: &EventHeader, data: &[u8], common: &Common<'_>) {
        let is_stack = header.event_type == EventTypeId::STACK;
        if is_stack && !self.keep_code(header, common) {
            // Its addresses would have the names of what was there before.
            self.queue.lose_one(header.time);
            return;
        }
        if self.wish.viewer.is_unmasked() {
            self.push(header, data);
            return;
        }
        let is_seen = |pid: i32| match self.processes.get(&pid) {
            Some(watched) => matches!(watched, Watched::Seen { .. }),
            None => self.leaving.had(pid, header.time),
        };
        let masked = masked(header, data, is_seen);
        self.push(header, &masked);
    }

    /// Has an event wait, for which older ones may go. Returns whether it does.
    fn push(&mut self, header: &EventHeader, data: &[u8]) -> bool {
        let waits = self.queue.push(header, data);
        for (pid, at) in self.queue.take_code_gone() {
            if let Some(said) = self.said.get_mut(&pid) {
                said.misses_one(at.0);
            }
        }
        waits
    }

    /// Keeps what a process has mapped before a stack of it, as far as it is not known. Returns
    /// whether all of that waits for the controller.
    fn keep_code(&mut self, header: &EventHeader, common: &Common<'_>) -> bool {
        let said = self.said.entry(header.pid).or_default();
        for mapping in common.code.unsaid(header.pid, header.time.0, said) {
            let mut data = Vec::new();
            push_mapping(&mut data, &mapping);
            let header = EventHeader {
                event_type: EventTypeId::MAPPING,
                ..*header
            };
            if !self.push(&header, &data) {
                self.said.insert(header.pid, Said::DOUBTED);
                return false;
            }
        }
        true
    }

    /// Asks anew which processes it may see, after a loss for this cause.
    pub fn doubt(&mut self, cause: LossCause) {
        /// Asking takes some microseconds a process.
        const MOST_ASKED: usize = 256;
        let viewer = self.wish.viewer;
        self.doubted_for = cause;
        if viewer.sees_all() {
            return;
        }
        for (asked, (pid, watched)) in self.processes.iter_mut().enumerate() {
            let from = if asked < MOST_ASKED && viewer.may_see_now(*pid) {
                Some(monotonic_now())
            } else {
                None
            };
            if let Watched::InExec(held) = watched {
                held.as_loss(cause)
                    .into_iter()
                    .for_each(|loss| self.queue.lose(loss));
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

#[cfg(test)]
mod tests {
    use tracer_engine::event::Truncation;
    use tracer_posix::agent::protocol::{Answer, sent_cause};

    use super::*;
    use crate::share::Most;
    use crate::viewer::Viewer;

    fn subscription() -> Subscription {
        let most = Most {
            a_user: 1 << 20,
            all_but_root: 1 << 20,
            all: 1 << 20,
        };
        let terms = Terms {
            viewer: Viewer::of_whole_machine(1, 1),
            pid: 7,
            inherit: true,
            capacity: 1 << 20,
            keeps_oldest: false,
        };
        let memory = Pool::new(most);
        Subscription::new(terms, memory.part_of(1), &memory)
    }

    #[test]
    fn what_came_before_a_right_was_asked_anew_is_lost_for_the_cause_of_that() {
        for cause in [LossCause::KernelRingFull, LossCause::KernelMissed] {
            let mut subscription = subscription();
            subscription.control(true, EventSet::EMPTY);
            let from = MonotonicNs(monotonic_now().0 + 1_000_000_000);
            subscription.doubt(cause);
            subscription.processes.insert(7, Watched::Seen { from });
            let common = Common {
                by_choice: 0,
                code: &MappedCode::default(),
            };
            for time in [from.0 - 2, from.0 - 1, from.0] {
                let header = EventHeader {
                    time: MonotonicNs(time),
                    event_type: EventTypeId::SIGNAL_GENERATE,
                    pid: 7,
                    tid: 7,
                    cpu: None,
                    thread_id: 0,
                    program_address: 0,
                    truncation: Truncation::None,
                };
                subscription.take_seen(&header, &[0; 8], &common);
            }
            let Answer::Events { events, lost, .. } = subscription.queue.collect(from).0 else {
                panic!("no events");
            };
            assert_eq!(events.len(), 1);
            assert_eq!(lost, [(sent_cause(cause), 2, from.0 - 2)]);
        }
    }
}
