//! The loop: waits for whatever comes next and does a round.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tracer_area::monotonic_now;
use tracer_engine::event::MonotonicNs;

use super::access::KernelAccess;
use super::idle_time::IdleTime;
use super::newcomers::Newcomers;
use super::pidfd::{PidFd, wait_for_input};
use super::returned::trace_anew;
use super::tracer::Tracer;
use super::wake::{Wake, watch_process};
use super::writer::{LineWriter, Offer};
use tracer_event::consumer::FlushReason;
use tracer_kernel::{FreedMemory, give_back_what_is_free};

/// Interval at which the sources are asked when nothing wakes us: the most that an event is late.
const TICK: Duration = Duration::from_millis(10);

/// That interval while hardly any events come: each time a thread of the program is interrupted,
/// where no CPU is idle.
const RESTING_TICK: Duration = Duration::from_millis(40);

/// Interval between looks at `/proc`.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Longest wait for the last events while none come.
const GIVE_UP_AFTER: Duration = Duration::from_millis(500);

/// Longest wait of a flush that was asked for, until all that was recorded before has arrived: a
/// process that is stopped may hold events back.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// Longest wait for the status of a command after its process has ended.
const STATUS_WITHIN: Duration = Duration::from_secs(1);

/// Returns the descriptor that becomes readable when the kernel has many events.
///
/// # Errors
///
/// No descriptor is free.
pub fn ring_of(kernel: Option<&KernelAccess>) -> io::Result<Option<OwnedFd>> {
    kernel.map_or(Ok(None), KernelAccess::ring)
}

/// A command that was started by us.
pub struct TracedCommand {
    /// Its process.
    pub pid: i32,
    /// Pidfd of this process, for signals.
    pub process: PidFd,
    /// Its status, once it has ended.
    pub status: Option<ExitStatus>,
    /// Whether a signal was left to it.
    pub was_signalled: bool,
}

/// Reason why the loop ended.
#[derive(Debug)]
pub enum End {
    /// Everything asked for has been shown.
    Done,
    /// The user does not want to wait for the last lines.
    AtOnce,
    /// The lines can go nowhere; the writer has the reason.
    OutputClosed,
    /// The command could not be started.
    NotStarted(io::Error),
}

enum Phase {
    Following,
    /// The trace ends at `until`; what happened before is still to be shown.
    Draining {
        until: MonotonicNs,
        /// Time up to which everything was collected when that was asked last.
        has: MonotonicNs,
        give_up: Instant,
        /// Whether it ends because no process lives, and continues when one turns up.
        is_for_lack_of_processes: bool,
    },
}

impl Phase {
    /// Tells whether the trace ends, whatever comes.
    fn is_ending(&self) -> bool {
        matches!(
            self,
            Self::Draining {
                is_for_lack_of_processes: false,
                ..
            }
        )
    }
}

/// Everything that the loop looks after.
pub struct Follow {
    /// The trace.
    pub tracer: Tracer,
    /// Writer of the lines.
    pub writer: LineWriter,
    /// Wake-ups from outside of the stream.
    pub wakes: UnboundedReceiver<Wake>,
    /// Sender by which the ends of further processes are reported.
    pub wake: UnboundedSender<Wake>,
    /// Access to the kernel's events, which come as long as this is there.
    pub kernel: Option<KernelAccess>,
    /// The kernel's ring.
    pub ring: Option<OwnedFd>,
    /// The command, when we started one.
    pub command: Option<TracedCommand>,
    /// Other processes whose ends are reported as wake-ups, and were not yet.
    pub awaited: HashSet<i32>,
    /// Start of the trace.
    pub start: MonotonicNs,
    /// End of the trace.
    pub until: Option<MonotonicNs>,
    /// Whether it continues when no process lives: others may come.
    pub is_open: bool,
    /// Search for processes that begin later, where no program in the kernel chooses them.
    pub newcomers: Option<Newcomers>,
    /// A flush that was asked for, until all that was recorded before has arrived.
    pub flush: Option<FlushRequest>,
}

/// A flush that waits.
#[derive(Debug)]
pub struct FlushRequest {
    /// Time when it was asked for.
    asked: MonotonicNs,
    /// Time when it waits no longer: the process that asked waits too.
    give_up: Instant,
}

impl FlushRequest {
    fn now() -> Self {
        Self {
            asked: monotonic_now(),
            give_up: Instant::now() + FLUSH_WITHIN,
        }
    }
}

