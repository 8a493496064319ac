//! States of each thread at any time, found out from its events.

use std::collections::{HashMap, VecDeque};
use std::mem::offset_of;

use foldhash::fast::RandomState;
use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::{
    ExecData, ForkData, SwitchInData, SyscallEnterData, ThrottleData, WakeupData,
};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::calls::{CallKey, calls_are_recorded};
use crate::cpus::{Cpus, Sign};
use crate::retries::{Acts, Retries};
use crate::state::{
    Behind, FunctionId, GroupId, Interval, IntervalEnd, Left, LockId, ObjectId, State, Task,
    Thread, Wait, Waker,
};

/// Threads that are followed at a time: more than any machine has, and fewer than a damaged file
/// may name. Of those beyond nothing is said.
const MOST_THREADS: usize = 65_536;

/// Gaps that are remembered, to say why something is not known.
const MOST_GAPS: usize = 4096;

/// Threads that have ended before they are forgotten, all at once.
const MOST_DEAD: usize = MOST_THREADS / 8;

/// Knowledge about a thread.
#[derive(Clone, Copy, Debug)]
struct Known {
    pid: i32,
    state: State,
    since: MonotonicNs,
    /// Where it runs, or for which CPU it waits.
    cpu: Option<u32>,
    /// Whether only its maker's events say something of it: its own events may not be recorded.
    is_hearsay: bool,
    /// Whether it was gone from its last CPU without a switch that said so: how long it has this
    /// one is known only when it leaves it.
    is_doubtful: bool,
    /// Whether it got its CPU under another tid: the kernel's count of that is not this one's.
    is_renumbered: bool,
    /// The control group for which it waits once it leaves its CPU.
    throttled_by: GroupId,
    /// The lock for which it waits once it leaves its CPU.
    lock: LockId,
    /// The object of the system call that it is in.
    object: Option<(CallKey, ObjectId)>,
    retries: Retries,
}

/// A thread was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The thread.
    pub thread: Thread,
    /// Thread that made it.
    pub by: Thread,
    /// When.
    pub at: MonotonicNs,
    /// Whether it is `by` itself, which continues under another tid: it runs another program now.
    pub is_same: bool,
}

/// Findings of [`ThreadStates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A thread was in a state.
    Interval(Interval),
    /// A thread was made.
    Birth(Birth),
    /// A thread has ended.
    Death(Thread),
    /// A CPU has been taken.
    Taken(CpuTaken),
}

/// A thread gets a CPU. Its name may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTaken {
    /// The CPU.
    pub cpu: u32,
    /// The thread.
    pub by: Task,
    /// When.
    pub at: MonotonicNs,
    /// Whether an event of its own says so: when it leaves the CPU is seen too then.
    pub is_own: bool,
}

/// The states of all threads.
///
/// The intervals of a thread follow each other without a gap, from the first moment on, or from
/// when it was made; so their sum is its time, to the nanosecond. Where events may be missing the
/// state is [`State::Unknown`], until the first event of the thread that follows; but that a thread
/// ran, the kernel counts by itself.
///
/// A CPU has one thread at a time: an event of another thread on it ends what the one did that was
/// held to run there. Where no switch says until when it ran, that time is unknown.
#[derive(Debug)]
pub struct ThreadStates {
    start: MonotonicNs,
    threads: HashMap<i32, Known, RandomState>,
    cpus: Cpus,
    /// Since when no event is missing: the later one of the two below.
    whole_since: MonotonicNs,
    /// Since when none is lost.
    lost_until: MonotonicNs,
    /// Since when all are recorded.
    skipped_until: MonotonicNs,
    /// The last moments at which events were missing: from when to when.
    gaps: VecDeque<(MonotonicNs, MonotonicNs)>,
    now: MonotonicNs,
    /// When the trace ends, once that is known.
    trace_end: Option<MonotonicNs>,
    /// Whether switches are among the events: without them a thread that runs, runs for ever.
    sees_switches: bool,
    /// Threads that did something before there was a switch, and when they did first.
    acted: crate::looks::RunningSince,
    /// Threads that have ended since such ones were forgotten.
    deaths: usize,
    /// Threads that ran when they were looked at, until they leave their CPU.
    looked_running: crate::looks::RunningSince,
    /// The function in which the thread of the next event waits, where it does.
    next_function: FunctionId,
}

impl ThreadStates {
    /// Makes the states of a trace that begins at this moment.
    #[must_use]
    pub fn new(start: MonotonicNs) -> Self {
        Self {
            start,
            threads: HashMap::default(),
            cpus: Cpus::default(),
            whole_since: start,
            lost_until: start,
            skipped_until: start,
            gaps: VecDeque::new(),
            now: start,
            trace_end: None,
            sees_switches: false,
            acted: crate::looks::RunningSince::default(),
            deaths: 0,
            looked_running: crate::looks::RunningSince::default(),
            next_function: FunctionId::NONE,
        }
    }

    /// Notes that the next event has a stack: where its thread waits from then on, it does so in
    /// this function.
    pub fn next_waits_in(&mut self, function: FunctionId) {
        self.next_function = function;
    }

    /// Notes that a thread is about to leave its CPU and waits for this lock, whose word has this
    /// address.
    pub fn will_wait_for(&mut self, thread: Thread, lock: LockId, address: u64) {
        let known = self.threads.get_mut(&thread.tid);
        if let Some(known) = known.filter(|known| known.pid == thread.pid) {
            known.lock = lock;
            known.retries.will_wait(address);
        }
    }

    /// Notes the object of the system call that a thread has entered.
    pub fn may_wait_on(&mut self, thread: Thread, call: CallKey, object: ObjectId) {
        let known = self.threads.get_mut(&thread.tid);
        if let Some(known) = known.filter(|known| known.pid == thread.pid) {
            known.object = Some((call, object));
        }
    }

    /// Returns the process of a thread that is there.
    #[must_use]
    pub fn process_of(&self, tid: i32) -> Option<i32> {
        let known = self.threads.get(&tid)?;
        (known.state != State::Dead).then_some(known.pid)
    }

    /// Notes that events are missing from the last one on until this moment; without one, from now
    /// on for ever: each ring between kernel and tracer loses for itself. What threads did before
    /// the last event is given to `found`.
    pub fn lose(&mut self, until: Option<MonotonicNs>, found: impl FnMut(Finding)) {
        let until = until.unwrap_or(MonotonicNs(u64::MAX)).max(self.now);
        if self.gaps.len() >= MOST_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back((self.now, until));
        self.forget(found);
        self.lost_until = self.lost_until.max(until);
        self.whole_since = self.lost_until.max(self.skipped_until);
    }

    /// Notes that events are not recorded from the last one on until this moment; without one,
    /// until this is called with one. What threads did before the last event is given to `found`.
    pub fn skip(&mut self, until: Option<MonotonicNs>, found: impl FnMut(Finding)) {
        let for_ever = MonotonicNs(u64::MAX);
        if until.is_none() && self.skipped_until == for_ever {
            return;
        }
        self.forget(found);
        self.skipped_until = until.map_or(for_ever, |until| until.max(self.now));
        self.whole_since = self.lost_until.max(self.skipped_until);
    }

