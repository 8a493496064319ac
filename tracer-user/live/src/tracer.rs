//! The stream and its readers. One round at a time, without waiting for anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracer_area::{Area, monotonic_now};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, EventHeader, MonotonicNs};
use tracer_engine::source::LossCause;
use tracer_engine::{ActiveStream, EventSet, Filtering, Origin};

use super::areas::{AreaError, Areas, Look};
use super::brake::{Brake, MostCounts, StoppedEvents};
use super::call_windows::{CallWindows, WindowStep};
use super::command::LastName;
use super::cpu_times::CpuTimes;
use super::event_cost::FIRST_NS;
use super::origin::{self, AreaTag};
use super::printer::Printer;
use super::proc_fs::{self, Stat};
use super::processes::{Comm, Processes};
use super::switch_windows::SwitchWindows;
use super::wakers::Wakers;
use super::writer::CHUNK_BYTES;
use tracer_binary::stacks::{is_part, names_stacks};
use tracer_event::consumer::{FlushReason, Lines};
use tracer_event::event_view::NamespaceIds;
use tracer_event::summary::Summary;
use tracer_kernel::FirstNames;
use tracer_syscalls::arguments::blank_registers;

/// Events that are shown between two collections: about 10 ms of formatting.
const EVENTS_A_ROUND: usize = 8192;

/// Time after which a round shows no further events, in nanoseconds: the first event of a program
/// may take as long as the reading of its files, and meanwhile the kernel's rings fill, and windows
/// of system calls are not closed.
const SHOW_WITHIN_NS: u64 = 10_000_000;

/// Events that are shown between two looks at the clock.
const EVENTS_OF_A_LOOK: usize = 8;

/// Longest time a round may collect. A signal waits for some rounds, and so does what is to be
/// shown.
const COLLECT_WITHIN: Duration = Duration::from_millis(25);

/// Longest time of a collection as the filter changes.
const NOTED_WITHIN: Duration = Duration::from_micros(200);

/// Longest time for counting the events that were not read at the end.
const COUNT_WITHIN: Duration = Duration::from_millis(50);

/// Interval between collections while all that is to be shown has been: for others who ask for the
/// kernel's events.
const COLLECT_BESIDE_EVERY_NS: u64 = 100_000_000;

/// Time for which an ended process stays known: its last events may come that late.
const KEEP_ENDED: Duration = Duration::from_secs(1);

/// Result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Time up to which everything was collected.
    pub watermark: MonotonicNs,
    /// Whether events are left that are to be shown.
    pub has_more: bool,
    /// Whether something is left that is to be collected.
    pub is_behind: bool,
}

/// Change of what is recorded.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// System calls are recorded from now on, or are not.
    Calls(WindowStep),
    /// Switches are recorded from now on.
    OpenSwitches {
        /// Whether system calls are too.
        with_calls: bool,
    },
    /// Switches are not recorded from now on, and neither are system calls, as far as these were.
    CloseSwitches {
        /// Whether system calls were.
        with_calls: bool,
    },
}

/// A running trace.
pub struct Tracer {
    stream: ActiveStream,
    processes: Processes,
    /// Start times of live processes, as seen at a look into `/proc`.
    start_ticks: HashMap<i32, u64>,
    /// `None` when user events are not wanted.
    areas: Option<Areas>,
    printer: Printer,
    first_names: FirstNames,
    /// Whether the kernel reports forks, names and ends; else `/proc` is asked.
    has_kernel: bool,
    /// A command that has not run an instruction of its program yet.
    unstarted: Option<i32>,
    /// The command, and the name that it has at its end.
    command: Option<(i32, LastName)>,
    /// Processes traced because they wake others, where that was asked for.
    wakers: Option<Wakers>,
    /// Windows in which system calls are recorded, where their cost is bounded.
    call_windows: Option<CallWindows>,
    /// Windows in which switches are recorded, where their cost is bounded.
    switch_windows: Option<SwitchWindows>,
    /// CPU times of the processes when the last window of switches closed, where system calls have
    /// windows too, and how long they had CPUs between windows that are over, in nanoseconds.
    between: Option<CpuTimes>,
    ran_between_ns: u64,
    /// Brake of both.
    brake: Option<Arc<Brake>>,
    /// Events taken out of the stream.
    events: u64,
    /// Change of what is recorded, and the moment of it, until the stream has come there.
    change: Option<(Change, MonotonicNs)>,
    /// Whether switches are recorded again, and threads are yet to be looked at.
    has_reopened: bool,
    /// Processes whose ends no event reports.
    newcomers: Vec<i32>,
    watermark: MonotonicNs,
    /// Time up to which all events have been taken out of the stream.
    taken: MonotonicNs,
    /// Time of the last collection.
    collected: MonotonicNs,
    lacks_events: bool,
    /// Last (area, thread) that passed the ownership check, until something changes.
    believed: Option<(AreaTag, NamespaceIds)>,
    /// User events with numbers of processes that do not use their area.
    claimed: u64,
    /// Ids of the thread in the current event, where we know no such thread.
    unknown: Option<NamespaceIds>,
    /// Data of the current event.
    data: Vec<u8>,
}

impl Tracer {
    /// Makes a trace of the events of `stream`, which has been started.
    pub fn new(
        mut stream: ActiveStream,
        processes: Processes,
        areas: Option<Areas>,
        printer: Printer,
        has_kernel: bool,
    ) -> Self {
        stream.collect_within(COLLECT_WITHIN);
        Self {
            stream,
            processes,
            start_ticks: HashMap::new(),
            areas,
            printer,
            first_names: FirstNames::default(),
            has_kernel,
            unstarted: None,
            command: None,
            wakers: None,
            call_windows: None,
            switch_windows: None,
            between: None,
            ran_between_ns: 0,
            brake: None,
            events: 0,
            change: None,
            has_reopened: false,
            newcomers: Vec::new(),
            watermark: MonotonicNs(0),
            taken: MonotonicNs(0),
            collected: MonotonicNs(0),
            lacks_events: false,
            believed: None,
            claimed: 0,
            unknown: None,
            data: Vec::new(),
        }
    }