impl Follow {
    /// Follows until the end.
    ///
    /// # Errors
    ///
    /// The kernel's ring cannot be waited for.
    pub async fn run(&mut self) -> io::Result<End> {
        let ring = self.ring.take().map(wait_for_input).transpose()?;
        give_back_what_is_free();
        let mut freed_memory = FreedMemory::default();
        let is_bounded = self.tracer.has_bounded_cost();
        let start = || IdleTime::start(self.tracer.brake());
        let mut idle_time = is_bounded.then(start).flatten();
        let mut phase = Phase::Following;
        let mut tidied = Instant::now();
        let (mut has_more, mut is_behind, mut is_blocked) = (false, false, false);
        loop {
            let is_resting = self.tracer.is_resting() && !phase.is_ending();
            let tick = if is_resting { RESTING_TICK } else { TICK };
            tokio::select! {
                biased;
                wake = self.wakes.recv() => {
                    if let Some(wake) = wake
                        && let Some(end) = self.woken(wake, &mut phase)
                    {
                        return Ok(end);
                    }
                }
                () = self.writer.ready(), if is_blocked => {}
                () = tokio::task::yield_now(), if (has_more || is_behind) && !is_blocked => {}
                () = readable(ring.as_ref()), if !is_blocked => {}
                () = after(self.tracer.next_look(monotonic_now())), if !phase.is_ending() => {}
                () = tokio::time::sleep(tick) => {}
            }
            let now = monotonic_now();
            if let Some(until) = self.until
                && now >= until
                && !phase.is_ending()
            {
                phase = draining(until, false);
            }
            let until = match phase {
                Phase::Draining {
                    until,
                    is_for_lack_of_processes: false,
                    ..
                } => until,
                _ => MonotonicNs(u64::MAX),
            };
            let round = self.tracer.round(until, now);
            self.watch_newcomers();
            self.trace_wakers();
            if let Some(kernel) = &mut self.kernel {
                trace_anew(kernel, &mut self.tracer);
                kernel.meet();
                if let Some(pids) = self.tracer.take_reopened() {
                    kernel.look(&pids);
                }
                if let Some(newcomers) = self.newcomers.as_mut().filter(|_| !phase.is_ending()) {
                    newcomers.look(kernel, &mut self.tracer);
                }
            }
            let offer = self.writer.offer(&mut self.tracer.lines().bytes());
            if offer == Offer::Closed || self.writer.has_lost_its_reader() {
                return Ok(End::OutputClosed);
            }
            if self.tracer.is_done() {
                return Ok(End::Done);
            }
            (has_more, is_blocked) = (round.has_more, offer == Offer::Full);
            self.flush_when_due(round.watermark, has_more);
            is_behind = round.is_behind;
            if phase.is_ending() {
                idle_time = None;
            } else if let Some(idle_time) = &idle_time {
                idle_time.set_resting(self.tracer.is_between_windows());
                if !(has_more || is_behind) {
                    idle_time.has_caught_up();
                }
            }
            if tidied.elapsed() >= TIDY_EVERY {
                tidied = Instant::now();
                self.tracer.tidy(now);
                self.tracer.flush(FlushReason::Regular);
                freed_memory.tick();
            }
            match phase {
                Phase::Following
                    if !self.is_open && self.tracer.have_all_ended() && !self.is_one_exiting() =>
                {
                    phase = draining(now, true)
                }
                Phase::Draining {
                    is_for_lack_of_processes: true,
                    ..
                } if !self.tracer.have_all_ended() => {
                    phase = Phase::Following;
                }
                Phase::Draining {
                    until,
                    ref mut has,
                    ref mut give_up,
                    ..
                } if !has_more => {
                    if round.watermark >= until {
                        // One that others were not to wait for may be behind.
                        self.tracer.leave_sources_behind(until);
                        return Ok(End::Done);
                    }
                    let now = Instant::now();
                    if round.watermark > std::mem::replace(has, round.watermark) {
                        *give_up = now + GIVE_UP_AFTER;
                    }
                    // What the others have brought is shown then.
                    if now >= *give_up && !self.tracer.leave_sources_behind(until) {
                        return Ok(End::Done);
                    }
                }
                _ => {}
            }
        }
    }

    /// Tells whether the command, or an attached process, is still there. The kernel reports an
    /// exit before it frees the memory, which may take seconds.
    fn is_one_exiting(&self) -> bool {
        let mut command = self.command.iter();
        let runs =
            |command: &TracedCommand| command.status.is_none() && !command.process.has_ended();
        !self.awaited.is_empty() || command.any(runs)
    }

