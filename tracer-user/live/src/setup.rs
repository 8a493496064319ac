//! Options of a trace.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tracer_area::{RingMode, StreamRequest, monotonic_now};
use tracer_common::area::{MAX_DATA_BYTES, MAX_STREAM_BYTES};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::MonotonicNs;
use tracer_engine::{ActiveStream, ClockPair, Filtering, Origin, StreamFullPolicy};
use tracer_log::clocks_now;

use super::access::{CallMeter, KernelAccess, Way};
use super::areas::Areas;
use super::beside::BesideRecorder;
use super::call_windows::CallWindows;
use super::consumer_setup::{Beginning, ConsumerSetup};
use super::counted::KernelCounts;
use super::idle_time::give_way;
use super::printer::Printer;
use super::processes::Processes;
use super::recording::Recording;
use super::switch_windows::SwitchWindows;
use super::tracer::Tracer;
use super::writer::LineWriter;
use tracer_agent::Hub;
use tracer_binary::probes::{self, Probes, Subject};
use tracer_binary::stacks;
use tracer_event::consumer::Lines;
use tracer_event::counts::{PointNames, SharedCounts};
use tracer_event::predicate::Sieve;
use tracer_kernel::named_tracepoints::{self, Tracepoint};
use tracer_kernel::{KernelOptions, ProcessChoice};
use tracer_log_view::LogRecorder;
use tracer_log_view::log_output::{self, LogSetup, inheritance};
use tracer_output::terminal::BlockingFile;
use tracer_output::terminal::output::Sink;
use tracer_text::say;

/// Longest time without a sign of life from us after which targets still record; then they refuse
/// events and count them.
const LEASE: Duration = Duration::from_secs(2);

/// Time in which loading the programs has to go on, where it is done only while no other thread
/// wants the CPU, since the cost of the trace is bounded.
const PATIENCE: Duration = Duration::from_millis(500);

/// Least bytes of a BPF ring: a page.
pub const MIN_KERNEL_RING_BYTES: u32 = 4096;
/// Most bytes of a BPF ring.
pub const MAX_KERNEL_RING_BYTES: u32 = 1 << 30;
/// Least and most bytes of a thread's ring.
pub const THREAD_RING_BYTES: (u32, u32) = (4096, MAX_STREAM_BYTES);

/// Bytes that are read of the memory to which an argument of a system call points, where nothing
/// else is asked for.
pub const DEFAULT_STRING_BYTES: u32 = 64;

/// Processes that are traced beside the chosen ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Whether children that a traced process makes are traced too.
    pub children: bool,
    /// Whether processes that wake traced ones are traced too, from then on.
    pub wakers: bool,
}

/// Memory between the traced processes and the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Bytes of each BPF ring.
    pub kernel_ring_bytes: u32,
    /// Bytes of each BPF ring where this process makes them: the service has rings of its own.
    pub own_ring_bytes: Option<u32>,
    /// Bytes of the stream.
    pub stream_bytes: usize,
    /// Bytes of each thread's ring of user events.
    pub thread_ring_bytes: usize,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            kernel_ring_bytes: 2 << 20,
            own_ring_bytes: None,
            stream_bytes: 16 << 20,
            thread_ring_bytes: 512 << 10,
        }
    }
}

/// Options of a trace, checked.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Processes that are traced beside the chosen ones.
    pub followed: Followed,
    /// Events that are recorded.
    pub recording: Recording,
    /// Memory for them.
    pub buffers: Buffers,
    /// Most events: the trace ends after them.
    pub event_limit: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// The log that events go to, instead of lines.
    pub log: Option<LogSetup>,
    /// Output for the lines.
    pub output: Sink,
    /// Consumer of the events.
    pub consumer: ConsumerSetup,
}