    /// Names threads that are seen for the first time by these.
    pub fn name_by(&mut self, names: FirstNames) {
        self.first_names = names;
    }

    /// Adds a process that was asked for, with the names of its threads. Returns whether its user
    /// events are traced, as far as they are wanted.
    ///
    /// # Errors
    ///
    /// See [`AreaError`].
    pub fn ask_for(&mut self, pid: i32, now: MonotonicNs) -> Result<bool, AreaError> {
        self.add(pid);
        let Some(areas) = &mut self.areas else {
            return Ok(true);
        };
        match areas.ask_for(pid, now)? {
            Look::Nothing => Ok(false),
            Look::Known => Ok(true),
            Look::New(source) => {
                self.stream.add_source(source);
                Ok(true)
            }
        }
    }

    /// Puts off a look: see [`Areas::put_off`].
    pub fn put_off(&mut self, pid: i32, now: MonotonicNs) {
        if let Some(areas) = &mut self.areas {
            areas.put_off(pid, now);
        }
    }

    /// Adds a process that was found to be one that is chosen, with the names of its threads. Its
    /// user events are looked for when there is time.
    pub fn add_found(&mut self, pid: i32, now: MonotonicNs) {
        self.add(pid);
        if let Some(areas) = &mut self.areas {
            areas.search(pid, now);
        }
    }

    /// Returns the processes that live, as far as is known.
    pub fn live(&self) -> Vec<i32> {
        self.processes.live().collect()
    }

    /// Adds a process with the names of its threads.
    fn add(&mut self, pid: i32) {
        self.processes.add(pid);
        for tid in proc_fs::threads(pid) {
            if let Some(comm) = proc_fs::comm(pid, tid) {
                self.processes.name(pid, tid, comm);
                if let Some(inside) = proc_fs::inside(pid, tid) {
                    self.processes.set_inside(tid, inside);
                }
            }
        }
        if let Ok(Some(stat)) = Stat::read(pid) {
            self.start_ticks.insert(pid, stat.start_ticks);
            let executable = proc_fs::executable(pid);
            tracing::info!(
                pid,
                ?executable,
                parent = stat.parent,
                threads = stat.threads,
                "traced"
            );
        }
    }

    /// Adds a process that waits to become a command, and with `is_exec_reported` shows nothing of
    /// it before it does: until then it runs the tracer's code. `last_name` is its name when it has
    /// ended before it was looked up.
    pub fn add_command(&mut self, pid: i32, is_exec_reported: bool, last_name: LastName) {
        // Its name is the tracer's as well. Its own comes with the exec, or is read when it is
        // needed.
        self.processes.add(pid);
        self.unstarted = is_exec_reported.then_some(pid);
        self.command = Some((pid, last_name));
    }

    /// Traces processes that wake traced ones too, from now on.
    pub fn follow_wakers(&mut self) {
        self.wakers = Some(Wakers::new());
    }

    /// Bounds the cost of system calls from now on.
    pub fn bound_calls(&mut self, windows: CallWindows) {
        self.call_windows = Some(windows);
    }

    /// Bounds the cost of switches from now on.
    pub fn bound_switches(&mut self, windows: SwitchWindows) {
        self.brake = Some(Arc::new(windows.brake()));
        self.switch_windows = Some(windows);
    }

    /// Returns the brake of its windows, where switches have some.
    pub fn brake(&self) -> Option<Arc<Brake>> {
        self.brake.clone()
    }

    /// Tells whether the cost of the trace is bounded.
    pub fn has_bounded_cost(&self) -> bool {
        self.call_windows.is_some() || self.switch_windows.is_some()
    }

    /// Tells whether no switches are recorded now, since their cost is bounded.
    pub fn is_between_windows(&self) -> bool {
        let windows = self.switch_windows.as_ref();
        windows.is_some_and(|windows| !windows.is_open())
    }

    /// Tells whether hardly any events come for now: those of processes that begin and end.
    pub fn is_resting(&self) -> bool {
        self.is_between_windows() && self.change.is_none() && self.areas.is_none()
    }

    /// Opens or closes a window, where it is time. System calls are recorded in windows of switches
    /// alone.
    fn step_windows(&mut self, now: MonotonicNs) {
        // Where the stream is far behind, it learns late that system calls are recorded no more:
        // switches do not wait for that.
        if self.change.is_some() && !self.are_calls_closing() {
            return;
        }
        let stopped = self.release_brake();
        match self.step_switches(now, stopped) {
            None => {}
            Some(WindowStep::Open) => return self.open_switches(now),
            Some(WindowStep::Close) => return self.close_switches(now),
        }
        if stopped == Some(StoppedEvents::Calls) {
            self.close_calls(now);
        }
        let is_open = |windows: &SwitchWindows| windows.is_open();
        if self.change.is_none() && self.switch_windows.as_ref().is_none_or(is_open) {
            let changed = self.step_call_windows(now);
            self.change = changed.map(|(step, at)| (Change::Calls(step), at));
        }
        self.arm_brake();
    }

    /// Tells whether the stream is still to learn that system calls are not recorded any more.
    fn are_calls_closing(&self) -> bool {
        matches!(self.change, Some((Change::Calls(WindowStep::Close), _)))
    }