    /// Notes that this thread has events that are not recorded, from the last one on until it has
    /// one that is.
    pub fn skip_thread(&mut self, tid: i32, mut found: impl FnMut(Finding)) {
        let (now, whole_since) = (self.now, self.whole_since);
        if let Some(known) = self.threads.get_mut(&tid) {
            known.forget((tid, now), whole_since, &mut found);
        }
    }

    fn forget(&mut self, mut found: impl FnMut(Finding)) {
        for (tid, known) in &mut self.threads {
            known.forget((*tid, self.now), self.whole_since, &mut found);
        }
        self.cpus.lose();
    }

    /// Tells whether events may be lost between these moments.
    #[must_use]
    pub fn is_lossy(&self, from: MonotonicNs, to: MonotonicNs) -> bool {
        let mut gaps = self.gaps.iter().rev();
        gaps.any(|(begin, end)| *begin < to && from < *end)
    }

    /// Goes on by one event. What it shows is given to `found`.
    pub fn feed(&mut self, event: &Event<'_>, mut found: impl FnMut(Finding)) {
        let header = event.header;
        let (thread, at) = (
            Thread {
                pid: header.pid,
                tid: header.tid,
            },
            header.time,
        );
        self.now = self.now.max(at);
        let function = std::mem::take(&mut self.next_function);
        match header.event_type {
            EventTypeId::THREAD_STATE => {
                self.look(thread, at, (header.cpu, event.data), &mut found);
            }
            EventTypeId::SWITCH_IN => {
                self.take_cpu(thread, at, header.cpu, event.data, &mut found);
                let by = Task {
                    thread,
                    ..Task::default()
                };
                found_taken(header.cpu, (by, true), at, &mut found);
            }
            EventTypeId::SWITCH_OUT => {
                if let Some(left) = Left::read(event.data) {
                    let left = self.with_look(thread, at, left).in_function(function);
                    self.leave_cpu(thread, at, header.cpu, &left, &mut found);
                    found_taken(header.cpu, (left.next, false), at, &mut found);
                }
            }
            EventTypeId::THROTTLE => self.throttle(thread, at, event.data, &mut found),
            EventTypeId::WAKEUP => self.wake(thread, at, event.data, &mut found),
            EventTypeId::FORK | EventTypeId::THREAD_CREATE => {
                self.run(thread, at, header.cpu, &mut found);
                self.act(thread.tid, Acts::Other);
                self.make(thread, at, event.data, &mut found);
            }
            EventTypeId::EXEC => {
                self.replace(thread, at, event.data, &mut found);
                self.run(thread, at, header.cpu, &mut found);
            }
            // What a thread does itself, it does on a CPU.
            EventTypeId::SYSCALL_ENTER
            | EventTypeId::SYSCALL_EXIT
            | EventTypeId::SIGNAL_DELIVER
            | EventTypeId::EXIT
            | EventTypeId::THREAD_EXIT
            | EventTypeId::FAULT_USER
            | EventTypeId::FAULT_KERNEL => {
                self.run(thread, at, header.cpu, &mut found);
                self.call(thread, event);
            }
            EventTypeId::FILTER if calls_are_recorded(event) == Some(false) => {
                let known = self.threads.values_mut();
                known.for_each(|known| {
                    known.object = None;
                    known.retries.forget_call();
                });
            }
            // Its CPU is what the program says: that takes none from another one.
            user if user.is_user() => {
                self.run(thread, at, None, &mut found);
                self.act(thread.tid, Acts::Other);
            }
            _ => {}
        }
    }

    /// Notes that the trace ends at this moment: there are no more events.
    pub fn stop(&mut self, at: MonotonicNs) {
        self.trace_end = Some(at);
    }

    /// Tells whether the trace ends at this moment, as far as that is known.
    #[must_use]
    pub fn is_trace_end(&self, at: MonotonicNs) -> bool {
        self.trace_end == Some(at)
    }

    /// Ends the trace: gives the last interval of each thread.
    pub fn end(&mut self, at: MonotonicNs, mut found: impl FnMut(Finding)) {
        let mut last: Vec<_> = self.threads.drain().collect();
        last.sort_unstable_by_key(|(tid, known)| (known.pid, *tid));
        for (tid, known) in last {
            let state = known.claimed_by_now(self.whole_since);
            known.give(tid, state, at, IntervalEnd::Open, &mut found);
        }
    }

    /// Returns the current state of a thread and since when it lasts, as far as that is known by
    /// now: up to `until`. `None` for a thread of which nothing was seen, or not before `until`.
    #[must_use]
    pub fn current(&self, thread: Thread, until: MonotonicNs) -> Option<Interval> {
        let known = self.threads.get(&thread.tid)?;
        (known.pid == thread.pid && known.since < until).then_some(Interval {
            thread,
            state: known.claimed_by_now(self.whole_since),
            from: known.since,
            to: until,
            end: IntervalEnd::Open,
            cpu: known.cpu,
            waits_since: known.waits_since(),
        })
    }

    /// Returns what is known of a thread, which is new where nothing was known; `None` where there
    /// are too many. One whose tid was another process's is another thread.
    fn known(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        found: &mut impl FnMut(Finding),
    ) -> Option<&mut Known> {
        self.make_space(thread.tid, at)?;
        let unseen = Known {
            pid: thread.pid,
            state: State::Unknown,
            since: self.start,
            cpu: None,
            is_hearsay: false,
            is_doubtful: false,
            is_renumbered: false,
            throttled_by: GroupId::UNKNOWN,
            lock: LockId::NONE,
            object: None,
            retries: Retries::default(),
        };
        let known = self.threads.entry(thread.tid).or_insert(unseen);
        if known.pid != thread.pid {
            // Its end was not seen.
            known.give(
                thread.tid,
                known.when_unseen(),
                at,
                IntervalEnd::Unsaid,
                found,
            );
            *known = Known {
                since: at,
                ..unseen
            };
        }
        Some(known)
    }

    /// Sees to it that there is space for a thread: `None` where too many live. Those that have
    /// ended are forgotten; what is seen of their tids later, began after this.
    fn make_space(&mut self, tid: i32, at: MonotonicNs) -> Option<()> {
        if self.threads.len() < MOST_THREADS || self.threads.contains_key(&tid) {
            return Some(());
        }
        // Rarely, since all are looked at.
        if self.deaths >= MOST_DEAD {
            self.threads.retain(|_, known| known.state != State::Dead);
            self.start = at;
            self.deaths = 0;
        }
        (self.threads.len() < MOST_THREADS).then_some(())
    }

    /// Begins a thread, or continues one under another tid: the thread that had the tid before has
    /// ended.
    fn begin(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        (state, cpu): (State, Option<u32>),
        maker: Option<Thread>,
        found: &mut impl FnMut(Finding),
    ) {
        if self.make_space(thread.tid, at).is_none() {
            return;
        }
        let new = Known {
            pid: thread.pid,
            state,
            since: at,
            cpu,
            is_hearsay: false,
            is_doubtful: false,
            is_renumbered: false,
            throttled_by: GroupId::UNKNOWN,
            lock: LockId::NONE,
            object: None,
            retries: Retries::default(),
        };
        if let Some(known) = self.threads.insert(thread.tid, new) {
            known.give(
                thread.tid,
                known.when_unseen(),
                at,
                IntervalEnd::Unsaid,
                found,
            );
        }
        if let Some(by) = maker {
            found(Finding::Birth(Birth {
                thread,
                by,
                at,
                is_same: false,
            }));
        }
    }

