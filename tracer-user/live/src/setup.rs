//! Options of a trace.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use tracer_area::{RingMode, StreamRequest, monotonic_now};
use tracer_common::area::{MAX_DATA_BYTES, MAX_STREAM_BYTES};
use tracer_common::event_type::{EventTypeId, system_event_type};
use tracer_engine::event::MonotonicNs;
use tracer_engine::{ActiveStream, Filtering, Origin, StreamFullPolicy};
use tracer_log::clocks_now;
use tracer_posix::agent::WANTED_VARIABLE;

use super::areas::Areas;
use super::consumer_setup::{Beginning, ConsumerSetup};
use super::later::later;
use super::printer::Printer;
use super::processes::Processes;
use super::tracer::Tracer;
use super::writer::Writer;
use crate::agent::{Hub, Tee};
use tracer_binary::probes::{self, ProbeSpec, Subject};
use tracer_binary::stacks::StackOptions;
use tracer_event::consumer::Lines;
use tracer_event::predicate::{Predicate, Sieve};
use tracer_event::selection::Selection;
use tracer_kernel::named_tracepoints::{self, Pattern, Tracepoint};
use tracer_kernel::{KernelOptions, KernelTracer, ProcessChoice};
use tracer_log_view::log_output::{self, LogOutput, LogSetup, inheritance};
use tracer_output::terminal::BlockingFile;
use tracer_output::terminal::output::Sink;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::descriptors::DescriptorOptions;
use tracer_text::say;

/// Longest time without a sign of life from us after which targets still record; then they refuse
/// events and count them.
const LEASE: Duration = Duration::from_secs(2);

/// Least bytes of a BPF ring: a page.
pub const MIN_KERNEL_RING_BYTES: u32 = 4096;
/// Most bytes of a BPF ring.
pub const MAX_KERNEL_RING_BYTES: u32 = 1 << 30;
/// Least and most bytes of a thread's ring.
pub const THREAD_RING_BYTES: (u32, u32) = (4096, MAX_STREAM_BYTES);