    /// Flushes, or makes a snapshot, once the log has all that was recorded until it was asked for.
    fn flush_when_due(&mut self, watermark: MonotonicNs, has_more: bool) {
        let is_due = |flush: &mut FlushRequest| {
            watermark >= flush.asked && !has_more || Instant::now() >= flush.give_up
        };
        if self.flush.take_if(is_due).is_some() {
            self.tracer.flush(FlushReason::Asked);
        }
    }

    /// Waits for the status of the command, which may be reported a little after its last event.
    ///
    /// # Errors
    ///
    /// The command could not be started, which may be reported as late.
    pub async fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(command) = self.command.as_mut() else {
            return Ok(None);
        };
        if command.status.is_none() && command.process.has_ended() {
            let reported = tokio::time::timeout(STATUS_WITHIN, end_of_command(&mut self.wakes));
            command.status = reported.await.unwrap_or(Ok(None))?;
        }
        Ok(command.status)
    }

    /// Makes sure that the ends of processes are reported that no event reports.
    fn watch_newcomers(&mut self) {
        for pid in self.tracer.take_newcomers() {
            let process = PidFd::open(pid);
            match process.and_then(|process| watch_process(&self.wake, pid, process)) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    self.tracer.process_ended(pid, monotonic_now());
                }
                // It is looked for now and then.
                Err(error) => tracing::debug!(pid, %error, "its end cannot be waited for"),
            }
        }
    }

    /// Traces the processes that have woken traced ones.
    fn trace_wakers(&mut self) {
        for pid in self.tracer.take_wakers() {
            let Some(kernel) = &mut self.kernel else {
                return;
            };
            match kernel.trace(pid, false) {
                Ok(()) => {
                    self.tracer.add_found(pid, monotonic_now());
                    kernel.look_at_newcomers(&[pid]);
                }
                // It has ended, or is of another pid namespace: it stays one that is only named.
                Err(error) => tracing::debug!(pid, %error, "a waker cannot be traced"),
            }
        }
    }

    fn woken(&mut self, wake: Wake, phase: &mut Phase) -> Option<End> {
        match wake {
            Wake::ProcessEnded(pid) => {
                self.awaited.remove(&pid);
                self.tracer.process_ended(pid, monotonic_now());
            }
            Wake::NotStarted(error) => return Some(End::NotStarted(error)),
            Wake::CommandEnded(status) => {
                if let Some(command) = &mut self.command {
                    command.status = Some(status);
                    self.tracer.process_ended(command.pid, monotonic_now());
                }
            }
            Wake::Flush => {
                self.flush.get_or_insert_with(FlushRequest::now);
            }
            // The round that follows any wake is all that is needed.
            Wake::AgentAsked => {}
            Wake::Signal(signal) => return self.signalled(signal, phase),
        }
        None
    }

    /// Handles a signal. The first one is for the command: Ctrl-C reaches it from the terminal, the
    /// others are handed on. Without a command, or the next time, it ends the trace; and once more,
    /// at once.
    fn signalled(&mut self, signal: i32, phase: &mut Phase) -> Option<End> {
        if phase.is_ending() {
            return Some(End::AtOnce);
        }
        let running = self
            .command
            .as_mut()
            .filter(|command| command.status.is_none());
        if let Some(command) = running
            && !command.was_signalled
        {
            command.was_signalled = true;
            if signal != libc::SIGINT {
                command.process.signal(signal);
            }
            return None;
        }
        *phase = draining(monotonic_now(), false);
        None
    }
}

/// Waits until the end of the command is reported, or that it never began.
async fn end_of_command(wakes: &mut UnboundedReceiver<Wake>) -> io::Result<Option<ExitStatus>> {
    while let Some(wake) = wakes.recv().await {
        match wake {
            Wake::CommandEnded(status) => return Ok(Some(status)),
            Wake::NotStarted(error) => return Err(error),
            Wake::ProcessEnded(_) | Wake::Signal(_) | Wake::Flush | Wake::AgentAsked => {}
        }
    }
    Ok(None)
}

fn draining(until: MonotonicNs, is_for_lack_of_processes: bool) -> Phase {
    Phase::Draining {
        until,
        has: MonotonicNs(0),
        give_up: Instant::now() + GIVE_UP_AFTER,
        is_for_lack_of_processes,
    }
}