    /// Arms the brake while switches are recorded. While the stream has not learnt of a change, it
    /// is armed only where that is the end of system calls: then all ends at that moment.
    fn arm_brake(&self) {
        let is_settled = self.change.is_none() || self.are_calls_closing();
        let (true, Some(brake), Some(windows)) = (is_settled, &self.brake, &self.switch_windows)
        else {
            return;
        };
        let calls = self.call_windows.as_ref();
        if let Some(recorded) = windows.most_recorded() {
            let calls = calls.map_or(u64::MAX, CallWindows::most_calls);
            brake.arm(MostCounts { recorded, calls });
        }
    }

    /// Returns what the brake has stopped; it is not armed any more.
    fn release_brake(&self) -> Option<StoppedEvents> {
        self.brake.as_ref().and_then(|brake| brake.release())
    }

    fn step_switches(
        &mut self,
        now: MonotonicNs,
        stopped: Option<StoppedEvents>,
    ) -> Option<WindowStep> {
        let (windows, read) = (self.switch_windows.as_mut()?, (self.taken, self.events));
        windows.step(now, read, stopped == Some(StoppedEvents::Switches))
    }

    /// Closes the windows, where the brake has stopped recording.
    fn heed_brake(&mut self, now: MonotonicNs) {
        let stopped = self.release_brake();
        match stopped {
            None => {}
            Some(StoppedEvents::Calls) => self.close_calls(now),
            Some(StoppedEvents::Switches) => {
                self.step_switches(now, stopped);
                self.close_switches(now);
            }
        }
    }

    /// Closes the window of system calls.
    fn close_calls(&mut self, now: MonotonicNs) {
        let calls = self.call_windows.as_mut();
        let closed = calls.and_then(|windows| windows.close_early(now));
        self.change = closed.map(|at| (Change::Calls(WindowStep::Close), at));
    }

    /// Closes the window of switches, and that of system calls, unless that was closed just before.
    fn close_switches(&mut self, now: MonotonicNs) {
        let has_closed_calls = self.are_calls_closing();
        let calls = self.call_windows.as_mut();
        let closed = calls.and_then(|windows| windows.close_early(now));
        let with_calls = has_closed_calls || closed.is_some();
        let windows = self.switch_windows.as_mut();
        let closed = windows.map(SwitchWindows::close);
        self.change = closed.map(|at| (Change::CloseSwitches { with_calls }, at));
        let has_calls = self.call_windows.is_some();
        self.between = has_calls.then(|| CpuTimes::ask(self.processes.live()));
    }

    fn open_switches(&mut self, now: MonotonicNs) {
        let Some(windows) = &mut self.switch_windows else {
            return;
        };
        if let Err(error) = windows.open() {
            tracing::warn!(%error, "switches cannot be recorded for now");
            return;
        }
        let before = self.between.take();
        self.ran_between_ns += before.map_or(0, |before| before.until_now());
        // Where it is time for both, both have the whole window: it may be a short one.
        let opened = self.step_call_windows(now);
        let with_calls = matches!(opened, Some((WindowStep::Open, _)));
        // All are recorded from then on.
        self.change = Some((Change::OpenSwitches { with_calls }, monotonic_now()));
    }

    /// Opens or closes a window in which system calls are recorded, where it is time. Returns the
    /// moment from which the stream is to take them, or no more.
    fn step_call_windows(&mut self, now: MonotonicNs) -> Option<(WindowStep, MonotonicNs)> {
        let windows = self.call_windows.as_mut()?;
        let step = windows.step(now, self.events, self.ran_between_ns)?;
        let at = match step {
            // All calls are recorded from then on.
            WindowStep::Open => match windows.open() {
                Ok(()) => monotonic_now(),
                Err(error) => {
                    tracing::warn!(%error, "system calls cannot be recorded for now");
                    return None;
                }
            },
            // All were recorded up to then.
            WindowStep::Close => windows.close(),
        };
        Some((step, at))
    }

    /// Has the stream record that a window has opened or closed, once it has come there.
    fn note_change(&mut self) {
        let watermark = self.watermark;
        if self.change.is_none_or(|(_, at)| at > watermark) {
            return;
        }
        // What the brake stops up to now ends at the same moment.
        self.heed_brake(monotonic_now());
        let Some((change, at)) = self.change.take() else {
            return;
        };
        let (step, mut types) = match change {
            Change::Calls(step) => (step, system_calls()),
            Change::OpenSwitches { with_calls } => (WindowStep::Open, calls_where(with_calls)),
            Change::CloseSwitches { with_calls } => (WindowStep::Close, calls_where(with_calls)),
        };
        if let (Change::OpenSwitches { .. } | Change::CloseSwitches { .. }, Some(windows)) =
            (change, &mut self.switch_windows)
        {
            self.has_reopened |= step == WindowStep::Open;
            windows.note_change(step, at);
            types = types.union(windows.types());
        }
        let how = match step {
            WindowStep::Open => Filtering::Sub,
            WindowStep::Close => Filtering::Add,
        };
        // All is there that came before: no more is waited for.
        self.stream.collect_within(NOTED_WITHIN);
        self.stream.set_filter(&types, how, Origin::NONE);
        self.stream.collect_within(COLLECT_WITHIN);
    }

    /// Returns the processes whose threads are to be looked at, since switches were not recorded
    /// for a while and are now.
    pub fn take_reopened(&mut self) -> Option<Vec<i32>> {
        let has_reopened = std::mem::take(&mut self.has_reopened);
        has_reopened.then(|| self.processes.live().collect())
    }

    /// Returns the processes that have woken traced ones, and are to be traced from now on.
    pub fn take_wakers(&mut self) -> Vec<i32> {
        self.wakers
            .as_mut()
            .map(Wakers::take_new)
            .unwrap_or_default()
    }