impl Setup {
    /// Loads the programs for the kernel's events and makes the stream, and starts it. Nothing is
    /// traced yet but processes that begin from now on and that `choice` chooses; the probes are
    /// looked for in the files of `subject`. Any failure comes before the target is touched.
    ///
    /// # Errors
    ///
    /// The kernel's events are not available, or the log cannot be made; the cost of system calls
    /// is to be bounded, and no switches are recorded that tell how long threads have CPUs.
    pub fn begin(&self, choice: ProcessChoice, subject: Subject<'_>) -> anyhow::Result<BegunTrace> {
        let recording = &self.recording;
        let has_kernel_frames = recording.system && recording.stacks.have_kernel_frames();
        let read_ahead = || {
            if has_kernel_frames {
                stacks::read_kernel_ahead();
            }
        };
        let way = recording.system.then(|| KernelAccess::choose(self));
        let way = way.transpose()?;
        // The service's clients ask for the time of each process.
        let takes_switches = matches!(way, Some(Way::Own)) && recording.most_call_cost.is_some();
        ensure!(
            !takes_switches || recording.selection.has(EventTypeId::SWITCH_OUT),
            "--call-cost is a part of the CPU time of the traced threads, which switches tell, and \
             none are chosen; choose them too, by --events switch"
        );
        let with_trace_points = recording.stacks.user_events;
        let found = probes::find(&recording.probes, with_trace_points, subject);
        let mut probes = found.context("cannot probe")?;
        probes.warnings.drain(..).for_each(|warning| say(&warning));
        if let (ProcessChoice::Given, Subject::Processes(pids), false) =
            (&choice, subject, self.followed.children)
        {
            // Other processes that run the same file need not stop there.
            probes.only = Some(pids.to_vec());
        }
        let tracepoints =
            named_tracepoints::find(&recording.tracepoints).context("cannot trace")?;
        let points = PointNames {
            probes: probes.kinds.iter().map(|kind| kind.name.clone()).collect(),
            tracepoints: tracepoints.iter().map(Tracepoint::event_name).collect(),
        };
        let mut names = points.probes.clone();
        names.dedup();
        names.extend_from_slice(&points.tracepoints);
        let policy = StreamFullPolicy::Loop;
        let mut stream = ActiveStream::new(policy, self.buffers.stream_bytes, monotonic_now);
        let log = self.log.as_ref().map(LogRecorder::open).transpose()?;
        let (mut log, types) = log.unzip();
        if let Some(types) = types.flatten() {
            stream.adopt_event_types(types);
        }
        stream.set_filter(&recording.selection.filter(), Filtering::Set, Origin::NONE);
        let hub = Hub::default();
        let opened = match way {
            None => None,
            Some(Way::Own) => {
                let options = self.kernel_options(subject, choice, (probes, tracepoints));
                let load = || {
                    read_ahead();
                    KernelAccess::load(&options, &hub)
                };
                let is_bounded = recording.most_call_cost.or(recording.most_switch_cost);
                // A command has not started yet: to give way would only delay it.
                Some(match (is_bounded, subject) {
                    (Some(_), Subject::Processes(_)) => give_way(PATIENCE, load)?,
                    _ => load()?,
                })
            }
            Some(Way::Service(address)) => {
                read_ahead();
                Some(KernelAccess::from_service(self, &address))
            }
        };
        let (mut kernel, source) = opened.unzip();
        let counts = kernel.as_mut().and_then(KernelAccess::take_counts);
        let counts = counts
            .map(|counts| Rc::new(RefCell::new(KernelCounts(counts, points))) as SharedCounts);
        if let Some(kernel) = &kernel {
            recording.report_what_is_lacking(kernel)?;
        }
        if let Some(source) = source {
            stream.add_source(source);
        }
        let clocks = clocks_now();
        let start = clocks.monotonic;
        if let Some(log) = &mut log {
            log.begin_at(start)?;
        }
        stream.start(Origin::NONE);
        let output = self.output.open()?;
        let mut printer = self.printer((start, clocks), log, (&output, counts))?;
        if let Some(lost) = kernel.as_ref().and_then(KernelAccess::lost_by_cpu) {
            printer.report_cpus(lost);
        }
        if let Subject::Processes(_) = subject {
            // Of a command nothing is said before it is known that it can be started.
            printer.begin();
        }
        for name in names {
            printer.show(stream.define_event_type(name.as_bytes()));
        }
        let processes = Processes::new(self.followed.children);
        let areas = self.areas(start);
        let mut tracer = Tracer::new(stream, processes, areas, printer, recording.system);
        if let Some(kernel) = &kernel {
            tracer.name_by(kernel.first_names());
        }
        let meter = kernel.as_mut().and_then(KernelAccess::take_call_meter);
        let own = meter.as_ref().and_then(CallMeter::own);
        if let (Some(most), Some(own)) = (recording.most_switch_cost, own) {
            let with_calls = recording.most_call_cost.is_none();
            let chosen = (&recording.selection, with_calls);
            tracer.bound_switches(SwitchWindows::new(own, chosen, most, start));
        }
        if let (Some(most), Some(meter)) = (recording.most_call_cost, meter) {
            tracer.bound_calls(CallWindows::new(meter, most, start));
        }
        if self.followed.wakers {
            tracer.follow_wakers();
        }
        Ok(BegunTrace {
            tracer,
            kernel,
            writer: self.writer(output)?,
            hub,
            start,
            duration: self.duration,
        })
    }