async fn after(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

async fn readable(ring: Option<&AsyncFd<OwnedFd>>) {
    let Some(ring) = ring else {
        return std::future::pending().await;
    };
    match ring.readable().await {
        Ok(mut guard) => guard.clear_ready(),
        // The tick goes on without it.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::timeout;
    use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};
    use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};

    use tracer_engine::event::{EventHeader, Truncation};
    use tracer_engine::source::{Batch, Control, Source, Unread};

    use super::super::printer::Printer;
    use super::super::processes::Processes;
    use super::*;
    use tracer_engine::ClockPair;
    use tracer_event::consumer::Lines;
    use tracer_event::selection::Selection;
    use tracer_output::report::{JsonLines, Report};

    /// Source that advances by a nanosecond each tenth of a second, and brings an event at the end;
    /// or never advances.
    struct Slow {
        begins: Option<Instant>,
        has_all: bool,
    }

    /// Time of the event.
    const END: MonotonicNs = MonotonicNs(10);

    fn header(event_type: EventTypeId) -> EventHeader {
        EventHeader {
            time: END,
            event_type,
            pid: 1,
            tid: 1,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    impl Source for Slow {
        fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
            let tenths = self
                .begins
                .map_or(1, |begins| begins.elapsed().as_millis() / 100);
            let has = MonotonicNs(u64::try_from(tenths).unwrap()).min(END);
            if has == END && !std::mem::replace(&mut self.has_all, true) {
                let own = EventTypeId(FIRST_USER_EVENT + 1);
                let event_type = batch.user_event_type(b"last", Some(own));
                batch.push(header(event_type), b"");
            }
            has
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
            if self.has_all {
                Unread::Nothing
            } else {
                Unread::Unknown
            }
        }

        fn control(&mut self, _: &Control) {}
    }

    /// Follows a trace that ends before its source has brought all that it has. How many events it
    /// has, and whether some may be missing.
    fn followed_to_the_end(begins: Option<Instant>) -> (u64, bool) {
        let source = Slow {
            begins,
            has_all: false,
        };
        let selection = Selection::from_words(["user"]).unwrap();
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, || MonotonicNs(0));
        stream.start(Origin::NONE);
        stream.add_source(Box::new(source));
        let (lines, clocks) = (Lines::default(), ClockPair::default());
        let report = Box::new(Report::new(JsonLines::default(), lines.clone()));
        let printer = Printer::new((report, lines), &selection, None, clocks);
        let (wake, wakes) = unbounded_channel();
        let mut follow = Follow {
            tracer: Tracer::new(stream, Processes::new(true), None, printer, true),
            writer: LineWriter::start(io::sink(), None).unwrap(),
            wakes,
            wake,
            kernel: None,
            ring: None,
            command: None,
            awaited: HashSet::new(),
            start: MonotonicNs(0),
            until: Some(END),
            is_open: true,
            newcomers: None,
            flush: None,
        };
        let runtime = super::super::ending::runtime().unwrap();
        // Longer than any of it takes on a busy machine.
        let ended = runtime.block_on(async { timeout(30 * STATUS_WITHIN, follow.run()).await });
        assert!(matches!(ended, Ok(Ok(End::Done))), "{ended:?}");
        let summary = follow.tracer.end(Duration::ZERO);
        let events = summary.events.iter().map(|(_, count)| count).sum();
        (events, follow.tracer.lacks_events())
    }

    #[test]
    fn who_brings_the_last_events_slowly_is_waited_for() {
        let begins = Some(Instant::now());
        assert_eq!(followed_to_the_end(begins), (1, false));
    }

    #[test]
    fn who_never_brings_the_last_events_keeps_no_trace_from_ending() {
        assert_eq!(followed_to_the_end(None), (0, true));
    }

    /// Returns the findings when these are reported one after the other.
    fn found_out(reported: impl IntoIterator<Item = Wake>) -> io::Result<Option<ExitStatus>> {
        let (wakes, mut woken) = unbounded_channel();
        for wake in reported {
            wakes.send(wake).unwrap();
        }
        drop(wakes);
        super::super::ending::runtime()
            .unwrap()
            .block_on(end_of_command(&mut woken))
    }

    #[test]
    fn that_a_command_was_not_started_may_be_reported_after_its_process_has_ended() {
        // A program that is no executable: the process that was to become it ends by itself.
        let error = io::Error::from_raw_os_error(libc::EACCES);
        let reported = [Wake::ProcessEnded(1), Wake::NotStarted(error)];
        let error = found_out(reported).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn the_status_of_a_command_may_be_reported_late() {
        let status = ExitStatus::from_raw(3 << 8);
        let reported = [Wake::ProcessEnded(1), Wake::CommandEnded(status)];
        assert_eq!(found_out(reported).unwrap(), Some(status));
        assert_eq!(found_out([]).unwrap(), None);
    }
}