    /// Returns the processes that were registered since the last call and whose ends no event will
    /// report.
    pub fn take_newcomers(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.newcomers)
    }

    /// Reads the user events of an area that was made for `pid` before it started.
    ///
    /// # Errors
    ///
    /// See [`AreaError`].
    pub fn open_area(&mut self, area: Area, pid: i32) -> Result<(), AreaError> {
        if let Some(areas) = &mut self.areas {
            if let Look::New(source) = areas.open(area, pid)? {
                self.stream.add_source(source);
            }
            areas.expect(pid, monotonic_now());
        }
        Ok(())
    }

    /// Collects, and shows events up to the time `until` as long as there is space for their lines.
    pub fn round(&mut self, until: MonotonicNs, now: MonotonicNs) -> Round {
        if now < until {
            self.step_windows(now);
        } else {
            self.heed_brake(now);
        }
        // What is collected beyond the end takes time and space from what is still to be shown.
        let is_due = now.0.saturating_sub(self.collected.0) > COLLECT_BESIDE_EVERY_NS;
        if self.watermark < until || is_due {
            self.watermark = self.stream.sync();
            self.collected = now;
            let ledger = self.stream.ledger();
            self.printer.note_losses(ledger, monotonic_now);
            self.note_change();
        }
        let mut has_more = true;
        let begun = monotonic_now();
        for nth in 0..EVENTS_A_ROUND {
            let is_late = || monotonic_now().0.saturating_sub(begun.0) > SHOW_WITHIN_NS;
            if nth != 0 && nth % EVENTS_OF_A_LOOK == 0 && is_late() {
                break;
            }
            if self.printer.lines().bytes().len() >= CHUNK_BYTES || self.printer.is_done() {
                break;
            }
            // One beyond the end comes after all that is to be shown. Of those there may be more
            // without end: others go on.
            if !self.next(until) || self.taken > until {
                has_more = false;
                self.printer.wait(self.watermark.min(until));
                break;
            }
        }
        // What is found when the trace ends brings nothing any more.
        if until == MonotonicNs(u64::MAX)
            && let Some(areas) = &mut self.areas
        {
            areas.look_around(now, |source| self.stream.add_source(source));
        }
        Round {
            watermark: self.watermark,
            has_more,
            is_behind: self.stream.has_more(),
        }
    }

    /// Gives the sources up that have not brought everything up to `until`, the end of the trace:
    /// that counts as lost. Whether all of it could be counted; if not,
    /// [`lacks_events`](Self::lacks_events).
    pub fn leave_sources_behind(&mut self, until: MonotonicNs) -> bool {
        let end = Instant::now() + COUNT_WITHIN;
        let is_known = self.stream.leave_sources_behind(until, end);
        self.lacks_events |= !is_known;
        is_known
    }

    /// Tells whether there were events at the end that were not read, in unknown number.
    pub fn lacks_events(&self) -> bool {
        self.lacks_events
    }

    /// Does what is due once a second: finds ends of processes and new names that no event
    /// reported, and forgets.
    pub fn tidy(&mut self, now: MonotonicNs) {
        self.believed = None;
        let live: Vec<i32> = self.processes.live().collect();
        for pid in live {
            if !self.lives_still(pid) {
                self.processes.end(pid, now);
            }
        }
        if !self.has_kernel {
            self.read_names_again();
        }
        let keep_ns = u64::try_from(KEEP_ENDED.as_nanos()).unwrap_or(u64::MAX);
        // Events that wait in the stream are of processes that may have ended long ago.
        let oldest = self.taken.0.min(now.0).saturating_sub(keep_ns);
        self.processes.forget(MonotonicNs(oldest));
        let processes = &self.processes;
        self.start_ticks.retain(|pid, _| processes.is_live(*pid));
        if let Some(areas) = &mut self.areas {
            areas.keep_only(|pid| processes.is_live(pid), |pid| processes.knows(pid));
        }
    }

    /// Has the consumer write or show what it holds back; where a user asks for it, with all that
    /// is known by now.
    pub fn flush(&mut self, reason: FlushReason) {
        if reason == FlushReason::Asked {
            self.stream.learn_event_types();
            self.tell_all();
        }
        self.printer.flush(reason);
    }

    /// Tells the consumer the types and the losses of the stream.
    fn tell_all(&mut self) {
        self.printer.learn_types(self.stream.event_types());
        let ledger = self.stream.ledger();
        self.printer.note_losses(ledger, monotonic_now);
    }

    /// Returns the time until a process is to be looked at again, if one is.
    pub fn next_look(&self, now: MonotonicNs) -> Option<Duration> {
        let due = self.areas.as_ref()?.next_look()?;
        Some(Duration::from_nanos(due.0.saturating_sub(now.0)))
    }

    /// Returns the number of user events with ids of processes that do not use their area.
    pub fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Counts the processes of which no user event was available, though they may have emitted
    /// some.
    pub fn unread(&self) -> usize {
        self.areas.as_ref().map_or(0, Areas::unread)
    }

    /// Returns the number of event types shown without their names, since there were too many
    /// names.
    pub fn unnamed(&self) -> u64 {
        self.areas.as_ref().map_or(0, Areas::unnamed)
    }

    /// Returns the number of names that programs were refused, since their areas had no space for
    /// them.
    pub fn names_refused(&self) -> u64 {
        self.areas.as_ref().map_or(0, Areas::names_refused)
    }

    /// Returns a note for the user about user events that could not be counted, if there may be
    /// any.
    pub fn unseen(&self) -> Option<String> {
        let late = self.areas.as_ref()?.found_late();
        (late.programs > 0).then(|| {
            format!(
                "{} found to emit user events only after {} had begun, at most {:.1} ms late: what was \
                 emitted before is not in the trace (start such a program by `tracer-user run`, or from a \
                 traced program that has the library)",
                if late.programs == 1 {
                    "1 program was".to_owned()
                } else {
                    format!("{} programs were", late.programs)
                },
                if late.programs == 1 { "it" } else { "they" },
                late.longest.as_secs_f64() * 1000.0
            )
        })
    }

    /// Notes that a process was seen to end.
    pub fn process_ended(&mut self, pid: i32, at: MonotonicNs) {
        self.processes.end(pid, at);
    }

    /// Tells whether every traced process has ended, according to the events seen. Those that are
    /// traced because they wake others are not waited for.
    pub fn have_all_ended(&self) -> bool {
        match &self.wakers {
            None => self.processes.have_all_ended(),
            Some(wakers) => self.processes.live().all(|pid| wakers.has(pid)),
        }
    }

    /// Tells whether as many events were shown as were asked for.
    pub fn is_done(&self) -> bool {
        self.printer.is_done()
    }

    /// Returns the lines so far, to be taken away.
    pub fn lines(&self) -> &Lines {
        self.printer.lines()
    }

    /// Gives the consumer the end, and reports what people are to know.
    pub fn end(&mut self, elapsed: Duration) -> Summary {
        // Some losses are counted only now and then: once the stream has been stopped, the sources
        // report all of them.
        self.stream.stop(Origin::NONE);
        self.stream.sync();
        self.stream.learn_event_types();
        self.tell_all();
        if let Some(areas) = &mut self.areas {
            areas.look_at_lacking();
        }
        let in_windows = self.switch_windows.as_ref();
        self.printer.switches_recorded =
            in_windows.and_then(|windows| windows.part(monotonic_now()));
        let event_ns = in_windows.map_or(FIRST_NS, SwitchWindows::event_ns);
        let held_up = self.call_windows.as_ref();
        let held_up = held_up.map(|windows| windows.held_up(monotonic_now(), event_ns));
        self.printer.held_up = held_up;
        let ledger = self.stream.ledger();
        let lost = |cause: LossCause| ledger.lost(cause);
        self.printer.end(lost, elapsed)
    }

    /// Returns why the consumer of the events has failed, after the end.
    pub fn take_failure(&mut self) -> Option<anyhow::Error> {
        self.printer.take_failure()
    }

    /// Takes the next event; false when there is none.
    fn next(&mut self, until: MonotonicNs) -> bool {
        let mut data = std::mem::take(&mut self.data);
        let Some(mut header) = self.stream.take_next(&mut data) else {
            self.data = data;
            self.taken = self.watermark;
            return false;
        };
        self.taken = header.time;
        self.events += 1;
        self.translate(&mut header);
        if matches!(
            header.event_type,
            // It begins as the other does.
            EventTypeId::SYSCALL_ENTER | EventTypeId::THREAD_STATE
        ) {
            blank_registers(&mut data);
        }
        let event = Event {
            header,
            data: &data,
        };
        let id = header.event_type;
        if let Some(wakers) = &mut self.wakers {
            let processes = &self.processes;
            wakers.look_at(&event, |pid| processes.is_live(pid));
        }
        self.register(&event);
        // A thread is shown by the name it had when the event happened. The kernel reports a
        // rename before it, and of an exec after it.
        if id == EventTypeId::RENAME {
            self.show(&event, until);
            self.processes.learn(&event);
        } else {
            self.processes.learn(&event);
            self.show(&event, until);
        }
        self.data = data;
        true
    }

    /// Gives a user event the ids of its process and thread in the tracer's pid namespace: it comes
    /// with those in their own. 0 where they are not known.
    fn translate(&mut self, header: &mut EventHeader) {
        let Some(area) = origin::take(header) else {
            return;
        };
        let inside = NamespaceIds {
            pid: header.pid,
            tid: header.tid,
        };
        self.unknown = None;
        // The usual case first: all processes are in the tracer's pid namespace.
        let ours = if self.processes.has_any_elsewhere(|_| true) {
            self.ours(area, inside)
        } else {
            Some(inside)
        };
        let ours = ours.filter(|ours| self.may_be_of(area, *ours));
        if ours.is_none() {
            self.unknown = Some(inside);
        }
        let ours = ours.unwrap_or(NamespaceIds { pid: 0, tid: 0 });
        (header.pid, header.tid) = (ours.pid, ours.tid);
    }

    /// Tells whether a thread may have written to an area. A hostile program may give its events
    /// any ids.
    fn may_be_of(&mut self, area: AreaTag, ids: NamespaceIds) -> bool {
        if self.believed == Some((area, ids)) {
            return true;
        }
        let is_of_process = self.processes.may_be_of(ids.tid, ids.pid);
        let areas = self.areas.as_mut();
        if is_of_process && areas.is_none_or(|areas| areas.is_used_by(area, ids.pid)) {
            self.believed = Some((area, ids));
            return true;
        }
        self.claimed += 1;
        false
    }

    fn ours(&mut self, area: AreaTag, inside: NamespaceIds) -> Option<NamespaceIds> {
        let areas = self.areas.as_ref()?;
        let may_write = |pid| areas.may_write(area, pid);
        if let Some(ours) = self.processes.called(inside, may_write) {
            return Some(ours);
        }
        if !self.processes.has_any_elsewhere(may_write) {
            return Some(inside);
        }
        // Its beginning was lost, or there is no kernel to report it.
        let of_writers = areas.writers(area).into_iter();
        let mut threads = of_writers.flat_map(|pid| {
            let threads = proc_fs::threads(pid).into_iter();
            threads.map(move |tid| NamespaceIds { pid, tid })
        });
        let found = threads.find(|ours| proc_fs::inside(ours.pid, ours.tid) == Some(inside))?;
        if let Some(comm) = proc_fs::comm(found.pid, found.tid) {
            self.processes.name(found.pid, found.tid, comm);
            self.processes.set_inside(found.tid, inside);
        }
        Some(found)
    }

    fn show(&mut self, event: &Event<'_>, until: MonotonicNs) {
        let id = event.header.event_type;
        if id == EventTypeId::OVERFLOW {
            // Its exec may be among what was lost.
            self.unstarted = None;
        }
        // A program is mapped before its exec is reported. Names of its addresses may have a time
        // before that: when the rings were looked at last.
        if self.unstarted == Some(event.header.pid) && !names_stacks(id) {
            let is_start = matches!(
                id,
                EventTypeId::EXEC | EventTypeId::FORK | EventTypeId::THREAD_CREATE
            );
            // What else the kernel reports is still our doing. Its end is that of a command that
            // cannot be started: the caller says so.
            if !is_start && !id.is_user() {
                return;
            }
            self.unstarted = None;
        }
        if event.header.time > until || !self.printer.shows(id) {
            self.printer.pass_by(event);
            return;
        }
        if self.printer.lacks_name(id) {
            if self.printer.asks_for_types() {
                // A program opens the types of a pair together, mostly.
                self.stream.learn_event_types();
            }
            self.printer.learn_name(id, self.stream.event_types());
        }
        let (comm, inside) = match self.unknown.filter(|_| id.is_user()) {
            Some(unknown) if event.header.pid == 0 => (None, Some(unknown)),
            _ => self.processes.shown(event.header.tid),
        };
        let of_process = || self.processes.shown(event.header.pid).0;
        let comm = comm.or_else(of_process).map(Comm::bytes);
        let types = self.stream.event_types();
        self.printer.print(event, comm, inside, types);
    }

    /// Registers the event's process and thread on first sight, and the program that its process
    /// will run.
    fn register(&mut self, event: &Event<'_>) {
        let (pid, tid, id) = (event.header.pid, event.header.tid, event.header.event_type);
        // A stack may be of a waker, who need not be traced.
        if pid == 0 || is_part(id) {
            return;
        }
        if !self.processes.is_registered(pid, tid) {
            self.register_thread(event);
        }
        let Some(areas) = &mut self.areas else {
            return;
        };
        match id {
            EventTypeId::EXEC => areas.search(pid, event.header.time),
            EventTypeId::EXIT => areas.ended(pid),
            EventTypeId::FORK => {
                if let Some(child) = event.data.first_chunk().map(|pid| i32::from_ne_bytes(*pid)) {
                    areas.forked(pid, child);
                    self.searched_later(child, event.header.time);
                }
            }
            _ => {}
        }
    }

    fn register_thread(&mut self, event: &Event<'_>) {
        let (pid, tid, id) = (event.header.pid, event.header.tid, event.header.event_type);
        // Its fork was lost, or there is no kernel to report it. The pid of a user event may be one
        // of another pid namespace; where the kernel reports forks we need not rely on it.
        let may_be_foreign = self.has_kernel && id.is_user();
        if !self.processes.knows(pid) && !may_be_foreign {
            self.processes.add(pid);
            if !self.has_kernel {
                self.newcomers.push(pid);
            }
            if self.has_kernel
                && let Some(areas) = &mut self.areas
            {
                areas.search(pid, event.header.time);
            }
        }
        if tid != 0 && self.processes.comm(tid).is_none() {
            let first = self.first_names.remove(pid, tid);
            let first = first.map(|comm| Comm::new(&comm));
            let known = first
                .or_else(|| proc_fs::comm(pid, tid))
                .or_else(|| self.last_name_of(pid));
            let is_known = known.is_some();
            match known {
                Some(comm) => self.processes.name(pid, tid, comm),
                None => self.processes.note_without_name(pid, tid),
            }
            // A thread that has ended is shown with the name of its process.
            if !is_known
                && self.processes.comm(pid).is_none()
                && let Some(of_process) = proc_fs::comm(pid, pid)
            {
                self.processes.name(pid, pid, of_process);
            }
            if let Some(inside) = proc_fs::inside(pid, tid) {
                self.processes.set_inside(tid, inside);
            }
        }
    }

    /// Returns the name of a command that ended before it was looked up. Its threads have its name
    /// unless they take others, which are not known any more.
    fn last_name_of(&self, pid: i32) -> Option<Comm> {
        let (command, name) = self.command.as_ref()?;
        name.get().filter(|_| *command == pid).cloned()
    }

    fn searched_later(&mut self, child: i32, since: MonotonicNs) {
        if self.processes.follows_children()
            && let Some(areas) = &mut self.areas
        {
            areas.search(child, since);
        }
    }

    fn lives_still(&mut self, pid: i32) -> bool {
        let Ok(Some(stat)) = Stat::read(pid) else {
            // Where no descriptor is left, or it is held, nothing can be read, and that says
            // nothing of the process.
            return proc_fs::exists(pid);
        };
        let first_seen = *self.start_ticks.entry(pid).or_insert(stat.start_ticks);
        first_seen == stat.start_ticks && !stat.has_ended()
    }

    fn read_names_again(&mut self) {
        let threads: Vec<(i32, i32)> = self.processes.live_threads().collect();
        for (pid, tid) in threads {
            if let Some(comm) = proc_fs::comm(pid, tid) {
                self.processes.name(pid, tid, comm);
            }
        }
    }
}