    /// Notes that a thread is in this state from now on.
    fn go_on(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        (state, cpu): (State, Option<u32>),
        end: IntervalEnd,
        found: &mut impl FnMut(Finding),
    ) {
        let whole_since = self.whole_since;
        if let Some(known) = self.known(thread, at, found) {
            let before = known.claimed(whole_since);
            known.give(thread.tid, before, at, end, found);
            known.state = state;
            known.since = known.since.max(at);
            known.cpu = cpu;
            known.is_hearsay = false;
            // That it left its CPU for it was not seen.
            known.lock = LockId::NONE;
            match (before, state) {
                (State::Blocked(_), State::Runnable(_)) => known.retries.wake(at, end),
                (State::Runnable(_), State::Running) | (State::Running, State::Running) => {}
                _ => known.retries.forget(),
            }
        }
    }

    /// Notes that a thread has this CPU. The one that was held to run there has left it: at this
    /// moment, where it is `prev`, which the switch names; else at some moment before, and how long
    /// it ran is not known.
    fn claim(
        &mut self,
        (cpu, tid): (Option<u32>, i32),
        at: MonotonicNs,
        (sign, prev): (Sign, Option<i32>),
        found: &mut impl FnMut(Finding),
    ) {
        let Some(cpu) = cpu else {
            return;
        };
        let Some(before) = self.cpus.take(cpu, tid, at, sign) else {
            return;
        };
        let whole_since = self.whole_since;
        let Some(known) = self.threads.get_mut(&before) else {
            return;
        };
        if known.state != State::Running || known.cpu != Some(cpu) {
            return;
        }
        let is_until_now = prev == Some(before);
        let state = if is_until_now {
            known.claimed(whole_since)
        } else {
            State::Unknown
        };
        known.give(before, state, at, IntervalEnd::Unsaid, found);
        known.since = known.since.max(at);
        known.state = State::Unknown;
        known.cpu = None;
        known.retries.forget();
        known.is_doubtful |= !is_until_now;
    }

    /// Notes that a thread does something itself: so it has a CPU, whatever was not seen before.
    fn run(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        cpu: Option<u32>,
        found: &mut impl FnMut(Finding),
    ) {
        if at < self.whole_since {
            return;
        }
        if !self.sees_switches {
            self.acted.add_first(thread.tid, at);
            return;
        }
        self.claim((cpu, thread.tid), at, (Sign::Event, None), found);
        let Some(known) = self.known(thread, at, found) else {
            return;
        };
        match known.state {
            State::Running if known.cpu == cpu || cpu.is_none() => {}
            State::Dead => {}
            // It ran, and now its CPU is known.
            State::Running if known.cpu.is_none() => {
                self.go_on(
                    thread,
                    at,
                    (State::Running, cpu),
                    IntervalEnd::Unsaid,
                    found,
                );
            }
            State::Unknown
            | State::Running
            | State::Runnable(_)
            | State::Blocked(_)
            | State::Stopped => {
                // When it got the CPU was not seen.
                known.is_doubtful |= known.state == State::Running;
                known.state = State::Unknown;
                self.go_on(
                    thread,
                    at,
                    (State::Running, cpu),
                    IntervalEnd::Unsaid,
                    found,
                );
            }
        }
    }

    /// Notes that a thread gets a CPU. If it waited for something else, it was woken before, and it
    /// has left its last CPU: where that was not seen, it is not known what it did meanwhile.
    fn take_cpu(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        cpu: Option<u32>,
        untrusted: &[u8],
        found: &mut impl FnMut(Finding),
    ) {
        self.sees_switches = true;
        let before: Option<SwitchInData> = read_grown(untrusted, offset_of!(SwitchInData, others));
        let prev = before.map(|data| data.prev_tid.cast_signed());
        self.claim((cpu, thread.tid), at, (Sign::Switch, prev), found);
        let mut end = IntervalEnd::Unsaid;
        if let Some(known) = self.known(thread, at, found) {
            match known.state {
                State::Running => {
                    known.state = State::Unknown;
                    known.is_doubtful = true;
                }
                State::Blocked(_) | State::Stopped => known.state = State::Unknown,
                // Another CPU may have taken it over: who had that one is not to blame.
                State::Runnable(_) if cpu.is_some() && known.cpu == cpu => {
                    end = before.map_or(IntervalEnd::Unsaid, |data| {
                        IntervalEnd::GotCpu(Behind::last(&data))
                    });
                }
                State::Runnable(_) | State::Unknown | State::Dead => {}
            }
        }
        self.go_on(thread, at, (State::Running, cpu), end, found);
    }

    /// Notes that a thread leaves its CPU. The kernel says since when it had it, where the switch
    /// to it was not seen too.
    fn leave_cpu(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        cpu: Option<u32>,
        left: &Left,
        found: &mut impl FnMut(Finding),
    ) {
        self.sees_switches = true;
        let whole_since = self.whole_since;
        let acted = self.acted.remove(thread.tid);
        let acted = acted.filter(|acted| *acted >= whole_since);
        // Another one had the CPU before.
        let holder = cpu.and_then(|cpu| self.cpus.holder(cpu));
        let not_before = holder.map_or(MonotonicNs(0), |holder| holder.not_before);
        let not_before = not_before.min(at);
        self.claim((cpu, thread.tid), at, (Sign::Event, None), found);
        if let Some(cpu) = cpu {
            self.cpus.take(cpu, left.next.thread.tid, at, Sign::Switch);
        }
        let Some(known) = self.known(thread, at, found) else {
            return;
        };
        let is_since_exec =
            known.is_renumbered && known.state == State::Running && known.cpu == cpu;
        let acted = acted.filter(|_| known.state == State::Unknown);
        let ran_ns = match (left.ran_ns, acted) {
            (0, _) if is_since_exec => at.0.saturating_sub(known.since.0),
            // It has the CPU that it had then: it would have been seen to leave it.
            (0, Some(acted)) => at.0.saturating_sub(acted.0),
            (counted, _) => counted,
        };
        let began = MonotonicNs(at.0.saturating_sub(ran_ns));
        let began = began.max(known.since).max(not_before);
        // It was given the CPU unseen, or left it meanwhile: what was last known of it does not
        // hold.
        let before = match known.state {
            State::Runnable(_) if left.ran_ns > 0 => known.claimed(whole_since),
            State::Runnable(_)
            | State::Unknown
            | State::Running
            | State::Blocked(_)
            | State::Stopped
            | State::Dead => State::Unknown,
        };
        known.give(thread.tid, before, began, IntervalEnd::Unsaid, found);
        let known_since = known.since;
        known.since = began;
        known.cpu = cpu;
        known.is_hearsay = false;
        (known.is_doubtful, known.is_renumbered) = (false, false);
        known.give(thread.tid, State::Running, at, IntervalEnd::Unsaid, found);
        if before == State::Unknown && known_since < began {
            known.retries.forget();
        }
        let by = std::mem::take(&mut known.throttled_by);
        let lock = std::mem::take(&mut known.lock);
        known.state = left.state.throttled_by(by).waiting_for(lock);
        if let Some(object) = known.object {
            known.state = known.state.waiting_on(object);
        }
        known.since = known.since.max(at);
        let ran_ns = at.0.saturating_sub(began.0);
        known.retries.leave_cpu(at, ran_ns, known.state);
        if left.state == State::Dead {
            self.deaths += 1;
            found(Finding::Death(thread));
        }
    }