    /// Returns the options of the kernel source.
    fn kernel_options(
        &self,
        subject: Subject<'_>,
        choice: ProcessChoice,
        (probes, tracepoints): (Probes, Vec<Tracepoint>),
    ) -> KernelOptions {
        let recording = &self.recording;
        KernelOptions {
            ring_bytes: self
                .buffers
                .own_ring_bytes
                .unwrap_or(self.buffers.kernel_ring_bytes),
            wanted: recording.types_to_load(subject),
            syscalls: recording.syscalls.clone(),
            calls_at_exit: recording.calls_at_exit,
            detaches_calls: recording
                .most_call_cost
                .or(recording.most_switch_cost)
                .is_some(),
            string_bytes: recording.string_bytes,
            only_names: recording.only_names,
            descriptors: recording.descriptors,
            stacks: recording.stacks,
            thread_contexts: recording.trace_context,
            contexts_for_others: false,
            probes,
            tracepoints,
            counting: recording.counting,
            choice,
            inherit: self.followed.children,
            // Its trace area is looked for.
            wakes_at_exec: recording.selection.has_user(),
            guards: false,
            is_beside: false,
            stacks_for_others: false,
            types: recording.btf.clone(),
            verbose: tracing::enabled!(tracing::Level::DEBUG),
        }
    }

    /// Returns the trace areas, where user events are chosen.
    fn areas(&self, start: MonotonicNs) -> Option<Areas> {
        let request = StreamRequest {
            target: None,
            inherit: self.followed.children,
            is_only_source: false,
            bytes: self.buffers.thread_ring_bytes,
            mode: RingMode::OverwriteOldest,
            max_data: usize::try_from(MAX_DATA_BYTES).unwrap_or(usize::MAX),
            lease: Some(LEASE),
        };
        let recording = &self.recording;
        let has_user = recording.selection.has_user();
        has_user.then(|| Areas::new(request, start, recording.system))
    }

    /// Returns the printer, with the consumer of the events; lines go to `output`. Where there is a
    /// log, these are for the end alone.
    fn printer(
        &self,
        (start, clocks): (MonotonicNs, ClockPair),
        log: Option<LogRecorder>,
        (output, counts): (&File, Option<SharedCounts>),
    ) -> anyhow::Result<Printer> {
        let recording = &self.recording;
        let attributes = log_output::attributes(clocks);
        let beginning = Beginning {
            start,
            clocks,
            attributes: attributes.with_inheritance(inheritance(self.followed.children)),
            has_user: recording.selection.has_user(),
            output,
            counts,
        };
        let lines = Lines::default();
        let mut consumer = self.consumer.start(&beginning, lines.clone())?;
        let is_recorded = log.is_some();
        if let Some(log) = log {
            let gets_events = !self.consumer.has_lines();
            consumer = Box::new(BesideRecorder::new(Box::new(log), consumer, gets_events));
        }
        let (selection, limit) = (&recording.selection, self.event_limit);
        let mut printer = Printer::new((consumer, lines), selection, limit, clocks);
        if is_recorded {
            printer.record();
        }
        printer.pass(Sieve::new(&recording.predicate, start));
        if !self.consumer.has_lines() {
            printer.join_pairs();
        }
        if recording.inlined {
            printer.show_inlined();
        }
        Ok(printer)
    }

    /// Starts writing to where the lines go.
    fn writer(&self, output: File) -> anyhow::Result<LineWriter> {
        // A log and an export are written elsewhere, whether the lines are read or not.
        let has_lines = self.log.is_none() && self.consumer.has_lines();
        let watched = has_lines.then(|| output.try_clone());
        let watched = watched.transpose().context("cannot write lines")?;
        LineWriter::start(BlockingFile(output), watched).context("cannot start the writing thread")
    }
}

/// Returns the time `wait` after `time`.
pub fn later(time: MonotonicNs, wait: Duration) -> MonotonicNs {
    MonotonicNs(
        time.0
            .saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)),
    )
}

/// A trace that has been started, and traces nothing yet.
pub struct BegunTrace {
    /// The trace. It owns the kernel's ring, and is dropped first.
    pub tracer: Tracer,
    /// Access to the kernel's events, when they are wanted.
    pub kernel: Option<KernelAccess>,
    /// Writer of the lines.
    pub writer: LineWriter,
    /// Hub that receives the kernel's events too.
    pub hub: Hub,
    /// Time of its start.
    pub start: MonotonicNs,
    duration: Option<Duration>,
}

impl BegunTrace {
    /// Returns the time of its end, as what is to be traced is traced by now. The service may have
    /// loaded its programs only for that, which takes a moment.
    pub fn until(&self) -> Option<MonotonicNs> {
        let is_of_service = self.kernel.as_ref().is_some_and(|kernel| !kernel.is_own());
        let from = if is_of_service {
            monotonic_now()
        } else {
            self.start
        };
        self.duration.map(|duration| later(from, duration))
    }
}