/// Returns the types of system calls where these are wanted, and else none.
fn calls_where(wanted: bool) -> EventSet {
    if wanted {
        system_calls()
    } else {
        EventSet::EMPTY
    }
}

/// Returns the types that the programs at system calls record.
fn system_calls() -> EventSet {
    let mut types = EventSet::EMPTY;
    types.insert(EventTypeId::SYSCALL_ENTER);
    types.insert(EventTypeId::SYSCALL_EXIT);
    types
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tracer_binary::python::PLACES;
    use tracer_common::event_type::FIRST_USER_EVENT;
    use tracer_common::kernel::{ForkData, StackData};
    use tracer_engine::StreamFullPolicy;
    use tracer_engine::event::{EventHeader, Truncation};
    use tracer_engine::source::{Batch, Control, Loss, Source, Unread};
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use tracer_engine::ClockPair;
    use tracer_event::selection::Selection;
    use tracer_output::report::{JsonLines, Report};

    /// Pid that no process has: it is above the most that a kernel gives out.
    const PID: i32 = 5_000_000;

    /// Step of a test's source.
    enum Step {
        Event(EventHeader, Vec<u8>),
        Loss(Loss),
    }

    /// Source that hands over the given events and knows everything up to the time of the last one.
    struct Script(mpsc::Receiver<Step>, MonotonicNs);

    impl Source for Script {
        fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
            for step in self.0.try_iter() {
                match step {
                    Step::Event(header, data) => {
                        self.1 = MonotonicNs(header.time.0 + 1);
                        let mut header = header;
                        if header.event_type.is_user() {
                            header.event_type =
                                batch.user_event_type(b"lock held", Some(header.event_type));
                        }
                        batch.push(header, &data);
                    }
                    Step::Loss(loss) => batch.lose(loss),
                }
            }
            self.1
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
            Unread::Nothing
        }

        fn control(&mut self, _: &Control) {}
    }

    struct Scene {
        tracer: Tracer,
        steps: mpsc::Sender<Step>,
        now: u64,
    }

    impl Scene {
        /// Makes a trace of process `PID` that shows the events that `words` choose.
        fn showing(words: &[&str], limit: Option<u64>) -> Self {
            let selection = Selection::from_words(words.iter().copied()).unwrap();
            let clock = || MonotonicNs(0);
            let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 1 << 20, clock);
            stream.set_filter(&selection.filter(), Filtering::Set, Origin::NONE);
            let (steps, script) = mpsc::channel();
            stream.add_source(Box::new(Script(script, MonotonicNs(0))));
            stream.start(Origin::NONE);
            let (lines, clocks) = (Lines::default(), ClockPair::default());
            let report = Box::new(Report::new(JsonLines::default(), lines.clone()));
            let printer = Printer::new((report, lines), &selection, limit, clocks);
            let mut processes = Processes::new(true);
            processes.add(PID);
            processes.name(PID, PID, Comm::new(b"shell"));
            Self {
                tracer: Tracer::new(stream, processes, None, printer, true),
                steps,
                now: 0,
            }
        }

        fn then(&mut self, event_type: EventTypeId, pid: i32, data: &[u8]) {
            self.now += 1;
            let header = EventHeader {
                time: MonotonicNs(self.now),
                event_type,
                pid,
                tid: pid,
                cpu: Some(0),
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            self.steps.send(Step::Event(header, data.to_vec())).unwrap();
        }

        /// Returns the type and thread name of each line since the last call.
        fn lines(&mut self) -> Vec<(String, String)> {
            let until = MonotonicNs(u64::MAX);
            while self.tracer.round(until, MonotonicNs(0)).has_more && !self.tracer.is_done() {}
            let lines = std::mem::take(&mut *self.tracer.lines().bytes());
            let lines = lines
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty());
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            lines
                .map(|line| {
                    let line: serde_json::Value = serde_json::from_slice(line).unwrap();
                    (text(&line["type"]), text(&line["comm"]))
                })
                .collect()
        }
    }

    fn line(event_type: &str, comm: &str) -> (String, String) {
        (event_type.to_owned(), comm.to_owned())
    }

    fn fork(child: u32) -> Vec<u8> {
        let mut child_comm = [0; 16];
        child_comm[..5].copy_from_slice(b"child");
        let data = ForkData {
            child_pid: child,
            child_tid: child,
            child_comm,
            child_ns_pid: child,
            child_ns_tid: child,
        };
        data.as_bytes().to_vec()
    }

    #[test]
    fn what_is_not_shown_still_names_what_is() {
        let mut scene = Scene::showing(&["user"], None);
        scene.then(EventTypeId::FORK, PID, &fork(5_000_001));
        scene.then(EventTypeId(FIRST_USER_EVENT + 1), 5_000_001, b"x");

        assert_eq!(scene.lines(), [line("lock held", "child")]);
    }

    #[test]
    fn a_trace_ends_though_more_comes_than_is_looked_at() {
        let mut scene = Scene::showing(&["exit"], None);
        for _ in 0..EVENTS_A_ROUND + 10 {
            scene.then(EventTypeId::EXIT, PID, &[0; 8]);
        }
        let until = MonotonicNs(5);
        let round = scene.tracer.round(until, MonotonicNs(0));
        assert!(!round.has_more && round.watermark >= until);
        let lines = scene.tracer.lines().bytes().clone();
        assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 5);
    }

    #[test]
    fn a_thread_is_shown_by_the_name_it_had() {
        let mut scene = Scene::showing(&["rename", "exec", "exit"], None);
        scene.then(EventTypeId::RENAME, PID, b"renamed\0\0\0\0\0\0\0\0\0");
        scene.then(
            EventTypeId::EXEC,
            PID,
            b"make\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0/bin/make\0",
        );
        scene.then(EventTypeId::EXIT, PID, &[0; 8]);

        assert_eq!(
            scene.lines(),
            [
                line("linux_trace_rename", "shell"),
                line("linux_trace_exec", "make"),
                line("linux_trace_exit", "make"),
            ]
        );
        assert!(scene.tracer.have_all_ended());
    }

    #[test]
    fn no_more_is_shown_than_was_asked_for() {
        let mut scene = Scene::showing(&["user"], Some(2));
        for _ in 0..5 {
            scene.then(EventTypeId(FIRST_USER_EVENT + 1), PID, b"");
        }
        assert_eq!(scene.lines().len(), 2);
        assert!(scene.tracer.is_done());
        let summary = scene.tracer.end(Duration::ZERO);
        assert_eq!(summary.events, [(b"lock held".to_vec(), 2)]);
    }

    #[test]
    fn a_command_is_shown_from_its_exec_on() {
        let mut scene = Scene::showing(&["switch", "wakeup", "exec"], None);
        scene.tracer.add_command(PID, true, LastName::default());
        scene.then(EventTypeId::WAKEUP, PID, &[0; 8]);
        scene.then(EventTypeId::SWITCH_IN, PID, &[0; 24]);
        scene.then(EventTypeId::EXEC, PID, &[b'x'; 30]);
        scene.then(EventTypeId::SWITCH_OUT, PID, &[0; 32]);
        let types: Vec<String> = scene.lines().into_iter().map(|(name, _)| name).collect();

        assert_eq!(types, ["linux_trace_exec", "linux_trace_switch_out"]);
    }

    #[test]
    fn what_was_named_before_the_exec_has_its_name_in_stacks_after_it() {
        const PLACE: u64 = PLACES << 48 | 1;
        let mut scene = Scene::showing(&["exec", "stack"], None);
        scene.tracer.add_command(PID, true, LastName::default());
        let mut symbol = [PLACE, 2].as_bytes().to_vec();
        symbol.extend_from_slice(b"early (a.py)\0");
        scene.then(EventTypeId::SYMBOL, PID, &symbol);
        scene.then(EventTypeId::EXEC, PID, &[b'x'; 30]);
        let head = StackData {
            user_frames: 1,
            ..StackData::new_zeroed()
        };
        let stack = [head.as_bytes(), PLACE.as_bytes()].concat();
        scene.then(EventTypeId::STACK, PID, &stack);
        scene.tracer.round(MonotonicNs(u64::MAX), MonotonicNs(0));
        let lines = scene.tracer.lines().bytes().clone();
        let lines = String::from_utf8(lines).unwrap();

        assert!(
            lines.contains(r#""symbol":"early","file":"a.py","line":2"#),
            "{lines}"
        );
    }

    #[test]
    fn a_process_whose_end_was_lost_is_found_to_have_ended() {
        let mut scene = Scene::showing(&["exit"], None);
        assert!(!scene.tracer.have_all_ended());
        scene.tracer.tidy(MonotonicNs(1));

        assert!(scene.tracer.have_all_ended());
    }

    #[test]
    fn what_happens_after_the_end_is_not_shown() {
        let mut scene = Scene::showing(&["user"], None);
        scene.then(EventTypeId(FIRST_USER_EVENT + 1), PID, b"");
        scene.then(EventTypeId(FIRST_USER_EVENT + 1), PID, b"");
        scene.tracer.round(MonotonicNs(1), MonotonicNs(0));

        assert_eq!(scene.lines().len(), 1);
    }

    #[test]
    fn what_comes_after_the_end_is_not_collected_before_the_rest_is_shown() {
        let mut scene = Scene::showing(&["user"], None);
        let event = EventTypeId(FIRST_USER_EVENT + 1);
        let end = MonotonicNs(1);
        scene.then(event, PID, b"");
        scene.tracer.round(end, MonotonicNs(0));
        scene.then(event, PID, b"");
        scene.then(event, PID, b"");
        scene.tracer.round(end, MonotonicNs(0));
        assert_eq!(scene.tracer.watermark, MonotonicNs(2));

        scene
            .tracer
            .round(end, MonotonicNs(2 * COLLECT_BESIDE_EVERY_NS));
        assert_eq!(scene.tracer.watermark, MonotonicNs(4));
    }

    /// Source that never has everything, and reports by when it is to have counted the rest.
    struct Behind(mpsc::Sender<Instant>);

    impl Source for Behind {
        fn collect(&mut self, _: &mut Batch<'_>) -> MonotonicNs {
            MonotonicNs(1)
        }

        fn count_unread(&mut self, _: MonotonicNs, end: Instant, _: &mut Batch<'_>) -> Unread {
            self.0.send(end).unwrap();
            Unread::Unknown
        }

        fn control(&mut self, _: &Control) {}
    }

    #[test]
    fn what_was_not_read_is_counted_for_a_moment() {
        let mut scene = Scene::showing(&["user"], None);
        let (deadlines, end) = mpsc::channel();
        scene.tracer.stream.add_source(Box::new(Behind(deadlines)));
        let before = Instant::now();
        assert!(!scene.tracer.leave_sources_behind(MonotonicNs(2)));
        let end = end.recv().unwrap();
        // A trace is to end within a second.
        assert!(end >= before + Duration::from_millis(10));
        assert!(end <= Instant::now() + Duration::from_millis(200));
        assert!(scene.tracer.lacks_events());
    }

    #[test]
    fn losses_are_marked_and_summed_up() {
        let mut scene = Scene::showing(&["exit"], None);
        let loss = Loss {
            cause: LossCause::KernelRingFull,
            count: 3,
            since: MonotonicNs(1),
            is_marked: false,
        };
        scene.steps.send(Step::Loss(loss)).unwrap();
        scene.then(EventTypeId::EXIT, PID, &[0; 8]);
        scene.then(EventTypeId::EXIT, PID, &[0; 8]);
        let types: Vec<String> = scene.lines().into_iter().map(|(name, _)| name).collect();

        assert!(
            types.contains(&"posix_trace_overflow".to_owned()),
            "{types:?}"
        );
        assert_eq!(scene.tracer.end(Duration::ZERO).lost_in_all(), 3);
    }
}