    /// Notes which control group has used up its time, of a thread that leaves its CPU for that at
    /// once.
    fn throttle(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        untrusted: &[u8],
        found: &mut impl FnMut(Finding),
    ) {
        let data: Option<ThrottleData> = read_grown(untrusted, offset_of!(ThrottleData, path));
        if let Some(data) = data
            && let Some(known) = self.known(thread, at, found)
        {
            known.throttled_by = GroupId(data.id);
        }
    }

    /// Notes what a thread does that has a CPU.
    fn act(&mut self, tid: i32, acts: Acts) {
        if let Some(known) = self.threads.get_mut(&tid)
            && known.state == State::Running
        {
            known.retries.act(acts);
        }
    }

    /// Notes the system call that a thread enters or leaves.
    fn call(&mut self, thread: Thread, event: &Event<'_>) {
        let known = self.threads.get_mut(&thread.tid);
        let Some(known) = known.filter(|known| known.pid == thread.pid) else {
            return;
        };
        known.object = None;
        match event.header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                known.lock = LockId::NONE;
                let Ok((data, _)) = SyscallEnterData::read_from_prefix(event.data) else {
                    return;
                };
                let key = CallKey {
                    is_compat: data.compat != 0,
                    nr: data.number,
                };
                let [first, ..] = data.args;
                known.retries.enter(key, first);
            }
            EventTypeId::SYSCALL_EXIT => known.retries.leave(),
            _ => {}
        }
    }

    /// Notes that a thread becomes runnable, if it was not so already: one that is woken before it
    /// has left its CPU continues.
    fn wake(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        untrusted: &[u8],
        found: &mut impl FnMut(Finding),
    ) {
        let data: Option<WakeupData> = read_grown(untrusted, offset_of!(WakeupData, waker_context));
        let is_new = data.is_some_and(|data| data.new_thread != 0);
        let waker = data.map_or(Waker::Unknown, |data| Waker::from_wakeup(&data));
        // A thread whose packet wakes another one on its way is interrupted for that.
        let by = data.map_or(0, |data| data.waker_tid.cast_signed());
        self.act(by, Acts::Woke);
        let cpu = data.map(|data| data.target_cpu);
        if is_new && !self.threads.contains_key(&thread.tid) {
            // That it was made is not recorded, but who has asked for its first wake-up is.
            let maker = match waker {
                Waker::Thread(task) => Some(task.thread),
                Waker::Unknown | Waker::Interrupt | Waker::SoftInterrupt | Waker::Timer => None,
            };
            self.begin(thread, at, (State::Runnable(Wait::New), cpu), maker, found);
            return;
        }
        let wait = if is_new { Wait::New } else { Wait::Woken };
        let is_waiting = self.known(thread, at, found).is_some_and(|known| {
            matches!(
                known.state,
                State::Unknown | State::Blocked(_) | State::Stopped
            )
        });
        if is_waiting {
            let end = IntervalEnd::Woken(waker);
            self.go_on(thread, at, (State::Runnable(wait), cpu), end, found);
        } else if is_new && let Some(known) = self.threads.get_mut(&thread.tid) {
            known.cpu = cpu;
            known.is_hearsay = false;
        }
    }

    /// Notes that a thread is made: it is there from now on, and has not run.
    fn make(
        &mut self,
        by: Thread,
        at: MonotonicNs,
        untrusted: &[u8],
        found: &mut impl FnMut(Finding),
    ) {
        if let Ok((data, _)) = ForkData::read_from_prefix(untrusted) {
            let thread = Thread {
                pid: data.child_pid.cast_signed(),
                tid: data.child_tid.cast_signed(),
            };
            let state = (State::Runnable(Wait::New), None);
            self.begin(thread, at, state, Some(by), found);
            if let Some(known) = self.threads.get_mut(&thread.tid) {
                known.is_hearsay = true;
            }
        }
    }

    /// Notes that a process runs another program: the thread that called exec continues under the
    /// process's tid, and has the CPU.
    fn replace(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        untrusted: &[u8],
        found: &mut impl FnMut(Finding),
    ) {
        let Some(tid) = ExecData::old_tid_of(untrusted) else {
            return;
        };
        let old = Thread {
            pid: thread.pid,
            tid,
        };
        if old != thread {
            self.go_on(old, at, (State::Dead, None), IntervalEnd::Unsaid, found);
            found(Finding::Death(old));
            self.deaths += 1;
            self.begin(thread, at, (State::Running, None), None, found);
            if let Some(known) = self.threads.get_mut(&thread.tid) {
                known.is_renumbered = true;
            }
            found(Finding::Birth(Birth {
                thread,
                by: old,
                at,
                is_same: true,
            }));
        }
    }
}

impl Known {
    fn thread(&self, tid: i32) -> Thread {
        Thread { pid: self.pid, tid }
    }

    /// Gives the interval that ends at `to`, unless it is empty.
    fn give(
        &self,
        tid: i32,
        state: State,
        to: MonotonicNs,
        end: IntervalEnd,
        found: &mut impl FnMut(Finding),
    ) {
        if self.since < to {
            found(Finding::Interval(Interval {
                thread: self.thread(tid),
                state,
                from: self.since,
                to,
                end,
                cpu: self.cpu,
                waits_since: self.waits_since(),
            }));
        }
    }

    /// Gives what it did up to now: what it does then is not known.
    fn forget(
        &mut self,
        (tid, now): (i32, MonotonicNs),
        whole_since: MonotonicNs,
        found: &mut impl FnMut(Finding),
    ) {
        let state = self.claimed_by_now(whole_since);
        self.give(tid, state, now, IntervalEnd::Unsaid, found);
        self.since = self.since.max(now);
        self.state = self.when_unseen();
        self.cpu = None;
        self.lock = LockId::NONE;
        self.object = None;
        self.retries = Retries::default();
    }

    /// Returns since when it waits for what it waits for.
    fn waits_since(&self) -> MonotonicNs {
        self.retries.waits_since().unwrap_or(self.since)
    }

    /// Returns the state to report: where events are missing since the state began, the thread may
    /// have left it unseen.
    fn claimed(&self, whole_since: MonotonicNs) -> State {
        let may_be_gone = self.is_doubtful && self.state == State::Running;
        if self.since < whole_since || may_be_gone {
            self.when_unseen()
        } else {
            self.state
        }
    }

    /// Returns the state to report of one that lasts: of a thread of which only its maker has said
    /// something, it is not known whether its events are recorded.
    fn claimed_by_now(&self, whole_since: MonotonicNs) -> State {
        if self.is_hearsay {
            State::Unknown
        } else {
            self.claimed(whole_since)
        }
    }