/// Options of a trace, checked.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether children that a traced process makes are traced too.
    pub inherit: bool,
    /// Whether processes that wake traced ones are traced too, from then on.
    pub follow_wakers: bool,
    /// Whether the kernel's events are traced.
    pub system: bool,
    /// The file with the kernel's types, where the kernel may have none.
    pub btf: Option<PathBuf>,
    /// The types that are shown.
    pub selection: Selection,
    /// The system calls that are traced, where those types are.
    pub syscalls: SyscallSet,
    /// Bytes that are read of the data that their arguments point to.
    pub string_bytes: u32,
    /// Recording of descriptors.
    pub descriptors: DescriptorOptions,
    /// Stacks that are recorded.
    pub stacks: StackOptions,
    /// Whether functions are shown too that the compiler has put into others.
    pub inlined: bool,
    /// Probes in the programs.
    pub probes: Vec<ProbeSpec>,
    /// Condition on the data of events.
    pub predicate: Predicate,
    /// The tracepoints of the kernel that are recorded by their names.
    pub tracepoints: Vec<Pattern>,
    /// Most events: the trace ends after them.
    pub event_limit: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Bytes of each BPF ring.
    pub ring_bytes: u32,
    /// Bytes of the stream.
    pub stream_bytes: usize,
    /// Bytes of each thread's ring of user events.
    pub thread_ring_bytes: usize,
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
    /// The kernel's events are not available, or the log cannot be made.
    pub fn begin(&self, choice: ProcessChoice, subject: Subject<'_>) -> anyhow::Result<Begun> {
        let mut probes =
            probes::find(&self.probes, self.stacks.user_events, subject).context("cannot probe")?;
        probes.warnings.drain(..).for_each(|warning| say(&warning));
        if let (ProcessChoice::Given, Subject::Processes(pids), false) =
            (&choice, subject, self.inherit)
        {
            // Nobody else who runs the same file needs to stop there.
            probes.only = Some(pids.to_vec());
        }
        let tracepoints = named_tracepoints::find(&self.tracepoints).context("cannot trace")?;
        let mut names: Vec<_> = probes.kinds.iter().map(|kind| kind.name.clone()).collect();
        names.dedup();
        names.extend(tracepoints.iter().map(Tracepoint::event_name));
        let policy = StreamFullPolicy::Loop;
        let mut stream = ActiveStream::new(policy, self.stream_bytes, monotonic_now);
        let log = self.log.as_ref().map(LogOutput::open).transpose()?;
        let (log, types) = log.unzip();
        if let Some(types) = types.flatten() {
            stream.adopt_event_types(types);
        }
        stream.set_filter(&self.selection.filter(), Filtering::Set, Origin::NONE);
        let hub = Hub::default();
        let kernel = if self.system {
            let options = KernelOptions {
                ring_bytes: self.ring_bytes,
                wanted: self.to_record(subject),
                syscalls: self.syscalls.clone(),
                string_bytes: self.string_bytes,
                descriptors: self.descriptors,
                stacks: self.stacks,
                probes,
                tracepoints,
                choice,
                inherit: self.inherit,
                // Its trace area is looked for.
                wakes_at_exec: self.selection.has_user(),
                types: self.btf.clone(),
                verbose: tracing::enabled!(tracing::Level::DEBUG),
            };
            let (tracer, source) = KernelTracer::load(&options)
                .context("cannot trace kernel events (--no-system traces user events alone)")?;
            self.report_what_is_lacking(&tracer)?;
            hub.report_to(tracer.wanted());
            stream.add_source(Box::new(Tee::new(source, hub.clone())));
            Some(tracer)
        } else {
            None
        };
        let start = monotonic_now();
        stream.start(Origin::NONE);
        let request = StreamRequest {
            target: None,
            inherit: self.inherit,
            is_only_source: false,
            bytes: self.thread_ring_bytes,
            mode: RingMode::OverwriteOldest,
            max_data: usize::try_from(MAX_DATA_BYTES).unwrap_or(usize::MAX),
            lease: Some(LEASE),
        };
        let areas = self
            .selection
            .has_user()
            .then(|| Areas::new(request, start, self.system));
        let output = self.output.open()?;
        let clocks = clocks_now();
        let attributes = log_output::attributes(clocks);
        let beginning = Beginning {
            start,
            clocks,
            attributes: attributes.with_inheritance(inheritance(self.inherit)),
            has_user: self.selection.has_user(),
            output: &output,
        };
        let lines = Lines::default();
        let consumer = self.consumer.start(&beginning, lines.clone())?;
        let consumer = (consumer, lines);
        let has_lines = self.consumer.has_lines();
        let mut printer = Printer::new(consumer, &self.selection, self.event_limit, clocks);
        printer.pass(Sieve::new(&self.predicate, start));
        if !has_lines {
            printer.join_pairs();
        }
        if self.inlined {
            printer.show_inlined();
        }
        if let Some(kernel) = &kernel {
            printer.report_cpus(kernel.lost_by_cpu());
        }
        if let Some(log) = log {
            printer.log_to(log, !has_lines);
        } else if let Subject::Processes(_) = subject {
            // Of a command nothing is said before it is known that it can be started.
            printer.begin();
        }
        for name in names {
            printer.show(stream.define_event_type(name.as_bytes()));
        }
        let processes = Processes::new(self.inherit);
        let mut tracer = Tracer::new(stream, processes, areas, printer, self.system);
        if let Some(kernel) = &kernel {
            tracer.name_by(kernel.first_names());
        }
        if self.follow_wakers {
            tracer.follow_wakers();
        }
        Ok(Begun {
            tracer,
            kernel,
            writer: self.writer(output)?,
            hub,
            start,
            until: self.duration.map(|duration| later(start, duration)),
        })
    }

    /// Returns the types that the programs in the kernel are loaded for: those that are chosen, and
    /// where a command's streams are given the kernel's events by its environment, those that are
    /// shown without being chosen as well. The streams choose among these by their filters.
    fn to_record(&self, subject: Subject<'_>) -> Vec<EventTypeId> {
        let mut types = self.selection.of_kernel();
        let is_asked_for = std::env::var_os(WANTED_VARIABLE).is_some_and(|value| value == "1");
        if matches!(subject, Subject::Command(_)) && is_asked_for {
            let of_kernel = Selection::usual().of_kernel();
            types.extend(of_kernel.iter().filter(|id| !self.selection.has(**id)));
        }
        types
    }

    /// Reports which of the chosen types this kernel does not have, and continues with the others.
    fn report_what_is_lacking(&self, kernel: &KernelTracer) -> anyhow::Result<()> {
        if let Some(left_out) = kernel.left_out() {
            say(&format!(
                "the kernel's types are from a file, so this is not recorded: {left_out}"
            ));
        }
        let chosen = self.selection.of_kernel();
        let lacking: Vec<&str> = chosen
            .iter()
            .filter(|id| !kernel.records(**id))
            .filter_map(|id| Some(system_event_type(*id)?.name))
            .collect();
        let what = "this kernel has no tracepoint for";
        ensure!(
            self.selection.has_user()
                || !self.probes.is_empty()
                || !self.tracepoints.is_empty()
                || lacking.len() < chosen.len(),
            "{what} any of the chosen types; `tracer-user events` lists what it has"
        );
        if !lacking.is_empty() {
            say(&format!("{what} {}: not traced", lacking.join(", ")));
        }
        if self.string_bytes > 0 && !kernel.reads_arguments() {
            say(
                "this kernel's verifier does not take the programs that read what arguments of \
                 system calls point to: these are shown as addresses (--string-size 0 asks for \
                 that, and starts sooner)",
            );
        }
        Ok(())
    }

    /// Starts writing to where the lines go.
    fn writer(&self, output: File) -> anyhow::Result<Writer> {
        // A log and an export are written elsewhere, whether the lines are read or not.
        let has_lines = self.log.is_none() && self.consumer.has_lines();
        let watched = has_lines.then(|| output.try_clone());
        let watched = watched.transpose().context("cannot write lines")?;
        Writer::start(BlockingFile(output), watched).context("cannot start the writing thread")
    }
}

/// A trace that has been started, and traces nothing yet.
pub struct Begun {
    /// The trace. It owns the kernel's ring, and is dropped first.
    pub tracer: Tracer,
    /// The eBPF programs, when the kernel's events are wanted.
    pub kernel: Option<KernelTracer>,
    /// Writer of the lines.
    pub writer: Writer,
    /// Hub that receives the kernel's events too.
    pub hub: Hub,
    /// Time of its start.
    pub start: MonotonicNs,
    /// Time of its end.
    pub until: Option<MonotonicNs>,
}