    /// Returns the state of a thread that is seen no more: unknown, but for one that has ended.
    fn when_unseen(&self) -> State {
        match self.state {
            State::Dead => State::Dead,
            State::Unknown
            | State::Running
            | State::Runnable(_)
            | State::Blocked(_)
            | State::Stopped => State::Unknown,
        }
    }
}

/// Looks at the beginning of a trace.
impl ThreadStates {
    /// Tells whether switches are recorded, as far as that is known.
    #[must_use]
    pub fn sees_switches(&self) -> bool {
        self.sees_switches
    }

    /// Gives the state of each thread by now, those that have ended left out.
    pub fn each_now(&self, mut each: impl FnMut(Thread, State)) {
        for (tid, known) in &self.threads {
            let state = known.claimed_by_now(self.whole_since);
            if state != State::Dead {
                each(known.thread(*tid), state);
            }
        }
    }

    /// Notes the look at a thread, as a trace begins. What its own events say is as new or newer,
    /// and counts. A thread that has none is there from now on: before, it was not traced.
    fn look(
        &mut self,
        thread: Thread,
        at: MonotonicNs,
        (cpu, untrusted): (Option<u32>, &[u8]),
        found: &mut impl FnMut(Finding),
    ) {
        let Some(look) = crate::looks::ThreadLook::read(untrusted).filter(|look| look.is_followed)
        else {
            return;
        };
        self.sees_switches = true;
        if at < self.whole_since {
            return;
        }
        let is_new = match self.threads.get(&thread.tid) {
            Some(known) if known.pid != thread.pid => false,
            Some(known) if known.state != State::Unknown || known.since > at => return,
            known => known.is_none(),
        };
        if look.state == State::Running {
            self.looked_running.add(thread.tid, at);
            self.claim((cpu, thread.tid), at, (Sign::Event, None), found);
        }
        let state = (look.state, cpu);
        if is_new {
            self.begin(thread, at, state, None, found);
        } else {
            self.go_on(thread, at, state, IntervalEnd::Unsaid, found);
        }
    }

    /// Returns the switch away, with the time since the look where the thread ran then, and has run
    /// on.
    fn with_look(&mut self, thread: Thread, at: MonotonicNs, left: Left) -> Left {
        let since = self.looked_running.remove(thread.tid);
        let known = self.threads.get(&thread.tid);
        let known = known.filter(|known| known.pid == thread.pid && left.ran_ns == 0);
        let known = known.filter(|known| known.state == State::Running);
        match since.zip(known) {
            Some((since, known)) if known.since == since && since >= self.whole_since => Left {
                ran_ns: at.0.saturating_sub(since.0),
                ..left
            },
            _ => left,
        }
    }
}

fn found_taken(
    cpu: Option<u32>,
    (by, is_own): (Task, bool),
    at: MonotonicNs,
    found: &mut impl FnMut(Finding),
) {
    if let Some(cpu) = cpu {
        found(Finding::Taken(CpuTaken {
            cpu,
            by,
            at,
            is_own,
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tracer_engine::event::{EventHeader, Truncation};
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::state::{Inside, Reason};
    use tracer_common::kernel::{SwitchOutData, ThreadStateData, waits_in};

    const PID: i32 = 10;
    const BLOCKED: State = State::Blocked(Reason {
        inside: Inside::Unknown,
        is_io: false,
        function: FunctionId::NONE,
        lock: LockId::NONE,
        object: ObjectId::NONE,
    });

    fn header(at: u64, event_type: EventTypeId, pid: i32, tid: i32) -> EventHeader {
        EventHeader {
            time: MonotonicNs(at),
            event_type,
            pid,
            tid,
            thread_id: 0,
            program_address: 0,
            cpu: Some(0),
            truncation: Truncation::None,
        }
    }

    fn switch_out(state: u32, preempted: u8, ran_ns: u64) -> Vec<u8> {
        let mut data = SwitchOutData::new_zeroed();
        (data.state, data.preempted, data.ran_ns) = (state, preempted, ran_ns);
        data.as_bytes().to_vec()
    }

    fn made(pid: u32, tid: u32) -> Vec<u8> {
        let mut data = ForkData::new_zeroed();
        (data.child_pid, data.child_tid) = (pid, tid);
        data.as_bytes().to_vec()
    }

    /// The intervals of a story: a time, a type, a thread and the data of each event.
    fn intervals(story: &[(u64, EventTypeId, i32, Vec<u8>)], end: u64) -> Vec<(i32, State, u64)> {
        let mut states = ThreadStates::new(MonotonicNs(100));
        let mut found = Vec::new();
        let mut push = |one| {
            if let Finding::Interval(one) = one {
                found.push((one.thread.tid, one.state, one.ns()));
            }
        };
        for (at, event_type, tid, data) in story {
            let event = Event {
                header: header(*at, *event_type, PID, *tid),
                data,
            };
            states.feed(&event, &mut push);
        }
        states.end(MonotonicNs(end), &mut push);
        found
    }

    #[test]
    fn a_thread_is_made_runs_waits_and_ends() {
        use EventTypeId as Type;
        let woken = WakeupData::new_zeroed().as_bytes().to_vec();
        let story = [
            (110, Type::THREAD_CREATE, 10, made(10, 11)),
            (115, Type::SWITCH_IN, 11, Vec::new()),
            (125, Type::SWITCH_OUT, 11, switch_out(0, 1, 10)),
            (130, Type::SWITCH_IN, 11, Vec::new()),
            (150, Type::SWITCH_OUT, 11, switch_out(1, 0, 20)),
            (190, Type::WAKEUP, 11, woken.clone()),
            // Once more, which changes nothing.
            (192, Type::WAKEUP, 11, woken),
            (197, Type::SWITCH_IN, 11, Vec::new()),
            (198, Type::SWITCH_OUT, 11, switch_out(4, 0, 1)),
            (
                206,
                Type::WAKEUP,
                11,
                WakeupData::new_zeroed().as_bytes().to_vec(),
            ),
            (208, Type::SWITCH_IN, 11, Vec::new()),
            (211, Type::SWITCH_OUT, 11, switch_out(0x80, 0, 3)),
        ];

        let expected = [
            (State::Runnable(Wait::New), 5),
            (State::Running, 10),
            (State::Runnable(Wait::Preempted), 5),
            (State::Running, 20),
            (BLOCKED, 40),
            (State::Runnable(Wait::Woken), 7),
            (State::Running, 1),
            (State::Stopped, 8),
            (State::Runnable(Wait::Woken), 2),
            (State::Running, 3),
            (State::Dead, 89),
        ];
        let expected = expected.map(|(state, ns)| (11, state, ns));
        assert_eq!(intervals(&story, 300), expected);
    }

    #[test]
    fn a_thread_whose_control_group_is_frozen_is_stopped() {
        let leaves = |state, waits_in| {
            let mut data = SwitchOutData::new_zeroed();
            (data.state, data.waits_in, data.ran_ns) = (state, waits_in, 5);
            let story = [(110, EventTypeId::SWITCH_OUT, 11, data.as_bytes().to_vec())];
            let (_, state, _) = *intervals(&story, 200).last().unwrap();
            state
        };
        let (freezable, frozen) = (0x2000, 0x8000);
        assert_eq!(leaves(1 | freezable, waits_in::FAULT), State::Stopped);
        assert_eq!(leaves(frozen, waits_in::SYSCALL), State::Stopped);
        // System calls wait like that, and page faults otherwise.
        for (state, waits_in) in [
            (1 | freezable, waits_in::SYSCALL),
            (1, waits_in::FAULT),
            (2, waits_in::FAULT | waits_in::IO),
        ] {
            let state = leaves(state, waits_in);
            assert!(matches!(state, State::Blocked(_)), "{state:?}");
        }
    }

    #[test]
    fn what_is_not_recorded_is_unknown_and_known_again_after_it() {
        let mut states = ThreadStates::new(MonotonicNs(100));
        let mut found = Vec::new();
        let mut push = |one| {
            if let Finding::Interval(one) = one {
                found.push((one.thread.tid, one.state, one.from.0, one.to.0));
            }
        };
        let mut feed = |states: &mut ThreadStates, at, event_type, data: &[u8]| {
            let header = header(at, event_type, PID, 11);
            states.feed(&Event { header, data }, &mut push);
        };
        feed(&mut states, 110, EventTypeId::SWITCH_IN, &[]);
        states.skip(None, |_| {});
        feed(&mut states, 150, EventTypeId::SWITCH_IN, &[]);
        // How long it had the CPU, the kernel counts by itself.
        feed(
            &mut states,
            170,
            EventTypeId::SWITCH_OUT,
            &switch_out(1, 0, 5),
        );
        states.skip(Some(MonotonicNs(200)), |_| {});
        feed(&mut states, 210, EventTypeId::SWITCH_IN, &[]);
        states.skip_thread(11, |_| {});
        feed(&mut states, 260, EventTypeId::SWITCH_IN, &[]);
        assert!(!states.is_lossy(MonotonicNs(100), MonotonicNs(300)));
        states.end(MonotonicNs(290), &mut push);
        let expected = [
            (State::Unknown, 100, 110),
            (State::Unknown, 110, 150),
            (State::Unknown, 150, 165),
            (State::Running, 165, 170),
            (State::Unknown, 170, 210),
            (State::Unknown, 210, 260),
            (State::Running, 260, 290),
        ];
        let expected = expected.map(|(state, from, to)| (11, state, from, to));
        assert_eq!(found, expected);
    }

    fn look(state: u32, waits_in: u8, followed: u8) -> Vec<u8> {
        let mut data = ThreadStateData::new_zeroed();
        (data.state, data.waits_in, data.followed) = (state, waits_in, followed);
        data.as_bytes().to_vec()
    }

    #[test]
    fn a_thread_ran_since_its_first_act_where_its_first_switch_leaves_the_cpu() {
        use EventTypeId as Type;
        let story = [
            (110, Type::SIGNAL_DELIVER, 11, Vec::new()),
            (120, Type::SIGNAL_DELIVER, 11, Vec::new()),
            (160, Type::SWITCH_OUT, 11, switch_out(1, 0, 0)),
            (180, Type::SWITCH_OUT, 12, switch_out(1, 0, 0)),
        ];
        let intervals = intervals(&story, 200);
        let ran = |tid| (tid, State::Running, 50);
        assert!(intervals.contains(&ran(11)), "{intervals:?}");
        assert!(
            intervals
                .iter()
                .all(|one| one.1 != State::Running || one.0 == 11)
        );
    }

    #[test]
    fn what_a_look_shows_is_so_until_something_else_is() {
        use EventTypeId as Type;
        use tracer_common::kernel::{thread_state as seen, waits_in};
        let fault = State::Blocked(Reason {
            inside: Inside::Fault,
            is_io: true,
            ..Reason::default()
        });
        let story = [
            (
                120,
                Type::THREAD_STATE,
                11,
                look(seen::BLOCKED, waits_in::FAULT | waits_in::IO, 1),
            ),
            (120, Type::THREAD_STATE, 12, look(seen::RUNNING, 0, 1)),
            (120, Type::THREAD_STATE, 13, look(seen::RUNNABLE, 0, 1)),
            (120, Type::THREAD_STATE, 14, look(seen::STOPPED, 0, 1)),
            (120, Type::THREAD_STATE, 15, look(seen::UNKNOWN, 0, 1)),
            // The kernel has not seen the switch to it, and counts nothing.
            (150, Type::SWITCH_OUT, 12, switch_out(1, 0, 0)),
            (160, Type::SWITCH_IN, 13, Vec::new()),
            (
                170,
                Type::WAKEUP,
                14,
                WakeupData::new_zeroed().as_bytes().to_vec(),
            ),
        ];
        let expected = [
            (12, State::Running, 30),
            (13, State::Runnable(Wait::Unsaid), 40),
            (14, State::Stopped, 50),
            (11, fault, 80),
            (12, BLOCKED, 50),
            (13, State::Running, 40),
            (14, State::Runnable(Wait::Woken), 30),
            (15, State::Unknown, 80),
        ];
        assert_eq!(intervals(&story, 200), expected);
    }

    #[test]
    fn what_a_thread_has_shown_itself_counts_more_than_a_look() {
        use EventTypeId as Type;
        use tracer_common::kernel::thread_state as seen;
        let story = [
            (110, Type::SWITCH_OUT, 11, switch_out(4, 0, 5)),
            (120, Type::THREAD_STATE, 11, look(seen::RUNNING, 0, 1)),
            // What this thread does next is not recorded.
            (130, Type::THREAD_STATE, 12, look(seen::BLOCKED, 0, 0)),
        ];
        let expected = [
            (11, State::Unknown, 5),
            (11, State::Running, 5),
            (11, State::Stopped, 90),
        ];
        assert_eq!(intervals(&story, 200), expected);
    }

    #[test]
    fn a_thread_is_there_since_its_first_wake_up_where_nothing_else_says_so() {
        use EventTypeId as Type;
        let mut data = WakeupData::new_zeroed();
        data.new_thread = 1;
        let story = [
            (150, Type::WAKEUP, 11, data.as_bytes().to_vec()),
            (155, Type::SWITCH_IN, 11, Vec::new()),
        ];

        let expected = [
            (11, State::Runnable(Wait::New), 5),
            (11, State::Running, 45),
        ];
        assert_eq!(intervals(&story, 200), expected);
    }

    #[test]
    fn of_a_thread_whose_events_may_not_be_recorded_nothing_is_claimed() {
        use EventTypeId as Type;
        let made_at = |at, tid| (at, Type::THREAD_CREATE, 10, made(10, tid));
        let mut data = WakeupData::new_zeroed();
        data.new_thread = 1;
        let story = [
            made_at(110, 11),
            made_at(120, 12),
            (130, Type::WAKEUP, 12, data.as_bytes().to_vec()),
            made_at(140, 13),
            (145, Type::SWITCH_IN, 13, Vec::new()),
        ];
        let expected = [
            (13, State::Runnable(Wait::New), 5),
            (11, State::Unknown, 90),
            (12, State::Runnable(Wait::New), 80),
            (13, State::Running, 55),
        ];
        let found = intervals(&story, 200);
        let others: Vec<_> = found.into_iter().filter(|(tid, ..)| *tid != 10).collect();
        assert_eq!(others, expected);
    }

    #[test]
    fn what_was_not_seen_is_unknown_and_what_the_kernel_counted_is_not() {
        use EventTypeId as Type;
        let story = [
            // It had the CPU since before the trace.
            (120, Type::SWITCH_OUT, 11, switch_out(1, 0, 1000)),
            // Its wake-up and the switch to it are missing.
            (180, Type::SWITCH_OUT, 11, switch_out(1, 0, 15)),
            // Its wake-up is missing.
            (190, Type::SWITCH_IN, 11, Vec::new()),
            // It left the CPU, and got one again.
            (198, Type::SWITCH_OUT, 11, switch_out(1, 0, 3)),
        ];

        let expected = [
            (State::Running, 20),
            (State::Unknown, 45),
            (State::Running, 15),
            (State::Unknown, 10),
            (State::Unknown, 5),
            (State::Running, 3),
            (BLOCKED, 2),
        ];
        let expected = expected.map(|(state, ns)| (11, state, ns));
        assert_eq!(intervals(&story, 200), expected);
    }

    #[test]
    fn after_a_loss_nothing_is_claimed_of_the_time_before_the_next_event() {
        let mut states = ThreadStates::new(MonotonicNs(0));
        let mut found = Vec::new();
        let mut push = |one| {
            if let Finding::Interval(one) = one {
                found.push((one.state, one.ns()));
            }
        };
        let mut feed = |states: &mut ThreadStates, at, event_type, data: &[u8]| {
            let header = header(at, event_type, PID, 11);
            states.feed(&Event { header, data }, &mut push);
        };
        feed(
            &mut states,
            10,
            EventTypeId::SWITCH_OUT,
            &switch_out(1, 0, 10),
        );
        states.lose(None, |_| {});
        feed(&mut states, 50, EventTypeId::SWITCH_IN, &[]);
        feed(
            &mut states,
            60,
            EventTypeId::SWITCH_OUT,
            &switch_out(1, 0, 10),
        );
        states.lose(None, |_| {});
        states.end(MonotonicNs(100), &mut push);

        let expected = [
            (State::Running, 10),
            (State::Unknown, 40),
            (State::Running, 10),
            (State::Unknown, 40),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn those_that_have_ended_leave_space_for_others_and_those_that_live_do_not() {
        let mut states = ThreadStates::new(MonotonicNs(0));
        let mut running = 0;
        let mut feed = |states: &mut ThreadStates, at, event_type, tid, data: &[u8]| {
            let header = header(at, event_type, PID, tid);
            states.feed(&Event { header, data }, |one| {
                let is_run = matches!(one, Finding::Interval(one) if one.state == State::Running);
                running += u64::from(is_run);
            });
        };
        // More than fit, each of which ends; the last of these live on.
        let count = 3 * i32::try_from(MOST_THREADS).unwrap();
        for tid in 1..=count {
            let at = 10 * u64::from(tid.unsigned_abs());
            feed(&mut states, at, EventTypeId::SWITCH_IN, tid, &[]);
            if tid < count - 70_000 {
                let dead = switch_out(0x80, 0, 5);
                feed(&mut states, at + 5, EventTypeId::SWITCH_OUT, tid, &dead);
            }
        }
        assert!(states.threads.len() <= MOST_THREADS);
        assert_eq!(running, u64::from((count - 70_000 - 1).unsigned_abs()));
    }

    #[test]
    fn who_is_given_the_tid_of_another_process_is_another_thread() {
        let mut states = ThreadStates::new(MonotonicNs(0));
        let mut found = Vec::new();
        let mut push = |one| {
            if let Finding::Interval(one) = one {
                found.push((one.thread.pid, one.state, one.ns()));
            }
        };
        for (at, pid) in [(10, 1), (30, 2)] {
            let header = header(at, EventTypeId::SWITCH_IN, pid, 11);
            states.feed(&Event { header, data: &[] }, &mut push);
        }
        states.end(MonotonicNs(35), &mut push);

        let expected = [
            (1, State::Unknown, 10),
            (1, State::Unknown, 20),
            (2, State::Running, 5),
        ];
        assert_eq!(found, expected);
    }

    /// Intervals of a story in which each event is of one CPU: a time, a type, a CPU, a thread and
    /// its data.
    fn on_cpus(story: &[(u64, EventTypeId, u32, i32, Vec<u8>)], end: u64) -> Vec<Interval> {
        let mut states = ThreadStates::new(MonotonicNs(100));
        let mut found = Vec::new();
        let mut push = |one| {
            if let Finding::Interval(one) = one {
                found.push(one);
            }
        };
        for (at, event_type, cpu, tid, data) in story {
            let mut header = header(*at, *event_type, PID, *tid);
            header.cpu = Some(*cpu);
            states.feed(&Event { header, data }, &mut push);
        }
        states.end(MonotonicNs(end), &mut push);
        found
    }

    fn select_thread(found: &[Interval], tid: i32) -> Vec<(State, u64)> {
        let of_it = found.iter().filter(|one| one.thread.tid == tid);
        of_it.map(|one| (one.state, one.ns())).collect()
    }

    fn switch_in(prev: u32) -> Vec<u8> {
        let mut data = SwitchInData::new_zeroed();
        data.prev_tid = prev;
        data.as_bytes().to_vec()
    }

    #[test]
    fn a_thread_waits_for_the_group_that_is_named_before_it_leaves_and_no_longer() {
        use EventTypeId as Type;
        let mut throttled = SwitchOutData::new_zeroed();
        (throttled.preempted, throttled.waits_in) = (1, waits_in::GROUP_QUOTA);
        throttled.ran_ns = 10;
        let throttled = throttled.as_bytes().to_vec();
        let mut by = ThrottleData::new_zeroed();
        by.id = 7;
        // The path ends with its null.
        let by = by.as_bytes()[..offset_of!(ThrottleData, path) + 1].to_vec();
        let story = [
            (110, Type::SWITCH_IN, 0, 11, switch_in(0)),
            (119, Type::THROTTLE, 0, 11, by),
            (120, Type::SWITCH_OUT, 0, 11, throttled.clone()),
            (150, Type::SWITCH_IN, 0, 11, switch_in(0)),
            (160, Type::SWITCH_OUT, 0, 11, throttled),
        ];
        let waits = |id| State::Runnable(Wait::Throttled(GroupId(id)));
        let expected = [
            (State::Unknown, 10),
            (State::Running, 10),
            (waits(7), 30),
            (State::Running, 10),
            (waits(0), 40),
        ];
        assert_eq!(select_thread(&on_cpus(&story, 200), 11), expected);
    }

    #[test]
    fn a_cpu_that_another_one_has_is_not_had_for_good() {
        use EventTypeId as Type;
        let story = [
            (110, Type::SWITCH_IN, 0, 11, switch_in(0)),
            (120, Type::SWITCH_IN, 1, 12, switch_in(0)),
            // 11 has left unseen, and so has the one that is named.
            (200, Type::SWITCH_IN, 0, 13, switch_in(14)),
            (210, Type::SWITCH_OUT, 0, 13, switch_out(1, 0, 10)),
            // 12 has left unseen: 13 had its CPU, and the switch to that is missing too.
            (250, Type::SWITCH_OUT, 1, 13, switch_out(1, 0, 0)),
        ];
        let found = on_cpus(&story, 300);
        let lost = [
            (State::Unknown, 10),
            (State::Unknown, 90),
            (State::Unknown, 100),
        ];
        assert_eq!(select_thread(&found, 11), lost);
        let lost = [
            (State::Unknown, 20),
            (State::Unknown, 130),
            (State::Unknown, 50),
        ];
        assert_eq!(select_thread(&found, 12), lost);
    }

    #[test]
    fn one_that_a_switch_names_had_its_cpu_until_then() {
        use EventTypeId as Type;
        let story = [
            (110, Type::SWITCH_IN, 0, 11, switch_in(0)),
            (200, Type::SWITCH_IN, 0, 13, switch_in(11)),
        ];
        let found = on_cpus(&story, 300);
        let expected = [
            (State::Unknown, 10),
            (State::Running, 90),
            (State::Unknown, 100),
        ];
        assert_eq!(select_thread(&found, 11), expected);
    }

    #[test]
    fn an_event_of_another_thread_ends_it_too_and_its_next_run_is_doubtful() {
        use EventTypeId as Type;
        let story = [
            (110, Type::SWITCH_IN, 0, 11, switch_in(0)),
            (150, Type::SYSCALL_ENTER, 0, 12, Vec::new()),
            (180, Type::SWITCH_IN, 0, 11, switch_in(12)),
        ];
        let found = on_cpus(&story, 300);
        let states = select_thread(&found, 11)
            .into_iter()
            .map(|(state, _)| state);
        assert!(states.eq([State::Unknown; 4]), "{found:?}");
        // The other one had the CPU when the switch named it.
        let of_12 = [
            (State::Unknown, 50),
            (State::Running, 30),
            (State::Unknown, 120),
        ];
        assert_eq!(select_thread(&found, 12), of_12);
        // The kernel's count holds again.
        let last = (200, Type::SWITCH_OUT, 0, 11, switch_out(1, 0, 20));
        let story = [&story[..], &[last]].concat();
        let found = on_cpus(&story, 300);
        assert_eq!(
            select_thread(&found, 11)[3..],
            [(State::Running, 20), (BLOCKED, 100)]
        );
    }

    #[test]
    fn who_runs_another_program_under_another_tid_goes_on() {
        use EventTypeId as Type;
        let mut exec = ExecData::new_zeroed();
        exec.old_tid = 11;
        let exec = exec.as_bytes()[..21].to_vec();
        let story = [
            (110, Type::SWITCH_IN, 0, 10, switch_in(0)),
            (120, Type::SWITCH_OUT, 0, 10, switch_out(0x80, 0, 10)),
            (120, Type::SWITCH_IN, 0, 11, switch_in(10)),
            (150, Type::EXEC, 0, 10, exec),
            // The kernel has counted for the tid that it had.
            (170, Type::SWITCH_OUT, 0, 10, switch_out(1, 0, 0)),
        ];
        let found = on_cpus(&story, 200);
        let of_11 = [
            (State::Unknown, 20),
            (State::Running, 30),
            (State::Dead, 50),
        ];
        assert_eq!(select_thread(&found, 11), of_11);
        let of_10 = select_thread(&found, 10);
        assert_eq!(
            of_10[2..],
            [(State::Dead, 30), (State::Running, 20), (BLOCKED, 30)]
        );
    }

    proptest! {
        /// A CPU has one thread at a time, whatever comes.
        #[test]
        fn no_cpu_is_had_by_two(
            story in prop::collection::vec(
                (0_u64..20, 0_usize..6, 10..15_i32, 0_u32..3, 0_u64..80, 9..15_u32), 0..200),
        ) {
            let types = [
                EventTypeId::SWITCH_IN,
                EventTypeId::SWITCH_IN,
                EventTypeId::SWITCH_OUT,
                EventTypeId::SWITCH_OUT,
                EventTypeId::SYSCALL_ENTER,
                EventTypeId::WAKEUP,
            ];
            let mut at = 100;
            let mut events = Vec::new();
            for (step, kind, tid, cpu, ran, other) in story {
                at += step;
                let data = match types[kind] {
                    EventTypeId::SWITCH_IN => switch_in(other),
                    EventTypeId::SWITCH_OUT => {
                        let mut data = SwitchOutData::new_zeroed();
                        (data.state, data.ran_ns, data.next_tid) = (1, ran, other);
                        data.as_bytes().to_vec()
                    }
                    _ => vec![0; 64],
                };
                events.push((at, types[kind], cpu, tid, data));
            }
            let mut runs = on_cpus(&events, at + 5);
            runs.retain(|one| one.state == State::Running && one.cpu.is_some());
            runs.sort_by_key(|one| (one.cpu, one.from));
            for pair in runs.windows(2) {
                let is_after = pair[0].to <= pair[1].from || pair[0].cpu != pair[1].cpu;
                prop_assert!(is_after, "{pair:?}");
            }
        }

        /// Whatever comes: the intervals of a thread leave out nothing and do not overlap.
        #[test]
        fn intervals_part_the_time_of_each_thread(
            story in prop::collection::vec(
                (0_u64..20, 0_usize..6, 10..14_i32, 0_u32..0x100, 0_u64..50, any::<bool>()), 0..200),
        ) {
            let types = [
                EventTypeId::SWITCH_IN,
                EventTypeId::SWITCH_OUT,
                EventTypeId::WAKEUP,
                EventTypeId::THREAD_CREATE,
                EventTypeId::EXEC,
                EventTypeId::EXIT,
            ];
            let mut states = ThreadStates::new(MonotonicNs(0));
            let mut found: BTreeMap<i32, Vec<Interval>> = BTreeMap::new();
            let mut push = |one| {
                if let Finding::Interval(one) = one {
                    found.entry(one.thread.tid).or_default().push(one);
                }
            };
            let mut at = 0;
            for (step, kind, tid, state, ran, is_lost) in story {
                at += step;
                let mut exec = ExecData::new_zeroed();
                exec.old_tid = 10 + state % 4;
                let data = match types[kind] {
                    EventTypeId::SWITCH_OUT => switch_out(state, u8::from(is_lost), ran),
                    // Its file is as long as it is.
                    EventTypeId::EXEC => exec.as_bytes()[..21].to_vec(),
                    EventTypeId::THREAD_CREATE => made(10, 10 + state % 4),
                    _ => vec![0; 64],
                };
                if is_lost && kind > 3 {
                    states.lose((ran % 2 == 0).then_some(MonotonicNs(at + 10)), &mut push);
                }
                let event = Event { header: header(at, types[kind], PID, tid), data: &data };
                states.feed(&event, &mut push);
            }
            states.end(MonotonicNs(at), &mut push);
            for intervals in found.values() {
                for one in intervals {
                    prop_assert!(one.from < one.to);
                }
                for pair in intervals.windows(2) {
                    prop_assert!(pair[0].to <= pair[1].from, "{pair:?}");
                }
            }
        }
    }
}
